"""Bronze: the input lines in columns. Tasks write the files, the table store adds them.

`event_horizon` says how far back new events reach: nothing that they can change began before. It is
read where the job runs, not in tasks, because the new rows and the open holds are few, and starting
a task takes longer than this.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.spark.input import parse
from penstock.spark.input.event_slice import SAMPLES
from penstock.spark.input.intake import Intake, Range, read_range
from penstock.spark.schema.arrow_columns import FACTS, coded_schema, read
from penstock.spark.schema.formats import EVENT_FILES, TRACE_FILES
from penstock.spark.tables.store import EVENTS, TableStore, WrittenFile

MESSAGES: Final = "bronze/messages"

_PARTS: Final = "path string, bytes bigint, rows bigint"
_RANGES: Final = "path string, start bigint, end bigint, boot_id string, node string"
_SAMPLED: Final = ("boot_id", "actor", "kind")
_NEW: Final = pa.schema([parse.EVENTS.field(name) for name in (*_SAMPLED, "t_ns", "amount")])


class LineFormat(NamedTuple):
    """A kind of input. pattern: its files; parse: lines to columns; schema: of the table; parsed:
    of what `parse` gives; many: its columns in which few values repeat."""

    table: str
    pattern: str
    parse: Callable[[bytes, str, str, int], list[pa.Table]]
    schema: pa.Schema
    parsed: pa.Schema
    many: frozenset[str]


SOURCES: Final = (
    LineFormat(
        EVENTS,
        EVENT_FILES,
        parse.event_tables,
        parse.EVENTS,
        coded_schema(parse.EVENTS),
        frozenset({"seq", "t_ns", "amount"}),
    ),
    LineFormat(
        MESSAGES,
        TRACE_FILES,
        parse.message_tables,
        parse.MESSAGES,
        parse.MESSAGES,
        frozenset({"t_ns"}),
    ),
)

SMALL_ROWS: Final = 8_192
"""Below which tables that were parsed are put together before they are written."""


def take_in(spark: SparkSession, store: TableStore, source: LineFormat, intake: Intake) -> None:
    """Write what was found and add it to the table, in one commit with how far it goes."""
    batch = store.batch(source.table) + 1
    place = store.place(source.table)
    place.mkdir(parents=True, exist_ok=True)
    tasks = min(len(intake.ranges), 4 * spark.sparkContext.defaultParallelism)
    ranges = spark.createDataFrame([tuple(one) for one in intake.ranges], _RANGES)
    written = ranges.repartition(tasks).mapInArrow(_writer(source, str(place), batch), _PARTS)
    parts = [WrittenFile(row["path"], row["bytes"], row["rows"]) for row in written.collect()]
    store.append(source.table, parts, source.schema, batch, intake.marks)


def _writer(
    source: LineFormat, place: str, batch: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: one file for all of its ranges."""

    def write(ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = f"part-{batch}-{uuid4().hex}.parquet"
        rows = 0
        with _opened(Path(place) / name, source) as file:
            for table in _grouped(_parsed(source, ranges, batch)):
                file.write_table(table)
                rows += len(table)
        size = os.stat(Path(place) / name).st_size
        yield pa.RecordBatch.from_pylist([{"path": name, "bytes": size, "rows": rows}])

    return write


def _opened(path: Path, source: LineFormat) -> pq.ParquetWriter:
    # What hardly repeats is looked up for nothing. Other readers are told that texts are texts.
    return pq.ParquetWriter(
        path,
        source.parsed,
        compression="zstd",
        use_dictionary=[name for name in source.schema.names if name not in source.many],
        column_encoding=dict.fromkeys(source.many, "DELTA_BINARY_PACKED"),
        store_schema=False,
    )


def _parsed(source: LineFormat, ranges: Iterator[pa.RecordBatch], batch: int) -> Iterator[pa.Table]:
    for block in ranges:
        for fields in block.to_pylist():
            one = Range(**fields)
            yield from source.parse(read_range(one), one.boot_id, one.node, batch)


def _grouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, small tables together. Each becomes a group of rows of the file, so those in
    which whole columns are the same stay by themselves."""
    small: list[pa.Table] = []
    for table in tables:
        if len(table) >= SMALL_ROWS:
            yield table
            continue
        small.append(table)
        if sum(map(len, small)) >= SMALL_ROWS:
            yield pa.concat_tables(small).unify_dictionaries()
            small = []
    if small:
        yield pa.concat_tables(small).unify_dictionaries()


def event_horizon(store: TableStore, known: int) -> int:
    """The earliest moment about which the events after batch `known` of bronze say something new,
    0 when nothing is known yet. Raises: OSError."""
    if known < 0:
        return 0
    is_new = pc.field("kind").is_valid() & (pc.field("batch") > known)
    new = _plain(read(store.files(EVENTS), _NEW, is_new), _NEW)
    held_ns = pc.max_element_wise(new["amount"], 0)
    is_end = pc.equal(new["kind"], "gate_opened")
    began = pc.if_else(is_end, pc.subtract(new["t_ns"], held_ns), new["t_ns"])
    sampled = new.filter(pc.is_in(new["kind"], pa.array(SAMPLES)))
    moments = [
        pc.min(began),
        _open_since(store, "silver/block_interval", pc.field("closed_by") == "end_of_data", new),
        _open_since(store, "silver/alarm_interval", pc.field("is_open"), new),
        _open_since(store, "silver/sample_step", pc.field("end_ns").is_null(), sampled, _SAMPLED),
    ]
    found = [one.as_py() for one in moments]
    return min((one for one in found if one is not None), default=0)


def _open_since(
    store: TableStore,
    name: str,
    is_open: pc.Expression,
    new: pa.Table,
    keys: Sequence[str] = ("boot_id",),
) -> pa.Scalar:
    """When the first of the rows that are open and have the keys of a new event began."""
    columns = pa.schema([FACTS[name].field(one) for one in (*keys, "start_ns")])
    rows = _plain(read(store.files(name), columns, is_open), columns)
    wanted = new.select(list(keys)).group_by(list(keys)).aggregate([])
    return pc.min(rows.join(wanted, list(keys), join_type="left semi")["start_ns"])


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.cast(schema).combine_chunks()
