"""Filters of chunks: a value that is there is always found, one that is not seldom, old chunks are
not passed over."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.content import Message, make_content
from penstock.protocol.properties import Properties, encode_properties
from penstock.protocol.values import Value
from penstock.streams.chunk import Chunk, ChunkBuilder, is_whole
from penstock.streams.filtering import FILTER_BYTES, StreamFilter, positions_of, value_of
from tests.unit.streams.test_chunk import EXTEND, ORIGIN, SEED

FILTER_FIELD_AT = 84
"""Of a chunk's head: behind the starts of its columns."""


def valued(value: Value, **more: Value) -> bytes:
    return encode_properties(Properties(headers={**more, "x-stream-filter-value": value}))


def message(body: bytes, properties: bytes = b"\0\0") -> Message:
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    return make_content(9, b"", header, body, 4096)


def built(*values: str, filter_bytes: int = FILTER_BYTES) -> Chunk:
    """A chunk with a message for each of `values`, "" for none."""
    builder = ChunkBuilder(0, 0, filter_bytes)
    for value in values:
        builder.add(message(b"b", valued(value) if value else b"\0\0"), 0)
    return Chunk(builder.build(EXTEND, SEED, 0), 0)


def wants(*values: str, unfiltered: bool = False) -> StreamFilter:
    return StreamFilter([value.encode() for value in values], unfiltered)


VALUES = st.lists(st.text(min_size=1, max_size=20), max_size=30)


@given(VALUES, st.integers(16, 255))
def test_a_value_that_is_there_is_found(values: list[str], filter_bytes: int) -> None:
    chunk = built("", *values, filter_bytes=filter_bytes)
    assert is_whole(chunk.data, 0, EXTEND, SEED)
    for value in values:
        assert chunk.may_have(wants("what nobody has", value))
    assert chunk.may_have(wants("what nobody has", unfiltered=True))
    assert chunk.message(0, 1, 0, ORIGIN).body() == b"b", "and columns are where they were"


def test_values_that_are_not_there_are_seldom_found() -> None:
    chunk = built(*(f"region {n}" for n in range(10)))
    found = sum(chunk.may_have(wants(f"other {n}")) for n in range(2000))
    # Forty positions of 128: each is taken with a chance of a quarter, all four with 1 in 190.
    assert found < 100
    roomy = built(*(f"region {n}" for n in range(10)), filter_bytes=255)
    assert sum(roomy.may_have(wants(f"other {n}")) for n in range(2000)) <= 2


def test_messages_without_a_value() -> None:
    none, all_, some = built("", ""), built("a", "b"), built("a", "")
    assert not none.may_have(wants("a")) and none.may_have(wants("a", unfiltered=True))
    assert not all_.may_have(wants("zzz", unfiltered=True))
    assert some.may_have(wants("zzz", unfiltered=True))


def test_a_chunk_from_before_there_were_filters_may_have_everything() -> None:
    data = bytearray(built("").data)
    struct.pack_into("<I", data, FILTER_FIELD_AT, 0)
    assert Chunk(bytes(data), 0).may_have(wants("a"))


def test_what_counts_as_a_value() -> None:
    assert value_of(valued("ö")) == "ö".encode()
    assert value_of(valued("a", other=1)) == b"a"
    assert value_of(valued(b"\xff")) == b"\xff", "a text that is no UTF-8"
    odds: tuple[Value, ...] = (5, None, ["a"], {"a": "b"}, True)
    for odd in odds:
        assert value_of(valued(odd)) == b""
    assert value_of(b"\0\0") == b""
    nested = Properties(headers={"in": {"x-stream-filter-value": "deep"}})
    assert value_of(encode_properties(nested)) == b""
    body_like = Properties(headers={"note": "x-stream-filter-value"})
    assert value_of(encode_properties(body_like)) == b""


def test_positions_are_for_ever() -> None:
    """They stand in files: another hash would make filters lie."""
    assert positions_of(b"europe", 128) == [109, 55, 115, 67]
    assert positions_of("é".encode(), 2040) == [739, 1095, 1247, 1857]
