"""How far a query is behind its broker, in rows, bytes and seconds, and how fast both are. Pure.

What there is and what was read of it is looked at with every trigger. When a row came is known to
the two looks that it came between; a backlog from before the query counts from its start. Bound:
SAMPLES_MAX looks; when there are more, every second one of the older half goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

SAMPLES_MAX: Final = 512
APART_NS: Final = 200_000_000
"""Looks that follow faster, as those of an idle query do, replace the one before."""
RATE_NS: Final = 10_000_000_000
"""Rates are those of this last time."""
_NS_PER_S: Final = 1_000_000_000


class Look(NamedTuple):
    """now_ns: monotonic; tail: the number behind the last row there is; end: behind the last one
    that was planned."""

    now_ns: int
    tail: int
    end: int


class LagWatch:
    """The looks at one queue or stream."""

    def __init__(self) -> None:
        self._looks: list[Look] = []

    def look(self, look: Look) -> None:
        """Remember `look`; they come in the order of their times."""
        looks = self._looks
        if len(looks) > 1 and look.now_ns - looks[-2].now_ns < APART_NS:
            looks.pop()
        looks.append(look)
        if len(looks) > SAMPLES_MAX:
            middle = SAMPLES_MAX // 2
            self._looks = looks[:middle:2] + looks[middle:]

    def seconds(self) -> float:
        """How long the oldest row that is not planned has been there, 0.0 for none. Between two
        looks rows are taken to have come evenly."""
        if not self._looks:
            return 0.0
        last = self._looks[-1]
        if last.tail <= last.end:
            return 0.0
        number = next(n for n, look in enumerate(self._looks) if look.tail > last.end)
        seen = self._looks[number]
        before = self._looks[number - 1] if number > 0 else seen
        since_ns = float(seen.now_ns)
        if seen.tail > before.tail:
            later = (seen.tail - last.end - 1) / (seen.tail - before.tail)
            since_ns -= later * (seen.now_ns - before.now_ns)
        return (last.now_ns - since_ns) / _NS_PER_S

    def rates(self) -> tuple[float, float]:
        """Rows a second that have come, and that were planned."""
        if not self._looks:
            return 0.0, 0.0
        last = self._looks[-1]
        first = next(look for look in self._looks if last.now_ns - look.now_ns <= RATE_NS)
        seconds = (last.now_ns - first.now_ns) / _NS_PER_S
        if seconds <= 0.0:
            return 0.0, 0.0
        # Others may have taken some of what there was.
        return max(0, last.tail - first.tail) / seconds, (last.end - first.end) / seconds


@dataclass(frozen=True, slots=True)
class Told:
    """What a planner knows beside its tail. row_bytes: mean size of a row, 0.0 where it is not
    known; held_ns: how long publishers were held by the queue, as the broker counts it, -1 where it
    does not say."""

    row_bytes: float = 0.0
    held_ns: int = -1


class Progress:
    """What `lastProgress` shows of all queues of a query."""

    def __init__(self, count: int) -> None:
        self._watches = [LagWatch() for _ in range(count)]
        self._held_ns = [-1] * count
        self._sum_held_ns = 0

    def widen(self, count: int) -> None:
        """So many queues more, behind the others."""
        self._watches += [LagWatch() for _ in range(count)]
        self._held_ns += [-1] * count

    def report(
        self, now_ns: int, tails: Sequence[int], ends: Sequence[int], told: Sequence[Told]
    ) -> Mapping[str, Any]:
        """Rows that are there and in no batch yet; bytes where sizes are known; held time of
        publishers since the query started where the broker counts it."""
        rows = [max(0, tail - end) for tail, end in zip(tails, ends, strict=True)]
        for number, watch in enumerate(self._watches):
            watch.look(Look(now_ns, tails[number], ends[number]))
            self._note_held(number, told[number].held_ns)
        rates = [watch.rates() for watch in self._watches]
        said: dict[str, Any] = {"lag_rows": sum(rows)}
        if all(one.row_bytes > 0 or count == 0 for one, count in zip(told, rows, strict=True)):
            said["lag_bytes"] = round(
                sum(one.row_bytes * count for one, count in zip(told, rows, strict=True))
            )
        said["lag_seconds"] = round(max(watch.seconds() for watch in self._watches), 3)
        said["rows_in_per_second"] = round(sum(rate for rate, _ in rates), 1)
        said["rows_out_per_second"] = round(sum(rate for _, rate in rates), 1)
        if any(one.held_ns >= 0 for one in told):
            said["publishers_held_seconds"] = round(self._sum_held_ns / _NS_PER_S, 3)
        return said

    def _note_held(self, number: int, held_ns: int) -> None:
        before = self._held_ns[number]
        if held_ns >= 0:
            # What was counted before the query began is not its own; a broker that was started
            # anew counts from 0.
            self._sum_held_ns += max(0, held_ns - before) if before >= 0 else 0
            self._held_ns[number] = held_ns
