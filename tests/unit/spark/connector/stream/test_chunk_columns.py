"""Columns of chunks: the same rows as message by message, to the letter; damage is noticed."""

import io

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.spark.connector.common.decode import record_batches, timestamp_us
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream import chunk_columns
from penstock.spark.connector.stream.chunk_columns import BatchMaker, RowRange, timestamps
from penstock.streams.segment import StreamSegment
from tests.unit.spark.connector.chunks import Row, built, delivered, viewed

SHAPES = (
    Shape("s"),
    Shape("s", "value", has_properties=True),
    Shape("s", has_properties=True, has_headers=True),
)
WORDS = st.text(max_size=8)
PROPERTIES = st.builds(
    Properties,
    content_type=st.none() | WORDS,
    content_encoding=st.none() | WORDS,
    headers=st.none() | st.dictionaries(
        st.sampled_from(["a", "b", "x-stream-offset"]), st.none() | st.integers(0, 9) | WORDS
    ),
    delivery_mode=st.none() | st.integers(1, 2),
    priority=st.none() | st.integers(0, 9),
    correlation_id=st.none() | WORDS,
    timestamp=st.none() | st.integers(0, 2**34) | st.just(2**63) | st.just(253_402_300_800),
    message_id=st.none() | WORDS,
    app_id=st.none() | WORDS,
)  # fmt: skip


def raw_of(properties: Properties) -> bytes:
    """Flags and values as on the wire."""
    return encode_header_payload(0, properties)[12:]


ROWS: st.SearchStrategy[Row] = st.tuples(
    st.binary(max_size=20) | st.just(b"x" * 9000),
    PROPERTIES.map(raw_of),
    st.sampled_from(["", "ex", "äöü"]),
    st.sampled_from(["k", "", "ключ", "k.2"]),
)


def whole(chunks: list[bytes]) -> list[RowRange]:
    return [RowRange(chunk, 0, chunk.count) for chunk in viewed(*chunks)]


def rows_of(batches: list[object]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for batch in batches:
        rows += through_spark(batch)
    return rows


def through_spark(batch: object) -> list[dict[str, object]]:
    """As Spark is given it: written to a pipe, read from it."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:  # type: ignore[attr-defined]  # Any's
        writer.write_batch(batch)
    found: list[dict[str, object]] = pa.ipc.open_stream(sink.getvalue()).read_all().to_pylist()
    return found


@settings(max_examples=40)
@given(st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=3),
       st.sampled_from(SHAPES))  # fmt: skip
def test_the_rows_are_those_of_the_other_path(groups: list[list[Row]], shape: Shape) -> None:
    chunks, first = [], 5
    for rows in groups:
        chunks.append(built(rows, first))
        first += len(rows)
    found = rows_of(list(BatchMaker(shape).batches(whole(chunks))))
    assert found == rows_of(list(record_batches(delivered(*chunks), 5, shape)))
    assert [row["offset"] for row in found] == [*range(5, first)]


@settings(max_examples=30)
@given(st.lists(ROWS, min_size=1, max_size=6), st.data())
def test_a_part_of_a_chunk_is_these_rows(rows: list[Row], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(first + 1, len(rows)))
    chunk = built(rows, 100)
    maker = BatchMaker(SHAPES[2])
    everything = through_spark(maker.batch(whole([chunk])))
    (view,) = viewed(chunk)
    assert through_spark(maker.batch([RowRange(view, first, stop)])) == everything[first:stop]


@settings(max_examples=40)
@given(st.lists(st.binary(min_size=2, max_size=24) | PROPERTIES.map(raw_of), min_size=1))
def test_timestamps_of_whatever_bytes(raws: list[bytes]) -> None:
    """Against the one that looks at one row; what is malformed is malformed for both."""
    at = np.cumsum([0, *(len(raw) for raw in raws)]).astype(np.int32)
    joined = b"".join(raws)
    found = timestamps(at, np.frombuffer(joined, np.uint8))
    expected = [timestamp_us(joined, int(at[n]), int(at[n + 1])) for n in range(len(raws))]
    if found is None:
        assert expected == [None] * len(raws)
        return
    seconds, is_there = found
    assert [
        int(value) * 1_000_000 if has else None
        for value, has in zip(seconds, is_there, strict=True)
    ] == expected


def test_small_chunks_are_joined_and_large_ones_are_not_copied() -> None:
    row: Row = (b"body", b"\x00\x00", "", "k")
    small = [built([row] * 3, number * 3) for number in range(10)]
    (batch,) = BatchMaker(Shape("s")).batches(whole(small))
    assert batch.num_rows == 30
    view = viewed(built([row] * 4000))[0]
    batch = BatchMaker(Shape("s")).batch([RowRange(view, 0, 4000)])
    assert batch.column(0).buffers()[2].address == view.bodies.ctypes.data


def test_a_batch_ends_by_rows_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_columns, "BATCH_ROWS", 5)
    monkeypatch.setattr(chunk_columns, "BATCH_BYTES", 1000)
    rows: list[Row] = [(b"", b"\x00\x00", "", "k")] * 2
    large: list[Row] = [(bytes(1000), b"\x00\x00", "", "k")]
    chunks = [built(rows, 0), built(rows, 2), built(rows, 4), built(large, 6), built(rows, 7)]
    assert [b.num_rows for b in BatchMaker(Shape("s")).batches(whole(chunks))] == [6, 1, 2]


def test_addresses_are_told_apart_chunk_by_chunk() -> None:
    def keys_of(*keys: tuple[str, str]) -> list[tuple[object, object]]:
        chunks = [built([(b"", b"\x00\x00", *key)], at) for at, key in enumerate(keys)]
        rows = through_spark(BatchMaker(Shape("s")).batch(whole(chunks)))
        return [(row["exchange"], row["routing_key"]) for row in rows]

    for keys in ((("e", "k"),) * 3, (("e", "k"), ("e", "l")), (("ek", ""), ("e", "k"))):
        assert keys_of(*keys) == list(keys)


def test_no_utf_8_in_a_routing_key_is_replaced() -> None:
    chunk = bytearray(built([(b"x", b"\x00\x00", "", "k\u00e9y"), (b"y", b"\x00\x00", "", "k")]))
    at = chunk.index("k\u00e9y".encode())
    chunk[at + 1] = 0xFF
    segment = StreamSegment(7, 0, b"identity", 2)
    checksum = segment.extend(int(segment.seed), bytes(chunk[8:]))
    chunk[4:8] = checksum.to_bytes(4, "little")
    pieces = [RowRange(view, 0, 2) for view in viewed(bytes(chunk), segment=segment)]
    rows = through_spark(BatchMaker(Shape("s")).batch(pieces))
    assert [row["routing_key"] for row in rows] == ["k\ufffd\ufffdy", "k"]


@settings(max_examples=40)
@given(st.data())
def test_every_flipped_bit_is_noticed(data: st.DataObject) -> None:
    chunk = built([(b"body", b"\x00\x00", "ex", "key")] * 3)
    bit = data.draw(st.integers(0, len(chunk) * 8 - 1))
    damaged = bytearray(chunk)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(OperatorError, match=r"stream 's': .* damaged"):
        viewed(bytes(damaged))


def test_a_version_of_another_day_is_refused_with_the_way_out() -> None:
    chunk = built([(b"body", b"\x00\x00", "ex", "key")])
    later = StreamSegment(7, 0, b"identity", 1)
    later.version = 9
    with pytest.raises(OperatorError, match=r"version 9.*readMode=amqp"):
        viewed(chunk, segment=later)
