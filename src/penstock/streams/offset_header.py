"""The header `x-stream-offset` of a delivery: put into a message's properties as it is delivered.

Source: RabbitMQ's rabbit_stream_queue (stream_entries): a signed long among the headers; one that
the publisher has set himself is replaced.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.values import remove_field

NAME: Final = "x-stream-offset"
FIELD: Final = b"\x0fx-stream-offsetl"
FIELD_BYTES: Final = 25
TABLE_LENGTH: Final = b"\x00\x00\x00\x19"
HAS_CONTENT_TYPE: Final = 0x80
HAS_ENCODING: Final = 0x40
HAS_HEADERS: Final = 0x20


def with_offset(properties: bytes, offset: int) -> bytes:
    """`properties` with the offset among the headers.

    properties: flags and values as on the wire, checked before; offset: 0.. ."""
    field = FIELD + offset.to_bytes(8, "big")
    flags: i64 = i64(properties[0])
    if len(properties) == 2 and flags & HAS_HEADERS == 0:
        return bytes((int(flags | HAS_HEADERS), properties[1])) + TABLE_LENGTH + field
    at: i64 = 2
    if flags & HAS_CONTENT_TYPE:
        at += 1 + i64(properties[at])
    if flags & HAS_ENCODING:
        at += 1 + i64(properties[at])
    if flags & HAS_HEADERS == 0:
        front = bytes((int(flags | HAS_HEADERS), properties[1])) + properties[2:at]
        return front + TABLE_LENGTH + field + properties[at:]
    size: i64 = int.from_bytes(properties[at : at + 4], "big")
    table = properties[at : at + 4 + size]
    if FIELD[:16] in table:
        table = remove_field(table, NAME)
    length = len(table) - 4 + FIELD_BYTES
    return b"".join(
        (
            properties[:at],
            length.to_bytes(4, "big"),
            table[4:],
            field,
            properties[at + 4 + size :],
        )
    )
