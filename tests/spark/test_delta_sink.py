"""The Delta sink without a JVM: a batch is in the table once, whoever dies in between."""

import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: E402
from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.base.errors import OperatorError  # noqa: E402
from penstock.spark.tables.delta_sink import DeltaFile, DeltaWriter  # noqa: E402

SCHEMA = StructType().add("n", LongType()).add("body", StringType())
OTHER = StructType().add("body", StringType()).add("n", LongType())

NOON = datetime(2026, 5, 1, 12)
ALL_TYPES: list[tuple[DataType, object]] = [
    (ByteType(), 1),
    (ShortType(), 2),
    (IntegerType(), 3),
    (LongType(), 4),
    (FloatType(), 0.5),
    (DoubleType(), 0.25),
    (DecimalType(12, 3), Decimal("1.500")),
    (BooleanType(), True),
    (StringType(), "a"),
    (BinaryType(), b"\0"),
    (DateType(), NOON.date()),
    (TimestampType(), NOON.replace(tzinfo=UTC)),
    (TimestampNTZType(), NOON),
    (ArrayType(IntegerType(), containsNull=False), [1]),
    (MapType(StringType(), LongType()), [("a", 1)]),
    (StructType().add("x", ShortType()).add("y", TimestampType()), {"x": 1, "y": None}),
]


def write(writer: DeltaWriter, batch: int, partition: int) -> DeltaFile:
    rows = [batch * 1000 + partition * 100 + n for n in range(3)]
    made = pa.record_batch({"n": pa.array(rows, pa.int64()), "body": [str(n) for n in rows]})
    part = writer.write(iter([made, made.slice(0, 0)]))
    assert isinstance(part, DeltaFile)
    return part


def rows(path: Path) -> list[int]:
    table = deltalake.DeltaTable(str(path))
    return sorted(pa.table(table.to_pyarrow_table())["n"].to_pylist())


def change_names_of_columns(path: Path) -> None:
    """Write into the table's only version that its files call column n otherwise, as Spark's own
    Delta does after `ALTER TABLE … RENAME COLUMN`."""
    log = path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": f"col-{field['name']}",
                }
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    log.write_text("\n".join(json.dumps(action) for action in actions) + "\n", encoding="utf-8")


def expected(batches: int) -> list[int]:
    return sorted(b * 1000 + p * 100 + n for b in range(batches) for p in (0, 1) for n in range(3))


def test_a_batch_that_is_run_again_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "table"
    for batch in (0, 0, 1, 0, 1, 2):
        writer = DeltaWriter(str(path), "job", SCHEMA)
        writer.commit([write(writer, batch, 0), write(writer, batch, 1)], batch)
    assert rows(path) == expected(3)
    assert deltalake.DeltaTable(str(path)).transaction_version("job") == 2
    assert len(list(path.glob("part-*"))) == 6, "files of repetitions are removed"


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    writer = DeltaWriter(str(tmp_path), "job", SCHEMA)
    writer.abort([write(writer, 0, 0), None], 0)
    assert list(tmp_path.glob("part-*")) == []


def test_other_columns_are_refused(tmp_path: Path) -> None:
    writer = DeltaWriter(str(tmp_path), "job", SCHEMA)
    writer.commit([write(writer, 0, 0)], 0)
    other = DeltaWriter(str(tmp_path), "job", OTHER)
    with pytest.raises(OperatorError, match="columns n, body"):
        other.commit([write(writer, 1, 0)], 1)


def test_a_table_that_wants_more_of_its_writers_is_refused(tmp_path: Path) -> None:
    """Readers would find null in a partition column, or rows that the table forbids."""
    plain = pa.table({"n": pa.array([1], pa.int64()), "body": ["1"]})
    never_null = pa.schema([pa.field("n", pa.int64(), nullable=False), ("body", pa.string())])
    deltalake.write_deltalake(str(tmp_path / "parts"), plain, partition_by=["n"])
    deltalake.write_deltalake(str(tmp_path / "check"), plain)
    deltalake.DeltaTable(str(tmp_path / "check")).alter.add_constraint({"small": "n < 5"})
    deltalake.write_deltalake(str(tmp_path / "null"), plain.cast(never_null))
    deltalake.write_deltalake(str(tmp_path / "names"), plain)
    change_names_of_columns(tmp_path / "names")
    for name, word in (
        ("parts", r"has partition columns \(n\)"),
        ("check", r"has constraints \(delta.constraints.small\)"),
        ("null", r"has columns that are NOT NULL \(n\)"),
        ("names", "has delta.columnMapping.mode = name"),
    ):
        version = deltalake.DeltaTable(str(tmp_path / name)).version()
        writer = DeltaWriter(str(tmp_path / name), "job", SCHEMA)
        with pytest.raises(OperatorError, match=word):
            writer.commit([write(writer, 0, 0)], 0)
        assert deltalake.DeltaTable(str(tmp_path / name)).version() == version


