"""The column enqueue_ts, and chunks with a filter: what the broker adds changes no other column."""

from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow as pa

from penstock.protocol.properties import Properties, encode_header_payload
from penstock.spark.connector.common.decode import Shape, record_batches
from penstock.spark.connector.stream.chunk_columns import BatchMaker, RowRange
from tests.unit.spark.connector.chunks import START_US, Row, built, delivered, viewed

SHAPE = Shape("s", has_headers=True, has_flow=True)


def row(number: int, headers: dict[str, str] | None = None) -> Row:
    properties = encode_header_payload(0, Properties(headers=dict(headers) if headers else None))
    return (b"body %d" % number, properties[12:], "ex", "k")


def test_chunks_say_when_the_broker_took_a_row_and_deliveries_do_not() -> None:
    chunks = [built([row(0), row(1), row(2)]), built([row(3)], first=3)]
    first, second = viewed(*chunks)
    batch = BatchMaker(SHAPE).batch([RowRange(first, 1, 3), RowRange(second, 0, 1)])
    assert batch.schema.equals(SHAPE.arrow())
    taken = batch.column("enqueue_ts").cast(pa.int64()).to_pylist()
    assert taken == [START_US + 1, START_US + 2, START_US]
    (plain,) = record_batches(delivered(*chunks), 0, SHAPE)
    assert plain.schema.equals(SHAPE.arrow())
    assert plain.column("enqueue_ts").to_pylist() == [None] * 4


def test_a_chunk_with_a_filter_has_the_same_rows() -> None:
    rows = [row(n, {"x-stream-filter-value": f"v{n % 3}"} if n % 4 else None) for n in range(20)]
    data = built(rows)
    (view,) = viewed(data)
    shape = replace(SHAPE, has_flow=False)
    found = BatchMaker(shape).batch([RowRange(view, 0, 20)])
    (expected,) = record_batches(delivered(data), 0, shape)
    assert found.to_pylist() == expected.to_pylist()
    assert found.column("body").to_pylist() == [b"body %d" % n for n in range(20)]
