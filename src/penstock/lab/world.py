"""The lab's world: the real broker on one virtual processor, and programs around it.

    loop    let everything happen that is due by now outside the broker (programs act, bytes arrive,
            slow queues get their time, samples are taken); then one round of the broker: read the
            sockets that are ready, serve the line of actors, send; its work moves the clock. When
            the broker has nothing to do the clock jumps to the next thing that happens outside.
What happens outside while the broker works happens at its own time, not when the work is done: the
programs have processors of their own. Everything follows from the seed.

The network is the simulator's pipes with a trip time and a speed:

    program --outbox--> [ up pipe: on its way | arrived ] --read--> connection
    program <---------- [ down pipe ] <------------------ output
Bytes arrive trip_ns after they were sent, or later where bytes before them still occupy the wire.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush

from penstock.base.config import Config
from penstock.broker.actors.output import OutputLine
from penstock.broker.broker import Broker
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.connection.standstill import break_standstill
from penstock.flow.due import Waker
from penstock.lab.model import SLICE_NS, Network, WorkClock, WorkPicker
from penstock.lab.peers import Peer
from penstock.lab.result import PeerTally
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.machine.network import (
    Pipe,
    SimulatedConnection,
    SimulatedOutput,
    SimulatedShell,
)
from penstock.simulation.world.world import FaultLog

READ_BYTES = 65_536
RELIEF_NS = 100_000_000
TICK_NS = 1_000_000_000
MEMORY_HIGH_BYTES = 1 << 30
HASTE_NS = 20_000
"""A program that has more to do than fits into one turn needs this long for it."""
Action = Callable[[int], None]


class LabWire:
    """One direction: when what is sent now has arrived."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._free_ns = 0

    def arrives_ns(self, now_ns: int, size: int) -> int:
        """Send `size` bytes at `now_ns`."""
        self._free_ns = max(self._free_ns, now_ns) + int(size * self.network.byte_ns)
        return self._free_ns + self.network.trip_ns


class LabLink(SimulatedConnection):
    """One connection. `arrived`: bytes of the up pipe that the broker can read now."""

    def __init__(self, name: str, network: Network, clock: WorkClock) -> None:
        super().__init__(name, network.up_bytes, network.down_bytes)
        self.up_wire = LabWire(network)
        self.down_wire = LabWire(network)
        self.arrived = 0
        self.clock = clock

    def receive(self, dice: Dice) -> bytes:
        """One read of the socket, which is work."""
        data = self.up.take(min(READ_BYTES, self.arrived))
        self.arrived -= len(data)
        costs = self.clock.costs
        self.clock.charge(costs.read_ns + costs.read_byte_ns * len(data))
        return data


class LabOutput(SimulatedOutput):
    """Sending is work too. `sent`: called with how many bytes the pipe has taken."""

    def __init__(
        self,
        line: OutputLine,
        high_bytes: int,
        pipe: Pipe,
        clock: WorkClock,
        sent: Callable[[int], None],
    ) -> None:
        super().__init__(line, high_bytes, pipe)
        self.clock = clock
        self.sent = sent

    def _offer(self, data: bytes) -> bytes:
        if not data:
            return b""
        rest = super()._offer(data)
        taken = len(data) - len(rest)
        costs = self.clock.costs
        self.clock.charge(costs.send_ns + costs.send_byte_ns * taken)
        if taken > 0:
            self.sent(taken)
        return rest


class LabShell(SimulatedShell):
    """The broker's end. `readable_now`: called when reading may go on."""

    def __init__(self, broker: Broker, link: LabLink, readable_now: Callable[[], None]) -> None:
        super().__init__(broker, link)
        self.lab_link = link
        self.readable_now = readable_now

    def is_readable(self) -> bool:
        return not self.is_closed and self.is_reading and self.lab_link.arrived > 0

    def resume(self) -> None:
        super().resume()
        if self.lab_link.arrived > 0:
            self.readable_now()


class Site:
    """One program with its connection, as the world moves it. outbox: said, and not yet in the
    pipe; came: bytes of the down pipe that have arrived; turn_ns: its next turn, -1 for none."""

    def __init__(self, number: int, peer: Peer, link: LabLink) -> None:
        self.number = number
        self.peer = peer
        self.link = link
        self.shell: LabShell
        self.outbox = b""
        self.came = 0
        self.turn_ns = -1


class LabWaker(Waker):
    """Lets the broker's timers fall due in virtual time."""

    __slots__ = ("world",)

    def __init__(self, world: "LabWorld") -> None:
        self.world = world

    def wake_at(self, due_ns: int) -> None:
        self.world.at(due_ns, self.world.broker.dues.fire)


