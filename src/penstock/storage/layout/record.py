"""Records: making them, and taking them apart again."""

from typing import Final

from mypy_extensions import i64

from penstock.base.wire import (
    BytesWriter,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from penstock.protocol.content import Address, DeadLetter, Message, channel_of
from penstock.storage.layout.format import (
    BODY,
    BODY_HEAD_BYTES,
    CHECKED_AT,
    IS_DEAD_LETTER,
    MARK,
    REF,
    REF_BYTES,
)
from penstock.storage.layout.head import Head
from penstock.storage.layout.pieces import Pieces
from penstock.storage.layout.segment import Segment

LOW32: Final = 0xFFFFFFFF
GATHER_BYTES: Final = 2048
"""Content from here on is checked where it lies."""


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


class RecordTools:
    """What records are made with, one after the other; owner: the log. scratch: for what is checked
    in one go, empty in between; head: of the last record with a body; writer: see pieces."""

    __slots__ = ("head", "scratch", "writer")

    def __init__(self) -> None:
        self.scratch = BytesWriter()
        self.head = Head()
        self.writer = BytesWriter()


def add_body(
    pieces: Pieces,
    tools: RecordTools,
    segment: Segment,
    queue_id: i64,
    position: i64,
    message: Message,
    flags: i64,
    stored_ms: i64,
) -> None:
    """Put the record with `message` for the end of `segment` behind `pieces`."""
    scratch = tools.scratch
    head = tools.head
    suffix = message.address.suffix
    raw = message.raw
    body: i64 = len(raw)
    if isinstance(message, DeadLetter):
        flags |= IS_DEAD_LETTER
    size: i64 = len(suffix)
    size += body + BODY_HEAD_BYTES
    is_like = head.is_like(segment.number, flags, suffix)
    if not is_like:
        head.begin(segment.number, segment.version, flags, suffix)
    head.move(
        size,
        segment.synced_to,
        queue_id,
        position,
        message.header_bytes,
        message.body_bytes,
        stored_ms,
    )
    if not is_like and body < GATHER_BYTES:
        # A second call of the checksum would cost more than the copy.
        _write_head(scratch, head)
        scratch.write(raw)
        _add_checked(pieces, scratch, segment)
        return
    extend = segment.extend
    if not head.is_known:
        _write_head(scratch, head)
        head.learn(extend(int(segment.seed), scratch.getvalue()))
        scratch.truncate(0)
    checksum: i64 = extend(int(head.checksum), raw)
    fresh = pieces.fresh
    fresh.write(MARK)
    write_i32_be(fresh, signed(checksum ^ segment.end))
    _write_head(fresh, head)
    pieces.add(raw)


def _write_head(writer: BytesWriter, head: Head) -> None:
    """The record from its size up to the content."""
    write_i32_be(writer, int(head.size))
    write_i32_be(writer, int(BODY << 24 | head.flags << 16 | head.suffix_bytes))
    write_i32_be(writer, int(head.synced_to))
    write_i64_be(writer, head.queue_id)
    write_i64_be(writer, head.position)
    write_i32_be(writer, int(head.header_bytes))
    write_i32_be(writer, int(head.body_bytes))
    write_i64_be(writer, head.stored_ms)
    writer.write(head.suffix)


def add_ref(
    pieces: Pieces,
    tools: RecordTools,
    segment: Segment,
    queue_id: i64,
    position: i64,
    offset: i64,
    flags: i64,
) -> None:
    """Put the record for one more queue of a message whose body lies at `offset` in `segment`
    behind `pieces`."""
    scratch = tools.scratch
    write_i32_be(scratch, REF_BYTES)
    scratch.append(REF)
    scratch.append(int(flags))
    write_i16_be(scratch, 0)
    write_i32_be(scratch, int(segment.synced_to))
    write_i64_be(scratch, queue_id)
    write_i64_be(scratch, position)
    write_i32_be(scratch, int(offset))
    _add_checked(pieces, scratch, segment)


def _add_checked(pieces: Pieces, scratch: BytesWriter, segment: Segment) -> None:
    """A record of which `scratch` has everything behind the checksum."""
    data = scratch.getvalue()
    scratch.truncate(0)
    checksum: i64 = segment.extend(int(segment.seed), data)
    _add(pieces, checksum ^ segment.end, data)


def _add(pieces: Pieces, checksum: i64, data: bytes) -> None:
    """The beginning of a record: mark, checksum, then `data`."""
    fresh = pieces.fresh
    fresh.write(MARK)
    write_i32_be(fresh, signed(checksum))
    pieces.add(data)


def signed(number: i64) -> int:
    """An unsigned number of 32 bits as the signed one with the same bits."""
    return int(number - 0x100000000) if number > 0x7FFFFFFF else int(number)


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
        message: Message = DeadLetter(
            channel_of(raw), b"", raw, record.header_bytes, record.body_bytes
        )
    else:
        message = Message(channel_of(raw), b"", raw, record.header_bytes, record.body_bytes)
    message.address = address
    return message


def address_of(suffix: bytes) -> Address:
    """Exchange and routing key from `Address.suffix`."""
    size: i64 = i64(suffix[0])
    exchange = suffix[1 : 1 + size].decode()
    key: i64 = i64(suffix[1 + size])
    return Address(exchange, suffix[2 + size : 2 + size + key].decode())
