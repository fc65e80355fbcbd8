"""Growing files of lines as a source of Spark: `spark.readStream.format("penstock-files")`.

A row is a range of whole lines, not its text: tasks read the file themselves, so nothing that is in
it goes through Java. How far each file was read is the offset of the query, {name: bytes}; a file
that is not in the directory any more keeps its number. A last line without its end is left for the
next batch. Files are read in the order of their names, so of a long backlog the first comes first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError
from penstock.spark.input.intake import ROUND_BYTES, Range, ends_of, fresh
from penstock.spark.schema.arrow_columns import schema_of
from penstock.spark.schema.formats import FILES, input_files

NAME: Final = "penstock-files"
_ROWS: Final = schema_of(Range)
Offset = dict[str, Any]


class FileSource(DataSource):
    """Options: path, the directory; tasks, how many a batch is divided into; maxBytesPerTrigger."""

    @classmethod
    def name(cls) -> str:
        """What goes into `format(...)`."""
        return NAME

    def schema(self) -> StructType:
        """One row a range."""
        return from_arrow_schema(_ROWS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        return FileReader(
            self.options["path"],
            int(self.options.get("tasks", "1")),
            int(self.options.get("maxbytespertrigger", ROUND_BYTES)),
        )


@dataclass
class Ranges(InputPartition):
    """What one task reads, in order."""

    ranges: tuple[Range, ...]


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """directory: of the files; tasks: of a batch, at least 1; bytes_max: of a batch, and a range.

    _target: where a query with trigger availableNow ends, None for others.
    """

    def __init__(self, directory: str, tasks: int, bytes_max: int) -> None:
        self._directory = Path(directory)
        self._tasks = tasks
        self._bytes_max = bytes_max
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:
        """Nothing has been read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Of maxBytesPerTrigger."""
        return ReadMaxBytes(self._bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is left for the next query."""
        self._target = ends_of(self._directory)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Behind what a batch reads. Raises: OperatorError for a file that became shorter."""
        left = limit.max_bytes if isinstance(limit, ReadMaxBytes) else 1 << 62
        ranges = fresh(self._directory, start, left, self._target)
        # The last range of a file is behind its others.
        return {**start, **{Path(one.path).name: one.end for one in ranges}}

    def reportLatestOffset(self) -> Offset | None:
        """All there is, for the lag."""
        return ends_of(self._directory)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The same ranges whenever the batch is run. Raises: OperatorError for a file that became
        shorter, or is gone before all of the batch was read of it."""
        there = {path.name for one in FILES for path in input_files(self._directory, one)}
        for name in sorted(end.keys() - there):
            if end[name] > start.get(name, 0):
                raise OperatorError(
                    f"{self._directory / name} is gone before it was read to byte {end[name]}; put "
                    "it back, or make the tables anew in another --tables directory"
                )
        ranges = fresh(self._directory, start, 1 << 62, end)
        count = max(1, min(self._tasks, len(ranges)))
        return [Ranges(tuple(ranges[number::count])) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker."""
        assert isinstance(partition, Ranges), "Spark gives back what it was given"
        rows = [one._asdict() for one in partition.ranges]
        yield pa.RecordBatch.from_pylist(rows, schema=_ROWS)

    def commit(self, end: Offset) -> None:
        """Files stay."""

    def stop(self) -> None:
        """Nothing is open."""
