"""The broker's side of a run: slow queues get their time, events happen, memory is sampled.

The same code runs in the simulator and in a running broker; only the caller of `look` differs.

A slow queue needs time for each message, like one whose disk or replica is slow, or is parked. Its
actor is kept out of the scheduler's line, by the mark with which an actor shows that it stands in
it already, and is given turns here, of as many messages as it has had time for.

Memory is what the broker holds, in bytes, a measure that is the same on every machine:
queues     messages at rest and unanswered deliveries, each with its overhead
mailboxes  messages between connections, channels and queues, and parked ones
outputs    what was written for clients and has not been taken by their sockets
"""

from typing import Final

from penstock.broker.actors.actor import Scheduler
from penstock.broker.admin.alarm_watch import AlarmWatch, MachineProbe
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.lab.result import BIN_NS
from penstock.lab.slow_disk import give_disk
from penstock.lab.workload import ALARM, PARK, UNPARK, QueueSpec, Workload, WorkloadEvent
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES

NS_PER_MS: Final = 1_000_000
SAVED_NS: Final = NS_PER_MS
"""Idle time that may be worked off at once later."""
GIVE_MESSAGES: Final = 1024
"""Deliveries in a turn that only delivers."""
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


class SlowQueue:
    """Serves one queue by its `spec`. `is_parked`: it is given no turn at all."""

    def __init__(self, spec: QueueSpec, actor: QueueActor, scheduler: Scheduler) -> None:
        self.spec = spec
        self.actor = actor
        self.scheduler = scheduler
        self.is_parked = False
        self.is_held = False
        self._free_ns = 0
        self._commit_ns = 0
        self._served_ns = 0
        self._is_busy = False
        self._saved_ns = max(SAVED_NS, int(spec.commit_ms * NS_PER_MS))

    def hold(self, now_ns: int) -> None:
        """From now on only `serve` gives it turns."""
        if self.is_held:
            return
        if self.actor in self.scheduler.ready:
            self.scheduler.ready.remove(self.actor)
        self.actor.is_ready = True
        self.is_held = True
        self._free_ns = now_ns

    def let_go(self) -> None:
        """Serve it as every other queue again."""
        if self.is_held:
            self.is_held = False
            self.actor.is_ready = False
            self.actor.wake()

    def park(self, now_ns: int) -> None:
        self.is_parked = True
        self.hold(now_ns)

    def unpark(self, now_ns: int) -> None:
        self.is_parked = False
        self._is_busy = False
        self._free_ns = now_ns
        if not self.spec.is_slow():
            self.let_go()

    def serve(self, now_ns: int) -> None:
        """Give it turns for the time that has passed; call it about every millisecond."""
        if self.is_parked or not self.is_held or not self.actor.is_alive:
            return
        if now_ns < self._commit_ns:
            return
        self._commit_ns = now_ns + int(self.spec.commit_ms * NS_PER_MS)
        # While it has work no time is lost, however late a busy process calls this.
        saved_ns = self._saved_ns
        if self._is_busy:
            saved_ns = max(saved_ns, now_ns - self._served_ns)
        self._free_ns = max(self._free_ns, now_ns - saved_ns)
        while self._free_ns <= now_ns and self.actor.pending:
            self._take(now_ns)
        self._is_busy = len(self.actor.pending) > 0
        self._served_ns = now_ns
        self._give(now_ns)

    def _take(self, now_ns: int) -> None:
        """One turn for as many messages as there has been time for, and of as many senders: those
        beyond them wait for the next turn, so that all are served in rotation."""
        actor = self.actor
        room = self._room(now_ns)
        waiting = actor.pending[room:]
        actor.pending = actor.pending[:room]
        taken_before, bytes_before = int(actor.messages.publish_count), self._bytes_in()
        self._turn(room // len(actor.pending))
        actor.pending = waiting + actor.pending
        taken = int(actor.messages.publish_count) - taken_before
        kib = (bytes_before - self._bytes_in()) / 1024
        spent_us = taken * self.spec.service_us + kib * self.spec.service_us_per_kib
        # A turn that takes nothing ends the round, because it would go on for ever.
        self._free_ns = self._free_ns + int(spent_us * 1000) if taken > 0 else now_ns + 1

    def _give(self, now_ns: int) -> None:
        """Deliver what consumers have room for: that needs no extra time."""
        actor = self.actor
        waiting = actor.pending
        actor.pending = []
        if actor.is_deep:
            # Consumers may have taken enough: only a turn finds that out.
            self._turn(GIVE_MESSAGES)
        while actor.is_alive and actor.ready and actor.messages.ready_count() > 0:
            self._turn(GIVE_MESSAGES)
        actor.pending = waiting + actor.pending

    def _turn(self, budget: int) -> None:
        actor = self.actor
        # By the broker's own clock, which may be ahead of when this was due.
        clock = self.scheduler.clock
        began_ns = clock.monotonic_ns()
        actor.turn(budget)
        actor.time.worked(began_ns, clock.monotonic_ns(), actor.rest_state())
        # A turn may have woken it; it still is where it was, outside the line.
        actor.is_ready = True

    def _room(self, now_ns: int) -> int:
        """Messages it has time for now, at least 1: who begins one finishes it."""
        if self.spec.service_us_per_kib > 0 or self.spec.service_us == 0:
            return 1
        return 1 + int((now_ns - self._free_ns) / (self.spec.service_us * 1000))

    def _bytes_in(self) -> int:
        """Bytes its senders have handed over, counted only where bytes cost time."""
        if self.spec.service_us_per_kib == 0:
            return 0
        return sum(int(lane.in_flight_bytes) for lane in self.actor.lanes)


def held_bytes(broker: Broker) -> int:
    """All of it. Cost: about a microsecond for each connection and queue."""
    total = 0
    messages = 0
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            total += int(queue.messages.bytes_ready + queue.unacked_bytes)
            messages += int(queue.unacked_count)
    for connection in broker.connections.values():
        total += int(connection.lot.bytes)
        output = connection.output
        total += int(output.held_bytes) + len(output.writer)
        for channel in connection.channels.values():
            lane = channel.upstream
            if lane is not None:
                total += int(lane.in_flight_bytes)
                messages += int(lane.in_flight)
            publisher = channel.publisher
            if publisher is not None:
                for hop in publisher.lanes.values():
                    total += int(hop.in_flight_bytes)
                    messages += int(hop.in_flight)
    return total + messages * MESSAGE_OVERHEAD_BYTES


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


class BrokerStage:
    """bytes_max, bins: most bytes held, in all and per bin of BIN_NS since the start; alarm_ns:
    how long the memory alarm was set. Owner: the run."""

    def __init__(self, broker: Broker, workload: Workload) -> None:
        self.broker = broker
        self.workload = workload
        self.watch = AlarmWatch(broker, HeldBytesProbe(broker))
        self.disk = give_disk(broker, workload)
        self.slow: dict[str, SlowQueue] = {}
        self.start_ns = 0
        self.bytes_max = 0
        self.bins: list[int] = []
        self.alarm_ns = 0
        self._events: list[tuple[int, WorkloadEvent]] = []
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
        if self.disk is not None:
            self.disk.serve(now_ns)
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

    def _happen(self, event: WorkloadEvent, now_ns: int) -> None:
        if event.what == PARK:
            self.slow[event.queue].park(now_ns)
        elif event.what == UNPARK:
            self.slow[event.queue].unpark(now_ns)
        elif event.what == ALARM:
            self.watch.set_memory_high(str(event.limit_bytes or TOTAL_BYTES))
