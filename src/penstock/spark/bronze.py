"""Bronze: the input lines as they came, in columns; tasks write the files, the store adds them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.spark import parse
from penstock.spark.formats import EVENT_FILES, TRACE_FILES
from penstock.spark.intake import Intake, Range, read_range
from penstock.spark.store import Part, TableStore

EVENTS: Final = "bronze/events"
MESSAGES: Final = "bronze/messages"

_PARTS: Final = "path string, bytes bigint, rows bigint"
_RANGES: Final = "path string, start bigint, end bigint, boot_id string, node string"


class Source(NamedTuple):
    """A kind of input. pattern: its files; parse: lines to columns; schema: of those."""

    table: str
    pattern: str
    parse: Callable[[bytes, str, str, int], pa.Table]
    schema: pa.Schema


SOURCES: Final = (
    Source(EVENTS, EVENT_FILES, parse.event_table, parse.EVENTS),
    Source(MESSAGES, TRACE_FILES, parse.message_table, parse.MESSAGES),
)


def take_in(spark: SparkSession, store: TableStore, source: Source, intake: Intake) -> None:
    """Write what was found and add it to the table, in one commit with how far it goes."""
    batch = store.batch(source.table) + 1
    place = store.place(source.table)
    place.mkdir(parents=True, exist_ok=True)
    tasks = min(len(intake.ranges), 4 * spark.sparkContext.defaultParallelism)
    ranges = spark.createDataFrame([tuple(one) for one in intake.ranges], _RANGES)
    written = ranges.repartition(tasks).mapInArrow(_writer(source, str(place), batch), _PARTS)
    parts = [Part(row["path"], row["bytes"], row["rows"]) for row in written.collect()]
    store.append(source.table, parts, source.schema, batch, intake.marks)


def _writer(
    source: Source, place: str, batch: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: one file for all of its ranges."""
    parse_lines, schema = source.parse, source.schema

    def write(ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = f"part-{batch}-{uuid4().hex}.parquet"
        rows = 0
        with pq.ParquetWriter(Path(place) / name, schema, compression="zstd") as file:
            for block in ranges:
                for fields in block.to_pylist():
                    one = Range(**fields)
                    found = parse_lines(read_range(one), one.boot_id, one.node, batch)
                    file.write_table(found)
                    rows += len(found)
        size = os.stat(Path(place) / name).st_size
        yield pa.RecordBatch.from_pylist([{"path": name, "bytes": size, "rows": rows}])

    return write
