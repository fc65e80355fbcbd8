"""What one queue has in the log: its runs in ascending order of position, and ranges
that leave some of them out."""

from mypy_extensions import i64

from penstock.storage.layout.segment import Run


class QueueIndex:
    """queue_id: 1.., never used again; runs: disjoint, ascending; tail: the run that grows, if any;
    next_position: above every position the queue ever had; delivered_below: all before it was
    delivered at least once, delivered_written: what of that is on its way to the disk; returned:
    how often what counts came back, by position, as far as that is written (layout/acks);
    back_first, back_last, back_count: the last of these, which have no slot yet, back_count 0 for
    none."""

    __slots__ = (
        "back_count",
        "back_first",
        "back_last",
        "delivered_below",
        "delivered_written",
        "is_dropped",
        "next_position",
        "queue_id",
        "returned",
        "runs",
        "tail",
    )

    def __init__(self, queue_id: i64) -> None:
        self.queue_id: i64 = queue_id
        self.runs: list[Run] = []
        self.tail: Run | None = None
        self.next_position: i64 = 1
        self.delivered_below: i64 = 0
        self.delivered_written: i64 = 0
        self.returned: dict[int, int] = {}
        self.back_first: i64 = 0
        self.back_last: i64 = 0
        self.back_count: i64 = 0
        self.is_dropped = False

    def at(self, position: i64) -> i64:
        """The place in `runs` of the last one that begins at or before `position`, -1 for none."""
        runs = self.runs
        low: i64 = 0
        high: i64 = len(runs)
        while low < high:
            middle: i64 = (low + high) >> 1
            if runs[middle].first <= position:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def find(self, position: i64) -> Run | None:
        """The run that `position` falls into."""
        at: i64 = self.at(position)
        if at < 0:
            return None
        run = self.runs[at]
        return run if position <= run.last else None

    def forget_returned(self, first: i64, last: i64) -> None:
        """What is at first..last will not come back any more."""
        returned = self.returned
        if last - first >= len(returned):
            self.returned = {at: returned[at] for at in returned if not first <= at <= last}
            return
        position: i64 = first
        while position <= last:
            returned.pop(int(position), None)
            position += 1

    def insert(self, run: Run) -> None:
        """Put `run` where it belongs. Its positions are in no other run, but may lie between those
        of one, or the other way round: then that is split."""
        pending = [run]
        while pending:
            part = pending.pop()
            at: i64 = self.at(part.first)
            if at >= 0 and self.runs[at].last >= part.first:
                self._split(self.runs[at], part.first, pending)
                at = self.at(part.first)
            if at + 1 < len(self.runs) and self.runs[at + 1].first <= part.last:
                behind = part.split(self.runs[at + 1].first)
                if behind.trim():
                    pending.append(behind)
            self.runs.insert(at + 1, part)

    def _split(self, run: Run, position: i64, pending: list[Run]) -> None:
        """Take what `run` has from `position` on out of it."""
        part = run.split(position)
        if self.tail is run:
            self.tail = None
        if run.live == 0:
            self.remove(run)
            run.table.segment.runs.pop(run, None)
        if part.trim():
            pending.append(part)

    def remove(self, run: Run) -> None:
        """Nothing in `run` counts any more."""
        self.runs.remove(run)
        if self.tail is run:
            self.tail = None

    def first_position(self) -> i64:
        """The first position that counts, -1 for none."""
        for run in self.runs:
            position = run.next_live(run.first)
            if position >= 0:
                return position
        return -1

    def live_count(self) -> i64:
        """Entries that count."""
        total: i64 = 0
        for run in self.runs:
            total += run.live
        return total

    def live_below(self, position: i64) -> i64:
        """Entries that count before `position`."""
        total: i64 = 0
        for run in self.runs:
            if run.last < position:
                total += run.live
                continue
            at: i64 = run.next_live(run.first)
            while 0 <= at < position:
                total += 1
                at = run.next_live(at + 1)
            break
        return total

    def live_bytes(self) -> i64:
        """What they take on disk, from the averages of their tables."""
        total: i64 = 0
        for run in self.runs:
            total += run.live_bytes()
        return total


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
