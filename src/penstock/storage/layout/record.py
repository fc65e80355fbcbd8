"""Records that were read: taking them apart, and telling whole ones from others."""

from typing import Final

from mypy_extensions import i64

from penstock.base.wire import read_i32_be, read_i64_be
from penstock.protocol.content import Address, Message, dead_letter
from penstock.storage.layout.format import (
    BODY,
    BODY_HEAD_BYTES,
    CHECKED_AT,
    IS_DEAD_LETTER,
    REF,
    REF_BYTES,
)
from penstock.storage.layout.segment import Segment

LOW32: Final = 0xFFFFFFFF


class Record:
    """The fixed part of a record. offset, size: of the whole of it; body_offset: of a REF."""

    __slots__ = (
        "address_bytes",
        "body_bytes",
        "body_offset",
        "flags",
        "header_bytes",
        "kind",
        "offset",
        "position",
        "queue_id",
        "size",
        "stored_ms",
        "synced_to",
    )

    def __init__(self, data: bytes, at: i64, offset: i64) -> None:
        self.offset: i64 = offset
        self.size: i64 = unsigned(data, at + 8)
        self.kind: i64 = i64(data[at + 12])
        self.flags: i64 = i64(data[at + 13])
        self.address_bytes: i64 = i64(data[at + 14]) << 8 | i64(data[at + 15])
        self.synced_to: i64 = unsigned(data, at + 16)
        self.queue_id: i64 = read_i64_be(data, at + 20)
        self.position: i64 = read_i64_be(data, at + 28)
        self.body_offset: i64 = 0
        self.header_bytes: i64 = 0
        self.body_bytes: i64 = 0
        self.stored_ms: i64 = 0
        if self.kind == REF:
            self.body_offset = unsigned(data, at + 36)
        else:
            self.header_bytes = unsigned(data, at + 36)
            self.body_bytes = unsigned(data, at + 40)
            self.stored_ms = read_i64_be(data, at + 44)


def unsigned(data: bytes, at: i64) -> i64:
    """An unsigned number of 32 bits."""
    return i64(read_i32_be(data, at)) & 0xFFFFFFFF


def is_whole(segment: Segment, data: bytes, at: i64, offset: i64) -> bool:
    """Whether a whole record of `segment` stands at `at` in `data`, where offset `offset` is.

    The mark is not looked at: the checksum says more.
    """
    return offset_of(segment, data, at) == offset & LOW32


def offset_of(segment: Segment, data: bytes, at: i64) -> i64:
    """The offset for which what stands at `at` in `data` would be a whole record of `segment`; -1
    if it would be one nowhere. It says little of what is no record: any offset may come out."""
    left: i64 = len(data) - at
    if left < REF_BYTES:
        return -1
    size: i64 = unsigned(data, at + 8)
    kind: i64 = i64(data[at + 12])
    if kind == BODY:
        if size < BODY_HEAD_BYTES or size > left:
            return -1
    elif kind != REF or size != REF_BYTES:
        return -1
    checked = data[at + CHECKED_AT : at + size]
    checksum: i64 = segment.extend(int(segment.seed), checked)
    return checksum ^ unsigned(data, at + 4)


def message_of(record: Record, data: bytes, at: i64, addresses: dict[bytes, Address]) -> Message:
    """The message of a whole BODY at `at` in `data`. addresses: those seen before, by their
    bytes."""
    words: i64 = at + BODY_HEAD_BYTES
    frames: i64 = words + record.address_bytes
    suffix = data[words:frames]
    address = addresses.get(suffix)
    if address is None:
        address = address_of(suffix)
        addresses[suffix] = address
    raw = data[frames : at + record.size]
    if record.flags & IS_DEAD_LETTER != 0:
        return dead_letter(raw, record.body_bytes, address)
    return Message(raw, record.body_bytes, address)


def address_of(suffix: bytes) -> Address:
    """Exchange and routing key from `Address.suffix`."""
    size: i64 = i64(suffix[0])
    exchange = suffix[1 : 1 + size].decode()
    key: i64 = i64(suffix[1 + size])
    return Address(exchange, suffix[2 + size : 2 + size + key].decode())
