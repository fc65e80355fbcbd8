"""The public format of chunks: what other programs read must stay as it was written once."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import numpy as np

from penstock.base.cause import Cause
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.chunk_columns import BatchMaker, RowRange
from penstock.spark.connector.stream.chunk_layout import chunks_of
from penstock.streams.chunk import Chunk
from penstock.streams.segment import StreamSegment
from tests.unit.spark.connector.chunks import Row, built

FIXTURE = Path(__file__).parents[2] / "fixtures" / "stream-chunks.json"
ROWS: list[Row] = [
    (b"hello", b"\x00\x00", "", "events"),
    (b"", b"\x00\x40\x00\x00\x00\x00\x65\x53\xf1\x00", "ex", "a.b"),
    (b"world", b"\xa0\x00\x04text\x00\x00\x00\x0a\x01aS\x00\x00\x00\x03one", "ex", "a.b"),
]


@pytest.mark.parametrize("version", [1, 2])
def test_a_chunk_of_another_day_is_read_and_written_as_it_was(version: int) -> None:
    kept = json.loads(FIXTURE.read_text(encoding="utf-8"))[f"version {version}"]
    data = bytes.fromhex(kept["bytes"])
    segment = StreamSegment(7, 0, bytes.fromhex(kept["identity"]), version)
    assert int(segment.seed) == kept["seed"]
    assert built(ROWS, 1000, segment) == data
    body = np.frombuffer(data, np.uint8)
    (view,) = chunks_of(body, version, kept["seed"], "events")
    batch = BatchMaker(Shape("events", has_headers=True)).batch([RowRange(view, 0, view.count)])
    rows = batch.to_pylist()
    assert [row["body"] for row in rows] == [b"hello", b"", b"world"]
    assert [row["routing_key"] for row in rows] == ["events", "a.b", "a.b"]
    assert [row["offset"] for row in rows] == [1000, 1001, 1002]
    assert rows[0]["timestamp"] is None and rows[1]["timestamp"].timestamp() == 1_700_000_000
    assert dict(rows[2]["headers"]) == {"a": "one"}
    message = Chunk(data, 0).message(2, 1, 4096, Cause("test"))
    assert message.body() == b"world"
