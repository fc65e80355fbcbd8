"""Deliveries as a broker writes them, for tests that need no broker."""

import struct

from penstock.protocol.methods import BasicDeliver
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.properties import Properties, encode_header_payload

CHANNEL = 1
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def frames_of(
    tag: int,
    body: bytes,
    properties: Properties | None = None,
    *,
    exchange: str = "ex",
    key: str = "key",
    redelivered: bool = False,
    frame_bytes_max: int = 131_072,
) -> list[bytes]:
    """One delivery as its frames."""
    header = encode_header_payload(len(body), properties or Properties())
    frames = [
        method_frame(CHANNEL, BasicDeliver("ctag", tag, redelivered, exchange, key)),
        struct.pack(">BHI", 2, CHANNEL, len(header)) + header + b"\xce",
    ]
    step = frame_bytes_max - 8
    for at in range(0, len(body), step):
        piece = body[at : at + step]
        frames.append(struct.pack(">BHI", 3, CHANNEL, len(piece)) + piece + b"\xce")
    return frames


def delivery(tag: int, body: bytes, properties: Properties | None = None) -> bytes:
    """One delivery as bytes."""
    return b"".join(frames_of(tag, body, properties))


def at_offset(offset: int, body: bytes = b"row") -> bytes:
    """One delivery of a stream."""
    return delivery(offset + 1, body, Properties(headers={"x-stream-offset": 2**33 + offset}))


def laid_out(bodies: list[bytes]) -> tuple[bytes, list[int]]:
    """Deliveries back to back, and the offset behind each."""
    raw, ends = b"", []
    for number, body in enumerate(bodies):
        raw += delivery(number + 1, body)
        ends.append(len(raw))
    return raw, ends
