"""Where one consumer is in a stream: what it was read ahead, and what it is given next.

Each consumer has its own; none holds another, or a publisher. Chunks come from memory at the end of
the stream, from the disk before it, one read at a time, and the next is asked for when these are
delivered. A message that is delivered keeps nothing here: acknowledging only gives room back.
"""

from collections.abc import Callable

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.deliver import ChannelSink
from penstock.broker.actors.disk import JobClient
from penstock.broker.actors.log import Log
from penstock.broker.stream.stream_store import StreamStore
from penstock.queues.consumers import Consumer
from penstock.storage.log.job import Job
from penstock.streams.chunk import Chunk
from penstock.streams.filtering import StreamFilter
from penstock.streams.log import StreamLog
from penstock.streams.reading import READ_BYTES, StreamRead


class StreamAccess:
    """How a cursor gets at its stream. store: has its files, and the disk that reads them; queue:
    the stream, woken when there is more to deliver or to look for; origin: pays for what is
    delivered; failed: called when a consumer cannot go on."""

    __slots__ = ("failed", "log", "notes", "origin", "queue", "store")

    def __init__(
        self,
        log: StreamLog,
        store: StreamStore,
        queue: Actor,
        origin: Cause,
        notes: Log,
        failed: "Callable[[StreamCursor, OSError], None]",
    ) -> None:
        self.log = log
        self.store = store
        self.queue = queue
        self.origin = origin
        self.notes = notes
        self.failed = failed


class StreamCursor(JobClient):
    """next: the offset of the next message; since_us: those that came before are passed over, -1
    when it has come so far; chunk, index: what is being delivered; chunks: read ahead; after: the
    read that has brought them, which knows where the next begins; is_reading: a read is under way;
    read_bytes: how much that takes at most; wanted: what its consumer wants, None for everything;
    is_ended: the consumer is gone."""

    __slots__ = (
        "access",
        "after",
        "chunk",
        "chunks",
        "consumer",
        "index",
        "is_ended",
        "is_reading",
        "log",
        "next",
        "origin",
        "read_bytes",
        "since_us",
        "wanted",
    )

    def __init__(self, consumer: Consumer, access: StreamAccess) -> None:
        self.consumer = consumer
        self.access = access
        self.log = access.log
        self.origin = access.origin
        self.read_bytes: i64 = READ_BYTES
        self.next: i64 = access.log.committed
        self.since_us: i64 = -1
        self.chunk: Chunk | None = None
        self.index: i64 = 0
        self.chunks: list[Chunk] = []
        self.after: StreamRead | None = None
        self.is_reading = False
        self.wanted: StreamFilter | None = None
        self.is_ended = False

    def can_go_on(self) -> bool:
        """Whether `give` would do anything, if the consumer has room."""
        chunk = self.chunk
        if (chunk is not None and self.index < chunk.count) or self.chunks:
            return True
        return not self.is_reading and self.next < self.log.committed

    def give(self, budget: i64) -> i64:
        """Deliver up to `budget` messages, as many as the consumer has room for; how many."""
        consumer = self.consumer
        sink = consumer.sink
        assert isinstance(sink, ChannelSink), "streams are read by channels"
        left: i64 = consumer.room()
        if left > budget:
            left = budget
        given: i64 = 0
        while left > 0 and sink.is_output_open:
            chunk = self.chunk
            if chunk is None or self.index >= chunk.count:
                if not self._advance():
                    break
                continue
            index: i64 = self.index
            self.index = index + 1
            self.next = chunk.first + index + 1
            if self.since_us >= 0:
                if chunk.time_us(index) < self.since_us:
                    continue
                self.since_us = -1
            message = chunk.message(index, sink.number, sink.frame_bytes_max, self.origin)
            consumer.delivered += 1
            consumer.unsent.count += 1
            consumer.unacked += 1
            consumer.unacked_bytes += message.body_bytes
            sink.deliver(consumer, message, self.next - 1, False)
            # Nobody gets it from here again, so what waits for its acknowledgement is a number.
            message.raw = b""
            given += 1
            left -= 1
        return given

    def _advance(self) -> bool:
        """Go on to the next chunk; False when it has to be read first, or there is none yet."""
        self.chunk = None
        if self.chunks:
            self._begin(self.chunks.pop(0))
            return True
        log = self.log
        if self.is_reading or self.next >= log.committed:
            return False
        recent = log.recent
        if recent is not None and recent.first <= self.next < recent.next():
            self._begin(recent)
            return True
        segment = log.segment_of(self.next)
        if segment is None:
            self.next = log.committed
            return False
        if self.next < segment.first:
            # Retention has passed it.
            self.next = segment.first
        place: i64 = -1
        after = self.after
        if after is not None and after.segment is segment and after.next == self.next:
            place = after.next_place
        self.after = None
        self.is_reading = True
        store = self.access.store
        read = StreamRead(store.handles, segment, self.next, place, self.read_bytes)
        store.disk.submit(read, self)
        # In memory the read has ended by now. It is looked at in the next turn, as if it came from
        # a disk: who wants little of a stream would go through all of it in this one.
        return False

    def _begin(self, chunk: Chunk) -> None:
        if self.wanted is not None and not chunk.may_have(self.wanted):
            self.next = chunk.next()
            return
        if self.next < chunk.first:
            self.next = chunk.first
        self.chunk = chunk
        self.index = self.next - chunk.first

    def job_done(self, job: Job, error: OSError | None) -> None:
        assert isinstance(job, StreamRead), "cursors submit reads only"
        self.is_reading = False
        if self.is_ended:
            return
        queue = self.access.queue
        if isinstance(error, FileNotFoundError) and job.segment.is_gone:
            # Retention was faster; the next look finds the segment that is the first now.
            queue.wake()
            return
        if error is not None:
            self.access.failed(self, error)
            return
        self.chunks = job.found
        job.found = []
        self.after = job
        if job.lost > 0:
            self.log.damaged_count += job.lost
            self.access.notes.warning(
                f"{queue.identity}: damaged, {job.lost} messages from offset {self.next} on "
                "cannot be read; they were passed over"
            )
        if not self.chunks:
            self.next = job.next
        queue.wake()
