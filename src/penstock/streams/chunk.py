"""Chunks: messages gathered into columns, and messages made of columns again.

A chunk is what is written in one piece and read in one piece. It says for itself which messages it
has, so that a reader who wants columns never looks at a message.
"""

import struct
import sys
from array import array
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.protocol.content import Address, Message
from penstock.storage.layout.checksum import Extend
from penstock.streams.filtering import FILTER_BYTES, StreamFilter, section_of, value_of
from penstock.streams.format import (
    ADDRESS_ID,
    BODIES,
    BODY_AT,
    CHECKED_AT,
    CHUNK,
    CHUNK_HEAD_BYTES,
    COLUMNS,
    EXCHANGE_AT,
    EXCHANGES,
    HEADER_AT,
    HEADERS,
    KEY_AT,
    KEYS,
    MARK,
    NO_VALUES,
    TIMES,
    U32,
    padded,
)
from penstock.streams.offset_header import with_offset

CHUNK_MESSAGES: Final = 4096
CHUNK_BYTES: Final = 1_048_576
"""A chunk takes no more messages when it has this many, or this much content."""
PROPERTIES_AT: Final = 12
"""Of a content header's payload: behind class, weight and body size."""
IS_BIG_ENDIAN: Final = sys.byteorder == "big"

HEADER_FRAME: Final = struct.Struct(">BHIHHQ")
BODY_FRAME: Final = struct.Struct(">BHI")
END: Final = b"\xce"


class ChunkBuilder:
    """Messages for one chunk. first: the offset of its first; first_us: when that came; size:
    bytes of content in it; values: filter values of its messages, has_unfiltered: some have none,
    filter_bytes: what the filter takes if any has one."""

    __slots__ = (
        "addresses",
        "addresses_of",
        "bodies",
        "bodies_at",
        "body_bytes",
        "count",
        "filter_bytes",
        "first",
        "first_us",
        "has_unfiltered",
        "header_bytes",
        "headers",
        "headers_at",
        "last_us",
        "times",
        "values",
    )

    def __init__(self, first: i64, first_us: i64, filter_bytes: i64 = FILTER_BYTES) -> None:
        self.first: i64 = first
        self.first_us: i64 = first_us
        self.last_us: i64 = first_us
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        self.header_bytes: i64 = 0
        self.bodies: list[bytes] = []
        self.headers: list[bytes] = []
        self.bodies_at: array[int] = array("i", (0,))
        self.headers_at: array[int] = array("i", (0,))
        self.times: array[int] = array("I")
        self.addresses: dict[bytes, int] = {}
        self.addresses_of: array[int] = array("H")
        self.filter_bytes: i64 = filter_bytes
        self.values: dict[bytes, None] = {}
        self.has_unfiltered = False

    def add(self, message: Message, now_us: i64) -> None:
        """One more message, behind the others. now_us: not before the last one's."""
        raw = message.raw
        properties = raw[7 + PROPERTIES_AT : 7 + message.header_bytes]
        body = message.body()
        value = value_of(properties)
        if value:
            self.values[value] = None
        else:
            self.has_unfiltered = True
        self.headers.append(properties)
        self.bodies.append(body)
        self.header_bytes += len(properties)
        self.body_bytes += len(body)
        self.headers_at.append(int(self.header_bytes))
        self.bodies_at.append(int(self.body_bytes))
        self.times.append(int(now_us - self.first_us))
        suffix = message.address.suffix
        known = self.addresses.get(suffix)
        if known is None:
            known = len(self.addresses)
            self.addresses[suffix] = known
        self.addresses_of.append(known)
        self.count += 1
        self.last_us = now_us

    def is_full(self, bytes_max: i64) -> bool:
        """Whether it takes no more."""
        return self.count >= CHUNK_MESSAGES or self.body_bytes + self.header_bytes >= bytes_max

    def content_bytes(self) -> i64:
        """What it has, about."""
        return self.body_bytes + self.header_bytes + 14 * self.count

    def build(self, extend: Extend, seed: i64, synced_to: i64) -> bytes:
        """The chunk as it is written to the segment with that seed."""
        exchanges: list[bytes] = []
        keys: list[bytes] = []
        exchanges_at: array[int] = array("i", (0,))
        keys_at: array[int] = array("i", (0,))
        exchange_end: i64 = 0
        key_end: i64 = 0
        for suffix in self.addresses:
            size: i64 = i64(suffix[0])
            exchange = suffix[1 : 1 + size]
            key = suffix[2 + size : len(suffix) - 1]
            exchanges.append(exchange)
            keys.append(key)
            exchange_end += len(exchange)
            key_end += len(key)
            exchanges_at.append(int(exchange_end))
            keys_at.append(int(key_end))
        columns = [
            _bytes_of(self.times),
            _bytes_of(self.bodies_at),
            _bytes_of(self.headers_at),
            _bytes_of(self.addresses_of),
            _bytes_of(exchanges_at),
            _bytes_of(keys_at),
            b"".join(exchanges),
            b"".join(keys),
            b"".join(self.headers),
            b"".join(self.bodies),
        ]
        starts: list[int] = []
        parts: list[bytes] = []
        at: i64 = CHUNK_HEAD_BYTES
        for column in columns:
            starts.append(int(at))
            size = len(column)
            parts.append(column)
            gap: i64 = padded(size) - size
            if gap > 0:
                parts.append(bytes(int(gap)))
            at += size + gap
        filter_at: i64 = NO_VALUES
        if self.values:
            section = section_of(self.values, self.has_unfiltered, self.filter_bytes)
            filter_at = at
            parts.append(section)
            parts.append(bytes(int(padded(len(section)) - len(section))))
            at += padded(len(section))
        head: bytes = CHUNK.pack(
            int(at),
            int(self.count),
            int(self.first),
            int(self.first_us),
            int(synced_to),
            len(self.addresses),
            *starts,
            int(filter_at),
        )
        rest = head + b"".join(parts)
        low: bytes = U32.pack(extend(int(seed), rest))
        return MARK + low + rest


