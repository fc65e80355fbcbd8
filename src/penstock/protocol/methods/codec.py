"""Methods to bytes and back, driven by the FIELDS of their classes.

    payload = class-id:2 method-id:2 arguments       consecutive bits share octets, lowest bit first

A decoder is strict where RabbitMQ is: arguments that end early or leave bytes behind are refused.
The reply code is 502 SYNTAX_ERROR (RabbitMQ: 501), because the frame itself was sound. A method
outside the table is 503 COMMAND_INVALID; RabbitMQ drops the socket there without a word.
Source: AMQP 0-9-1 sections 2.3.5.2 and 4.2.5.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from penstock.base.errors import ConnectionFault
from penstock.protocol.constants import COMMAND_INVALID, FRAME_END, FRAME_METHOD, SYNTAX_ERROR
from penstock.protocol.methods import table
from penstock.protocol.methods.base import Method, WireType
from penstock.protocol.values import decode_table, encode_table

METHODS: Final[Mapping[tuple[int, int], type[Method]]] = MappingProxyType(
    {
        (found.CLASS_ID, found.METHOD_ID): found
        for found in vars(table).values()
        if isinstance(found, type) and issubclass(found, Method) and found is not Method
    }
)
"""Every method class by (class id, method id)."""

_NUMBER_BYTES: Final[Mapping[WireType, int]] = MappingProxyType(
    {"octet": 1, "short": 2, "long": 4, "longlong": 8}
)


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
    out = bytearray(method.IDS)
    mask = 0
    for name, wire in method.FIELDS:
        value = getattr(method, name)
        if wire == "bit":
            mask = mask << 1 & 0xFF
            if mask == 0:
                mask = 1
                out.append(0)
            if value:
                out[-1] |= mask
            continue
        mask = 0
        if wire == "shortstr":
            text = value.encode()
            if len(text) > 255:
                raise ValueError(f"{method.NAME} {name} of {len(text)} bytes is longer than 255")
            out.append(len(text))
            out += text
        elif wire == "longstr":
            out += len(value).to_bytes(4, "big")
            out += value
        elif wire == "table":
            out += encode_table(value)
        else:
            size = _NUMBER_BYTES[wire]
            if not 0 <= value < 1 << (8 * size):
                raise ValueError(f"{method.NAME} {name} {value} does not fit {8 * size} bits")
            out += value.to_bytes(size, "big")
    return bytes(out)


def method_frame(channel: int, method: Method) -> bytes:
    """The whole frame that says `method` on `channel` (0..65535), end octet included.

    The caller keeps it within the peer's frame_bytes_max. Raises: ValueError as `encode_method`.
    """
    payload = encode_method(method)
    return b"%c%b%b%b%c" % (
        FRAME_METHOD,
        channel.to_bytes(2, "big"),
        len(payload).to_bytes(4, "big"),
        payload,
        FRAME_END,
    )


def _decode_arguments(found: type[Method], payload: bytes) -> Method:
    at = 4
    end = len(payload)
    mask = octet = 0
    values: list[object] = []
    for _, wire in found.FIELDS:
        start = at
        if wire == "bit":
            mask = mask << 1 & 0xFF
            if mask == 0:
                mask = 1
                at += 1
                octet = int.from_bytes(payload[start:at], "big")
            values.append(octet & mask != 0)
            continue
        mask = 0
        if wire == "table":
            table, at = decode_table(payload, at, end)
            values.append(table)
        elif wire in _NUMBER_BYTES:
            at += _NUMBER_BYTES[wire]
            values.append(int.from_bytes(payload[start:at], "big"))
        else:
            start += 1 if wire == "shortstr" else 4
            at = start + int.from_bytes(payload[at:start], "big")
            data = payload[start:at]
            values.append(data if wire == "longstr" or at > end else _text(data))
        if at > end:
            raise ConnectionFault(SYNTAX_ERROR, "its arguments end early")
    if at != end:
        raise ConnectionFault(SYNTAX_ERROR, f"{end - at} bytes behind its arguments")
    for position in found.RESERVED:
        del values[position]
    make: Callable[..., Method] = found
    return make(*values)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConnectionFault(SYNTAX_ERROR, "malformed UTF-8 in shortstr") from error
