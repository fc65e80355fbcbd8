"""Field tables and arrays: bytes to Python values and back. COMPILED.

    table = length:4 { name-length:1 name type:1 value }*      array = length:4 { type:1 value }*

    t bool 1      b int 1      s int 2      I int 4      l, L int 8      f float 4    d float 8
    V None 0      B uint 1     u uint 2     i uint 4     T Timestamp 8   D scale:1 value:4
    S length:4 str (bytes where it is not UTF-8)         x length:4 bytearray         A list, F dict

Letters as RabbitMQ reads them, which differs from the text of the specification for s, l and L.
Bounds: every length is checked against its container before a byte is copied, so nothing larger
than the input is ever kept; nesting is counted, so no input can exhaust the stack. When a name
occurs twice the first one wins, as in RabbitMQ's look-ups.
Not handled: field names are not held to the specification's alphabet, as no broker does.
"""

from decimal import Decimal
from typing import Final, TypeAlias

from penstock.base.errors import ConnectionFault
from penstock.base.limits import TABLE_DEPTH_MAX
from penstock.base.wire import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i32_be,
    write_i64_be,
)
from penstock.protocol.constants import SYNTAX_ERROR
from penstock.protocol.integers import LongInteger, Timestamp

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | bytearray
    | Decimal
    | Timestamp
    | list["Value"]
    | dict[str, "Value"]
    | None
)
Table: TypeAlias = dict[str, Value]

_DEPTH_MAX: Final = TABLE_DEPTH_MAX.default
_U32_MAX: Final = 0xFFFFFFFF


def decode_table(data: bytes, offset: int, end: int) -> tuple[Table, int]:
    """Read the table whose 4-byte length stands at `offset`; the table and the offset behind it.

    end: offset just behind the last byte that may be read, 0..len(data).
    Raises: ConnectionFault 502 for anything malformed or nested deeper than table_depth_max.
    """
    stop = _stop_of_long(data, offset, end)
    return _decode_fields(data, offset + 4, stop, 1), stop


def decode_fields(data: bytes, offset: int, end: int) -> Table:
    """Read a table without its length: fields from `offset` up to `end` (SASL AMQPLAIN).

    Raises: ConnectionFault 502 as `decode_table`.
    """
    if offset < 0 or end > len(data) or offset > end:
        raise _past_end()
    return _decode_fields(data, offset, end, 1)


def find_field(data: bytes, offset: int, end: int, name: str) -> tuple[int, int] | None:
    """Where the value of top-level field `name` stands: offsets of its type octet and behind it.

    `offset` is that of the table's 4-byte length. None when there is no such field. Nested values
    are stepped over, not checked.
    Raises: ConnectionFault 502 for a malformed top level.
    """
    wanted = name.encode("utf-8")
    stop = _stop_of_long(data, offset, end)
    at = offset + 4
    while at < stop:
        value = _stop_of_short(data, at, stop)
        after = _skip_value(data, value, stop)
        if data[at + 1 : value] == wanted:
            return value, after
        at = after
    return None


def read_field(data: bytes, offset: int, end: int, name: str) -> Value:
    """The value of top-level field `name` of the table at `offset`; None when it is absent or void.

    Raises: ConnectionFault 502 as `find_field`, or when the value itself is malformed.
    """
    span = find_field(data, offset, end, name)
    if span is None:
        return None
    value, _ = _decode_value(data, span[0], span[1], 1)
    return value


def remove_field(table: bytes, name: str) -> bytes:
    """Cut every top-level field called `name` out of an encoded table; all other bytes stay.

    table: an encoded table with its 4-byte length and nothing behind it. The very same object
    comes back when there is no such field.
    Raises: ConnectionFault 502 for a malformed top level or bytes behind the table.
    """
    wanted = name.encode("utf-8")
    stop = _stop_of_long(table, 0, len(table))
    if stop != len(table):
        raise ConnectionFault(SYNTAX_ERROR, "bytes behind the end of a field table")
    kept: list[bytes] = []
    copied = 4
    at = 4
    while at < stop:
        value = _stop_of_short(table, at, stop)
        after = _skip_value(table, value, stop)
        if table[at + 1 : value] == wanted:
            kept.append(table[copied:at])
            copied = after
        at = after
    if copied == 4 and not kept:
        return table
    kept.append(table[copied:stop])
    fields = b"".join(kept)
    return len(fields).to_bytes(4, "big") + fields


def encode_table(table: Table) -> bytes:
    """`table` with its 4-byte length in front, ready for the wire; fields keep their order.

    An int is written as I where it fits 32 bits, else as l, as a LongInteger always is; a float as
    d; str and bytes as S.
    Raises: ValueError for a value no wire type can hold, a name above 255 bytes, or nesting
    deeper than table_depth_max.
    """
    writer = BytesWriter()
    _encode_fields(writer, table, 1)
    return writer.getvalue()


