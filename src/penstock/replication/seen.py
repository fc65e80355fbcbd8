"""Which publishes the log holds, so that one that is sent again after a failover is dropped.

Whoever publishes through a node that does not lead has a reference, which that node has made for
one channel at one broker, and its publishes on it are numbered from 1, as confirms number them. The
leader's broker says with each entry which publishes are in the log with it as a whole, and every
member keeps that in memory.

    runs   | reference | first number | count |, one behind the other
               16          8             4
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

REFERENCE_BYTES: Final = 16
RUN: Final = Struct(">16sQI")
RUNS_OF_ONE: Final = 1024
"""Of one reference, before the older half is forgotten. Most have one, as numbers follow each
other."""


class Run(NamedTuple):
    """Publishes first..last of whoever has the reference, 1.. ."""

    reference: bytes
    first: int
    last: int


def encode_runs(runs: Iterable[Run]) -> bytes:
    """Raises: struct.error, for a reference or a number that is none."""
    return b"".join(RUN.pack(one.reference, one.first, one.last - one.first + 1) for one in runs)


def decode_runs(data: bytes) -> list[Run]:
    """The runs in `data`; what is not whole at its end, or empty, is passed over."""
    whole = len(data) - len(data) % RUN.size
    return [
        Run(reference, first, first + count - 1)
        for reference, first, count in RUN.iter_unpack(data[:whole])
        if count > 0
    ]


class Seen:
    """runs_max: of all references, 1.. ; with more the reference whose last publish is the oldest
    is forgotten, and what it sends again may be there twice."""

    __slots__ = ("_count", "_runs", "runs_max")

    def __init__(self, runs_max: int) -> None:
        self.runs_max = runs_max
        self._runs: OrderedDict[bytes, list[tuple[int, int]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(self, data: bytes) -> None:
        """An entry holds these runs, too. Raises nothing, whatever a peer has sent."""
        for reference, first, last in decode_runs(data):
            runs = self._runs.get(reference)
            if runs is None:
                runs = self._runs[reference] = []
            else:
                self._runs.move_to_end(reference)
            if runs and runs[-1][1] + 1 == first:
                runs[-1] = (runs[-1][0], last)
                continue
            runs.append((first, last))
            self._count += 1
            if len(runs) > RUNS_OF_ONE:
                del runs[: RUNS_OF_ONE // 2]
                self._count -= RUNS_OF_ONE // 2
        while self._count > self.runs_max:
            _, gone = self._runs.popitem(last=False)
            self._count -= len(gone)

    def among(self, asked: Iterable[Run], runs_max: int) -> list[Run]:
        """What is held of `asked`, in `runs_max` runs at most."""
        found: list[Run] = []
        for reference, first, last in asked:
            for begin, end in self._runs.get(reference, ()):
                if begin <= last and end >= first:
                    found.append(Run(reference, max(begin, first), min(end, last)))
                    if len(found) >= runs_max:
                        return found
        return found

    def clear(self) -> None:
        """The log is another one."""
        self._runs.clear()
        self._count = 0


class Answer:
    """What a leader has said that its log holds."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, runs: Iterable[Run]) -> None:
        self._firsts: dict[bytes, list[int]] = {}
        self._lasts: dict[bytes, list[int]] = {}
        for reference, first, last in sorted(runs):
            firsts = self._firsts.setdefault(reference, [])
            lasts = self._lasts.setdefault(reference, [])
            firsts.append(first)
            # Runs may lie within each other: the end of all up to here.
            lasts.append(last if not lasts else max(last, lasts[-1]))

    def has(self, reference: bytes, number: int) -> bool:
        firsts = self._firsts.get(reference)
        if firsts is None:
            return False
        at = bisect_right(firsts, number) - 1
        return at >= 0 and number <= self._lasts[reference][at]


NOTHING: Final = Answer(())
