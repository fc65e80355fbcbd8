"""Columns that were chosen, and what the broker adds, change no other column, on both paths."""

from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.properties import Properties, encode_header_payload
from penstock.spark.connector.common.decode import record_batches
from penstock.spark.connector.common.option_values import ALWAYS, ASKED_FOR
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.chunk_columns import BatchMaker, RowRange
from tests.unit.spark.connector.chunks import START_US, Row, built, delivered, viewed

WHOLE = Shape("s", "value", has_properties=True, has_headers=True, has_flow=True)
FLOW = Shape("s", has_headers=True, has_flow=True)
NAMES = ("body", *ALWAYS, *(name for name, _ in ASKED_FOR))


def row(number: int) -> Row:
    properties = Properties(timestamp=number or None, headers={"n": number})
    return (b"body %d" % number, encode_header_payload(0, properties)[12:], "ex", f"k{number % 2}")


@settings(max_examples=60)
@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_what_is_chosen_is_as_it_is_among_all(chosen: set[str]) -> None:
    chunks = [built([row(0), row(1)]), built([row(2), row(3)], first=2), built([row(4)], first=9)]
    views = viewed(*chunks)
    pieces = [RowRange(views[0], 1, 2), RowRange(views[1], 0, 2), RowRange(views[2], 0, 1)]
    shape = replace(WHOLE, chosen=tuple(sorted(chosen)))
    names = ["value" if name == "body" else name for name in NAMES if name in chosen]
    found = BatchMaker(shape).batch(pieces)
    assert found.schema.equals(shape.arrow())
    assert found.schema.names == names
    assert found.to_pylist() == BatchMaker(WHOLE).batch(pieces).select(names).to_pylist()
    raw = delivered(*chunks[:2])
    (plain,) = record_batches(raw, 0, shape)
    (everything,) = record_batches(raw, 0, WHOLE)
    assert plain.schema.equals(shape.arrow())
    assert plain.to_pylist() == everything.select(names).to_pylist()


def flow_row(number: int, headers: dict[str, str] | None = None) -> Row:
    properties = encode_header_payload(0, Properties(headers=dict(headers) if headers else None))
    return (b"body %d" % number, properties[12:], "ex", "k")


def test_chunks_say_when_the_broker_took_a_row_and_deliveries_do_not() -> None:
    chunks = [built([flow_row(0), flow_row(1), flow_row(2)]), built([flow_row(3)], first=3)]
    first, second = viewed(*chunks)
    batch = BatchMaker(FLOW).batch([RowRange(first, 1, 3), RowRange(second, 0, 1)])
    assert batch.schema.equals(FLOW.arrow())
    taken = batch.column("enqueue_ts").cast(pa.int64()).to_pylist()
    assert taken == [START_US + 1, START_US + 2, START_US]
    (plain,) = record_batches(delivered(*chunks), 0, FLOW)
    assert plain.schema.equals(FLOW.arrow())
    assert plain.column("enqueue_ts").to_pylist() == [None] * 4


def test_a_chunk_with_a_filter_has_the_same_rows() -> None:
    rows = [
        flow_row(n, {"x-stream-filter-value": f"v{n % 3}"} if n % 4 else None) for n in range(20)
    ]
    data = built(rows)
    (view,) = viewed(data)
    shape = replace(FLOW, has_flow=False)
    found = BatchMaker(shape).batch([RowRange(view, 0, 20)])
    (expected,) = record_batches(delivered(data), 0, shape)
    assert found.to_pylist() == expected.to_pylist()
    assert found.column("body").to_pylist() == [b"body %d" % n for n in range(20)]
