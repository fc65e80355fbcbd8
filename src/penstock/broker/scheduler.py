"""The line of actors with work, and the turns they are given.

One run serves the line in order, then lets every output send, and begins again while sending made
room, until nothing is ready or the time slice is over. No actor is run twice in a row while others
wait, and no turn is longer than its budget of messages (fairness between connections and queues).
"""

from mypy_extensions import i64, mypyc_attr

from penstock.base.clock import Clock
from penstock.broker.actor import BUSY, Actor, Line
from penstock.broker.output import OutputLine
from penstock.telemetry.recorder import Recorder


@mypyc_attr(allow_interpreted_subclasses=True)
class Picker:
    """Which of `count` ready actors goes next: the first. The simulator's is seeded."""

    __slots__ = ()

    def pick(self, count: int) -> int:
        return 0

    def budget(self, budget: int) -> int:
        return budget


class Scheduler(Line):
    """clock: time for the accounts; turn_messages: see limits.TURN_MESSAGES;
    is_exploring: let `picker` choose order and budgets (simulation)."""

    __slots__ = ("is_exploring", "outputs", "picker", "ready", "turn_messages", "turns")

    def __init__(self, clock: Clock, recorder: Recorder, turn_messages: int) -> None:
        super().__init__(clock, recorder)
        self.ready: list[Actor] = []
        self.outputs = OutputLine()
        self.turn_messages: i64 = turn_messages
        self.turns: i64 = 0
        self.picker = Picker()
        self.is_exploring = False

    def join(self, actor: Actor) -> None:
        self.ready.append(actor)

    def run(self, slice_ns: int) -> bool:
        """Serve the line for about `slice_ns` nanoseconds; True if work is left."""
        now_ns = self.clock.monotonic_ns()
        end_ns = now_ns + slice_ns
        while True:
            while self.ready:
                round_ = self.ready
                self.ready = []
                if self.is_exploring:
                    round_ = self._explore(round_)
                for index in range(len(round_)):
                    self._serve(round_[index], self.turn_messages)
                if self.outputs.dirty and self.clock.monotonic_ns() >= end_ns:
                    break
            self.outputs.flush_all()
            if not self.ready:
                return False
            if self.clock.monotonic_ns() >= end_ns:
                return True

    def _serve(self, actor: Actor, budget: i64) -> None:
        actor.is_ready = False
        if not actor.is_alive:
            return
        self.turns += 1
        actor.time.enter(BUSY, self.clock.monotonic_ns())
        has_more = actor.turn(budget)
        actor.time.enter(actor.rest_state(), self.clock.monotonic_ns())
        if has_more:
            actor.wake()

    def _explore(self, round_: list[Actor]) -> list[Actor]:
        """One actor of the round with a drawn budget; the others stay in the line."""
        index = self.picker.pick(len(round_))
        chosen = round_.pop(index)
        self.ready = round_ + self.ready
        self._serve(chosen, self.picker.budget(self.turn_messages))
        return []