def _past_end() -> ConnectionFault:
    return ConnectionFault(SYNTAX_ERROR, "field table reaches past the end of its frame")


def _too_deep() -> ConnectionFault:
    return ConnectionFault(SYNTAX_ERROR, f"field table nested deeper than {_DEPTH_MAX} levels")


def _stop_of_long(data: bytes, offset: int, end: int) -> int:
    """Offset behind the 4-byte length at `offset` and the bytes it counts; 502 past `end`."""
    if offset < 0 or end > len(data) or offset + 4 > end:
        raise _past_end()
    stop = offset + 4 + (int(read_i32_be(data, offset)) & _U32_MAX)
    if stop > end:
        raise _past_end()
    return stop


def _stop_of_short(data: bytes, offset: int, end: int) -> int:
    """Offset behind the 1-byte length at `offset` and the bytes it counts; 502 past `end`."""
    if offset >= end:
        raise _past_end()
    stop = offset + 1 + data[offset]
    if stop > end:
        raise _past_end()
    return stop


def _fixed_bytes(kind: int) -> int:
    """Bytes of a value of type octet `kind`; -1 for a 4-byte length and what it counts."""
    if kind == 83 or kind == 70 or kind == 65 or kind == 120:  # S F A x
        return -1
    if kind == 73 or kind == 105 or kind == 102:  # I i f
        return 4
    if kind == 116 or kind == 98 or kind == 66:  # t b B
        return 1
    if kind == 108 or kind == 76 or kind == 84 or kind == 100:  # l L T d
        return 8
    if kind == 115 or kind == 117:  # s u
        return 2
    if kind == 68:  # D
        return 5
    if kind == 86:  # V
        return 0
    raise ConnectionFault(SYNTAX_ERROR, f"unknown field type octet {kind}")


def _skip_value(data: bytes, offset: int, end: int) -> int:
    """Offset behind the value whose type octet stands at `offset`."""
    if offset >= end:
        raise _past_end()
    size = _fixed_bytes(data[offset])
    if size < 0:
        return _stop_of_long(data, offset + 1, end)
    stop = offset + 1 + size
    if stop > end:
        raise _past_end()
    return stop


def _decode_fields(data: bytes, offset: int, end: int, depth: int) -> Table:
    if depth > _DEPTH_MAX:
        raise _too_deep()
    table: Table = {}
    at = offset
    while at < end:
        start = _stop_of_short(data, at, end)
        try:
            name = data[at + 1 : start].decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConnectionFault(SYNTAX_ERROR, "malformed UTF-8 in a field name") from error
        value, at = _decode_value(data, start, end, depth)
        if name not in table:
            table[name] = value
    return table


def _decode_items(data: bytes, offset: int, end: int, depth: int) -> list[Value]:
    if depth > _DEPTH_MAX:
        raise _too_deep()
    items: list[Value] = []
    at = offset
    while at < end:
        value, at = _decode_value(data, at, end, depth)
        items.append(value)
    return items


def _decode_value(data: bytes, offset: int, end: int, depth: int) -> tuple[Value, int]:
    """The value whose type octet stands at `offset`, and the offset behind it."""
    stop = _skip_value(data, offset, end)
    kind = data[offset]
    at = offset + 1
    if kind == 83:
        return _text(data[at + 4 : stop]), stop
    if kind == 70:
        return _decode_fields(data, at + 4, stop, depth + 1), stop
    if kind == 65:
        return _decode_items(data, at + 4, stop, depth + 1), stop
    if kind == 120:
        return bytearray(data[at + 4 : stop]), stop
    if kind == 116:
        return data[at] != 0, stop
    if kind == 86:
        return None, stop
    if kind == 100:
        return read_f64_be(data, at), stop
    if kind == 102:
        return read_f32_be(data, at), stop
    if kind == 84:
        return Timestamp(int.from_bytes(data[at:stop], "big")), stop
    if kind == 68:
        # Through text, because arithmetic would depend on the thread's decimal context.
        return Decimal(f"{int(read_i32_be(data, at + 1)) & _U32_MAX}E-{data[at]}"), stop
    return _decode_integer(data, at, kind), stop


