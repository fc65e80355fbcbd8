"""What a queue has in the log apart from some of it: stretches between positions left out."""

from mypy_extensions import i64

from penstock.storage.layout.index import QueueIndex


class PositionRange:
    """Entries that count at first..last, all of which belong to it. count: 1.. ."""

    __slots__ = ("count", "first", "last")

    def __init__(self, first: i64, last: i64, count: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.count: i64 = count

    def below(self, index: QueueIndex, position: i64) -> i64:
        """How many of them are before `position`."""
        if position <= self.first:
            return 0
        end: i64 = position if position <= self.last else self.last + 1
        return index.live_below(end) - index.live_below(self.first)


def spans_without(index: QueueIndex, positions: list[int]) -> list[PositionRange]:
    """Everything that counts in `index` without `positions`, which are ascending."""
    spans: list[PositionRange] = []
    if not index.runs:
        return spans
    first: i64 = index.first_position()
    end: i64 = index.runs[-1].last + 1
    for position in positions:
        _add(spans, index, first, position)
        first = i64(position) + 1
    _add(spans, index, first, end)
    return spans


def _add(spans: list[PositionRange], index: QueueIndex, first: i64, end: i64) -> None:
    """The span first..end-1, unless nothing counts there."""
    if first >= end:
        return
    count: i64 = index.live_below(end) - index.live_below(first)
    if count > 0:
        spans.append(PositionRange(first, end - 1, count))
