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
from penstock.storage.layout.checksum import LOG_VERSION
from penstock.storage.layout.files import Directory
from penstock.storage.layout.format import (
    BODY_HEAD_BYTES,
    DATA_AT,
    IS_PERSISTENT,
    REF_BYTES,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.record import RecordTools, add_body, add_ref
from penstock.storage.layout.segment import GAP_MAX, Run, Segment, Table, place_of
from penstock.storage.layout.stored import Stored
from penstock.storage.log.batch import Batch, Chunk
from penstock.storage.log.book import Book
from penstock.storage.log.handles import Handles
from penstock.storage.log.reading import Found, ReadJob, TableCache, plan_run
from penstock.storage.log.spares import Spares

__all__ = ["Batch", "MessageLog", "QueueIndex", "ReadJob"]

SEGMENT_BYTES: Final = STORE_SEGMENT_BYTES.default


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageLog(Book):
    """segment_bytes: where a segment is full, 1024..2**30; is_scratch: nothing in it has to
    survive, so nothing is synced; spares_max: see storage/log/spares. `storage.recovery.recover`
    makes one from what is on the disk.

    Owner: one actor; every method is called on the loop. Jobs must be run in the order in which
    they were returned, and a batch be given to `done` afterwards."""

    __slots__ = (
        "active",
        "cache",
        "chance",
        "chunk",
        "chunks",
        "full",
        "handles",
        "is_scratch",
        "next_number",
        "open_size",
        "segment_bytes",
        "spares",
        "tools",
        "unsynced",
        "version",
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
        super().__init__()
        self.spares = Spares(directory, segment_bytes, spares_max)
        self.handles = Handles(directory, is_scratch, self.spares)
        self.cache = TableCache()
        self.chance = chance
        self.segment_bytes: i64 = segment_bytes
        self.is_scratch = is_scratch
        self.version: i64 = LOG_VERSION
        self.next_number: i64 = 1
        self.active: Segment | None = None
        self.chunk: Chunk | None = None
        self.chunks: list[Chunk] = []
        self.open_size: i64 = 0
        self.tools = RecordTools()
        self.full: list[Segment] = []
        self.unsynced: dict[Segment, int] = {}
        self.wants_sync = False

    def make_lazy(self) -> None:
        """From now on only the last batch is synced, and one before which a file may go. After a
        loss of power `recover` must not believe what the footers say."""
        self.handles.is_lazy = True

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

    def append_at(
        self,
        index: QueueIndex,
        position: int,
        message: Message,
        now_ms: int,
        is_persistent: bool = True,
    ) -> None:
        """Put a message at a position of the caller's, 1.., which the queue has not there.

        Ascending positions cost little; every step back begins another run. What is not persistent
        does not come back after a restart.
        """
        place = message.stored
        if place is None:
            stored = Stored()
            message.stored = stored
        else:
            assert isinstance(place, Stored), "only the log gives messages a place"
            stored = place
        if not stored.awaits(index.queue_id):
            stored.join(index.queue_id)
        stored.placed(index.queue_id, position)
        flags = IS_PERSISTENT if is_persistent else 0
        self.append_entry(index, position, message, stored, flags, now_ms)

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
            chunk = Chunk(segment, segment.end, self.tools.writer)
            self.chunk = chunk
            self.chunks.append(chunk)
        pieces = chunk.pieces
        tools = self.tools
        queue_id = index.queue_id
        if is_ref:
            add_ref(pieces, tools, segment, queue_id, position, stored.offset, flags)
        else:
            add_body(pieces, tools, segment, queue_id, position, message, flags, now_ms)
            stored.segment = segment
            stored.offset = segment.end
            stored.size = size
        stored.refs += 1
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
        chunk = Chunk(segment, 0, self.tools.writer)
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

    # -- batches ---------------------------------------------------------------------------------

    def open_bytes(self) -> int:
        """Bytes of records in the open batch."""
        return int(self.open_size)

    def has_work(self) -> bool:
        """Whether there is anything for a batch to write or to remove."""
        return bool(
            self.chunks
            or self.touched
            or self.marked
            or self.acking
            or self.wants_ack_sync
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
        return self._take(must_sync or self.wants_sync, takes_acks)

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
            batch.syncs_acks = self._take_ack_sync()
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
                batch.removals.append(segment)

    def done(self, batch: Batch) -> None:
        """`batch` has run to its end."""
        for chunk in batch.chunks:
            chunk.segment.written_to = chunk.end
        for segment, end in batch.synced:
            segment.synced_to = end
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
