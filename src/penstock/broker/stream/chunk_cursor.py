"""Where one consumer is in a stream that takes whole chunks: columns, not messages.

A delivery is one chunk or several that were read together; it counts as one for the consumer's
prefetch. Sending is the work of the sockets alone: a hundred messages or a million in a chunk cost
the broker the same.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import STREAM_CHUNK_READ_BYTES
from penstock.broker.actors.deliver import ChannelSink
from penstock.broker.stream.stream_cursor import StreamAccess, StreamCursor
from penstock.protocol.content import Address
from penstock.queues.consumers import Consumer
from penstock.streams.chunk import Chunk
from penstock.streams.handout import hand_out
from penstock.streams.segment import StreamSegment

READ_BYTES: Final = STREAM_CHUNK_READ_BYTES.default


class ChunkCursor(StreamCursor):
    """until: the delivery that comes so far is the last, -1 for no end; is_done: it was made. What
    begins behind `until` is delivered too when it is the first there is, so that whoever has lost
    his range to retention sees it. address: what deliveries say they were published to."""

    __slots__ = ("address", "is_done", "until")

    def __init__(self, consumer: Consumer, access: StreamAccess, name: str, until: i64) -> None:
        super().__init__(consumer, access)
        self.read_bytes = READ_BYTES
        self.address = Address("", name)
        self.until: i64 = until
        self.is_done = False

    def can_go_on(self) -> bool:
        return not self.is_done and super().can_go_on()

    def give(self, budget: i64) -> i64:
        """Deliver up to `budget` times, as often as the consumer has room for; how often."""
        consumer = self.consumer
        sink = consumer.sink
        assert isinstance(sink, ChannelSink), "streams are read by channels"
        left: i64 = consumer.room()
        if left > budget:
            left = budget
        given: i64 = 0
        while left > 0 and sink.is_output_open and not self.is_done:
            chunk = self.chunk
            if chunk is None:
                if not self._advance():
                    break
                continue
            self.chunk = None
            segment = self._segment_of(chunk)
            if self.since_us >= 0:
                if chunk.time_us(chunk.count - 1) < self.since_us:
                    self.next = chunk.next()
                    continue
                self.since_us = -1
            run = self._run(chunk)
            first: i64 = chunk.first
            self.next = run[len(run) - 1].next()
            message = hand_out(
                run,
                segment.version,
                segment.seed,
                sink.number,
                sink.frame_bytes_max,
                self.origin,
            )
            message.address = self.address
            consumer.delivered += 1
            consumer.unsent.count += 1
            consumer.unacked += 1
            consumer.unacked_bytes += message.body_bytes
            sink.deliver(consumer, message, first, False)
            message.raw = b""
            given += 1
            left -= 1
            if self.until >= 0 and self.next >= self.until:
                self.is_done = True
                self.chunks = []
        return given

    def _run(self, chunk: Chunk) -> list[Chunk]:
        """`chunk` and what was read together with it and lies right behind it."""
        run = [chunk]
        last = chunk
        while self.chunks and (self.until < 0 or last.next() < self.until):
            following = self.chunks[0]
            if following.data is not last.data or following.at != last.at + last.size:
                break
            self.chunks.pop(0)
            run.append(following)
            last = following
        return run

    def _segment_of(self, chunk: Chunk) -> StreamSegment:
        """Where `chunk` lies, or lay: retention may have ended it since it was read."""
        segment = self.log.segment_of(chunk.first)
        if segment is None or segment.first > chunk.first:
            after = self.after
            assert after is not None, "what is at the end of a stream has its segment"
            segment = after.segment
        return segment
