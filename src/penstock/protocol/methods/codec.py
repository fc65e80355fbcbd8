"""Methods to bytes and back, driven by the FIELDS of their classes.

    payload = class-id:2 method-id:2 arguments       consecutive bits share octets, lowest bit first

A decoder is strict where RabbitMQ is: arguments that end early or leave bytes behind are refused.
The reply code is 502 SYNTAX_ERROR (RabbitMQ: 501), because the frame itself was sound. A method
nobody knows is 503 COMMAND_INVALID; RabbitMQ drops the socket there without a word.
Source: AMQP 0-9-1 sections 2.3.5.2 and 4.2.5.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from penstock.base.errors import ConnectionFault
from penstock.protocol import methods
from penstock.protocol.constants import (
    COMMAND_INVALID,
    FRAME_END,
    FRAME_METHOD,
    SYNTAX_ERROR,
)
from penstock.protocol.methods.base import Method, WireType
from penstock.protocol.values import Table, decode_table, encode_table

_CLASSES: Final = tuple(
    found
    for found in vars(methods).values()
    if isinstance(found, type) and issubclass(found, Method) and found is not Method
)
METHODS: Final[Mapping[tuple[int, int], type[Method]]] = MappingProxyType(
    {(found.CLASS_ID, found.METHOD_ID): found for found in _CLASSES}
)
"""Every method class by (class id, method id)."""

_NUMBER_BYTES: Final[Mapping[WireType, int]] = MappingProxyType(
    {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
)
_RESERVED: Final = "reserved_"


def decode_method(payload: bytes) -> Method:
    """The method in the payload of a method frame, class id first.

    Raises: ConnectionFault 503 for an unknown method, 502 for malformed arguments; with the ids
    of the method at fault, and never with what the arguments hold.
    """
    if len(payload) < 4:
        raise ConnectionFault(SYNTAX_ERROR, "method frame is too short for a method")
    class_id = int.from_bytes(payload[0:2], "big")
    method_id = int.from_bytes(payload[2:4], "big")
    found = METHODS.get((class_id, method_id))
    if found is None:
        raise ConnectionFault(
            COMMAND_INVALID, f"unknown method {method_id} of class {class_id}", class_id, method_id
        )
    try:
        return _decode_arguments(found, payload)
    except ConnectionFault as fault:
        text = f"cannot decode {found.NAME}: {fault.text}"
        raise ConnectionFault(fault.code, text, class_id, method_id) from fault


def encode_method(method: Method) -> bytes:
    """The payload of the method frame that says `method`.

    Raises: ValueError, naming the field, for a value its wire type cannot hold: a shortstr above
    255 bytes of UTF-8, a number out of range, a table `encode_table` refuses.
    """
    out = bytearray(method.CLASS_ID.to_bytes(2, "big") + method.METHOD_ID.to_bytes(2, "big"))
    bits = 0
    for name, wire in method.FIELDS:
        value: object = None if name.startswith(_RESERVED) else getattr(method, name)
        if wire != "bit":
            bits = 0
            out += _encode_value(f"{method.NAME} {name}", wire, value)
            continue
        if bits % 8 == 0:
            out.append(0)
        if value:
            out[-1] |= 1 << (bits % 8)
        bits += 1
    return bytes(out)


def method_frame(channel: int, method: Method) -> bytes:
    """The whole frame that says `method` on `channel` (0..65535), end octet included.

    The caller keeps it within the peer's frame_bytes_max. Raises: ValueError as `encode_method`.
    """
    payload = encode_method(method)
    return b"".join(
        (
            FRAME_METHOD.to_bytes(1, "big"),
            channel.to_bytes(2, "big"),
            len(payload).to_bytes(4, "big"),
            payload,
            FRAME_END.to_bytes(1, "big"),
        )
    )


def _decode_arguments(found: type[Method], payload: bytes) -> Method:
    at = 4
    bits = 0
    octet = 0
    values: list[object] = []
    for name, wire in found.FIELDS:
        value: object
        if wire == "bit":
            if bits % 8 == 0:
                octet, at = _decode_number(payload, at, 1)
            value = octet >> (bits % 8) & 1 == 1
            bits += 1
        else:
            bits = 0
            value, at = _decode_value(payload, at, wire)
        if not name.startswith(_RESERVED):
            values.append(value)
    if at != len(payload):
        raise ConnectionFault(SYNTAX_ERROR, f"{len(payload) - at} bytes behind its arguments")
    make: Callable[..., Method] = found
    return make(*values)


def _decode_value(payload: bytes, at: int, wire: WireType) -> tuple[object, int]:
    if wire == "shortstr":
        data, stop = _decode_string(payload, at, 1)
        try:
            return data.decode("utf-8"), stop
        except UnicodeDecodeError as error:
            raise ConnectionFault(SYNTAX_ERROR, "malformed UTF-8 in shortstr") from error
    if wire == "longstr":
        return _decode_string(payload, at, 4)
    if wire == "table":
        return decode_table(payload, at, len(payload))
    return _decode_number(payload, at, _NUMBER_BYTES[wire])


def _decode_number(payload: bytes, at: int, size: int) -> tuple[int, int]:
    stop = at + size
    if stop > len(payload):
        raise ConnectionFault(SYNTAX_ERROR, "its arguments end early")
    return int.from_bytes(payload[at:stop], "big"), stop


def _decode_string(payload: bytes, at: int, length_bytes: int) -> tuple[bytes, int]:
    length, start = _decode_number(payload, at, length_bytes)
    stop = start + length
    if stop > len(payload):
        raise ConnectionFault(SYNTAX_ERROR, "its arguments end early")
    return payload[start:stop], stop


def _encode_value(field: str, wire: WireType, value: object) -> bytes:
    """One value that is not a bit; None, for a reserved field, becomes zero or empty."""
    if wire == "shortstr":
        text = ("" if value is None else cast(str, value)).encode("utf-8")
        if len(text) > 255:
            raise ValueError(f"{field} of {len(text)} bytes is longer than 255")
        return len(text).to_bytes(1, "big") + text
    if wire == "longstr":
        data = b"" if value is None else cast(bytes, value)
        return len(data).to_bytes(4, "big") + data
    if wire == "table":
        return encode_table({} if value is None else cast(Table, value))
    number = 0 if value is None else cast(int, value)
    size = _NUMBER_BYTES[wire]
    if not 0 <= number < 1 << (8 * size):
        raise ValueError(f"{field} {number} does not fit {8 * size} bits")
    return number.to_bytes(size, "big")
