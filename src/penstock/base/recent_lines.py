"""The newest lines of a log, in memory: whoever asks a broker need not find its file."""

from collections import deque
from collections.abc import Generator
from itertools import islice
from typing import Final, NamedTuple

LETTERS_MAX: Final = 2_000
"""Of one line; of a longer one the end is left out, and the log itself has it."""
STEP_LINES: Final = 512
"""Looked at between two steps."""


class RecentLine(NamedTuple):
    """seq: its number since the start, from 0; wall_ms: when, milliseconds since 1970; level: its
    place in LOG_LEVELS; kind: of the event, as `connection.opened`, "" for what is none; text: as
    it came, so with whatever a peer has said."""

    seq: int
    wall_ms: int
    level: int
    kind: str
    text: str


class RecentPage(NamedTuple):
    """Lines of a ring, the oldest first. next: the number that the next page begins with; missed:
    how many lines went before somebody asked for them."""

    lines: list[RecentLine]
    next: int
    missed: int


class RecentLines:
    """Bound: `most` lines, each of LETTERS_MAX; the oldest goes."""

    def __init__(self, most: int) -> None:
        self._lines: deque[RecentLine] = deque(maxlen=most)
        self.next_seq = 0

    def add(self, wall_ms: int, level: int, kind: str, text: str) -> None:
        """A line that was written just now."""
        if len(text) > LETTERS_MAX:
            text = text[: LETTERS_MAX - 1] + "…"
        self._lines.append(RecentLine(self.next_seq, wall_ms, level, kind, text))
        self.next_seq += 1

    def since(self, seq: int, level: int, most: int) -> Generator[float, None, RecentPage]:
        """The first `most` lines from number `seq` on, of `level` and above, in steps."""
        lines = list(self._lines)
        oldest = lines[0].seq if lines else self.next_seq
        found: list[RecentLine] = []
        reached = max(seq, oldest)
        for index, line in enumerate(islice(lines, max(0, seq - oldest), None), 1):
            if len(found) == most:
                break
            reached = line.seq + 1
            if line.level >= level:
                found.append(line)
            if index % STEP_LINES == 0:
                yield 0.0
        return RecentPage(found, reached, max(0, oldest - seq))

    def last(self, level: int, most: int) -> Generator[float, None, RecentPage]:
        """The newest `most` lines of `level` and above, in steps."""
        lines = list(self._lines)
        after = self.next_seq
        found: list[RecentLine] = []
        for index, line in enumerate(reversed(lines), 1):
            if len(found) == most:
                break
            if line.level >= level:
                found.append(line)
            if index % STEP_LINES == 0:
                yield 0.0
        return RecentPage(found[::-1], after, 0)
