"""Chunks: what goes in comes out, column by column, as Arrow would look at it."""

from array import array

import pytest

from penstock.base.cause import Cause
from penstock.protocol.content import Address, Message, make_content
from penstock.storage.layout.checksum import VERSION, extend_of
from penstock.streams.chunk import CHUNK_MESSAGES, Chunk, ChunkBuilder, is_whole
from penstock.streams.format import ADDRESS_ID, BODY_AT, CHUNK_HEAD_BYTES, COLUMNS, TIMES

EXTEND = extend_of(VERSION)
SEED = EXTEND(0, b"identity")
ORIGIN = Cause("somebody")


def message(
    body: bytes, key: str = "k", exchange: str = "e", properties: bytes = b"\0\0"
) -> Message:
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    made = make_content(9, b"", header, body, 4096)
    made.address = Address(exchange, key)
    return made


def built(*messages: Message, first: int = 100, synced_to: int = 7) -> bytes:
    builder = ChunkBuilder(first, 5_000_000)
    for number, one in enumerate(messages):
        builder.add(one, 5_000_000 + number * 10)
    return builder.build(EXTEND, SEED, synced_to)


def test_what_goes_in_comes_out() -> None:
    bodies = [b"", b"a" * 10_000, "ö".encode(), b"\xce\x03" * 9]
    keys = ["k", "ключ", "", "k"]
    data = built(*(message(body, key) for body, key in zip(bodies, keys, strict=True)))
    chunk = Chunk(b"before!!" + data, 8)
    assert (chunk.first, chunk.count, chunk.next(), chunk.synced_to) == (100, 4, 104, 7)
    assert chunk.size == len(data) and chunk.address_count == 3
    for index, (body, key) in enumerate(zip(bodies, keys, strict=True)):
        found = chunk.message(index, 3, 4096, ORIGIN)
        assert found.body() == body and chunk.body_bytes(index) == len(body)
        assert (found.address.exchange, found.address.routing_key) == ("e", key)
        assert found.channel == 3 and found.origin is ORIGIN
        assert chunk.time_us(index) == 5_000_000 + index * 10
    frames = chunk.message(1, 3, 4096, ORIGIN).raw
    assert frames.count(b"\x03\x00\x03\x00\x00\x0f\xf8") == 2, "frames of 4096 with the envelope"


def test_columns_begin_where_arrays_can() -> None:
    data = built(*(message(b"x" * n, f"k{n % 3}") for n in range(5)))
    chunk = Chunk(data, 0)
    assert len(data) % 8 == 0
    assert len(chunk._starts) == COLUMNS
    assert all(start % 8 == 0 for start in chunk._starts)
    assert chunk.column(BODY_AT, "i", 6) == array("i", [0, 0, 1, 3, 6, 10])
    assert chunk.column(ADDRESS_ID, "H", 5) == array("H", [0, 1, 2, 0, 1])
    assert chunk.column(TIMES, "I", 5) == array("I", [0, 10, 20, 30, 40])


def test_arrow_takes_a_column_as_it_is() -> None:
    """The bodies are a BinaryArray over the bytes of the file."""
    pa = pytest.importorskip("pyarrow")
    bodies = [b"one", b"", b"three"]
    data = built(*(message(body) for body in bodies))
    chunk = Chunk(data, 0)
    whole = pa.py_buffer(data)
    at, body = chunk._starts[1], chunk._starts[9]
    column = pa.BinaryArray.from_buffers(
        pa.binary(), 3, [None, whole.slice(at, 16), whole.slice(body)]
    )
    assert column.to_pylist() == bodies
    assert column.buffers()[2].address == whole.address + body, "nothing was copied"


def test_any_bit_is_looked_at() -> None:
    data = built(message(b"body"), message(b"other", "key"))
    assert is_whole(data, 0, EXTEND, SEED)
    assert not is_whole(data, 0, EXTEND, SEED ^ 1), "a chunk of another segment"
    assert not is_whole(data[:-1], 0, EXTEND, SEED)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        assert not is_whole(bytes(flipped), 0, EXTEND, SEED), f"bit {bit}"


def test_a_chunk_is_full() -> None:
    builder = ChunkBuilder(0, 0)
    builder.add(message(b"x" * 100), 0)
    assert builder.is_full(100) and not builder.is_full(1000)
    for _ in range(CHUNK_MESSAGES - 1):
        assert not builder.is_full(1 << 30)
        builder.add(message(b""), 0)
    assert builder.is_full(1 << 30)


def test_the_head_has_the_size_it_says() -> None:
    chunk = Chunk(built(message(b"")), 0)
    assert chunk._starts[0] == CHUNK_HEAD_BYTES
