"""Look-ups in the raw payload of a content header, without decoding the rest of it. COMPILED.

    class:2 weight:2 body-size:8 flags:2 [flags:2 ...] value*       values in the order of the flags

    0x8000 content-type      0x1000 delivery-mode 1     0x0200 reply-to       0x0040 timestamp 8
    0x4000 content-encoding  0x0800 priority 1          0x0100 expiration     0x0020 type
    0x2000 headers (table)   0x0400 correlation-id      0x0080 message-id     0x0010 user-id
    0x0008 app-id  0x0004 cluster-id  0x0002 nothing    0x0001 another flags word follows

Values without a size above are short strings. `offset` is always that of the flags: 12 in a
header's payload, 19 in `Message.raw`; `end` is the offset behind the payload, -1 for all of `data`.
Bit 0x0002 is ignored as RabbitMQ does; a further flags word may name nothing, because no property
is known there and its value could not be stepped over.
Raises, all of them: ConnectionFault 502 where a value reaches past `end` or is no UTF-8.
Source: AMQP 0-9-1 section 4.2.6.1.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ConnectionFault
from penstock.base.wire import read_i16_be, read_i32_be
from penstock.protocol.constants import SYNTAX_ERROR

PROPERTIES_OFFSET: Final = 12

CONTENT_TYPE: Final = 0x8000
CONTENT_ENCODING: Final = 0x4000
HEADERS: Final = 0x2000
DELIVERY_MODE: Final = 0x1000
PRIORITY: Final = 0x0800
CORRELATION_ID: Final = 0x0400
REPLY_TO: Final = 0x0200
EXPIRATION: Final = 0x0100
MESSAGE_ID: Final = 0x0080
TIMESTAMP: Final = 0x0040
TYPE: Final = 0x0020
USER_ID: Final = 0x0010
APP_ID: Final = 0x0008

FLAG_HEADERS: Final = 0x20
FLAG_REPLY_TO: Final = 0x02
FLAG_EXPIRATION: Final = 0x01
FLAG_USER_ID: Final = 0x10
"""Property flags in the octets 19 (the first three) and 20 of `Message.raw`."""
CLUSTER_ID: Final = 0x0004

TRANSIENT: Final = 1
PERSISTENT: Final = 2


def delivery_mode(data: bytes, offset: int, end: int = -1) -> int:
    """The delivery mode, 0..255: 2 is persistent, everything else is not; 1 when absent."""
    at = _locate(data, offset, end, DELIVERY_MODE)
    return TRANSIENT if at < 0 else data[at]


def priority(data: bytes, offset: int, end: int = -1) -> int:
    """The priority, 0..255; 0 when absent."""
    at = _locate(data, offset, end, PRIORITY)
    return 0 if at < 0 else data[at]


def expiration(data: bytes, offset: int, end: int = -1) -> str | None:
    """The time to live as the publisher wrote it, meant to be milliseconds; None when absent."""
    return _text(data, _locate(data, offset, end, EXPIRATION), "expiration")


def reply_to(data: bytes, offset: int, end: int = -1) -> str | None:
    """Where answers go; None when absent."""
    return _text(data, _locate(data, offset, end, REPLY_TO), "reply-to")


def user_id(data: bytes, offset: int, end: int = -1) -> str | None:
    """Who the publisher says it is; None when absent."""
    return _text(data, _locate(data, offset, end, USER_ID), "user-id")


def headers_table_span(data: bytes, offset: int, end: int = -1) -> tuple[int, int] | None:
    """Offsets of the headers table, 4-byte length included, and behind it; None when absent.

    The table itself is not looked into.
    """
    return property_span(data, offset, HEADERS, end)


def property_span(data: bytes, offset: int, flag: int, end: int = -1) -> tuple[int, int] | None:
    """Offsets of the value of the property `flag`, length included, and behind it; None if absent.

    flag: exactly one of the constants above.
    """
    at = _locate(data, offset, end, flag)
    if at < 0:
        return None
    return at, _step(data, at, len(data) if end < 0 else end, flag)


def replace_property(header: bytes, flag: int, value: bytes | None) -> bytes:
    """A header payload with the property `flag` set to `value`, all other properties untouched.

    header: a whole content header payload, flags at PROPERTIES_OFFSET; value: as on the wire with
    its length, None to take the property away; flag: exactly one of the constants above.
    """
    check_properties(header, PROPERTIES_OFFSET)
    flags = int(_flags(header, PROPERTIES_OFFSET, len(header)))
    span = property_span(header, PROPERTIES_OFFSET, flag)
    if span is None:
        at = _position(header, flag)
        stop = at
    else:
        at, stop = span
    flags = flags & ~flag if value is None else flags | flag
    return b"".join(
        (
            header[:PROPERTIES_OFFSET],
            flags.to_bytes(2, "big"),
            header[PROPERTIES_OFFSET + 2 : at],
            b"" if value is None else value,
            header[stop:],
        )
    )


def check_properties(data: bytes, offset: int, end: int = -1) -> None:
    """Pass when every property named by the flags is there and nothing stands behind the last.

    After it none of the look-ups here fails, except for text that is no UTF-8.
    """
    stop: i64 = len(data) if end < 0 else end
    flags: i64 = _flags(data, offset, stop)
    at: i64 = _values(data, offset, stop)
    bit: i64 = CONTENT_TYPE
    while bit >= CLUSTER_ID:
        if flags & bit:
            at = _step(data, at, stop, bit)
        bit >>= 1
    if at != stop:
        raise ConnectionFault(SYNTAX_ERROR, "bytes behind the properties of a content header")


def _locate(data: bytes, offset: i64, end: i64, wanted: i64) -> i64:
    """Offset of the value of property `wanted`, whole within `end`; -1 when it is absent."""
    stop: i64 = len(data) if end < 0 else end
    flags: i64 = _flags(data, offset, stop)
    if flags & wanted == 0:
        return -1
    at: i64 = _values(data, offset, stop)
    bit: i64 = CONTENT_TYPE
    while bit != wanted:
        if flags & bit:
            at = _step(data, at, stop, bit)
        bit >>= 1
    _step(data, at, stop, wanted)
    return at


def _position(header: bytes, wanted: i64) -> i64:
    """Where the absent property `wanted` would stand."""
    end: i64 = len(header)
    flags: i64 = _flags(header, PROPERTIES_OFFSET, end)
    at: i64 = _values(header, PROPERTIES_OFFSET, end)
    bit: i64 = CONTENT_TYPE
    while bit != wanted:
        if flags & bit:
            at = _step(header, at, end, bit)
        bit >>= 1
    return at


def _flags(data: bytes, offset: i64, end: i64) -> i64:
    """The first flags word, 0..65535."""
    if offset < 0 or end > len(data) or offset + 2 > end:
        raise _past_end()
    return i64(read_i16_be(data, offset)) & 0xFFFF


def _values(data: bytes, offset: i64, end: i64) -> i64:
    """Offset behind the flags words, where the first value stands; `_flags` comes first."""
    at: i64 = offset
    while data[at + 1] & 1:
        at += 2
        if at + 2 > end:
            raise _past_end()
        if data[at] != 0 or data[at + 1] > 1:
            raise ConnectionFault(SYNTAX_ERROR, "unknown properties in a second flags word")
    return at + 2


def _step(data: bytes, at: i64, end: i64, bit: i64) -> i64:
    """Offset behind the value of property `bit` at `at`."""
    size: i64
    if bit & (DELIVERY_MODE | PRIORITY):
        size = 1
    elif bit == TIMESTAMP:
        size = 8
    elif at >= end:
        raise _past_end()
    elif bit == HEADERS:
        if at + 4 > end:
            raise _past_end()
        size = 4 + (i64(read_i32_be(data, at)) & 0xFFFFFFFF)
    else:
        size = 1 + i64(data[at])
    if at + size > end:
        raise _past_end()
    return at + size


def _text(data: bytes, at: i64, name: str) -> str | None:
    """The short string at `at`, which `_locate` has checked; None for -1."""
    if at < 0:
        return None
    start: i64 = at + 1
    try:
        return data[start : start + i64(data[at])].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConnectionFault(SYNTAX_ERROR, f"malformed UTF-8 in property {name}") from error


def _past_end() -> ConnectionFault:
    return ConnectionFault(SYNTAX_ERROR, "content header names properties past its end")
