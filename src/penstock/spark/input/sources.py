"""The source of the pipeline's query: `readStream` of files or of the broker's stream of events.

Rows of both are few: a range of a file, or a message with a thousand events. What they say is read
by the task that has them, and goes from there into the files of bronze.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.base.errors import OperatorError
from penstock.spark.connector.source import source_for
from penstock.spark.input import parse
from penstock.spark.input.bronze import MESSAGES, Parse, Parsed
from penstock.spark.input.event_batches import batches_to_tables
from penstock.spark.input.file_source import NAME, FileSource
from penstock.spark.input.intake import ROUND_BYTES, Range, read_range
from penstock.spark.input.pipeline_input import FileInput, PipelineInput
from penstock.spark.input.stream_input import StreamInput
from penstock.spark.schema.formats import TRACE_FILES, Header
from penstock.spark.tables.store import EVENTS

TASKS_PER_CORE: Final = 4
STREAM_BYTES: Final = ROUND_BYTES // 4
"""Of a batch: an event takes about a third of what it takes as a line."""

ROUNDS_MAX: Final = 64
BODIES_AT_A_TIME: Final = 64
"""Messages whose events are divided by kind together."""


def open_source(spark: SparkSession, place: PipelineInput) -> tuple[DataFrame, Parse]:
    """The rows of `place` as they come, and what a task makes of them."""
    if isinstance(place, FileInput):
        spark.dataSource.register(FileSource)
        cores = spark.sparkContext.defaultParallelism
        options = {
            "path": str(place.directory.resolve()),
            "tasks": str(TASKS_PER_CORE * cores),
            "maxBytesPerTrigger": str(ROUND_BYTES * rounds(cores)),
        }
        return spark.readStream.format(NAME).options(**options).load(), parse_ranges
    if isinstance(place, StreamInput):
        cores = spark.sparkContext.defaultParallelism
        spark.dataSource.register(source_for(cores))
        batch = {
            "maxBytesPerTrigger": str(STREAM_BYTES * rounds(cores)),
            "minPartitions": str(cores),
        }
        options = {**place.options(), **batch}
        return spark.readStream.format("amqp").options(**options).load(), parse_bodies
    raise OperatorError(f"{place} is no input of the pipeline")


def rounds(cores: int) -> int:
    """How many times as much as two cores take in at once so many do: a task has as much to do,
    and what is the same for every batch counts less."""
    return max(1, min(cores // 2, ROUNDS_MAX))


def parse_ranges(rows: Iterator[pa.RecordBatch], batch: int) -> Parsed:
    """Ranges of files. Raises: OSError."""
    for block in rows:
        for fields in block.to_pylist():
            one = Range(**fields)
            data = read_range(one)
            header = Header(one.boot_id, one.node, one.offset_ns)
            if one.pattern == TRACE_FILES:
                for table in parse.message_tables(data, header, batch):
                    yield MESSAGES, table
            else:
                for table in parse.event_tables(data, header, batch):
                    yield EVENTS, table


def parse_bodies(rows: Iterator[pa.RecordBatch], batch: int) -> Parsed:
    """Messages of the stream of events."""
    for block in rows:
        bodies = block.column("body")
        for at in range(0, len(bodies), BODIES_AT_A_TIME):
            some = [body.as_py() for body in bodies.slice(at, BODIES_AT_A_TIME)]
            for table in batches_to_tables(some, batch):
                yield EVENTS, table
