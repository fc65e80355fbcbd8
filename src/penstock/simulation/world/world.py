"""The simulated world: one real broker, simulated clients and network, one seed, one thread.

    loop    draw one of the things that are ready and do it; check the laws every `check_every`th
            turn; when nothing is ready jump the clock to the next timer; when there is no timer
            either, let the once-a-second work of the server run; if that moves nothing, somebody
            is stuck, and the run has failed
Things that are ready: the broker's line of actors, input on a link, room in a pipe, deliveries to
read, a client that wants to act. The weights of the kinds are drawn once a run, so that in one run
clients hardly read and in another they do nothing else.
"""

from collections.abc import Callable, Sequence
from functools import partial

from penstock.base.config import Config
from penstock.broker.actors.output import OutputLine
from penstock.broker.broker import Broker, Log
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.connection.standstill import break_standstill
from penstock.flow.profile import Profile
from penstock.simulation.laws.checks import Laws
from penstock.simulation.laws.oracle import Books, Identity
from penstock.simulation.laws.watch import queues_of
from penstock.simulation.machine.clock import Timers, VirtualClock, WorldWaker
from penstock.simulation.machine.dice import Dice, SeededPicker
from penstock.simulation.machine.durable_disks import Depot, give_parking
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.machine.network import (
    Pipe,
    SimulatedConnection,
    SimulatedOutput,
    SimulatedShell,
)
from penstock.simulation.world.clients import Client, Role
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import identity_of

TICK_NS = 1_000_000_000
QUIET_TICKS_MAX = 4
LONGEST_NS = 3600 * TICK_NS


class FaultLog(Log):
    """A log in which a line about a bug of ours ends the simulation."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def error(self, text: str, error: BaseException) -> None:
        self.errors.append(f"{text}: {type(error).__name__}: {error}")


class SimulatedBroker(Broker):
    """The real broker with a profile of the simulator's making."""

    def __init__(
        self, config: Config, clock: VirtualClock, dice: Dice, log: Log, profile: Profile
    ) -> None:
        super().__init__(config, clock, dice, log, 1 << 30)
        self.context.profile = profile
        self.context.soft_limit.limit = profile.soft_limit
        self.context.strategy = profile.strategy()
        self.ledger.adopt(profile, self.strategy)
        self.depth_marks.default_bytes = config.queue_depth_bytes


class WorldSetting:
    """How a world is built. check_every: turns between two checks of the laws, 1.. ;
    pipe_bytes: of each direction, 0 to draw it; without: parts of a random plan to leave out;
    is_keeping: durable queues keep their messages on a disk, which is slow at times; parked_bytes:
    of publishes that may be parked on another one, 0 for none; broker,
    output, shell, picker: what makes them, where planted bugs come in."""

    def __init__(self, profile: Profile, config: Config, check_every: int = 1) -> None:
        self.profile = profile
        self.config = config
        self.check_every = check_every
        self.pipe_bytes = 0
        self.steps_max = 400_000
        self.without: frozenset[int] = frozenset()
        self.is_keeping = False
        self.parked_bytes = 0
        self.broker: Callable[[Config, VirtualClock, Dice, Log, Profile], SimulatedBroker] = (
            SimulatedBroker
        )
        self.output: Callable[[OutputLine, int, Pipe], SimulatedOutput] = SimulatedOutput
        self.shell: Callable[[Broker, SimulatedConnection], SimulatedShell] = SimulatedShell
        self.picker: Callable[[Dice, Callable[[], None]], SeededPicker] = SeededPicker


