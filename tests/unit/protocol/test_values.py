"""Field tables: known bytes, RabbitMQ's letters, and the refusals."""

from decimal import Decimal

import pytest

from penstock.base.errors import ConnectionFault
from penstock.base.limits import TABLE_DEPTH_MAX
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import (
    Table,
    Value,
    decode_fields,
    decode_table,
    encode_table,
    find_field,
    read_field,
    remove_field,
)

DEEP = 10_000

VECTORS: list[tuple[str, Value]] = [
    ("74 01", True),
    ("74 00", False),
    ("49 ff ff ff fe", -2),
    ("6c 00 00 00 01 00 00 00 00", 2**32),
    ("64 3f f8 00 00 00 00 00 00", 1.5),
    ("53 00 00 00 02 68 69", "hi"),
    ("53 00 00 00 02 ff fe", b"\xff\xfe"),
    ("78 00 00 00 01 07", bytearray(b"\x07")),
    ("44 02 00 00 01 3a", Decimal("3.14")),
    ("54 00 00 00 00 65 53 f1 00", Timestamp(1_700_000_000)),
    ("41 00 00 00 03 74 01 56", [True, None]),
    ("46 00 00 00 03 01 61 56", {"a": None}),
    ("56", None),
]

OTHER_WIDTHS: list[tuple[str, int | float | bool]] = [
    ("62 ff", -1),
    ("42 ff", 255),
    ("73 ff fe", -2),
    ("75 ff fe", 65_534),
    ("69 ff ff ff fe", 4_294_967_294),
    ("4c ff ff ff ff ff ff ff ff", -1),
    ("66 3f c0 00 00", 1.5),
    ("74 80", True),
]


def table_of(*fields: tuple[str, str]) -> bytes:
    """An encoded table of (name, type octet and value in hexadecimal)."""
    body = b"".join(
        bytes([len(name)]) + name.encode() + bytes.fromhex(value) for name, value in fields
    )
    return len(body).to_bytes(4, "big") + body


def whole(data: bytes) -> Table:
    table, stop = decode_table(data, 0, len(data))
    assert stop == len(data)
    return table


@pytest.mark.parametrize(("wire", "value"), VECTORS)
def test_known_bytes_both_ways(wire: str, value: Value) -> None:
    data = table_of(("k", wire))
    found = whole(data)["k"]
    assert found == value
    assert type(found) is type(value)
    assert encode_table({"k": value}) == data


@pytest.mark.parametrize(("wire", "value"), OTHER_WIDTHS)
def test_widths_that_are_only_read(wire: str, value: Value) -> None:
    found = whole(table_of(("k", wire)))
    assert found == {"k": value}
    assert whole(encode_table(found)) == found


def test_scale_of_a_decimal_survives() -> None:
    found = whole(table_of(("k", "44 03 00 00 05 dc")))["k"]
    assert str(found) == "1.500"
    assert encode_table({"k": found}) == table_of(("k", "44 03 00 00 05 dc"))
    assert whole(encode_table({"k": Decimal("12E2")})) == {"k": Decimal(1200)}


def test_an_empty_table_and_an_empty_name() -> None:
    assert whole(bytes(4)) == {}
    assert whole(table_of(("", "56"))) == {"": None}


def test_the_first_of_two_equal_names_wins() -> None:
    assert whole(table_of(("k", "42 01"), ("k", "42 02"))) == {"k": 1}
    data = table_of(("k", "42 01"), ("k", "42 02"))
    assert read_field(data, 0, len(data), "k") == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "past the end"),
        (b"\x00\x00\x00", "past the end"),
        (b"\x00\x00\x00\x01", "past the end"),
        (b"\xff\xff\xff\xff", "past the end"),
        (table_of(("k", "")), "past the end"),
        (table_of(("k", "49 00 00 00")), "past the end"),
        (table_of(("k", "53 00 00 00 02 61")), "past the end"),
        (table_of(("k", "46 ff ff ff ff")), "past the end"),
        (table_of(("k", "41 00 00 00 01 49")), "past the end"),
        (b"\x00\x00\x00\x01\x05", "past the end"),
        (table_of(("k", "7a 00")), "unknown field type octet 122"),
        (b"\x00\x00\x00\x03\x01\xffV", "malformed UTF-8"),
    ],
)
def test_malformed_tables_are_502(data: bytes, text: str) -> None:
    with pytest.raises(ConnectionFault, match=text) as caught:
        decode_table(data, 0, len(data))
    assert caught.value.code == 502