class Chunk:
    """A chunk that was read. data: bytes with it; at: where it begins in them; size: of all of it;
    first, count: its messages."""

    __slots__ = (
        "_addresses",
        "_addresses_of",
        "_bodies_at",
        "_headers_at",
        "_starts",
        "_times",
        "address_count",
        "at",
        "count",
        "data",
        "filter_at",
        "first",
        "first_us",
        "size",
        "synced_to",
    )

    def __init__(self, data: bytes, at: i64) -> None:
        """Raises: struct.error when the head is not whole."""
        fields = CHUNK.unpack_from(data, int(at + CHECKED_AT))
        self.data = data
        self.at: i64 = at
        self.size: i64 = int(fields[0])
        self.count: i64 = int(fields[1])
        self.first: i64 = int(fields[2])
        self.first_us: i64 = int(fields[3])
        self.synced_to: i64 = int(fields[4])
        self.address_count: i64 = int(fields[5])
        self._starts: list[int] = list(fields[6 : 6 + COLUMNS])
        self.filter_at: i64 = int(fields[6 + COLUMNS])
        self._times: array[int] | None = None
        self._bodies_at: array[int] | None = None
        self._headers_at: array[int] | None = None
        self._addresses_of: array[int] | None = None
        self._addresses: list[Address] = []

    def next(self) -> i64:
        """The offset behind its last message."""
        return self.first + self.count

    def may_have(self, wanted: StreamFilter) -> bool:
        """Whether any of its messages may be wanted; a chunk that does not say may have all."""
        if self.filter_at == 0:
            return True
        if self.filter_at == NO_VALUES:
            return wanted.may_have(b"")
        return wanted.may_have(self.data[self.at + self.filter_at : self.at + self.size])

    def column(self, number: int, kind: str, count: i64) -> "array[int]":
        """`count` numbers of a column."""
        found: array[int] = array(kind)
        start: i64 = self.at + self._starts[number]
        found.frombytes(self.data[start : start + count * found.itemsize])
        if IS_BIG_ENDIAN:
            found.byteswap()
        return found

    def _open(self) -> None:
        count = self.count
        self._headers_at = self.column(HEADER_AT, "i", count + 1)
        self._bodies_at = self.column(BODY_AT, "i", count + 1)
        self._addresses_of = self.column(ADDRESS_ID, "H", count)
        exchanges_at = self.column(EXCHANGE_AT, "i", self.address_count + 1)
        keys_at = self.column(KEY_AT, "i", self.address_count + 1)
        exchanges: i64 = self.at + self._starts[EXCHANGES]
        keys: i64 = self.at + self._starts[KEYS]
        data = self.data
        for index in range(int(self.address_count)):
            exchange = data[exchanges + exchanges_at[index] : exchanges + exchanges_at[index + 1]]
            key = data[keys + keys_at[index] : keys + keys_at[index + 1]]
            self._addresses.append(Address(exchange.decode(), key.decode()))

    def time_us(self, index: i64) -> i64:
        """When message `index` of it came."""
        times = self._times
        if times is None:
            times = self.column(TIMES, "I", self.count)
            self._times = times
        return self.first_us + times[index]

    def body_bytes(self, index: i64) -> i64:
        """Of message `index`."""
        if self._bodies_at is None:
            self._open()
        bodies_at = self._bodies_at
        assert bodies_at is not None, "it was just opened"
        return bodies_at[index + 1] - bodies_at[index]

    def message(self, index: i64, channel: i64, frame_bytes_max: i64, origin: Cause) -> Message:
        """Message `index` with its offset among the headers, in frames for `channel`.

        frame_bytes_max: bytes of one frame with its envelope, 0 for no limit."""
        if self._headers_at is None:
            self._open()
        headers_at = self._headers_at
        bodies_at = self._bodies_at
        addresses_of = self._addresses_of
        assert headers_at is not None and bodies_at is not None, "it was just opened"
        assert addresses_of is not None, "it was just opened"
        data = self.data
        headers: i64 = self.at + self._starts[HEADERS]
        bodies: i64 = self.at + self._starts[BODIES]
        properties = with_offset(
            data[headers + headers_at[index] : headers + headers_at[index + 1]],
            int(self.first + index),
        )
        start: i64 = bodies + bodies_at[index]
        end: i64 = bodies + bodies_at[index + 1]
        size: i64 = end - start
        header_bytes: i64 = PROPERTIES_AT + len(properties)
        head: bytes = HEADER_FRAME.pack(2, int(channel), int(header_bytes), 60, 0, int(size))
        if size == 0:
            raw = head + properties + END
        elif frame_bytes_max == 0 or size <= frame_bytes_max - 8:
            envelope: bytes = BODY_FRAME.pack(3, int(channel), int(size))
            raw = b"".join((head, properties, END, envelope, data[start:end], END))
        else:
            parts = [head, properties, END]
            raw = framed(parts, data, start, end, channel, frame_bytes_max - 8)
        message = Message(raw, size, self._addresses[addresses_of[index]])
        message.origin = origin
        return message


