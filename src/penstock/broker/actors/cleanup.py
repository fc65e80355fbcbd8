"""Work after the end: what somebody left behind is put away in batches, between others' turns.

A connection may end with ten thousand consumers, deliveries and queues. Nobody waits for that, so
nobody may be held up by it: one batch of one errand a turn, like any other actor (scenario 104).
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor, Errand, Errands, Line
from penstock.broker.actors.cooperative import Steps

BATCH: Final = 128
"""Units of one batch: a consumer or a delivery is one, a channel or a queue counts QUEUE_UNITS."""
QUEUE_UNITS: Final = 8


class InSteps(Errand):
    """Long work that somebody waits for and nobody else should: a step of `steps` is a batch."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps[None]) -> None:
        self._steps = steps

    def step(self) -> bool:
        try:
            next(self._steps)
        except StopIteration:
            return False
        return True


class Cleanup(Actor):
    """The errands that were too long for one batch, served in turn."""

    __slots__ = ("errands",)

    def __init__(self, line: Line) -> None:
        super().__init__("cleanup:node", line)
        self.errands: list[Errand] = []
        line.errands = InTurns(self)

    def begin(self, errand: Errand) -> None:
        """The first batch now, which is mostly all there is; the rest in turns."""
        if errand.step():
            self.errands.append(errand)
            self.wake()

    def turn(self, budget: i64) -> bool:
        errand = self.errands.pop(0)
        if errand.step():
            self.errands.append(errand)
        return len(self.errands) > 0


class InTurns(Errands):
    """By `cleanup`, between others' turns."""

    __slots__ = ("cleanup",)

    def __init__(self, cleanup: Cleanup) -> None:
        self.cleanup = cleanup

    def begin(self, errand: Errand) -> None:
        self.cleanup.begin(errand)
