"""How far a query is with what was there when it began: by its checkpoint, and by its tasks.

The input has its own measure: bytes of files, messages of a stream. Of a batch that is under way
the steps count by what they usually cost, and the tasks of a step as they end.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from penstock.spark.input.pipeline_input import Offset, Span

READING: Final = "reading"
HOLDS: Final = "holds and samples"
BLAME: Final = "blame"
STEPS: Final = {READING: (0.0, 0.4), HOLDS: (0.4, 0.3), BLAME: (0.7, 0.3)}
"""Where each step of a batch begins, and how long it is, of the whole."""


class Seen(NamedTuple):
    """share: 0..1 of the backlog that is in the tables; events: rows of bronze since it began;
    step: of the batch that is worked on."""

    share: float
    events: int
    step: str


See = Callable[[Seen], None]


class Backlog:
    """span: what was there at the beginning; checkpoint: the directory of the query."""

    def __init__(self, span: Span, checkpoint: Path) -> None:
        self._span = span
        self._checkpoint = checkpoint
        self._reached = 0.0
        self._whole = span.left(self._offset("commits"))

    def share(self, step: str, tasks: tuple[int, int]) -> float:
        """0..1. step: of the batch that is under way; tasks: of it, done and in all."""
        if not self._whole:
            return 1.0
        left = self._span.left(self._offset("commits"))
        batch = left - self._span.left(self._offset("offsets"))
        begin, length = STEPS[step]
        done, count = tasks
        part = begin + length * (done / count if count else 0.0)
        # Between two steps no task runs: what was reached stays.
        self._reached = max(self._reached, min(1.0, 1 - (left - batch * part) / self._whole))
        return self._reached

    def _offset(self, log: str) -> Offset:
        """Of the last batch that was planned ("offsets") or finished ("commits")."""
        try:
            names = (one.name for one in (self._checkpoint / log).iterdir())
            last = max(int(name) for name in names if name.isdecimal())
            path = self._checkpoint / "offsets" / str(last)
            found: Offset = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        except (OSError, ValueError, IndexError):
            # None yet, or one that is being written, or was just taken away.
            return {}
        return found
