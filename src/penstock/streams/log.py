"""The log of one stream: offsets given out, chunks made, segments begun and ended. No files here.

    first .. committed   can be read          committed .. next   on their way to the disk
What is appended joins the open chunk; `take` puts everything into a batch of the store, `done` says
that it is on the disk. A segment that is full gets its footer, and retention ends the oldest ones
when another begins: by bytes, while all of them together are above the bound, and by age, while the
last message of the oldest is too old. The newest always stays.
Source of retention: RabbitMQ's osiris_log (evaluate_retention).
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.chance import Chance
from penstock.protocol.content import Message
from penstock.streams.batch import ChunkDeed, StreamBatch
from penstock.streams.chunk import CHUNK_BYTES, Chunk, ChunkBuilder
from penstock.streams.filtering import FILTER_BYTES
from penstock.streams.format import DATA_AT, make_header
from penstock.streams.origins import Origins
from penstock.streams.segment import StreamSegment

NO_BOUND: Final = -1
CHUNK_US_MAX: Final = 1_000_000_000
"""Times in a chunk count from its first, in 32 bits."""


class Retention:
    """What a stream keeps. segment_bytes: a segment is full from here on; max_bytes, max_age_us:
    NO_BOUND for no bound."""

    __slots__ = ("max_age_us", "max_bytes", "segment_bytes")

    def __init__(
        self, segment_bytes: i64, max_bytes: i64 = NO_BOUND, max_age_us: i64 = NO_BOUND
    ) -> None:
        self.segment_bytes: i64 = segment_bytes
        self.max_bytes: i64 = max_bytes
        self.max_age_us: i64 = max_age_us


class StreamLog:
    """segments: oldest first; chunk_bytes: a chunk with so much content is full; recent: the last
    chunk that was written, for readers at the end, None while nobody wants it; last_first: the
    offset that begins the last chunk on the disk; damaged_count: messages nobody could read;
    keep_from: retention ends nothing from there on, -1 for whatever it likes; written_bytes: of
    segments, ever and with those under way; coming, coming_bytes: on their way here, see
    StreamStore; filter_bytes: of the filter of a chunk; origins: who
    published what reader groups have not passed, None while there are none; made_as: no other
    stream of this data directory, or of this process where it is in memory, is or was the same."""

    __slots__ = (
        "building",
        "chance",
        "chunk_bytes",
        "coming",
        "coming_bytes",
        "committed",
        "content_bytes",
        "damaged_count",
        "disk_bytes",
        "filter_bytes",
        "full",
        "is_dropped",
        "is_watched",
        "keep_from",
        "last_first",
        "last_us",
        "made_as",
        "next",
        "origins",
        "queue_id",
        "recent",
        "removals",
        "retention",
        "segments",
        "written_bytes",
    )

    def __init__(self, queue_id: i64, retention: Retention, chance: Chance) -> None:
        self.queue_id: i64 = queue_id
        self.made_as = str(queue_id)
        self.retention = retention
        self.chance = chance
        self.chunk_bytes: i64 = CHUNK_BYTES
        self.segments: list[StreamSegment] = []
        self.full: list[StreamSegment] = []
        self.removals: list[StreamSegment] = []
        self.building: list[ChunkBuilder] = []
        self.recent: Chunk | None = None
        self.next: i64 = 0
        self.coming: i64 = 0
        self.coming_bytes: i64 = 0
        self.committed: i64 = 0
        self.last_first: i64 = 0
        self.last_us: i64 = 0
        self.content_bytes: i64 = 0
        self.disk_bytes: i64 = 0
        self.damaged_count: i64 = 0
        self.filter_bytes: i64 = FILTER_BYTES
        self.keep_from: i64 = -1
        self.origins: Origins | None = None
        self.written_bytes: i64 = 0
        self.is_dropped = False
        self.is_watched = False

    def first(self) -> i64:
        """The offset of the first message there is; `committed` when there is none."""
        return self.segments[0].first if self.segments else self.committed

    def count(self) -> i64:
        """Messages that can be read."""
        return self.committed - self.first()

    # -- writing ---------------------------------------------------------------------------------

    def append(self, message: Message, now_us: i64) -> None:
        """Give `message` the next offset. now_us: wall clock; a step back counts as no time."""
        if now_us < self.last_us:
            now_us = self.last_us
        self.last_us = now_us
        building = self.building
        builder: ChunkBuilder | None = None
        if building:
            builder = building[-1]
            if builder.is_full(self.chunk_bytes) or now_us - builder.first_us > CHUNK_US_MAX:
                builder = None
        if builder is None:
            builder = ChunkBuilder(self.next, now_us, self.filter_bytes)
            building.append(builder)
        before: i64 = builder.content_bytes()
        builder.add(message, now_us)
        self.content_bytes += builder.content_bytes() - before
        self.next += 1

    def skip_to(self, offset: i64, now_us: i64) -> None:
        """The message that is appended next, at once, has `offset`, which is above `next`: those
        between are lost. For starts only."""
        if now_us < self.last_us:
            now_us = self.last_us
        self.building.append(ChunkBuilder(offset, now_us, self.filter_bytes))
        self.next = offset

    def take(self, batch: StreamBatch) -> None:
        """Everything since the last time goes into `batch`."""
        self._place_all(batch)
        self._retain()
        batch.full.extend([one for one in self.full if not one.is_gone])
        self.full = []
        batch.removals.extend(self.removals)
        self.removals = []

    def take_last(self, batch: StreamBatch) -> None:
        """The end of a clean stop: the newest segment gets its footer too."""
        self._place_all(batch)
        self.seal()
        self.take(batch)

    def _place_all(self, batch: StreamBatch) -> None:
        for builder in self.building:
            batch.chunks.append(self._place(builder))
        self.building = []
        self.content_bytes = 0

    def seal(self) -> None:
        """The newest segment takes no more."""
        if self.segments and not self.segments[-1].is_sealed:
            segment = self.segments[-1]
            segment.is_sealed = True
            self.full.append(segment)

    def _place(self, builder: ChunkBuilder) -> ChunkDeed:
        segment = self.segments[-1] if self.segments else None
        head = b""
        if segment is None or segment.is_sealed or segment.end >= self.retention.segment_bytes:
            self.seal()
            segment = StreamSegment(self.queue_id, builder.first, self.chance.token(8))
            self.segments.append(segment)
            head = make_header(
                int(segment.version), int(self.queue_id), int(builder.first), segment.identity
            )
            self.disk_bytes += DATA_AT
            self.written_bytes += DATA_AT
        at: i64 = segment.end
        data = builder.build(segment.extend, segment.seed, segment.safe_to)
        segment.note_chunk(builder.first, at, builder.first_us)
        segment.end += len(data)
        segment.next = builder.first + builder.count
        segment.last_us = builder.last_us
        segment.last_count = builder.count
        self.disk_bytes += len(data)
        self.written_bytes += len(data)
        if head:
            return ChunkDeed(segment, 0, head + data, DATA_AT, builder.first)
        return ChunkDeed(segment, at, data, 0, builder.first)

    def _retain(self) -> None:
        """End the oldest segments, as long as there is another."""
        retention = self.retention
        while len(self.segments) > 1:
            oldest = self.segments[0]
            is_over = NO_BOUND < retention.max_bytes < self.disk_bytes
            is_old = retention.max_age_us > NO_BOUND and (
                oldest.last_us < self.last_us - retention.max_age_us
            )
            # What is on its way to the disk is confirmed when it is there, so it has to get there.
            if not (is_over or is_old) or oldest.synced_next < oldest.next:
                return
            # The files go first: without one that is safe offsets would begin anew after a crash.
            if self.segments[1].synced_next == self.segments[1].first:
                return
            if -1 < self.keep_from < oldest.next:
                return
            self._end(self.segments.pop(0))

    def _end(self, segment: StreamSegment) -> None:
        segment.is_gone = True
        self.disk_bytes -= segment.end
        self.removals.append(segment)

    def drop(self) -> None:
        """The stream is deleted: everything of it goes with the next batch."""
        self.is_dropped = True
        self.building = []
        self.content_bytes = 0
        self.recent = None
        while self.segments:
            self._end(self.segments.pop())

    def has_work(self) -> bool:
        """Whether there is anything to write or to remove."""
        return len(self.building) > 0 or len(self.full) > 0 or len(self.removals) > 0

    def done(self, deed: ChunkDeed) -> None:
        """`deed` is on the disk: its messages can be read."""
        segment = deed.segment
        segment.synced_to = deed.end
        segment.synced_next = deed.next
        if deed.is_safe:
            segment.safe_to = deed.end
            segment.safe_next = deed.next
        if self.is_dropped:
            return
        self.committed = deed.next
        self.last_first = deed.first
        self.recent = Chunk(deed.data, deed.chunk_at) if self.is_watched else None

    # -- reading ---------------------------------------------------------------------------------

    def first_since(self, time_us: i64) -> i64:
        """An offset not behind the first message that came at `time_us` or later; `committed` when
        none has come since."""
        if time_us > self.last_us:
            return self.committed
        for segment in self.segments:
            if segment.last_us >= time_us:
                return segment.first_at(time_us)
        return self.committed

    def bytes_since(self, offset: i64) -> i64:
        """Bytes of segments from `offset` on, to within an entry of the index."""
        found: i64 = 0
        for segment in reversed(self.segments):
            if segment.first < offset:
                if offset < segment.next:
                    found += segment.end - segment.place_near(offset)
                break
            found += segment.end
        return found

    def segment_of(self, offset: i64) -> StreamSegment | None:
        """The segment with `offset`; the next one there is, None at the end."""
        for segment in reversed(self.segments):
            if segment.first <= offset:
                if offset < segment.synced_next:
                    return segment
                break
        for segment in self.segments:
            if segment.first >= offset and segment.synced_next > segment.first:
                return segment
        return None
