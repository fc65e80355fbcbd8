"""Actors, the line of those with work, and the turns they are given. COMPILED.

An actor is a unit with private state, an inbox and turns; every change of its gate leaves a record.
It never waits: it is given a turn while it has work and its gate lets it, and withholds grants
upstream otherwise (law 9). Its time is split into idle, busy, blocked and waiting, which sum to
100 % (law 10).

One run of the scheduler serves the line in order, then lets every output send, and begins again
while sending made room, until nothing is ready or the time slice is over. No actor is run twice in
a row while others wait, and no turn is longer than its budget of messages (fairness between
connections and queues).
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.clock import Clock
from penstock.broker.actors.output import OutputLine
from penstock.flow.early_look import EarlyLook
from penstock.flow.gate import Gate, GateObserver
from penstock.protocol.frames import Received
from penstock.queues.unacked import Stamp
from penstock.telemetry.accounting import BlockLedger
from penstock.telemetry.events import GATE_CLOSED, GATE_OPENED, GRANT_DEFERRED
from penstock.telemetry.recorder import Recorder
from penstock.telemetry.time_account import BLOCKED, BUSY, IDLE, WAITING, TimeAccount

__all__ = [
    "BLOCKED",
    "BUSY",
    "IDLE",
    "WAITING",
    "Actor",
    "Line",
    "Picker",
    "Scheduler",
]

NO_STOP: Final = 1 << 62


@mypyc_attr(allow_interpreted_subclasses=True)
class Errand:
    """Something to put away that may be much. Nominal base."""

    __slots__ = ()

    def step(self) -> bool:
        """One batch; True if there is more."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Owed(Errand):
    """One that a clean stop finishes before stores write their last, because of what it settles."""

    __slots__ = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class Errands:
    """Who has errands done; here, whole and at once."""

    __slots__ = ()

    def begin(self, errand: Errand) -> None:
        """The first batch is done when this returns."""
        while errand.step():
            pass


class Line:
    """What an actor joins when it has work: the scheduler.

    ready: who has work, in the order of their turns; clock, recorder, stamp: shared by every actor
    of the broker; is_accounting: actors keep books of their time and of who holds them;
    accepted_bytes: of content, taken into queues so far; heard_ns: when the loop last saw that
    there is input; intake: counts what is read from clients; turn_ns: when the present turn began,
    or the last one ended; flushed_ns: when everything due had last been sent; ending: see
    `end_with`; errands: puts away what somebody leaves behind;
    received: what a parser has found, while its connection looks at it."""

    __slots__ = (
        "accepted_bytes",
        "clock",
        "ending",
        "errands",
        "flushed_ns",
        "heard_ns",
        "intake",
        "is_accounting",
        "ready",
        "received",
        "recorder",
        "stamp",
        "turn_ns",
    )

    def __init__(self, clock: Clock, recorder: Recorder) -> None:
        self.clock = clock
        self.recorder = recorder
        self.is_accounting = True
        self.ready: list[Actor] = []
        self.stamp = Stamp(clock.monotonic_ns())
        self.accepted_bytes: i64 = 0
        self.heard_ns: i64 = 0
        self.intake: EarlyLook | None = None
        self.turn_ns: i64 = 0
        self.flushed_ns: i64 = 0
        self.ending: list[Actor] = []
        self.errands = Errands()
        self.received = Received()

    def end_with(self, actor: "Actor") -> None:
        """Call `actor.run_ended` once, before what the present run has written is sent."""
        self.ending.append(actor)

    def charge_outputs(self) -> None:
        """Charge whoever caused the deliveries written since the last time."""