@pytest.mark.parametrize(
    ("kind", "values"), [(StringType(), ["q"]), (BooleanType(), [True]), (DoubleType(), [1.5])]
)
def test_a_column_of_another_type_is_refused_and_the_table_stays_readable(
    tmp_path: Path, kind: DataType, values: list[object]
) -> None:
    writer = DeltaWriter(str(tmp_path), "job", SCHEMA)
    writer.commit([write(writer, 0, 0), write(writer, 0, 1)], 0)
    other = StructType().add("n", kind).add("body", StringType())
    made = pa.RecordBatch.from_pydict({"n": values, "body": ["x"]}, to_arrow_schema(other))
    second = DeltaWriter(str(tmp_path), "another", other)
    with pytest.raises(OperatorError, match=f"column n .* bigint, .* {kind.simpleString()}; use"):
        second.commit([second.write(iter([made]))], 0)
    assert rows(tmp_path) == expected(1)


def test_a_narrower_type_is_read_as_that_of_the_table(tmp_path: Path) -> None:
    writer = DeltaWriter(str(tmp_path), "job", SCHEMA)
    writer.commit([write(writer, 0, 0), write(writer, 0, 1)], 0)
    narrower = StructType().add("n", IntegerType()).add("body", StringType())
    made = pa.RecordBatch.from_pydict({"n": [7], "body": ["x"]}, to_arrow_schema(narrower))
    second = DeltaWriter(str(tmp_path), "another", narrower)
    second.commit([second.write(iter([made]))], 0)
    assert rows(tmp_path) == [*expected(1)[:3], 7, *expected(1)[3:]]


def test_columns_of_all_types_are_those_of_the_table_the_next_time(tmp_path: Path) -> None:
    schema = StructType()
    for number, (kind, _) in enumerate(ALL_TYPES):
        schema = schema.add(f"c{number}", kind, nullable=number % 2 == 0)
    arrow = to_arrow_schema(schema, timezone="UTC")
    values = {f"c{number}": [value] for number, (_, value) in enumerate(ALL_TYPES)}
    for batch in range(2):
        writer = DeltaWriter(str(tmp_path), "job", schema)
        writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(values, arrow)]))], batch)
    assert pa.table(deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()).num_rows == 2


@settings(max_examples=10, deadline=None)
@given(deaths=st.lists(st.sampled_from(["task", "before commit", "after commit"]), max_size=4))
def test_whatever_dies_and_is_run_again(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[str]
) -> None:
    path = tmp_path_factory.mktemp("delta")
    for batch, death in enumerate([*deaths, ""]):
        for attempt in [death, ""] if death else [""]:
            writer = DeltaWriter(str(path), "job", SCHEMA)
            parts = [write(writer, batch, 0)]
            if attempt == "task":
                continue
            parts.append(write(writer, batch, 1))
            if attempt != "before commit":
                writer.commit([*parts, None], batch)
    assert rows(path) == expected(len(deaths) + 1)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, files and directories, by their last names."""
    found: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads the names of open files")
def test_files_and_their_names_are_on_the_disk_before_anybody_relies_on_them(
    tmp_path: Path, synced: list[str]
) -> None:
    """A part before the table names it; a version of the table before Spark notes the batch."""
    path = tmp_path / "table"
    writer = DeltaWriter(str(path), "job", SCHEMA)
    part = write(writer, 0, 0)
    assert synced == [part.name, "table"]
    writer.commit([part], 0)
    assert {f"{0:020}.json", f"{1:020}.json", "_delta_log", tmp_path.name} <= set(synced)
    synced.clear()
    writer.commit([write(writer, 1, 0)], 1)
    assert f"{1:020}.json" not in synced and synced[-4:-2] == [f"{2:020}.json", "_delta_log"]
    synced.clear()
    writer.commit([write(writer, 1, 0)], 1)
    assert f"{2:020}.json" in synced, "whoever committed it may have died before it was safe"
    assert f"{1:020}.json" not in synced, "of the versions before it that was done"
