"""Events are read as a filter would read them, also where columns are not read at all."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.input.event_slice import read_events

SCHEMA = pa.schema(
    [("kind", pa.string()), ("t_ns", pa.int64()), ("amount", pa.int64()), ("ready", pa.int64())]
)
ROWS = [
    ("gate_closed", 10, 0, 0),
    ("gate_closed", 11, 0, 0),
    ("queue_sample", 20, 0, 5),
    ("queue_sample", 21, 0, 6),
    ("gate_opened", 30, 7, 0),
    (None, 0, 0, 0),
    ("queue_sample", 40, 0, 9),
    ("queue_sample", 41, 0, 9),
]


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("from_ns", [0, 11, 20, 31, 50])
def test_rows_are_those_of_a_filter(tmp_path: Path, from_ns: int, has_statistics: bool) -> None:
    table = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], schema=SCHEMA
    )
    path = tmp_path / "events.parquet"
    pq.write_table(table, path, row_group_size=2, write_statistics=has_statistics)
    found = read_events(str(path), SCHEMA, from_ns)
    rows = [tuple(row.values()) for row in found.to_pylist()]
    wanted = [row for row in ROWS if row[0] is not None and row[1] >= from_ns]
    assert sorted(rows, key=repr) == sorted(wanted, key=repr)
    assert found["kind"].type == pa.dictionary(pa.int32(), pa.string())
