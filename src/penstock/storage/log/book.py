"""What counts in the log: the queues, their entries, and what is known to be settled of them."""

from mypy_extensions import i64, mypyc_attr

from penstock.storage.layout.acks import write_slot
from penstock.storage.layout.format import DELIVERED, SETTLED
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Run, Segment
from penstock.storage.log.batch import AckDeed


@mypyc_attr(allow_interpreted_subclasses=True)
class Book:
    """queues: by their number; segments: by theirs; touched: runs with acknowledgements that are on
    no way yet; marked: queues with deliveries of that kind; acking: segments whose acknowledgements
    go with the next batch; dead: full segments in which nothing counts, which are to be removed;
    wants_ack_sync: somebody waits for acknowledgements to survive a loss of power."""

    __slots__ = ("acking", "dead", "marked", "queues", "segments", "touched", "wants_ack_sync")

    def __init__(self) -> None:
        self.queues: dict[int, QueueIndex] = {}
        self.segments: dict[int, Segment] = {}
        self.touched: list[Run] = []
        self.marked: dict[QueueIndex, None] = {}
        self.acking: dict[Segment, None] = {}
        self.dead: list[Segment] = []
        self.wants_ack_sync = False

    # -- queues ----------------------------------------------------------------------------------

    def open_queue(self, queue_id: int) -> QueueIndex:
        """What the queue has here; it may have nothing yet. queue_id: 1.., never used again."""
        index = self.queues.get(queue_id)
        if index is None:
            assert queue_id > 0, "0 is for queues that keep nothing"
            index = QueueIndex(queue_id)
            self.queues[queue_id] = index
        return index

    def drop_queue(self, index: QueueIndex) -> None:
        """The queue was deleted. What says so on the disk is the catalogue, not the log."""
        if index.is_dropped:
            return
        index.is_dropped = True
        runs = index.runs
        index.runs = []
        index.tail = None
        for run in runs:
            self._drop_run(run)
        for segment in list(self.segments.values()):
            if segment.copies is not None:
                self._drop_copies(segment, index)
        self.marked.pop(index, None)
        self.queues.pop(int(index.queue_id), None)

    def _drop_run(self, run: Run) -> None:
        segment = run.table.segment
        segment.live -= run.live
        run.live = 0
        segment.runs.pop(run, None)
        self._check_life(segment)

    def _drop_copies(self, segment: Segment, index: QueueIndex) -> None:
        assert segment.copies is not None, "its caller has looked"
        copies = segment.copies.pop(int(index.queue_id), None)
        if copies is not None:
            for run in set(copies.values()):
                self._drop_run(run)

    def first_position(self, index: QueueIndex) -> int:
        """The first position that counts, -1 for none."""
        return int(index.first_position())

    def live_count(self, index: QueueIndex) -> int:
        """Entries that count."""
        return int(index.live_count())

    def live_bytes(self, index: QueueIndex) -> int:
        """What they take on disk, from averages."""
        return int(index.live_bytes())

    def disk_bytes(self) -> int:
        """What all segments take, footers and acknowledgements left out."""
        total: i64 = 0
        for segment in self.segments.values():
            total += segment.end
        return int(total)

    # -- settling --------------------------------------------------------------------------------

    def settle(self, index: QueueIndex, position: int) -> None:
        """The message at `position` has left the queue for good: acknowledged, dropped, expired.

        For a deleted queue nothing happens. Raises: AssertionError if it does not count there.
        """
        if index.is_dropped:
            return
        runs = index.runs
        run: Run | None = runs[0] if runs else None
        if run is None or position > run.last:
            run = index.find(position)
        assert run is not None and run.clear(position), "a position is settled once"
        segment = run.table.segment
        segment.live -= 1
        self._acknowledge(run, position, position)
        if segment.copies is not None:
            self._settle_copy(segment, index, position)
        if run.live == 0:
            self._ended(index, run)

    def settle_below(self, index: QueueIndex, position: int) -> int:
        """Everything below `position` has left the queue, as in a purge. Returns how many did."""
        return self.settle_between(index, 0, position)

    def settle_between(self, index: QueueIndex, first: int, end: int) -> int:
        """Everything at first..end-1 has left the queue. Returns how many did."""
        settled: i64 = 0
        for run in list(index.runs):
            if run.first >= end:
                break
            if run.last < first:
                continue
            before = run.live
            begin: i64 = run.first if run.first > first else first
            at = run.next_live(begin)
            last: i64 = run.last if run.last < end else end - 1
            while 0 <= at <= last:
                run.clear(at)
                if run.table.segment.copies is not None:
                    self._settle_copy(run.table.segment, index, at)
                at = run.next_live(at + 1)
            gone: i64 = before - run.live
            run.table.segment.live -= gone
            settled += gone
            if gone > 0:
                self._acknowledge(run, begin, last)
            if run.live == 0:
                self._ended(index, run)
        return int(settled)

    def _acknowledge(self, run: Run, first: i64, last: i64) -> None:
        """Positions first..last of `run` are to be written as settled."""
        if run.ack_first == 0:
            run.ack_first = first
            run.ack_last = last
            self.touched.append(run)
        elif first == run.ack_last + 1:
            run.ack_last = last
        else:
            self._write_ack(run)
            run.ack_first = first
            run.ack_last = last

    def _write_ack(self, run: Run) -> None:
        segment = run.table.segment
        if not segment.is_gone:
            write_slot(segment, SETTLED, run.table.queue_id, run.ack_first, run.ack_last)
            self.acking[segment] = None
        run.ack_first = 0

    def _take_acks(self) -> list[AckDeed]:
        """What was settled and delivered, for the next batch."""
        for run in self.touched:
            if run.ack_first > 0:
                self._write_ack(run)
        self.touched = []
        self._write_marks()
        deeds: list[AckDeed] = []
        for segment in self.acking:
            writer = segment.acks
            if writer is not None and not segment.is_gone:
                data = writer.getvalue()
                deeds.append(AckDeed(segment.number, segment.acks_end, data))
                segment.acks_end += len(data)
            segment.acks = None
        self.acking = {}
        return deeds

    def _take_ack_sync(self) -> bool:
        """Whether the next batch has to sync acknowledgements; it does then."""
        wants = self.wants_ack_sync
        self.wants_ack_sync = False
        return wants

    def _settle_copy(self, segment: Segment, index: QueueIndex, position: i64) -> None:
        """What was copied out of `segment` already is settled as well."""
        assert segment.copies is not None, "its callers have looked"
        copies = segment.copies.get(int(index.queue_id))
        if copies is None:
            return
        run = copies.pop(int(position), None)
        if run is not None and run.clear(position):
            run.table.segment.live -= 1
            self._acknowledge(run, position, position)
            self._check_life(run.table.segment)

    def _ended(self, index: QueueIndex, run: Run) -> None:
        """Nothing in `run` counts any more."""
        segment = run.table.segment
        if segment.is_full or index.tail is not run:
            index.remove(run)
            segment.runs.pop(run, None)
            self._check_life(segment)

    def _check_life(self, segment: Segment) -> None:
        if segment.live == 0 and segment.is_full and not segment.is_gone:
            segment.is_gone = True
            segment.copies = None
            self.dead.append(segment)

    def note_delivered(self, index: QueueIndex, position: int) -> None:
        """Everything below `position` was delivered at least once."""
        if position > index.delivered_below and not index.is_dropped:
            index.delivered_below = position
            self.marked[index] = None

    def _write_marks(self) -> None:
        for index in self.marked:
            for run in index.runs:
                segment = run.table.segment
                if run.first >= index.delivered_below:
                    break
                if run.last >= index.delivered_written and not segment.is_gone:
                    write_slot(segment, DELIVERED, index.queue_id, 0, index.delivered_below)
                    self.acking[segment] = None
            index.delivered_written = index.delivered_below
        self.marked.clear()

    def replace_runs(self, segment: Segment, copies: list[QueueIndex]) -> None:
        """What counted in `segment` is read from its copies from now on."""
        for run in segment.runs:
            index = self.queues.get(int(run.table.queue_id))
            if index is not None and run in index.runs:
                index.remove(run)
        segment.runs.clear()
        for copy in copies:
            index = self.queues.get(int(copy.queue_id))
            for run in copy.runs:
                if run.live > 0 and index is not None:
                    new = run.table.segment
                    if run.first < index.delivered_below:
                        write_slot(new, DELIVERED, copy.queue_id, 0, index.delivered_below)
                        self.acking[new] = None
                    index.insert(run)
                else:
                    run.table.segment.runs.pop(run, None)
        segment.live = 0
        self._check_life(segment)