def is_whole(data: bytes, at: i64, extend: Extend, seed: i64) -> bool:
    """Whether a whole chunk of the segment with that seed stands at `at` in `data`."""
    left: i64 = len(data) - at
    if left < CHUNK_HEAD_BYTES or data[at : at + 4] != MARK:
        return False
    size: i64 = size_at(data, at)
    if size < CHUNK_HEAD_BYTES or size > left:
        return False
    checksum: int = U32.unpack_from(data, int(at + 4))[0]
    return checksum == extend(int(seed), data[at + CHECKED_AT : at + size])


def size_at(data: bytes, at: i64) -> i64:
    """What the chunk at `at` says of its size, true or not."""
    size: int = U32.unpack_from(data, int(at + CHECKED_AT))[0]
    return size


def framed(head: list[bytes], data: bytes, start: i64, end: i64, channel: i64, step: i64) -> bytes:
    """`head`, and behind it what lies at start..end-1 of `data` as a body in frames of at most
    `step` bytes, 0 for no limit; copied once."""
    view = memoryview(data)
    parts: list[object] = [*head]
    most: i64 = step if step > 0 else end - start
    at: i64 = start
    while at < end:
        stop: i64 = at + most
        if stop > end:
            stop = end
        parts.append(BODY_FRAME.pack(3, int(channel), int(stop - at)))
        parts.append(view[at:stop])
        parts.append(END)
        at = stop
    return b"".join(parts)  # type: ignore[arg-type]  # bytes and views of bytes


def _bytes_of(numbers: "array[int]") -> bytes:
    if IS_BIG_ENDIAN:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
