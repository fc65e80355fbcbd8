"""The message log of one virtual host: everything that durable queues keep, in one row of segments.

A message and its place in a queue are one record, so one sync makes both safe, and there is no
index that could refer to what is not there. A message that goes to several queues is written once
per segment. The laws:

    1  a position whose batch is done and was synced comes back after any crash, unless settled
    2  what comes back has the bytes that were appended; nothing else ever comes back
    3  a file is removed only when nothing in it counts, and copies of what did are safe
    4  behind a torn write nothing is ever appended: a new life begins a new segment

Everything here only plans; jobs do the work, in the order in which they were made, on another
thread. Not handled here: who waits for what (broker/store/store_actor), and which queues exist (the
catalogue).
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.chance import Chance
from penstock.base.limits import STORE_SEGMENT_BYTES
from penstock.protocol.content import Message
from penstock.storage.layout.acks import is_written, write_slot
from penstock.storage.layout.checksum import LOG_VERSION
from penstock.storage.layout.encoder import RecordEncoder
from penstock.storage.layout.files import Directory
from penstock.storage.layout.format import (
    BODY_HEAD_BYTES,
    DATA_AT,
    DELIVERED,
    IS_PERSISTENT,
    REF_BYTES,
    RETURNED,
    SAFE,
    SETTLED,
    place_of,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import GAP_MAX, Run, Segment, Table
from penstock.storage.layout.stored import Stored
from penstock.storage.log.batch import AckDeed, Batch, SegmentWrite
from penstock.storage.log.handles import Handles
from penstock.storage.log.reading import Found, ReadJob, TableCache, plan_run
from penstock.storage.log.recycled import RecycledSegments
from penstock.storage.log.roster import UNSAID

__all__ = ["Batch", "MessageLog", "QueueIndex", "ReadJob"]

SEGMENT_BYTES: Final = STORE_SEGMENT_BYTES.default


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageLog:
    """segment_bytes: where a segment is full, 1024..2**30; is_scratch: nothing in it has to
    survive, so nothing is synced; spares_max: see storage/log/recycled; returning: queues with
    returns that have no slot yet; copied_counts: up to where acknowledgements have returns that
    were copied into them and are not known to be safe, by segment. `storage.recovery.recover`
    makes one from what is on the disk.

    Owner: one actor; every method is called on the loop. Jobs must be run in the order in which
    they were returned, and a batch be given to `done` afterwards."""

    __slots__ = (
        "ack_syncs",
        "acking",
        "active",
        "cache",
        "chance",
        "chunk",
        "chunks",
        "copied_counts",
        "dead",
        "encoder",
        "fresh",
        "full",
        "handles",
        "is_scratch",
        "marked",
        "next_number",
        "open_size",
        "queues",
        "returning",
        "said",
        "segment_bytes",
        "segments",
        "spares",
        "touched",
        "unsynced",
        "version",
        "wants_ack_sync",
        "wants_sync",
    )

    def __init__(
        self,
        directory: Directory,
        chance: Chance,
        segment_bytes: int = SEGMENT_BYTES,
        is_scratch: bool = False,
        spares_max: int = 0,
    ) -> None:
        self.queues: dict[int, QueueIndex] = {}
        self.segments: dict[int, Segment] = {}
        self.touched: list[Run] = []
        self.marked: dict[QueueIndex, None] = {}
        self.returning: dict[QueueIndex, None] = {}
        self.copied_counts: dict[Segment, int] = {}
        self.acking: dict[Segment, None] = {}
        self.dead: list[Segment] = []
        self.fresh: dict[Segment, None] = {}
        self.said: dict[Segment, None] = {}
        self.wants_ack_sync = False
        self.ack_syncs: i64 = 0
        self.spares = RecycledSegments(directory, segment_bytes, spares_max)
        self.handles = Handles(directory, is_scratch, self.spares)
        self.cache = TableCache()
        self.chance = chance
        self.segment_bytes: i64 = segment_bytes
        self.is_scratch = is_scratch
        self.version: i64 = LOG_VERSION
        self.next_number: i64 = 1
        self.active: Segment | None = None
        self.chunk: SegmentWrite | None = None
        self.chunks: list[SegmentWrite] = []
        self.open_size: i64 = 0
        self.encoder = RecordEncoder()
        self.full: list[Segment] = []
        self.unsynced: dict[Segment, int] = {}
        self.wants_sync = False

    def make_lazy(self) -> None:
        """From now on only the last batch is synced, and one before which a file may go. After a
        loss of power `recover` must not believe what the footers say."""
        self.handles.is_lazy = True

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
        self.returning.pop(index, None)
        index.returned = {}
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

    def live_count(self, index: QueueIndex) -> int:
        """Entries that count."""
        return int(index.live_count())

    def disk_bytes(self) -> int:
        """What all segments take, footers and acknowledgements left out."""
        total: i64 = 0
        for segment in self.segments.values():
            total += segment.end
        return int(total)

    # -- appending -------------------------------------------------------------------------------

    def append(
        self, index: QueueIndex, message: Message, now_ms: int, is_persistent: bool = True
    ) -> None:
        """Put a message behind everything the queue has, into the open batch. What is not
        persistent does not come back after a restart.

        Nothing happens when the queue has joined the message's place before and has left meanwhile.
        now_ms: wall clock. Gives the message its place.
        """
        place = message.stored
        if place is None:
            stored = Stored()
            stored.join(index.queue_id)
            message.stored = stored
        else:
            assert isinstance(place, Stored), "only the log gives messages a place"
            stored = place
            if not stored.awaits(index.queue_id):
                return
        position = index.next_position
        stored.placed(index.queue_id, position)
        flags = IS_PERSISTENT if is_persistent else 0
        self.append_entry(index, position, message, stored, flags, now_ms)

    def append_all(self, index: QueueIndex, messages: list[Message], now_ms: int) -> None:
        """`append` for persistent messages, of which most become records one like the other."""
        at: i64 = 0
        count: i64 = len(messages)
        while at < count:
            done: i64 = self._append_run(index, messages, at, now_ms)
            if done == 0:
                self.append(index, messages[at], now_ms)
                done = 1
            at += done

    def _append_run(
        self, index: QueueIndex, messages: list[Message], first: i64, now_ms: i64
    ) -> i64:
        """Append what can be done in one loop, from place `first` on; how many."""
        run = index.tail
        chunk = self.chunk
        position: i64 = index.next_position
        if (
            run is None
            or chunk is None
            or index.is_dropped
            or position != run.last + 1
            or chunk.segment is not run.table.segment
            or index.runs[-1] is not run
        ):
            return 0
        segment = chunk.segment
        before: i64 = segment.end
        done = self.encoder.add_run(
            chunk.pieces, run.table, position, messages, first, now_ms, self.segment_bytes
        )
        if done > 0:
            run.add_run(position, done)
            index.next_position = position + done
            chunk.end = segment.end
            self.open_size += segment.end - before
        return done

    def append_copy(self, index: QueueIndex, position: i64, found: Found, stored: Stored) -> None:
        """Put what was read out of a segment that is compacted into the open batch.

        index: of the copies; stored: where the body went, if it was copied before.
        """
        flags = IS_PERSISTENT if found.is_persistent else 0
        self.append_entry(index, position, found.message, stored, flags, found.stored_ms)

    def append_entry(
        self,
        index: QueueIndex,
        position: i64,
        message: Message,
        stored: Stored,
        flags: i64,
        now_ms: i64,
    ) -> None:
        """A record with `flags` of the format for an entry whose place was given out."""
        assert not index.is_dropped, "a deleted queue keeps nothing"
        segment = self.active
        is_ref = segment is not None and stored.segment is segment and stored.size > 0
        body_size: i64 = len(message.address.suffix)
        body_size += len(message.raw) + BODY_HEAD_BYTES
        size: i64 = body_size
        if is_ref:
            size = REF_BYTES
        if segment is None or (segment.end + size > self.segment_bytes and segment.end > DATA_AT):
            segment = self._next_segment()
            is_ref = False
            size = body_size
        chunk = self.chunk
        if chunk is None:
            chunk = SegmentWrite(segment, segment.end, self.encoder.writer)
            self.chunk = chunk
            self.chunks.append(chunk)
        pieces = chunk.pieces
        encoder = self.encoder
        queue_id = index.queue_id
        if is_ref:
            encoder.add_reference(pieces, segment, queue_id, position, stored.offset, flags)
        else:
            encoder.add_body(pieces, segment, queue_id, position, message, flags, now_ms)
            stored.segment = segment
            stored.offset = segment.end
            stored.size = size
        place = place_of(stored.offset, stored.size, is_ref, flags & IS_PERSISTENT != 0)
        self._enter(index, segment, position, place, size)
        segment.end += size
        segment.live += 1
        chunk.end = segment.end
        self.open_size += size

    def _enter(
        self, index: QueueIndex, segment: Segment, position: i64, place: i64, size: i64
    ) -> None:
        """The queue has this position in `segment` now."""
        run = index.tail
        if (
            run is not None
            and run.table.segment is segment
            and position > run.last
            and position - run.last <= GAP_MAX
            and index.runs[-1] is run
        ):
            run.table.add(position, place, size)
            run.add(position)
        else:
            self._begin_run(index, segment, position, place, size)
        if position >= index.next_position:
            index.next_position = position + 1

    def _begin_run(
        self, index: QueueIndex, segment: Segment, position: i64, place: i64, size: i64
    ) -> None:
        tail = index.tail
        if tail is not None and tail.live == 0:
            index.remove(tail)
            tail.table.segment.runs.pop(tail, None)
        table = Table(segment, index.queue_id)
        table.add(position, place, size)
        segment.tables.append(table)
        run = Run(table, position, position, bytearray())
        run.add(position)
        segment.runs[run] = None
        index.insert(run)
        index.tail = run

    def _next_segment(self) -> Segment:
        """The active segment is full; a new one begins."""
        self.close_active()
        number = self.next_number
        self.next_number += 1
        segment = Segment(number, self.chance.token(8), self.version)
        self.segments[int(number)] = segment
        self.active = segment
        chunk = SegmentWrite(segment, 0, self.encoder.writer)
        segment.end = DATA_AT
        chunk.end = DATA_AT
        self.chunk = chunk
        self.chunks.append(chunk)
        return segment

    def close_active(self) -> None:
        """The active segment takes no more."""
        segment = self.active
        if segment is None:
            return
        self.active = None
        self._end_chunk()
        segment.is_full = True
        for table in segment.tables:
            table.gather()
        self.full.append(segment)
        self._check_life(segment)

    def _end_chunk(self) -> None:
        """The next record begins another chunk, with the same writer."""
        if self.chunk is not None:
            self.chunk.pieces.finish()
        self.chunk = None

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
        if index.returned:
            index.returned.pop(int(position), None)
        self._acknowledge(run, position, position)
        if segment.copies is not None:
            self._settle_copy(segment, index, position)
        if run.live == 0:
            self._ended(index, run)

    def settle_run(self, index: QueueIndex, first: int, last: int) -> None:
        """`settle` for positions first..last, all of which count."""
        position: i64 = first
        end: i64 = last
        if index.returned:
            index.forget_returned(first, last)
        while position <= end and not index.is_dropped:
            runs = index.runs
            run: Run | None = runs[0] if runs else None
            if run is None or position > run.last:
                run = index.find(position)
            assert run is not None, "a position is settled once"
            till: i64 = run.last if run.last < end else end
            assert run.clear_run(position, till), "a position is settled once"
            segment = run.table.segment
            segment.live -= till - position + 1
            self._acknowledge(run, position, till)
            if segment.copies is not None:
                at: i64 = position
                while at <= till:
                    self._settle_copy(segment, index, at)
                    at += 1
            if run.live == 0:
                self._ended(index, run)
            position = till + 1

    def settle_below(self, index: QueueIndex, position: int) -> int:
        """Everything below `position` has left the queue, as in a purge. Returns how many did."""
        return self.settle_between(index, 0, position)

    def settle_between(self, index: QueueIndex, first: int, end: int) -> int:
        """Everything at first..end-1 has left the queue. Returns how many did."""
        settled: i64 = 0
        place: i64 = index.at(first)
        for run in index.runs[max(int(place), 0) : int(index.at(end - 1)) + 1]:
            if run.last < first:
                continue
            before = run.live
            begin: i64 = run.first if run.first > first else first
            at = run.next_live(begin)
            last: i64 = run.last if run.last < end else end - 1
            is_copied = run.table.segment.copies is not None
            while 0 <= at <= last:
                till: i64 = at
                if is_copied:
                    self._settle_copy(run.table.segment, index, at)
                elif at >= run.solid:
                    # Not one by one: a queue of millions may be purged, and everybody waits.
                    till = last if last < run.solid_end else run.solid_end - 1
                run.clear_run(at, till)
                at = run.next_live(till + 1)
            gone: i64 = before - run.live
            run.table.segment.live -= gone
            settled += gone
            if gone > 0:
                self._acknowledge(run, begin, last)
                if index.returned:
                    index.forget_returned(begin, last)
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

    def mark_safe(self) -> None:
        """The next acknowledgements say up to where segments without a footer are safe: what does
        not fit there after a crash is damage, and was not torn by it."""
        for segment in self.fresh:
            if not segment.is_gone and not segment.is_sealed:
                write_slot(segment, SAFE, 0, 0, segment.synced_to)
                self.acking[segment] = None
                self.said[segment] = None
        self.fresh = {}

    def _take_acks(self) -> list[AckDeed]:
        """What was settled, delivered and returned, for the next batch."""
        for run in self.touched:
            if run.ack_first > 0:
                self._write_ack(run)
        self.touched = []
        self._write_marks()
        for index in self.returning:
            self._write_returned(index)
        self.returning = {}
        deeds: list[AckDeed] = []
        for segment in self.acking:
            writer = segment.acks
            if writer is not None and not segment.is_gone:
                data = writer.getvalue()
                live: i64 = segment.live if segment in self.said else UNSAID
                deeds.append(AckDeed(segment.number, segment.acks_end, data, live))
                segment.acks_end += len(data)
            segment.acks = None
        self.acking = {}
        self.said = {}
        return deeds

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

    def note_returned(self, index: QueueIndex, position: int, count: int) -> None:
        """The message at `position`, which counts, has come back for the `count`th time."""
        if index.is_dropped or not is_written(count):
            return
        index.returned[position] = count
        if index.back_count == count and position == index.back_last + 1:
            index.back_last = position
            return
        self._write_returned(index)
        index.back_first = position
        index.back_last = position
        index.back_count = count
        self.returning[index] = None

    def _write_returned(self, index: QueueIndex) -> None:
        """The last returns of `index` get their slots, one for each segment that they are in."""
        count: i64 = index.back_count
        index.back_count = 0
        position: i64 = index.back_first
        end: i64 = index.back_last
        at: i64 = index.at(position)
        if at < 0:
            at = 0
        while count > 0 and at < len(index.runs) and index.runs[at].first <= end:
            run = index.runs[at]
            at += 1
            first = run.next_live(position)
            last: i64 = run.last if run.last < end else end
            if 0 <= first <= last:
                self._write_count(run.table.segment, index.queue_id, first, last, count)

    def _write_count(
        self, segment: Segment, queue_id: i64, first: i64, last: i64, count: i64
    ) -> None:
        """Positions first..last, which are in `segment`, came back `count` times."""
        if segment.is_gone:
            return
        write_slot(segment, RETURNED, queue_id, first, last, count)
        self.acking[segment] = None
        copies = None if segment.copies is None else segment.copies.get(int(queue_id))
        if copies:
            position: i64 = first
            while position <= last:
                run = copies.get(int(position))
                if run is not None and run.has(position):
                    self._write_count(run.table.segment, queue_id, position, position, count)
                position += 1

    def copy_count(self, index: QueueIndex, segment: Segment, position: i64) -> None:
        """The message at `position` was copied into `segment`: how often it came back goes along,
        and has to be safe before what it was copied from may go."""
        count = index.returned.get(int(position))
        if count is None:
            return
        write_slot(segment, RETURNED, index.queue_id, position, position, count)
        self.acking[segment] = None
        acks = segment.acks
        assert acks is not None, "it has just got a slot"
        if not self.is_scratch:
            self.copied_counts[segment] = int(segment.acks_end + len(acks))

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

    # -- batches ---------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether there is anything for a batch to write or to remove."""
        return bool(
            self.chunks
            or self.touched
            or self.marked
            or self.returning
            or self.acking
            or self.wants_ack_sync
            or self.ack_syncs > 0
            or self.full
            or self.dead
            or self.wants_sync
        )

    def take_batch(self, must_sync: bool, takes_acks: bool = True) -> Batch | None:
        """Everything since the last one as a job, None if there is nothing; what comes from now on
        joins the next one. must_sync: its end means that all of it would survive a loss of power;
        takes_acks: without, what was settled may wait, as it costs a write of its own.
        """
        if not self.has_work():
            return None
        # The names of acknowledgements have to be safe, too.
        return self._take(must_sync or self.wants_sync or self.ack_syncs > 0, takes_acks)

    def take_last_batch(self) -> Batch:
        """The end of a clean stop: the active segment gets its footer, all is synced and closed."""
        self.close_active()
        batch = self._take(True, True)
        batch.is_last = True
        return batch

    def _take(self, must_sync: bool, takes_acks: bool) -> Batch:
        batch = Batch(self.handles, must_sync and not self.is_scratch)
        if takes_acks or self.dead:
            batch.acks = self._take_acks()
            batch.syncs_acks = self.wants_ack_sync
            batch.ack_syncs = self.ack_syncs
            self.wants_ack_sync = False
            self.ack_syncs = 0
            if self.wants_sync and self.copied_counts:
                # A segment that they were in waits for this.
                batch.counted = [
                    (segment, int(segment.acks_end))
                    for segment in self.copied_counts
                    if not segment.is_gone
                ]
        batch.chunks = self.chunks
        self._end_chunk()
        if self.dead:
            self._take_dead(batch)
        self.chunks = []
        self.open_size = 0
        for chunk in batch.chunks:
            chunk.segment.taken_to = chunk.end
            self.unsynced[chunk.segment] = int(chunk.end)
        for segment in self.full:
            if not segment.is_gone:
                batch.full.append(segment)
        self.full = []
        if batch.is_sync:
            batch.synced = list(self.unsynced.items())
            self.unsynced = {}
        self.wants_sync = False
        return batch

    def _take_dead(self, batch: Batch) -> None:
        """Segments in which nothing counts are not written to any more, and lose their files."""
        for segment in self.dead:
            self.unsynced.pop(segment, None)
            self.copied_counts.pop(segment, None)
            if segment.taken_to > 0:
                batch.removals.append(segment)
            else:
                self.segments.pop(int(segment.number), None)
        self.dead = []
        batch.chunks = [chunk for chunk in batch.chunks if not chunk.segment.is_gone]

    def give_room(self, batch: Batch) -> None:
        """`batch` found the disk full and is run again: it removes what nobody needs by now as
        well, unless it or the open batch still writes there."""
        busy = [chunk.segment for chunk in (*batch.chunks, *self.chunks)] + batch.full
        for segment in list(self.dead):
            if segment.taken_to > 0 and segment not in busy:
                self.dead.remove(segment)
                self.unsynced.pop(segment, None)
                self.copied_counts.pop(segment, None)
                batch.removals.append(segment)

    def done(self, batch: Batch) -> None:
        """`batch` has run to its end."""
        for chunk in batch.chunks:
            chunk.segment.written_to = chunk.end
        for segment, end in batch.synced:
            segment.synced_to = end
            self.fresh[segment] = None
        for segment, end in batch.counted:
            if self.copied_counts.get(segment, 0) <= end:
                self.copied_counts.pop(segment, None)
        for segment in batch.full:
            segment.is_sealed = True
            if not self.handles.is_lazy:
                if not self.is_scratch:
                    segment.synced_to = segment.end
                self.unsynced.pop(segment, None)
            for table in segment.tables:
                table.release()
        for segment in batch.removals:
            self.segments.pop(int(segment.number), None)

    # -- reading ---------------------------------------------------------------------------------

    def plan_reads(
        self, index: QueueIndex, position: int, count_max: int, bytes_max: int
    ) -> ReadJob:
        """A job for the next messages from `position` on that count, in order: at most `count_max`,
        and none behind `bytes_max` of content. What is still in the open batch is not among them.
        """
        job = ReadJob(self.handles, self.cache, index, bytes_max)
        job.next_position = position
        left: i64 = count_max
        bytes_left: i64 = bytes_max
        at: i64 = index.at(position)
        place: i64 = at if at >= 0 else 0
        count: i64 = len(index.runs)
        while place < count and left > 0 and bytes_left > 0:
            taken = plan_run(job, index.runs[place], position, left)
            if taken < 0:
                break
            table = index.runs[place].table
            bytes_left -= taken * (table.record_bytes // table.count)
            left -= taken
            place += 1
        return job