class LabWorld:
    """One run. config: of the broker, with the profile."""

    def __init__(self, seed: int, config: Config, clock: WorkClock, network: Network) -> None:
        self.dice = Dice(seed)
        self.clock = clock
        self.costs = clock.costs
        self.network = network
        self.log = FaultLog()
        self.broker = Broker(
            replace(config, heartbeat_s=0), self.clock, self.dice, self.log, MEMORY_HIGH_BYTES
        )
        self.picker = WorkPicker(self.clock)
        self.broker.scheduler.picker = self.picker
        self.broker.scheduler.is_exploring = True
        self.tally = PeerTally()
        self.sites: list[Site] = []
        self._heap: list[tuple[int, int, Action]] = []
        self._count = 0
        self._readable: dict[int, Site] = {}
        self._writable: dict[int, Site] = {}
        self.broker.dues.waker = LabWaker(self)
        self.every(RELIEF_NS, self._relieve)
        self.every(TICK_NS, self._tick)

    # -- building --------------------------------------------------------------------------------

    def connect(self, peer: Peer, now_ns: int) -> None:
        """`peer` connects."""
        number = len(self.sites)
        link = LabLink(f"lab-{number}", self.network, self.clock)
        site = Site(number, peer, link)
        scheduler = self.broker.scheduler
        high_bytes = self.broker.config.socket_output_high_bytes
        link.output = LabOutput(
            scheduler.outputs, high_bytes, link.down, self.clock, partial(self._sent, site)
        )
        site.shell = LabShell(self.broker, link, partial(self._is_readable, site))
        link.shell = site.shell
        self.sites.append(site)
        self._flush(site, now_ns)

    def _is_readable(self, site: Site) -> None:
        self._readable[site.number] = site

    # -- time ------------------------------------------------------------------------------------

    def at(self, at_ns: int, action: Action) -> None:
        """Do `action(at_ns)` when it is `at_ns`."""
        self._count += 1
        heappush(self._heap, (at_ns, self._count, action))

    def every(self, period_ns: int, action: Action) -> None:
        """Do `action` every `period_ns`, as long as the world lasts."""

        def again(now_ns: int) -> None:
            action(now_ns)
            self.at(now_ns + period_ns, again)

        self.at(self.clock.now_ns + period_ns, again)

    def run_until(self, end_ns: int, is_over: Callable[[], bool]) -> None:
        """Go on until `end_ns`, or until `is_over`. Raises: LawBroken, PeerFailed."""
        heap = self._heap
        clock = self.clock
        while clock.now_ns < end_ns and not is_over():
            while heap and heap[0][0] <= clock.now_ns:
                at_ns, _, action = heappop(heap)
                action(at_ns)
            if self._has_work():
                self._round()
            elif heap:
                clock.jump(min(heap[0][0], end_ns))
            else:
                clock.jump(end_ns)

    # -- the broker ------------------------------------------------------------------------------

    def _has_work(self) -> bool:
        scheduler = self.broker.scheduler
        return bool(self._readable or self._writable or scheduler.ready or scheduler.outputs.dirty)

    def _round(self) -> None:
        """What server/net/poller does from one look at its sockets to the next."""
        clock = self.clock
        clock.charge(self.costs.poll_ns)
        for site in list(self._readable.values()):
            if site.shell.is_readable():
                site.shell.readable(self.dice)
                if site.outbox:
                    self._act(site, clock.now_ns)
            if not site.shell.is_readable():
                self._readable.pop(site.number, None)
        writable, self._writable = self._writable, {}
        for site in writable.values():
            if site.shell.output.is_writable():
                site.shell.output.writable()
        self.picker.end_ns = clock.now_ns + SLICE_NS
        self.broker.scheduler.run(0)
        clock.end()
        if self.log.errors:
            raise LawBroken(self.log.errors[0])

    def _relieve(self, now_ns: int) -> None:
        """As server/boot/node, ten times a second."""
        for connection in list(self.broker.connections.values()):
            if not connection.gate.is_open and connection.phase == PHASE_OPEN:
                break_standstill(connection, now_ns)

    def _tick(self, now_ns: int) -> None:
        """As server/boot/node, once a second; the stage looks after memory."""
        self.broker.watch_hops(now_ns)
        self.broker.consumer_timeout.tick(now_ns)

    # -- the programs ----------------------------------------------------------------------------

    def _sent(self, site: Site, size: int) -> None:
        """The broker has sent: it arrives later."""
        at_ns = site.link.down_wire.arrives_ns(self.clock.now_ns, size)
        self.at(at_ns, partial(self._came, site, size))

    def _came(self, site: Site, size: int, now_ns: int) -> None:
        site.came += size
        self._read(site, now_ns)

    def _read(self, site: Site, now_ns: int) -> None:
        peer = site.peer
        if site.came > 0 and peer.wants_input():
            data = site.link.down.take(site.came)
            site.came = 0
            if site.shell.output.pending:
                self._writable[site.number] = site
            peer.take(peer.session.feed(data, now_ns), now_ns)
            self._act(site, now_ns)

    def _act(self, site: Site, now_ns: int) -> None:
        """Let the program do what is due, and note when it wants to act next."""
        peer = site.peer
        self._flush(site, now_ns)
        peer.turn(now_ns)
        self._flush(site, now_ns)
        next_ns = peer.next_ns()
        if next_ns is not None:
            next_ns = max(next_ns, now_ns + HASTE_NS)
            if site.turn_ns < 0 or next_ns < site.turn_ns:
                site.turn_ns = next_ns
                self.at(next_ns, partial(self._due, site))

    def _due(self, site: Site, now_ns: int) -> None:
        if site.turn_ns != now_ns:
            return
        site.turn_ns = -1
        self._act(site, now_ns)
        self._read(site, now_ns)

    def wake(self, now_ns: int) -> None:
        """Something has changed for all programs."""
        for site in self.sites:
            self._act(site, now_ns)

    def _flush(self, site: Site, now_ns: int) -> None:
        """Move what the program says into its pipe, as far as it goes."""
        outbox = site.outbox + site.peer.session.output(now_ns)
        if outbox:
            rest = site.link.up.put(outbox)
            size = len(outbox) - len(rest)
            if size > 0:
                at_ns = site.link.up_wire.arrives_ns(now_ns, size)
                self.at(at_ns, partial(self._arrived, site, size))
            site.outbox = rest
        site.peer.has_room = not site.outbox

    def _arrived(self, site: Site, size: int, now_ns: int) -> None:
        site.link.arrived += size
        if site.shell.is_reading:
            self._readable[site.number] = site
