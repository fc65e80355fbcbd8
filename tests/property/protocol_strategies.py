"""Hypothesis strategies for everything the AMQP codec writes, and a comparison that sees types."""

from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from typing import cast

from hypothesis import strategies as st

from penstock.protocol.integers import Timestamp
from penstock.protocol.methods import Method
from penstock.protocol.methods.base import WireType
from penstock.protocol.methods.codec import METHODS
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table, Value

METHOD_CLASSES = [METHODS[key] for key in sorted(METHODS)]


def _fits_short(text: str) -> bool:
    return len(text.encode("utf-8")) <= 255


def _decimal(number: int, scale: int) -> Decimal:
    return Decimal(f"{number}E-{scale}")


def _not_utf8(data: bytes) -> bytes:
    return b"\xff" + data


short_texts = st.text(max_size=255).filter(_fits_short)
names = st.text(max_size=40).filter(_fits_short)
scalars: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=60),
    st.binary(max_size=60).map(_not_utf8),
    st.binary(max_size=60).map(bytearray),
    st.builds(_decimal, st.integers(0, 2**32 - 1), st.integers(0, 255)),
    st.integers(0, 2**64 - 1).map(Timestamp),
)


def _containers(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    lists = st.lists(inner, max_size=5)
    dicts = st.dictionaries(names, inner, max_size=5)
    return cast("st.SearchStrategy[Value]", st.one_of(lists, dicts))


values: st.SearchStrategy[Value] = st.recursive(scalars, _containers, max_leaves=20)
tables: st.SearchStrategy[Table] = st.dictionaries(names, values, max_size=6)

_BY_WIRE: dict[WireType, st.SearchStrategy[object]] = {
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "bit": st.booleans(),
    "shortstr": short_texts,
    "longstr": st.binary(max_size=300),
    "table": tables,
}


def arguments_of(found: type[Method]) -> list[tuple[str, WireType]]:
    """The fields of a method that are attributes, in order."""
    return [(name, wire) for name, wire in found.FIELDS if not name.startswith("reserved_")]


def methods_of(
    found: type[Method], by_wire: dict[WireType, st.SearchStrategy[object]] = _BY_WIRE
) -> st.SearchStrategy[Method]:
    """Every instance of one method class."""
    make: Callable[..., Method] = found
    arguments = st.fixed_dictionaries({name: by_wire[wire] for name, wire in arguments_of(found)})
    return arguments.map(lambda values: make(**values))


methods: st.SearchStrategy[Method] = st.sampled_from(METHOD_CLASSES).flatmap(methods_of)

_BY_PROPERTY: dict[str, st.SearchStrategy[object]] = {
    "headers": tables,
    "delivery_mode": st.integers(0, 255),
    "priority": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1),
}
_make_properties: Callable[..., Properties] = Properties
properties: st.SearchStrategy[Properties] = st.builds(
    _make_properties,
    **{
        field.name: st.none() | _BY_PROPERTY.get(field.name, short_texts)
        for field in fields(Properties)
    },
)


def same(left: Value, right: Value) -> bool:
    """Equal, and of the same types all the way down: True is not 1, a Timestamp is no plain int."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right
