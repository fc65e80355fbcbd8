"""The fourteen properties of class basic, decoded whole; `property_lookup` reads single ones.

Source: AMQP 0-9-1 section 1.8.2; the layout is drawn in `property_lookup`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias, cast

from penstock.base.errors import ConnectionFault
from penstock.protocol.constants import CLASS_BASIC, SYNTAX_ERROR
from penstock.protocol.property_lookup import CONTENT_TYPE, check_properties, property_span
from penstock.protocol.values import Table, decode_table, encode_table

_Wire: TypeAlias = Literal["shortstr", "table", "octet", "timestamp"]


@dataclass(frozen=True, slots=True)
class Properties:
    """What a publisher says about a message; None means absent, which differs from empty.

    Short strings: 0..255 bytes of UTF-8. delivery_mode, priority: 0..255. expiration: meant to be
    milliseconds. timestamp: seconds since 1970, 0..2**64-1. Owner: its decoder; `headers`
    is not copied.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_WIRES: Final[Mapping[str, _Wire]] = {
    "headers": "table",
    "delivery_mode": "octet",
    "priority": "octet",
    "timestamp": "timestamp",
}
_ORDER: Final[tuple[tuple[str, int, _Wire], ...]] = tuple(
    (one.name, CONTENT_TYPE >> at, _WIRES.get(one.name, "shortstr"))
    for at, one in enumerate(fields(Properties))
)
"""Name, flag and wire type: flags go down by a bit in the order of the attributes."""


def decode_properties(data: bytes, offset: int, end: int = -1) -> Properties:
    """Every property of a content header whose flags stand at `offset`.

    end: offset behind the header's payload, -1 for all of `data`.
    Raises: ConnectionFault 502 where values end early, something stands behind them, a string is
    no UTF-8, or the headers table is malformed.
    """
    check_properties(data, offset, end)
    found: list[object] = []
    for name, flag, wire in _ORDER:
        span = property_span(data, offset, flag, end)
        found.append(None if span is None else _decode_value(data, span, name, wire))
    make: Callable[..., Properties] = Properties
    return make(*found)


def encode_properties(properties: Properties) -> bytes:
    """Flags and values of `properties`, as they stand at PROPERTIES_OFFSET of a header's payload.

    Raises: ValueError, naming the property, for a value its wire type cannot hold.
    """
    flags = 0
    values: list[bytes] = []
    for name, flag, wire in _ORDER:
        value: object = getattr(properties, name)
        if value is not None:
            flags |= flag
            values.append(_encode_value(name, wire, value))
    return flags.to_bytes(2, "big") + b"".join(values)


def encode_header_payload(body_bytes: int, properties: Properties) -> bytes:
    """The payload of a content header frame: class basic, weight 0, `body_bytes`, properties.

    body_bytes: 0..2**64-1. Raises: ValueError as `encode_properties`.
    """
    return b"".join(
        (
            CLASS_BASIC.to_bytes(2, "big"),
            b"\x00\x00",
            body_bytes.to_bytes(8, "big"),
            encode_properties(properties),
        )
    )


def _decode_value(data: bytes, span: tuple[int, int], name: str, wire: _Wire) -> object:
    start, stop = span
    if wire == "table":
        headers, _ = decode_table(data, start, stop)
        return headers
    if wire != "shortstr":
        return int.from_bytes(data[start:stop], "big")
    try:
        return data[start + 1 : stop].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConnectionFault(SYNTAX_ERROR, f"malformed UTF-8 in property {name}") from error


def _encode_value(name: str, wire: _Wire, value: object) -> bytes:
    if wire == "table":
        return encode_table(cast(Table, value))
    if wire == "shortstr":
        text = cast(str, value).encode("utf-8")
        if len(text) > 255:
            raise ValueError(f"property {name} of {len(text)} bytes is longer than 255")
        return len(text).to_bytes(1, "big") + text
    size = 8 if wire == "timestamp" else 1
    number = cast(int, value)
    if not 0 <= number < 1 << (8 * size):
        raise ValueError(f"property {name} {number} does not fit {8 * size} bits")
    return number.to_bytes(size, "big")
