"""Wire primitives: the compiled ones and the pure ones are one behaviour."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import wire, wire_pure

INTEGERS = (("i16", 2), ("i32", 4), ("i64", 8))


@pytest.mark.parametrize("module", [wire, wire_pure], ids=["wire", "pure"])
@pytest.mark.parametrize(("kind", "size"), INTEGERS)
@given(data=st.data())
def test_integers_round_trip(module: ModuleType, kind: str, size: int, data: st.DataObject) -> None:
    half = 1 << (8 * size - 1)
    value = data.draw(st.integers(-half, half - 1))
    writer = module.BytesWriter()
    getattr(module, f"write_{kind}_be")(writer, value)
    written = writer.getvalue()
    assert written == value.to_bytes(size, "big", signed=True)
    assert getattr(module, f"read_{kind}_be")(b"xx" + written, 2) == value


@pytest.mark.parametrize("module", [wire, wire_pure], ids=["wire", "pure"])
@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_of_tables_are_little_endian(module: ModuleType, value: int) -> None:
    writer = module.BytesWriter()
    module.write_i64_le(writer, value)
    assert writer.getvalue() == value.to_bytes(8, "little", signed=True)


@pytest.mark.parametrize("module", [wire, wire_pure], ids=["wire", "pure"])
@pytest.mark.parametrize(("kind", "size"), [*INTEGERS, ("f32", 4), ("f64", 8)])
@pytest.mark.parametrize("index", [-1, 1, 100])
def test_reading_outside_is_an_error(module: ModuleType, kind: str, size: int, index: int) -> None:
    with pytest.raises(ValueError if index < 0 else IndexError):
        getattr(module, f"read_{kind}_be")(b"\x00" * size, index)


@pytest.mark.parametrize("module", [wire, wire_pure], ids=["wire", "pure"])
def test_a_writer_grows_shrinks_and_is_indexed(module: ModuleType) -> None:
    writer = module.BytesWriter()
    writer.append(1)
    writer.write(b"abc")
    writer[0] = 2
    assert len(writer) == 4 and writer[0] == 2 and writer.getvalue() == b"\x02abc"
    writer.truncate(2)
    assert writer.getvalue() == b"\x02a"
    writer.truncate(0)
    assert writer.getvalue() == b"" and len(writer) == 0
