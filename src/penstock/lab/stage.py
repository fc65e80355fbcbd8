"""The broker's side of a run: slow queues get their time, events happen, memory is sampled.

The same in the simulator and in a running broker; only who calls `look` differs.
"""

from penstock.broker.admin.alarm_watch import AlarmWatch, MachineProbe
from penstock.broker.broker import Broker
from penstock.lab.held import held_bytes
from penstock.lab.slow import SlowQueue
from penstock.lab.tally import BIN_NS
from penstock.lab.workload import ALARM, PARK, UNPARK, Event, Workload

NS_PER_S = 1_000_000_000
LOOK_NS = 1_000_000
"""How often `look` wants to be called."""
SAMPLE_MANY_NS = 20_000_000
MANY = 100
"""Connections from which on memory is sampled every SAMPLE_MANY_NS instead of at each look."""
MEMORY_NS = 100_000_000
"""How often memory is compared with its mark; a broker does it once a second, which in runs of a
few seconds would be a matter of luck."""
TOTAL_BYTES = 1 << 30


class HeldBytesProbe(MachineProbe):
    """A machine whose memory is what the broker holds: the same for every build and allocator."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def memory_total_bytes(self) -> int:
        return TOTAL_BYTES

    def memory_used_bytes(self) -> int:
        return held_bytes(self.broker)

    def group_bytes(self) -> tuple[int, int]:
        return 0, 0

    def disk_free_bytes(self) -> int:
        return TOTAL_BYTES


class Stage:
    """bytes_max, bins: most bytes held, in all and per bin of BIN_NS since the start; alarm_ns:
    how long the memory alarm was set. Owner: the run."""

    def __init__(self, broker: Broker, workload: Workload) -> None:
        self.broker = broker
        self.workload = workload
        self.watch = AlarmWatch(broker, HeldBytesProbe(broker))
        self.slow: dict[str, SlowQueue] = {}
        self.start_ns = 0
        self.bytes_max = 0
        self.bins: list[int] = []
        self.alarm_ns = 0
        self._events: list[tuple[int, Event]] = []
        self._looked_ns = 0
        self._sample_ns = 0
        self._memory_ns = 0

    def prepare(self, now_ns: int) -> None:
        """The queues are declared: those that are slow are slow from now on."""
        queues = self.broker.vhosts["/"].queues
        for spec in self.workload.queues:
            slow = SlowQueue(spec, queues[spec.name], self.broker.scheduler)
            self.slow[spec.name] = slow
            if spec.is_slow():
                slow.hold(now_ns)

    def begin(self, start_ns: int) -> None:
        """The programs begin."""
        workload = self.workload
        self.start_ns = self._looked_ns = start_ns
        if workload.memory_high_bytes:
            self.watch.set_memory_high(str(workload.memory_high_bytes))
        for event in workload.events:
            after_s = workload.warm_up_s + event.at * workload.seconds
            self._events.append((start_ns + int(after_s * NS_PER_S), event))
        self._events.sort(key=lambda pair: pair[0])

    def look(self, now_ns: int) -> None:
        """Do what is due; call every LOOK_NS."""
        for slow in self.slow.values():
            slow.serve(now_ns)
        if self.start_ns == 0:
            return
        while self._events and self._events[0][0] <= now_ns:
            self._happen(self._events.pop(0)[1], now_ns)
        if now_ns >= self._memory_ns:
            self._memory_ns = now_ns + MEMORY_NS
            self.watch.check_memory()
        if self.broker.alarms:
            self.alarm_ns += now_ns - self._looked_ns
        self._looked_ns = now_ns
        if now_ns >= self._sample_ns:
            is_many = len(self.broker.connections) >= MANY
            self._sample_ns = now_ns + (SAMPLE_MANY_NS if is_many else 0)
            self._sample(now_ns)

    def end(self, now_ns: int) -> None:
        """Nothing is measured any more: let everything go on, so that confirms can come."""
        self._events.clear()
        self.watch.set_memory_high(str(TOTAL_BYTES))
        for slow in self.slow.values():
            slow.unpark(now_ns)

    def _sample(self, now_ns: int) -> None:
        held = held_bytes(self.broker)
        at = (now_ns - self.start_ns) // BIN_NS
        while len(self.bins) <= at:
            self.bins.append(self.bins[-1] if self.bins and len(self.bins) < at else 0)
        self.bins[at] = max(self.bins[at], held)
        self.bytes_max = max(self.bytes_max, held)

    def _happen(self, event: Event, now_ns: int) -> None:
        if event.what == PARK:
            self.slow[event.queue].park(now_ns)
        elif event.what == UNPARK:
            self.slow[event.queue].unpark(now_ns)
        elif event.what == ALARM:
            self.watch.set_memory_high(str(event.limit_bytes or TOTAL_BYTES))
