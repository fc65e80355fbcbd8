"""The line of actors with work, and the turns they are given.

One run serves the line in order, then lets every output send, and begins again while sending made
room, until nothing is ready or the time slice is over. No actor is run twice in a row while others
wait, and no turn is longer than its budget of messages (fairness between connections and queues).
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.clock import Clock
from penstock.broker.actors.actor import BUSY, Actor, Line
from penstock.broker.actors.output import OutputLine
from penstock.telemetry.recorder import Recorder

NO_STOP: Final = 1 << 62


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


@mypyc_attr(allow_interpreted_subclasses=True)
class Mender:
    """Who is told of an actor that failed in its turn. Nominal base; the broker's stops it."""

    __slots__ = ()

    def failed(self, actor: Actor, error: Exception) -> None:
        """`error` left the turn of `actor`: a bug of ours. The other actors go on."""
        raise error


class Scheduler(Line):
    """clock: time for the accounts; turn_messages: see limits.TURN_MESSAGES;
    is_exploring: let `picker` choose order, budgets and the end of a run (simulation)."""

    __slots__ = (
        "is_exploring",
        "mender",
        "outputs",
        "picker",
        "ready",
        "stop_at_bytes",
        "turn_messages",
        "turns",
    )

    def __init__(self, clock: Clock, recorder: Recorder, turn_messages: int) -> None:
        super().__init__(clock, recorder)
        self.ready: list[Actor] = []
        self.outputs = OutputLine()
        self.turn_messages: i64 = turn_messages
        self.turns: i64 = 0
        self.stop_at_bytes: i64 = NO_STOP
        self.picker = Picker()
        self.mender = Mender()
        self.is_exploring = False

    def join(self, actor: Actor) -> None:
        self.ready.append(actor)

    def charge_outputs(self) -> None:
        self.outputs.owing.charge_all()

    def run(self, slice_ns: int) -> bool:
        """Serve the line for about `slice_ns` nanoseconds, or until `stop_at_bytes` of content have
        been delivered in all; True if work is left."""
        if self.is_exploring:
            return self._explore()
        began_ns = self.clock.monotonic_ns()
        end_ns = began_ns + slice_ns
        self._begin(began_ns)
        while True:
            now_ns = self.run_actors(end_ns)
            self.turn_ns = now_ns
            self._end_run()
            self.outputs.flush_all()
            if not self.ready:
                return False
            if now_ns >= end_ns or self.outputs.delivered_bytes >= self.stop_at_bytes:
                return True

    def _begin(self, now_ns: int) -> None:
        """A run begins: what has come in since the last one is heard now, unless somebody has said
        when it was."""
        if self.heard_ns <= self.turn_ns:
            self.heard_ns = now_ns
            self.flushed_ns = self.turn_ns

    def _end_run(self) -> None:
        """Before output goes to the sockets, so that the disk works while it is sent."""
        while self.ending:
            ending = self.ending
            self.ending = []
            for actor in ending:
                actor.run_ended()

    def run_actors(self, end_ns: int) -> int:
        """Serve the line until it is empty or `end_ns` has passed, and send nothing; the time."""
        now_ns = self.clock.monotonic_ns()
        if self.is_exploring:
            return now_ns
        while self.ready and now_ns < end_ns:
            round_ = self.ready
            self.ready = []
            for index in range(len(round_)):
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
            actor.time.enter(BUSY, now_ns)
        has_more = False
        try:
            has_more = actor.turn(budget)
        except Exception as error:
            self.mender.failed(actor, error)
        if is_accounting:
            now_ns = self.clock.monotonic_ns()
            actor.time.enter(actor.rest_state(), now_ns)
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
            if is_first:
                self._begin(now_ns)
                is_first = False
            # No clock is read for what follows, because reading it moves the simulator's.
            ended_ns = self._serve(chosen, budget, now_ns)
        self.turn_ns = ended_ns
        self._end_run()
        self.outputs.flush_all()
        return len(self.ready) > 0
