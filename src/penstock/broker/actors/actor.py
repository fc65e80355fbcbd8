"""A unit with private state, an inbox and turns; every change of its gate leaves a record.

An actor never waits: it is given a turn while it has work and its gate lets it, and withholds
grants upstream otherwise (law 9). Its time is split into idle, busy, blocked and waiting, which
sum to 100 % (law 10).
"""

from mypy_extensions import i64

from penstock.base.clock import Clock
from penstock.flow.gate import Gate, GateObserver
from penstock.queues.unacked import Stamp
from penstock.telemetry.accounting import BLOCKED, BUSY, IDLE, WAITING, BlockLedger, TimeAccount
from penstock.telemetry.events import GATE_CLOSED, GATE_OPENED, GRANT_DEFERRED
from penstock.telemetry.recorder import Recorder

__all__ = ["BLOCKED", "BUSY", "IDLE", "WAITING", "Actor", "Line"]


class Line:
    """What an actor joins when it has work: the scheduler. Nominal base.

    clock, recorder, stamp: shared by every actor of the broker; is_accounting: actors keep books
    of their time and of who holds them; accepted_bytes: of content, taken into queues so far;
    heard_ns: when the loop last saw that there is input; turn_ns: when the present turn began, or
    the last one ended; flushed_ns: when everything due had last been sent; ending: see
    `end_with`."""

    __slots__ = (
        "accepted_bytes",
        "clock",
        "ending",
        "flushed_ns",
        "heard_ns",
        "is_accounting",
        "recorder",
        "stamp",
        "turn_ns",
    )

    def __init__(self, clock: Clock, recorder: Recorder) -> None:
        self.clock = clock
        self.recorder = recorder
        self.is_accounting = True
        self.stamp = Stamp(clock.monotonic_ns())
        self.accepted_bytes: i64 = 0
        self.heard_ns: i64 = 0
        self.turn_ns: i64 = 0
        self.flushed_ns: i64 = 0
        self.ending: list[Actor] = []

    def join(self, actor: "Actor") -> None:
        raise NotImplementedError

    def end_with(self, actor: "Actor") -> None:
        """Call `actor.run_ended` once, before what the present run has written is sent."""
        self.ending.append(actor)

    def charge_outputs(self) -> None:
        """Charge whoever caused the deliveries written since the last time."""


class Actor(GateObserver):
    """identity: the readable id, for example `queue:/orders`; gate: closed while it is held."""

    __slots__ = ("gate", "identity", "is_alive", "is_ready", "ledger", "line", "time")

    def __init__(self, identity: str, line: Line) -> None:
        self.identity = identity
        self.line = line
        self.is_ready = False
        self.is_alive = True
        now_ns = line.clock.monotonic_ns()
        self.time = TimeAccount(now_ns)
        self.ledger = BlockLedger(now_ns)
        self.gate = Gate(identity, line.clock, self)

    def wake(self) -> None:
        """There is work: take a place in the line, once."""
        if not self.is_ready and self.is_alive:
            self.is_ready = True
            self.line.join(self)

    def turn(self, budget: i64) -> bool:
        """Do up to `budget` messages of work; True if there is more. The scheduler calls it."""
        raise NotImplementedError

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

    def note_held(self, peer: str, reason: str, now_ns: int) -> None:
        """Put it on record that `peer` holds this actor."""
        if self.line.is_accounting:
            self.ledger.close(peer, reason, now_ns)
        self.line.recorder.record_at(now_ns, GATE_CLOSED, self.identity, peer, reason, 0)

    def note_freed(self, peer: str, reason: str, now_ns: int) -> None:
        """Put it on record that `peer` no longer does."""
        ns = self.ledger.open(peer, reason, now_ns) if self.line.is_accounting else 0
        self.line.recorder.record_at(now_ns, GATE_OPENED, self.identity, peer, reason, ns)