def test_a_length_past_the_given_end_is_refused_though_the_bytes_are_there() -> None:
    data = table_of(("k", "56"))
    with pytest.raises(ConnectionFault):
        decode_table(data + data, 0, len(data) - 1)


@pytest.mark.parametrize(("offset", "end"), [(-1, 4), (0, 9), (5, 4)])
def test_offsets_outside_the_bytes_are_refused(offset: int, end: int) -> None:
    with pytest.raises(ConnectionFault):
        decode_table(bytes(8), offset, end)
    with pytest.raises(ConnectionFault):
        decode_fields(bytes(8), offset, end)


def nested(depth: int, opening: bytes) -> bytes:
    """A table in which `opening` (name and type octet, or type octet) is repeated `depth` times."""
    step = len(opening) + 4
    first = b"\x01a" + opening[-1:]
    rest = (depth - 1) * step
    parts = [(3 + 4 + rest).to_bytes(4, "big"), first, rest.to_bytes(4, "big")]
    for level in range(depth - 2, -1, -1):
        parts.append(opening)
        parts.append((level * step).to_bytes(4, "big"))
    return b"".join(parts)


@pytest.mark.parametrize("opening", [b"\x01aF", b"A"])
def test_nesting_ten_thousand_deep_is_502(opening: bytes) -> None:
    data = nested(DEEP, opening)
    with pytest.raises(ConnectionFault, match="nested deeper than 32") as caught:
        decode_table(data, 0, len(data))
    assert caught.value.code == 502
    with pytest.raises(ConnectionFault, match="nested deeper"):
        read_field(data, 0, len(data), "a")
    assert find_field(data, 0, len(data), "a") == (6, len(data))
    assert remove_field(data, "a") == bytes(4)


def test_nesting_up_to_the_limit_is_read() -> None:
    data = nested(TABLE_DEPTH_MAX.default - 1, b"\x01aF")
    table = whole(data)
    assert encode_table(table) == data
    with pytest.raises(ConnectionFault):
        whole(nested(TABLE_DEPTH_MAX.default, b"\x01aF"))


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Timestamp(-1),
        Timestamp(2**64),
        Decimal(-1),
        Decimal(2**32),
        Decimal("1E-256"),
        Decimal("1E+999999"),
        Decimal("NaN"),
        Decimal("Infinity"),
        "\ud800",
    ],
)
def test_values_no_field_type_holds_are_refused(value: Value) -> None:
    with pytest.raises(ValueError):
        encode_table({"k": value})


def test_names_are_bounded() -> None:
    assert whole(encode_table({"é" * 127: 1})) == {"é" * 127: 1}
    with pytest.raises(ValueError, match="256 bytes"):
        encode_table({"é" * 128: 1})


def test_writing_is_depth_counted() -> None:
    table: Table = {}
    items: list[Value] = []
    for _ in range(DEEP):
        table = {"a": table}
        items = [items]
    with pytest.raises(ValueError, match="nested deeper"):
        encode_table(table)
    with pytest.raises(ValueError, match="nested deeper"):
        encode_table({"a": items})


def test_a_removed_field_is_cut_out_byte_for_byte() -> None:
    data = table_of(("CC", "42 01"), ("BCC", "41 00 00 00 00"), ("x", "62 05"), ("BCC", "56"))
    assert remove_field(data, "BCC") == table_of(("CC", "42 01"), ("x", "62 05"))
    assert remove_field(data, "x") == table_of(
        ("CC", "42 01"), ("BCC", "41 00 00 00 00"), ("BCC", "56")
    )
    assert remove_field(data, "absent") is data
    assert remove_field(table_of(("a", "56")), "a") == bytes(4)


def test_removing_refuses_what_is_no_table() -> None:
    for data in (b"", table_of(("a", "56")) + b"x", table_of(("a", "49 00"))):
        with pytest.raises(ConnectionFault):
            remove_field(data, "a")
