"""The Delta source without a JVM: every row that a table gains is read once, in any batches."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles  # noqa: E402
from pyspark.sql.types import LongType, StringType, StructType  # noqa: E402

from penstock.base.errors import OperatorError  # noqa: E402
from penstock.spark.tables.delta_sink import DeltaWriter  # noqa: E402
from penstock.spark.tables.delta_source import DeltaPartition, DeltaStreamReader  # noqa: E402
from penstock.spark.tables.delta_table import DeltaTables  # noqa: E402
from tests.spark.marks import READERS  # noqa: E402

pytestmark = READERS
SCHEMA = StructType().add("n", LongType()).add("body", StringType())
ROWS = 3


def grow(path: Path, batch: int) -> None:
    """One more version, of two files, by the sink."""
    writer = DeltaWriter(str(path), "job", SCHEMA)
    parts = []
    for part in range(2):
        rows = [(batch * 2 + part) * ROWS + n for n in range(ROWS)]
        made = pa.record_batch({"n": pa.array(rows, pa.int64()), "body": [str(n) for n in rows]})
        parts.append(writer.write(iter([made])))
    writer.commit(list(parts), batch)


class Query:
    """What Spark does with a reader, and what it writes down."""

    def __init__(self, path: Path, files: int = 1000) -> None:
        self.path = path
        self.files = files
        self.rows: list[int] = []
        self.start()
        self.end = self.reader.initialOffset()

    def start(self) -> None:
        """In a new process, as far as the reader can tell."""
        self.reader = DeltaStreamReader(str(self.path), SCHEMA, self.files)

    def step(self) -> bool:
        """One batch; False when there is none."""
        end = self.reader.latestOffset(self.end, self.reader.getDefaultReadLimit())
        end = json.loads(json.dumps(end))
        if end == self.end:
            return False
        self.rows += self.rows_of(self.end, end)
        self.end = end
        return True

    def rows_of(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        found: list[int] = []
        for part in self.reader.partitions(start, end):
            reader, copy = pickle.loads(pickle.dumps((self.reader, part)))
            for batch in reader.read(copy):
                assert batch.schema.names == ["n", "body"]
                found += batch.column("n").to_pylist()
        return found

    def drain(self) -> list[int]:
        """Everything there is; all rows so far, in order."""
        while self.step():
            pass
        return self.rows


def numbers(batches: int) -> list[int]:
    return list(range(batches * 2 * ROWS))


def test_a_query_may_be_there_before_its_table(tmp_path: Path) -> None:
    query = Query(tmp_path / "table")
    assert not query.step() and query.reader.reportLatestOffset() is None
    grow(tmp_path / "table", 0)
    assert query.drain() == numbers(1)
    grow(tmp_path / "table", 1)
    assert query.drain() == numbers(2)


@settings(max_examples=15, deadline=None)
@given(
    deeds=st.lists(st.sampled_from(["grow", "again", "read", "restart", "compact"]), max_size=9),
    files=st.integers(1, 5),
)
def test_every_row_once_whatever_happens_to_the_table(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[str], files: int
) -> None:
    path = tmp_path_factory.mktemp("delta") / "table"
    grow(path, 0)
    query = Query(path, files)
    batch = 0
    for deed in deeds:
        if deed == "grow":
            batch += 1
            grow(path, batch)
        elif deed == "again":
            grow(path, batch)
        elif deed == "compact":
            deltalake.DeltaTable(str(path)).optimize.compact()
        elif deed == "restart":
            query.start()
        else:
            query.step()
    assert sorted(query.drain()) == numbers(batch + 1)


def test_a_batch_is_whole_versions_within_its_bound(tmp_path: Path) -> None:
    for batch in range(4):
        grow(tmp_path, batch)
    query = Query(tmp_path, 5)
    sizes = []
    while query.step():
        sizes.append(len(query.rows))
    assert sizes == [4 * ROWS, 8 * ROWS], "of five files two versions of two fit"
    everything = query.reader.latestOffset(query.reader.initialOffset(), ReadAllAvailable())
    assert everything == query.end
    smallest = Query(tmp_path, 1)
    assert smallest.step() and smallest.rows == [], "the version that made the table has no file"
    assert smallest.step() and smallest.rows == numbers(1), "a version is never divided"


def test_a_range_is_the_same_rows_again(tmp_path: Path) -> None:
    grow(tmp_path, 0)
    query = Query(tmp_path)
    first = query.end
    query.step()
    grow(tmp_path, 1)
    query.start()
    assert query.rows_of(first, query.end) == numbers(1)


def test_available_now_ends(tmp_path: Path) -> None:
    grow(tmp_path, 0)
    query = Query(tmp_path)
    query.reader.prepareForTriggerAvailableNow()
    grow(tmp_path, 1)
    assert query.drain() == numbers(1)
    query.start()
    assert query.drain() == numbers(2)


def test_small_files_share_a_task(tmp_path: Path) -> None:
    for batch in range(5):
        grow(tmp_path, batch)
    query = Query(tmp_path)
    end = query.reader.latestOffset(query.end, ReadMaxFiles(1000))
    parts = query.reader.partitions(query.end, end)
    assert [len(part.files) for part in parts if isinstance(part, DeltaPartition)] == [10]


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    grow(tmp_path / "cut", 0)
    query = Query(tmp_path / "cut")
    query.drain()
    deltalake.DeltaTable(str(tmp_path / "cut")).delete("n = 1")
    with pytest.raises(OperatorError, match="removes rows"):
        query.step()

    grow(tmp_path / "anew", 0)
    query = Query(tmp_path / "anew")
    query.drain()
    (tmp_path / "anew").rename(tmp_path / "old")
    query.start()
    with pytest.raises(OperatorError, match="is gone"):
        query.step()
    grow(tmp_path / "anew", 0)
    with pytest.raises(OperatorError, match="made anew"):
        query.step()

    deltalake.DeltaTable(str(tmp_path / "old")).create_checkpoint()
    (tmp_path / "old" / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(OperatorError, match="begins with version 1, and 0 was to be read"):
        Query(tmp_path / "old").step()

    for file in (tmp_path / "cut").glob("*.parquet"):
        file.unlink()
    lost = Query(tmp_path / "cut")
    start = lost.end
    with pytest.raises(OperatorError, match="gone before it was read"):
        lost.rows_of(start, {"table": lost.reader._table, "version": 1})


def test_files_that_are_not_read_as_they_are_fail_the_query(tmp_path: Path) -> None:
    """With other names of columns all of them would be null."""
    grow(tmp_path / "names", 0)
    query = Query(tmp_path / "names")
    query.drain()
    log = tmp_path / "names" / "_delta_log"
    about = deltalake.DeltaTable(str(tmp_path / "names")).metadata()
    changed = {
        "id": about.id, "format": {"provider": "parquet", "options": {}},
        "schemaString": deltalake.DeltaTable(str(tmp_path / "names")).schema().to_json(),
        "partitionColumns": [], "configuration": {"delta.columnMapping.mode": "name"},
    }  # fmt: skip
    end = int(query.end["version"]) + 1
    (log / f"{end:020}.json").write_text(json.dumps({"metaData": changed}) + "\n", encoding="utf-8")
    with pytest.raises(OperatorError, match="call columns otherwise"):
        query.step()

    deltalake.write_deltalake(str(tmp_path / "gone"), pa.table({"n": [1, 2], "body": ["1", "2"]}))
    file = tmp_path / "gone" / "_delta_log" / f"{0:020}.json"
    text = file.read_text(encoding="utf-8")
    vector = {
        "storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4,
        "sizeInBytes": 40, "cardinality": 1,
    }  # fmt: skip
    marked = f'"dataChange":true,"deletionVector":{json.dumps(vector)}'
    file.write_text(text.replace('"dataChange":true', marked), encoding="utf-8")
    query = Query(tmp_path / "gone")
    with pytest.raises(OperatorError, match=r"some rows are deleted \(deletion vectors\)"):
        query.rows_of(query.end, {"table": "", "version": 0})


def test_a_log_with_ends_of_lines_in_its_statistics_is_followed(tmp_path: Path) -> None:
    """Other writers put values of columns there, in which JSON leaves such characters as they
    are."""
    body = "a\u2028b\u0085c"
    deltalake.write_deltalake(str(tmp_path), pa.table({"n": [1], "body": [body]}))
    query = Query(tmp_path)
    query.drain()
    assert query.rows == [1]


def test_columns_are_looked_at(tmp_path: Path) -> None:
    grow(tmp_path, 0)
    other = StructType().add("n", LongType()).add("size", LongType())
    reader = DeltaStreamReader(str(tmp_path), other, 10)
    with pytest.raises(OperatorError, match="no column size; it has n, body"):
        reader.latestOffset(reader.initialOffset(), ReadMaxFiles(10))
    assert DeltaTables({"path": str(tmp_path)}).schema() == SCHEMA
    with pytest.raises(OperatorError, match="there is no Delta table"):
        DeltaTables({"path": str(tmp_path / "none")}).schema()
    with pytest.raises(OperatorError, match="did you mean maxFilesPerTrigger"):
        DeltaTables({"path": "x", "maxFilePerTrigger": "3"}).streamReader(SCHEMA).initialOffset()


def test_a_path_in_which_deltalake_finds_no_table_is_refused(tmp_path: Path) -> None:
    given = {"path": f"file:{tmp_path}/a%20b"}
    for begun in (
        DeltaTables(given).schema,
        lambda: DeltaTables(given).streamReader(SCHEMA).initialOffset(),
        lambda: DeltaTables(given).streamWriter(SCHEMA, False),
    ):
        with pytest.raises(OperatorError, match=r"has %20 in its path.*another path"):
            begun()
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    grow(tmp_path, 0)
    later = pa.table({"n": pa.array([99], pa.int64()), "body": ["x"], "more": ["y"]})
    deltalake.write_deltalake(str(tmp_path), later, mode="append", schema_mode="merge")
    wide = DeltaTables({"path": str(tmp_path)}).schema()
    reader = DeltaStreamReader(str(tmp_path), wide, 10)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxFiles(10))
    found = [
        row
        for part in reader.partitions(reader.initialOffset(), end)
        for batch in reader.read(part)
        for row in batch.column("more").to_pylist()
    ]
    assert found == [None] * 6 + ["y"]


@pytest.mark.parametrize("batches", [1, 6])
def test_a_table_made_anew_under_a_running_query_is_refused(tmp_path: Path, batches: int) -> None:
    """It may be longer than the one before, or shorter."""
    path = tmp_path / "table"
    for batch in range(3):
        grow(path, batch)
    query = Query(path)
    assert query.drain() == numbers(3)
    path.rename(tmp_path / "old")
    with pytest.raises(OperatorError, match="is gone"):
        query.step()
    for batch in range(batches):
        grow(path, batch)
    with pytest.raises(OperatorError, match="made anew"):
        query.step()