def _decode_integer(data: bytes, at: int, kind: int) -> int:
    """A number of type octet `kind` at `at`; the caller has checked that its bytes are there."""
    if kind == 73:
        return int(read_i32_be(data, at))
    if kind == 105:
        return int(read_i32_be(data, at)) & _U32_MAX
    if kind == 98:
        return data[at] - 256 if data[at] > 127 else data[at]
    if kind == 66:
        return data[at]
    if kind == 115:
        return int(read_i16_be(data, at))
    if kind == 117:
        return int(read_i16_be(data, at)) & 0xFFFF
    assert kind == 108 or kind == 76, "cannot happen, because _skip_value refuses other octets"
    return int(read_i64_be(data, at))


def _text(data: bytes) -> Value:
    """A long string as str, or as the bytes it is when it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _encode_fields(writer: BytesWriter, table: Table, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"field table nested deeper than {_DEPTH_MAX} levels")
    start = len(writer)
    write_i32_be(writer, 0)
    for name, value in table.items():
        data = name.encode("utf-8")
        if len(data) > 255:
            raise ValueError(f"field name of {len(data)} bytes is longer than 255")
        writer.append(len(data))
        writer.write(data)
        _encode_value(writer, value, depth)
    _patch_length(writer, start)


def _encode_items(writer: BytesWriter, items: list[Value], depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"field array nested deeper than {_DEPTH_MAX} levels")
    start = len(writer)
    write_i32_be(writer, 0)
    for value in items:
        _encode_value(writer, value, depth)
    _patch_length(writer, start)


def _patch_length(writer: BytesWriter, start: int) -> None:
    """Write the bytes that follow the 4-byte length at `start` into that length."""
    size = len(writer) - start - 4
    writer[start] = (size >> 24) & 0xFF
    writer[start + 1] = (size >> 16) & 0xFF
    writer[start + 2] = (size >> 8) & 0xFF
    writer[start + 3] = size & 0xFF


def _encode_value(writer: BytesWriter, value: Value, depth: int) -> None:
    if isinstance(value, str):
        _encode_long(writer, 83, value.encode("utf-8"))
    elif isinstance(value, bool):  # before int, because a bool is an int
        writer.append(116)
        writer.append(1 if value else 0)
    elif isinstance(value, Timestamp):  # before int, because a Timestamp is an int
        writer.append(84)
        writer.write(_unsigned(int(value), 8, "timestamp"))
    elif isinstance(value, int):
        _encode_integer(writer, value, isinstance(value, LongInteger))
    elif isinstance(value, dict):
        writer.append(70)
        _encode_fields(writer, value, depth + 1)
    elif isinstance(value, list):
        writer.append(65)
        _encode_items(writer, value, depth + 1)
    elif value is None:
        writer.append(86)
    elif isinstance(value, float):
        writer.append(100)
        write_f64_be(writer, value)
    elif isinstance(value, bytearray):
        _encode_long(writer, 120, bytes(value))
    elif isinstance(value, bytes):
        _encode_long(writer, 83, value)
    elif isinstance(value, Decimal):
        _encode_decimal(writer, value)
    else:
        raise ValueError(f"no field type can hold a {type(value).__name__}")


def _encode_long(writer: BytesWriter, kind: int, data: bytes) -> None:
    writer.append(kind)
    writer.write(_unsigned(len(data), 4, "length of a field value"))
    writer.write(data)


def _encode_integer(writer: BytesWriter, value: int, is_long: bool) -> None:
    if -0x80000000 <= value <= 0x7FFFFFFF and not is_long:
        writer.append(73)
        write_i32_be(writer, value)
    elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        writer.append(108)
        write_i64_be(writer, value)
    else:
        raise ValueError("an integer field holds at most 64 bits with sign")


def _encode_decimal(writer: BytesWriter, value: Decimal) -> None:
    """D: a scale of 0..255 and an unsigned 32-bit number, as RabbitMQ reads it."""
    parts = value.as_tuple()
    exponent = parts.exponent
    # The digit count is checked first, because raising to a huge exponent costs memory.
    if isinstance(exponent, int) and len(parts.digits) + max(exponent, 0) <= 264:
        number = 0
        for digit in parts.digits:
            number = number * 10 + digit
        if exponent > 0:
            number *= 10**exponent
            exponent = 0
        if exponent >= -255 and number <= _U32_MAX and (parts.sign == 0 or number == 0):
            writer.append(68)
            writer.append(-exponent)
            writer.write(number.to_bytes(4, "big"))
            return
    raise ValueError("a decimal field holds 0..4294967295 with at most 255 decimal places")


def _unsigned(value: int, size: int, what: str) -> bytes:
    """`value` in `size` bytes, big-endian; ValueError naming `what` when it does not fit."""
    if value < 0 or value >= 1 << (8 * size):
        raise ValueError(f"{what} {value} does not fit {8 * size} bits")
    return value.to_bytes(size, "big")
