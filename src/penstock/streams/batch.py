"""What is written at once: chunks of any streams, footers, segments that retention has ended."""

from mypy_extensions import i64, mypyc_attr

from penstock.storage.layout.files import SyncFailed, can_wait, write_fully
from penstock.storage.log.job import Job
from penstock.storage.log.roster import Entry
from penstock.streams.handles import StreamHandles
from penstock.streams.segment import StreamSegment


class ChunkDeed:
    """A chunk for the end of one segment, with that segment's header before it if it is the first.
    at, end: offsets in the file; chunk_at: where the chunk begins in `data`; first, next: the
    offsets of its first message and behind its last; is_safe: a sync has covered it."""

    __slots__ = ("at", "chunk_at", "data", "end", "first", "is_safe", "next", "segment")

    def __init__(
        self, segment: StreamSegment, at: i64, data: bytes, chunk_at: i64, first: i64
    ) -> None:
        self.segment = segment
        self.at: i64 = at
        self.data = data
        self.chunk_at: i64 = chunk_at
        self.end: i64 = at + len(data)
        self.first: i64 = first
        self.next: i64 = segment.next
        self.is_safe = False


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamBatch(Job):
    """One batch. chunks: in their order; full: segments that get their footer; removals: segments
    that go; marks: what was made safe by those before; is_last: of a clean stop; is_prompt: it is
    synced in any case. Other batches are if a segment begins, is full or goes in them: whatever the
    mode of the store, files follow each other without a gap, and a footer is behind chunks that are
    safe. is_synced: it has been, with all that was written before; publishes: that are in the logs
    with it, see `holds`.

    A run that found the disk full, or no handle to be had, may be run again: everything has its
    fixed place. Raises: SyncFailed once a sync has failed, at this and every later run.
    """

    __slots__ = (
        "chunks",
        "full",
        "handles",
        "is_last",
        "is_prompt",
        "is_synced",
        "marks",
        "publishes",
        "removals",
    )

    def __init__(self, handles: StreamHandles) -> None:
        self.handles = handles
        self.is_last = False
        self.is_prompt = True
        self.is_synced = False
        self.chunks: list[ChunkDeed] = []
        self.full: list[StreamSegment] = []
        self.removals: list[StreamSegment] = []
        self.marks: list[Entry] = []
        self.publishes = b""

    def holds(self, publishes: bytes) -> None:
        self.publishes = publishes

    def run(self) -> None:
        handles = self.handles
        if handles.is_broken:
            raise SyncFailed("a sync of these streams has failed: nothing is written any more")
        has_to_sync = self.has_to_sync()
        try:
            # First, because it gives room, and nothing in this batch depends on what goes.
            for segment in self.removals:
                handles.remove(segment.name)
            handles.roster.mark(self.marks)
            self.write_chunks()
            if self.publishes:
                handles.directory.note_publishes(self.publishes)
            if has_to_sync:
                self.sync()
                self.is_synced = True
                for deed in self.chunks:
                    deed.is_safe = True
            self.write_footers()
            if self.is_last:
                self.sync()
                handles.close()
                handles.roster.end()
        except SyncFailed:
            raise
        except OSError as error:
            if not can_wait(error):
                handles.is_broken = True
            raise

    def has_to_sync(self) -> bool:
        """Whether it ends with a sync."""
        if self.is_prompt or self.is_last or self.full or self.removals:
            return True
        # Begun in a run that found the disk full, a segment has a file and nothing safe in it.
        begun = [deed for deed in self.chunks if deed.segment.safe_to == 0]
        return len(begun) > 0

    def write_chunks(self) -> None:
        handles = self.handles
        for deed in self.chunks:
            segment = deed.segment
            if segment.is_created:
                file = handles.open(segment.name)
            else:
                # A segment is there only if all before it is: a gap is damage, never a tear.
                self.sync()
                file = handles.create(segment.name)
                segment.is_created = True
            write_fully(file, deed.at, deed.data)
            handles.written(segment.name)

    def sync(self) -> None:
        self.handles.sync()

    def write_footers(self) -> None:
        """Behind chunks that are safe: a footer is believed without looking at them."""
        handles = self.handles
        for segment in self.full:
            file = handles.open(segment.name)
            write_fully(file, segment.end, segment.footer())
            if self.is_last:
                handles.written(segment.name)
