"""Chunks as a broker has them on its disk, and the deliveries it would make of their messages."""

from collections.abc import Sequence

import numpy as np

from penstock.base.cause import Cause
from penstock.protocol.content import Address, make_content
from penstock.protocol.methods import BasicDeliver
from penstock.protocol.methods.codec import method_frame
from penstock.spark.connector.stream.chunk_layout import ChunkView, chunks_of
from penstock.streams.chunk import Chunk, ChunkBuilder
from penstock.streams.segment import StreamSegment

CHANNEL = 1
FRAME_BYTES = 4096
START_US = 1_700_000_000_000_000
SEGMENT = StreamSegment(7, 0, b"identity", 1)

Row = tuple[bytes, bytes, str, str]
"""Body, property flags and values, exchange, routing key."""


def built(rows: Sequence[Row], first: int = 0, segment: StreamSegment = SEGMENT) -> bytes:
    """One chunk of `segment`."""
    builder = ChunkBuilder(first, START_US)
    for number, (body, properties, exchange, key) in enumerate(rows):
        header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
        message = make_content(CHANNEL, b"", header, body, FRAME_BYTES)
        message.address = Address(exchange, key)
        builder.add(message, START_US + number)
    return builder.build(segment.extend, int(segment.seed), 96)


def viewed(*chunks: bytes, segment: StreamSegment = SEGMENT) -> list[ChunkView]:
    """The chunks as the connector sees them when they came in one delivery."""
    body = np.frombuffer(b"".join(chunks), np.uint8)
    return list(chunks_of(body, int(segment.version), int(segment.seed), "s"))


def delivered(*chunks: bytes) -> bytes:
    """The same messages as a consumer of messages is given them."""
    parts = []
    for data in chunks:
        chunk = Chunk(data, 0)
        for index in range(int(chunk.count)):
            message = chunk.message(index, CHANNEL, FRAME_BYTES, Cause("test"))
            address = message.address
            deliver = BasicDeliver("t", index + 1, False, address.exchange, address.routing_key)
            parts += [method_frame(CHANNEL, deliver), message.raw]
    return b"".join(parts)