class Actor(GateObserver):
    """identity: the readable id, for example `queue:/orders`; gate: closed while it is held;
    ledger: who held it, None until somebody did, see `books`."""

    __slots__ = ("gate", "identity", "is_alive", "is_ready", "ledger", "line", "time")

    def __init__(self, identity: str, line: Line) -> None:
        self.identity = identity
        self.line = line
        now_ns = line.clock.monotonic_ns()
        self.time = TimeAccount(now_ns)
        self.ledger: BlockLedger | None = None
        self.gate = Gate(identity, line.clock, self)
        self.is_ready = False
        self.is_alive = True

    def wake(self) -> None:
        """There is work: take a place in the line, once."""
        if not self.is_ready and self.is_alive:
            self.is_ready = True
            self.line.ready.append(self)

    def turn(self, budget: i64) -> bool:
        """Do up to `budget` messages of work; True if there is more. The scheduler calls it."""
        raise NotImplementedError

    def failing_queue(self) -> tuple[str, str]:
        """Virtual host and name of the queue that ends when this actor has failed; "" for none."""
        return "", ""

    def run_ended(self) -> None:
        """No actor has a turn now, and what was written is about to be sent; see `end_with`."""

    def rest_state(self) -> int:
        """IDLE, BLOCKED or WAITING: how time passes when the turn is over."""
        return IDLE if self.gate.is_open else BLOCKED

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.note_held(peer, reason, now_ns)

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.note_freed(peer, reason, now_ns)
        if gate.is_open:
            self.wake()

    def grant_deferred(self, gate: Gate, sender: str, messages: int) -> None:
        self.line.recorder.record(GRANT_DEFERRED, self.identity, sender, "", messages)

    def held_ns(self, peer: str) -> int:
        """How long `peer` has held it, in all."""
        if self.ledger is None:
            return 0
        blocks = self.ledger.snapshot(self.line.clock.monotonic_ns()).blocks
        return sum(one.closed_ns for one in blocks if one.peer == peer)

    def books(self) -> BlockLedger:
        """Its ledger, which exists from now on."""
        ledger = self.ledger
        if ledger is None:
            self.ledger = ledger = BlockLedger(self.time.start_ns)
        return ledger

    def is_held(self) -> bool:
        """Whether by its ledger anybody holds it now."""
        return self.ledger is not None and self.ledger.is_blocked()

    def note_held(self, peer: str, reason: str, now_ns: int) -> None:
        """Put it on record that `peer` holds this actor."""
        if self.line.is_accounting:
            self.books().close(peer, reason, now_ns)
        self.line.recorder.record_at(now_ns, GATE_CLOSED, self.identity, peer, reason, 0)

    def note_freed(self, peer: str, reason: str, now_ns: int) -> None:
        """Put it on record that `peer` no longer does."""
        ledger = self.ledger
        ns = 0
        if ledger is not None and self.line.is_accounting:
            ns = ledger.open(peer, reason, now_ns)
        self.line.recorder.record_at(now_ns, GATE_OPENED, self.identity, peer, reason, ns)


@mypyc_attr(allow_interpreted_subclasses=True)
class Picker:
    """Which ready actor goes next, and for how long. Nominal base; the simulator's is seeded."""

    __slots__ = ()

    def pick(self, ready: list[Actor]) -> int:
        """Index into `ready`, which has at least one; -1 ends the run as a slice does."""
        return 0

    def budget(self, budget: int) -> int:
        """Messages the actor just picked may do, 1..`budget`."""
        return budget


def _raise(actor: Actor, error: Exception) -> None:
    raise error


