"""Which filter values the messages of a chunk have: a small Bloom filter beside the columns.

A publisher gives a message a value (header `x-stream-filter-value`), a consumer says which values
it wants (`x-stream-filter`), and chunks that have none of them are not sent to it. A chunk has many
messages, and a Bloom filter may say yes too often, so the consumer looks at each message itself, as
with RabbitMQ's stream filters, whose arguments these are (3.13 and later).

    section     flags 1 | positions of a value 1 | size 2 | bits, `size` bytes of them

A value's positions are the first 16-bit numbers of its BLAKE2b hash, little-endian, modulo the
number of bits.
"""

from hashlib import blake2b
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ConnectionFault
from penstock.protocol.property_lookup import headers_table_span
from penstock.protocol.values import read_field

VALUE_HEADER: Final = "x-stream-filter-value"
VALUE_NAME: Final = VALUE_HEADER.encode()
HAS_UNFILTERED: Final = 1
"""Flag: some of its messages have no value."""
SECTION_HEAD_BYTES: Final = 4
POSITIONS: Final = 4
FILTER_BYTES: Final = 16
"""Without x-stream-filter-size-bytes; RabbitMQ's default."""


def value_of(properties: bytes) -> bytes:
    """The filter value among properties as they are on the wire, checked before; b"" for none, and
    for one that is no text."""
    if VALUE_NAME not in properties:
        return b""
    try:
        span = headers_table_span(properties, 0)
        value = None if span is None else read_field(properties, span[0], span[1], VALUE_HEADER)
    except ConnectionFault:
        # A malformed table inside another: such a message is passed on as it is, unfiltered.
        return b""
    if isinstance(value, bytes):
        # A text on the wire that is no UTF-8.
        return value
    return value.encode() if isinstance(value, str) else b""


def positions_of(value: bytes, bits: i64) -> list[int]:
    """Which of `bits` bits stand for `value`."""
    digest = blake2b(value, digest_size=2 * POSITIONS).digest()
    return [
        int.from_bytes(digest[2 * index : 2 * index + 2], "little") % int(bits)
        for index in range(POSITIONS)
    ]


def section_of(values: dict[bytes, None], has_unfiltered: bool, size: i64) -> bytes:
    """The section of a chunk whose messages have `values`. size: bytes of the filter, 16..255."""
    bits = bytearray(int(size))
    for value in values:
        for at in positions_of(value, size * 8):
            bits[at >> 3] |= 1 << (at & 7)
    head = bytes((HAS_UNFILTERED if has_unfiltered else 0, POSITIONS))
    return head + int(size).to_bytes(2, "little") + bytes(bits)


class StreamFilter:
    """What a consumer wants. values: not empty; wants_unfiltered: messages without a value, too."""

    __slots__ = ("values", "wants_unfiltered")

    def __init__(self, values: list[bytes], wants_unfiltered: bool) -> None:
        self.values = values
        self.wants_unfiltered = wants_unfiltered

    def may_have(self, section: bytes) -> bool:
        """Whether a chunk may have a message that is wanted. section: b"" if none has a value."""
        if not section:
            return self.wants_unfiltered
        if self.wants_unfiltered and section[0] & HAS_UNFILTERED:
            return True
        bits: i64 = int.from_bytes(section[2:SECTION_HEAD_BYTES], "little") * 8
        for value in self.values:
            is_there = True
            for at in positions_of(value, bits):
                if not section[SECTION_HEAD_BYTES + (at >> 3)] >> (at & 7) & 1:
                    is_there = False
                    break
            if is_there:
                return True
        return False