class World:
    """One run. `steps`: things done so far; `clients`: everybody who ever connected."""

    def __init__(self, seed: int, setting: WorldSetting) -> None:
        self.seed = seed
        self.setting = setting
        self.dice = Dice(seed)
        self.clock = VirtualClock(self.dice.between(1, 200))
        self.timers = Timers(self.clock)
        self.log = FaultLog()
        config, profile = setting.config, setting.profile
        self.broker = setting.broker(config, self.clock, self.dice, self.log, profile)
        self.broker.dues.waker = WorldWaker(self.timers, self.broker.dues)
        self.picker = setting.picker(self.dice, self.between_turns)
        self.broker.scheduler.picker = self.picker
        self.broker.scheduler.is_exploring = True
        self.books = Books()
        self.laws = Laws(self.broker, self.clock)
        self.depot = Depot(self.broker, self.dice) if setting.is_keeping else None
        self.parked = give_parking(self.broker, setting.parked_bytes)
        self.clients: list[Client] = []
        self.lively: list[Client] = []
        self.steps = 0
        self.turns = 0
        self._tick_at_ns = self.clock.now_ns + TICK_NS
        self.weights = [self.dice.one_of((1, 1, 3, 10)) for _ in range(5)]

    # -- building --------------------------------------------------------------------------------

    def connect(self, *roles: Role) -> Client:
        """A client connects, to play `roles`."""
        key = len(self.clients)
        size = self.setting.pipe_bytes
        link = SimulatedConnection(
            f"c{key}", size or self._pipe_bytes(), size or self._pipe_bytes()
        )
        broker = self.broker
        high_bytes = broker.config.socket_output_high_bytes
        link.output = self.setting.output(broker.scheduler.outputs, high_bytes, link.down)
        link.shell = self.setting.shell(broker, link)
        client = Client(key, link, broker, self.books, self.dice, self.timers, list(roles))
        self.clients.append(client)
        self.lively.append(client)
        return client

    def _pipe_bytes(self) -> int:
        return self.dice.one_of((64, 700, 4096, 65_536))

    # -- running ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Do everything that is ready, without letting time jump. Raises: LawBroken."""
        while True:
            ready = self._ready()
            if not ready:
                break
            self._do(ready)
        self.laws.check_step()

    def run(self, is_finished: Callable[[], bool]) -> None:
        """Go on until `is_finished` while nothing is ready. Raises: LawBroken when stuck."""
        quiet = 0
        while True:
            ready = self._ready()
            if ready:
                quiet = 0
                self._do(ready)
                continue
            self.laws.check_wakeups()
            if self.clock.now_ns > LONGEST_NS:
                raise LawBroken(f"not over after an hour\n{self._who_is_stuck()}")
            if len(self.timers) > 0:
                if self.timers.next_ns() > self._tick_at_ns:
                    self.tick()
                    self._drain_lonely()
                else:
                    self.timers.run_next()
                continue
            if is_finished():
                return
            if self._drain_lonely():
                continue
            quiet += 1
            if quiet > QUIET_TICKS_MAX:
                raise LawBroken(self._who_is_stuck())
            self.tick()

    def finish(self) -> None:
        """Everybody closes in order; then nothing may be left. Raises: LawBroken."""
        for client in self.lively:
            if client.is_told_blocked and client.is_open() and not self.broker.alarms:
                raise LawBroken(f"{client.link.name} is never told that it is not blocked any more")
        for client in self.clients:
            client.end()
        self.run(self._is_everybody_over)
        self.laws.check_step()
        self.laws.check_rest()
        self.books.check_end(self._left())
        if self.depot is not None:
            self.depot.check_end(self.broker)

    def tick(self) -> None:
        """What the server does from time to time."""
        self.clock.jump(max(self._tick_at_ns, self.clock.now_ns))
        now_ns = self.clock.monotonic_ns()
        self._tick_at_ns = now_ns + TICK_NS
        for connection in list(self.broker.connections.values()):
            if connection.phase == PHASE_OPEN:
                break_standstill(connection, now_ns)
        self.broker.watch_hops(now_ns)
        self.broker.notify_clients(now_ns)
        self.broker.consumer_timeout.tick(now_ns)
        self.broker.page()

    def between_turns(self) -> None:
        self.turns += 1
        if self.turns % self.setting.check_every == 0:
            self.laws.check_step()

    def _do(self, ready: Sequence[tuple[int, Callable[[], object]]]) -> None:
        self.steps += 1
        if self.steps > self.setting.steps_max:
            busy = [actor.identity for actor in self.broker.scheduler.ready]
            raise LawBroken(f"still busy after {self.steps} steps: ready {busy}")
        if self.timers.is_due() and self.dice.happens(50):
            self.timers.run_next()
            return
        total = sum(weight for weight, _ in ready)
        at = self.dice.below(total)
        for weight, action in ready:
            at -= weight
            if at < 0:
                action()
                break
        if self.log.errors:
            raise LawBroken(self.log.errors[0])

    def _ready(self) -> list[tuple[int, Callable[[], object]]]:
        ready: list[tuple[int, Callable[[], object]]] = []
        weights = self.weights
        scheduler = self.broker.scheduler
        if scheduler.outputs.dirty or self.picker.can_pick(scheduler.ready):
            ready.append((weights[0] * 2, self.run_broker))
        if self.depot is not None and self.depot.disk.jobs:
            ready.append((weights[0], self.depot.disk.work))
        if self.parked.jobs:
            ready.append((weights[0], self.parked.work))
        has_ended = False
        for client in self.lively:
            shell = client.link.shell
            if not shell.is_closed:
                if shell.is_readable():
                    ready.append((weights[1], partial(shell.readable, self.dice)))
                if shell.output.pending and shell.output.is_writable():
                    ready.append((weights[2], shell.output.writable))
            if client.is_over():
                has_ended = has_ended or shell.is_closed
                continue
            if client.can_read():
                ready.append((weights[3], client.read))
            if client.outbox and client.link.up.room() > 0:
                ready.append((weights[4], client.flush))
            if client.can_act():
                ready.append((weights[4], client.act))
        if has_ended:
            self.lively = [one for one in self.lively if not one.is_at_rest()]
        return ready

    def run_broker(self) -> None:
        """A few turns, then the outputs send."""
        self.picker.turns_left = self.dice.skewed(16)
        self.broker.scheduler.run(0)

    # -- rest ------------------------------------------------------------------------------------

    def _drain_lonely(self) -> bool:
        """Give queues that hold messages and have no consumer one; whether there were any."""
        lonely = [
            queue.name
            for queue in queues_of(self.broker)
            if queue.messages.ready_count() > 0 and not queue.consumers and not queue.delays
        ]
        if lonely:
            self.connect(*(ConsumingRole(Habit(name, prefetch=50)) for name in lonely))
        return bool(lonely)

    def is_done(self) -> bool:
        """Whether every client has done what it came for."""
        return all(client.is_done() for client in self.clients)

    def is_drained(self) -> bool:
        """Every role is done, every queue is empty and every delivery answered."""
        return self.is_done() and all(
            queue.messages.ready_count() == 0 and queue.unacked_count == 0
            for queue in queues_of(self.broker)
        )

    def _is_everybody_over(self) -> bool:
        return all(client.is_over() for client in self.clients) and not self.broker.connections

    def _left(self) -> dict[str, list[Identity]]:
        left: dict[str, list[Identity]] = {}
        for queue in queues_of(self.broker):
            held = queue.messages.ready_messages()
            left[queue.name] = [identity_of(message.body()) for message in held]
        return left

    def _who_is_stuck(self) -> str:
        lines = ["nothing is ready, nothing is scheduled, and somebody waits:"]
        for client in self.clients:
            if not client.is_over():
                lines.append(
                    f"  client {client.link.name}: done {client.is_done()}, outbox "
                    f"{len(client.outbox)}, up {len(client.link.up)}, down {len(client.link.down)}"
                )
        for connection in self.broker.connections.values():
            lines.append(f"  {connection.identity}: {connection.gate.snapshot()}")
            for channel in connection.channels.values():
                by = f"parked {len(channel.parking.messages())}, stalled {channel.is_stalled}"
                lines.append(f"  {channel.identity}: {channel.gate.snapshot()} {by}")
        for queue in queues_of(self.broker):
            counts = f"{queue.messages.ready_count()} ready, {queue.unacked_count} unacked"
            lines.append(f"  {queue.identity}: {counts}, deep {queue.is_deep}")
        return "\n".join(lines)
