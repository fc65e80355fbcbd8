"""Whole chunks as the body of a delivery, for readers who want columns and not messages.

Chunks that lie behind one another in a segment go out together, as they are on the disk: nothing
in them is looked at, and their bytes are copied once. The headers of the delivery say what a reader
has to know beside them (docs/stream-chunks.md).
"""

import struct
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.protocol.content import FRAMED, Message
from penstock.streams.chunk import END, HEADER_FRAME, PROPERTIES_AT, Chunk, framed

CONTENT_TYPE: Final = b"application/x-penstock-chunk"
OFFSET: Final = b"x-stream-offset"
COUNT: Final = b"x-stream-count"
VERSION: Final = b"x-chunk-version"
SEED: Final = b"x-chunk-seed"

FLAGS_AND_TYPE: Final = b"\xa0\x00" + bytes([len(CONTENT_TYPE)]) + CONTENT_TYPE
LONG: Final = struct.Struct(">q")


def hand_out(
    chunks: list[Chunk],
    version: i64,
    seed: i64,
    channel: i64,
    frame_bytes_max: i64,
    origin: Cause,
) -> Message:
    """A delivery with `chunks`, which lie behind one another in one piece of memory.

    version, seed: of their checksums; frame_bytes_max: bytes of one frame with its envelope, 0 for
    no limit."""
    first = chunks[0]
    last = chunks[len(chunks) - 1]
    start: i64 = first.at
    end: i64 = last.at + last.size
    size: i64 = end - start
    table = b"".join(
        (
            _long(OFFSET, first.first),
            _long(COUNT, last.next() - first.first),
            _long(VERSION, version),
            _long(SEED, seed),
        )
    )
    properties = FLAGS_AND_TYPE + len(table).to_bytes(4, "big") + table
    header_bytes: i64 = PROPERTIES_AT + len(properties)
    head: bytes = HEADER_FRAME.pack(2, int(channel), int(header_bytes), 60, 0, int(size))
    step: i64 = frame_bytes_max - 8 if frame_bytes_max > 0 else 0
    raw = framed([head, properties, END], first.data, start, end, channel, step)
    message = Message(raw, size)
    message.sequence = FRAMED
    message.origin = origin
    return message


def _long(name: bytes, value: i64) -> bytes:
    return bytes([len(name)]) + name + b"l" + LONG.pack(int(value))
