"""One reader of a group's messages, and the chunks it may have them in.

A chunk has the columns of many messages and is laid out as those of streams are
(docs/stream-chunks.md), with the group's numbers for offsets: one delivery, which costs the broker
and its reader a fraction of what as many deliveries would.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.broker.actors.deliver import ChannelSink
from penstock.protocol.content import Address, Message
from penstock.queues.consumers import Consumer
from penstock.queues.leases import LeaseGroup
from penstock.storage.layout.checksum import VERSION, extend_of
from penstock.streams.chunk import CHUNK_BYTES, Chunk, ChunkBuilder
from penstock.streams.handout import hand_out

CHUNK_MESSAGES: Final = 2048
"""In one delivery at most, because all of them are made in one turn."""


class LeaseReader:
    """One basic.consume of numbers next..stop-1 of the queue `name`. has_chunks: as columns, not
    one by one."""

    __slots__ = ("address", "consumer", "group", "has_chunks", "next", "stop")

    def __init__(
        self,
        consumer: Consumer,
        group: LeaseGroup,
        first: i64,
        stop: i64,
        has_chunks: bool,
        name: str,
    ) -> None:
        self.consumer = consumer
        self.group = group
        self.next: i64 = first
        self.stop: i64 = stop
        self.has_chunks = has_chunks
        self.address = Address("", name)

    def chunk(self, origin: Cause) -> Message:
        """The next messages in columns, as far as they are held, which the first of them is.
        origin: who pays for the delivery while it is written."""
        sink = self.consumer.sink
        assert isinstance(sink, ChannelSink), "leases are read by channels"
        builder = ChunkBuilder(self.next, 0)
        while self.next < self.stop and builder.count < CHUNK_MESSAGES:
            delivery = self.group.at(self.next)
            if delivery is None or builder.is_full(CHUNK_BYTES):
                break
            builder.add(delivery.message, 0)
            self.next += 1
        chunk = Chunk(builder.build(extend_of(VERSION), 0, 0), 0)
        message = hand_out([chunk], VERSION, 0, sink.number, sink.frame_bytes_max, origin)
        message.address = self.address
        return message