class Scheduler(Line):
    """clock: time for the accounts; turn_messages: see limits.TURN_MESSAGES;
    failed: called with an error that left the turn of an actor, which is a bug of ours: the others
    go on; is_exploring: let `picker` choose order, budgets and the end of a run (simulation)."""

    __slots__ = (
        "failed",
        "is_exploring",
        "outputs",
        "picker",
        "stop_at_bytes",
        "turn_messages",
        "turns",
    )

    def __init__(self, clock: Clock, recorder: Recorder, turn_messages: int) -> None:
        super().__init__(clock, recorder)
        self.outputs = OutputLine()
        self.turn_messages: i64 = turn_messages
        self.turns: i64 = 0
        self.stop_at_bytes: i64 = NO_STOP
        self.picker = Picker()
        self.failed: Callable[[Actor, Exception], None] = _raise
        self.is_exploring = False

    def charge_outputs(self) -> None:
        self.outputs.charge_all()

    def run(self, slice_ns: int) -> bool:
        """Serve the line for about `slice_ns` nanoseconds, or until `stop_at_bytes` of content have
        been delivered in all; True if work is left."""
        if self.is_exploring:
            return self._explore()
        now_ns = self.clock.monotonic_ns()
        end_ns = now_ns + slice_ns
        if self.heard_ns <= self.turn_ns:
            self._begin(now_ns)
        while True:
            now_ns = self._serve_line(now_ns, end_ns)
            self.turn_ns = now_ns
            self._end_run()
            self.outputs.flush_all()
            if not self.ready:
                return False
            if now_ns >= end_ns or self.outputs.delivered_bytes >= self.stop_at_bytes:
                return True
            now_ns = self.clock.monotonic_ns()

    def _begin(self, now_ns: int) -> None:
        """A run begins, and nobody has said when its input was heard: now."""
        self.heard_ns = now_ns
        self.flushed_ns = self.turn_ns

    def _end_run(self) -> None:
        """Before output goes to the sockets, so that the disk works while it is sent."""
        while self.ending:
            ending = self.ending
            self.ending = []
            for actor in ending:
                try:
                    actor.run_ended()
                except Exception as error:
                    self.failed(actor, error)

    def run_actors(self, end_ns: int) -> int:
        """Serve the line until it is empty or `end_ns` has passed, and send nothing; the time."""
        now_ns = self.clock.monotonic_ns()
        return now_ns if self.is_exploring else self._serve_line(now_ns, end_ns)

    def _serve_line(self, now_ns: int, end_ns: int) -> int:
        """As `run_actors`; it is `now_ns`."""
        while self.ready and now_ns < end_ns:
            round_ = self.ready
            self.ready = []
            for index in range(len(round_)):
                if now_ns >= end_ns:
                    self.ready = round_[index:] + self.ready
                    break
                now_ns = self._serve(round_[index], self.turn_messages, now_ns)
            if not self.is_accounting:
                now_ns = self.clock.monotonic_ns()
        return now_ns

    def _serve(self, actor: Actor, budget: i64, now_ns: int) -> int:
        """One turn, which begins at `now_ns`; when it ended. One reading of the clock a turn, and
        none without accounting."""
        actor.is_ready = False
        if not actor.is_alive:
            return now_ns
        self.turns += 1
        is_accounting = self.is_accounting
        if is_accounting:
            self.turn_ns = now_ns
        has_more = False
        try:
            has_more = actor.turn(budget)
        except Exception as error:
            self.failed(actor, error)
        if is_accounting:
            began_ns = now_ns
            now_ns = self.clock.monotonic_ns()
            actor.time.worked(began_ns, now_ns, actor.rest_state())
        if has_more:
            actor.wake()
        return now_ns

    def _explore(self) -> bool:
        """Turns as the picker wants them until it ends the run; then every output sends."""
        is_first = True
        ended_ns = int(self.turn_ns)
        while self.ready:
            index = self.picker.pick(self.ready)
            if index < 0:
                break
            chosen = self.ready.pop(index)
            budget = self.picker.budget(self.turn_messages)
            now_ns = self.clock.monotonic_ns()
            if is_first and self.heard_ns <= self.turn_ns:
                self._begin(now_ns)
            is_first = False
            # No clock is read for what follows, because reading it moves the simulator's.
            ended_ns = self._serve(chosen, budget, now_ns)
        self.turn_ns = ended_ns
        self._end_run()
        self.outputs.flush_all()
        return len(self.ready) > 0
