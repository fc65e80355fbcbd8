"""Reading a stream: whole chunks from an offset on, checked, some at a time.

What does not fit its checksum is passed over and counted, because the log gave its messages to
somebody once: `lost` says so, and never in silence.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.limits import STREAM_READ_BYTES
from penstock.storage.layout.files import File, read_fully
from penstock.storage.log.job import Job
from penstock.streams.chunk import Chunk, is_whole, size_at
from penstock.streams.format import CHUNK_HEAD_BYTES, MARK
from penstock.streams.handles import StreamHandles
from penstock.streams.segment import StreamSegment

READ_BYTES: Final = STREAM_READ_BYTES.default
TRIED_BYTES: Final = 16
"""For each byte that is looked through for a chunk: so much is read of what looks like one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamRead(Job):
    """Chunks of `segment` with messages from `offset` on, as many as `read_bytes` have (0 for the
    limit's default), and at least one. place: where that chunk begins or before it, as the read
    before has said, -1 to look it up; end, last: how far the segment was safe when this was
    planned. found: afterwards; next: the offset to go on with, next_place: the place for that;
    lost: messages that cannot be read."""

    __slots__ = (
        "end",
        "found",
        "handles",
        "last",
        "lost",
        "next",
        "next_place",
        "offset",
        "place",
        "read_bytes",
        "segment",
    )

    def __init__(
        self,
        handles: StreamHandles,
        segment: StreamSegment,
        offset: i64,
        place: i64 = -1,
        read_bytes: i64 = 0,
    ) -> None:
        self.read_bytes: i64 = read_bytes if read_bytes > 0 else READ_BYTES
        self.handles = handles
        self.segment = segment
        self.offset: i64 = offset
        self.place: i64 = place if place >= 0 else segment.place_of(offset)
        self.next_place: i64 = -1
        self.end: i64 = segment.synced_to
        self.last: i64 = segment.synced_next
        self.found: list[Chunk] = []
        self.next: i64 = offset
        self.lost: i64 = 0

    def run(self) -> None:
        self.found = []
        self.lost = 0
        self.next = self.offset
        file = self.handles.open(self.segment.name)
        at: i64 = self.place
        data = read_fully(file, at, self._wanted(at))
        base: i64 = at
        while at < self.end:
            have: i64 = base + len(data) - at
            size: i64 = -1
            if have >= CHUNK_HEAD_BYTES and data[at - base : at - base + 4] == MARK:
                size = size_at(data, at - base)
            elif have >= CHUNK_HEAD_BYTES:
                size = 0
            # What says of itself that it goes on behind the end is no chunk.
            if (size < 0 or have < size <= self.end - at) and base + len(data) < self.end:
                if self.found:
                    return
                # A chunk that is larger than a read, or lies across two.
                wanted: i64 = self._wanted(at)
                if size > wanted and size <= self.end - at:
                    wanted = size
                if at == base and wanted <= len(data):
                    wanted = self.end - at
                data = read_fully(file, at, wanted)
                base = at
                if len(data) == 0:
                    break
                continue
            if is_whole(data, at - base, self.segment.extend, self.segment.seed):
                at += size
                self._take(Chunk(data, at - size - base), at)
                continue
            if self.found:
                return
            at = self._next_whole(file, at + 8)
            data = read_fully(file, at, self._wanted(at)) if at < self.end else b""
            base = at
        if not self.found:
            # Nothing up to the end of this segment can be read.
            self.lost += self.last - self.next
            self.next = self.last

    def _wanted(self, at: i64) -> i64:
        left: i64 = self.end - at
        return left if left < self.read_bytes else self.read_bytes

    def _take(self, chunk: Chunk, end: i64) -> None:
        if chunk.next() <= self.offset:
            return
        if chunk.first > self.next:
            self.lost += chunk.first - self.next
        self.found.append(chunk)
        self.next = chunk.next()
        self.next_place = end

    def _next_whole(self, file: File, at: i64) -> i64:
        """Where the next whole chunk is from `at` on; `end` if there is none."""
        found: i64 = next_whole(file, self.segment, at, self.end)
        return found if found >= 0 else self.end


def next_whole(file: File, segment: StreamSegment, at: i64, end: i64) -> i64:
    """Where the next whole chunk of `segment` stands from `at` on and before `end`, -1 for none."""
    # A body may be full of what looks like chunks: trying them all must not take for ever.
    budget: i64 = (end - at) * TRIED_BYTES
    while at < end:
        left: i64 = end - at
        data = read_fully(file, at, left if left < READ_BYTES else READ_BYTES)
        if len(data) < CHUNK_HEAD_BYTES:
            return -1
        mark: i64 = data.find(MARK)
        while mark >= 0:
            place: i64 = at + mark
            if place % 8 == 0:
                budget -= claimed_at(file, place, end)
                if budget < 0:
                    return -1
                if chunk_at(file, segment, place, end) is not None:
                    return place
            mark = data.find(MARK, int(mark + 1))
        # The last bytes may be the beginning of a mark.
        at += len(data) - 3
        at -= at % 8
        if left <= READ_BYTES:
            return -1
    return -1


def claimed_at(file: File, at: i64, end: i64) -> i64:
    """What has to be read and summed up to know whether a whole chunk stands at `at`."""
    head = read_fully(file, at, CHUNK_HEAD_BYTES)
    if len(head) < CHUNK_HEAD_BYTES:
        return CHUNK_HEAD_BYTES
    size: i64 = size_at(head, 0)
    return size if CHUNK_HEAD_BYTES <= size <= end - at else i64(CHUNK_HEAD_BYTES)


def chunk_at(file: File, segment: StreamSegment, at: i64, end: i64) -> Chunk | None:
    """The whole chunk that stands at `at` and ends before `end`. Raises: OSError."""
    head = read_fully(file, at, CHUNK_HEAD_BYTES)
    if len(head) < CHUNK_HEAD_BYTES:
        return None
    size: i64 = size_at(head, 0)
    if size < CHUNK_HEAD_BYTES or at + size > end:
        return None
    data = read_fully(file, at, size)
    return Chunk(data, 0) if is_whole(data, 0, segment.extend, segment.seed) else None
