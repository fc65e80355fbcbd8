"""The readers of streams for Spark, see `stream_plan`."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.base.errors import OperatorError
from penstock.spark.connector import offsets
from penstock.spark.connector.decode import Shape
from penstock.spark.connector.options import SourceOptions
from penstock.spark.connector.stream_plan import StreamPlanner, split
from penstock.spark.connector.stream_read import read_range

ALL_ROWS = 2**62


class StreamPartition(InputPartition):
    """Offsets first..stop-1, which the task reads from the broker itself."""

    def __init__(self, first: int, stop: int) -> None:
        super().__init__((first, stop))
        self.first = first
        self.stop = stop


class StreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query over a stream."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_shape": self._shape, "_planner": None}

    def initialOffset(self) -> dict[str, str | int]:
        """startingOffsets as a number."""
        return self._offset(self._opened().initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger; the other bounds are kept beside it."""
        return ReadMaxRows(self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, str | int]:
        """Plan the next batch. Raises: OperatorError, ClientError."""
        rows = rows_of(limit, ALL_ROWS)
        return self._offset(self._opened().latest(self._number(start), rows))

    def reportLatestOffset(self) -> dict[str, str | int] | None:
        """The end of the stream, as far as known."""
        tail = self._opened().tail()
        return None if tail is None else self._offset(tail)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end."""
        self._opened().prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """minPartitions ranges of about equal length."""
        first, stop = self._number(start), self._number(end)
        return [StreamPartition(*part) for part in split(first, stop, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        assert isinstance(partition, StreamPartition), "partitions come from partitions()"
        return read_range(self._options, partition.first, partition.stop, self._shape)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: a stream is not acknowledged."""

    def stop(self) -> None:
        """Close the connection."""
        if self._planner is not None:
            self._planner.stop()

    def _opened(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(self._options, "Spark source")
        return self._planner

    def _offset(self, offset: int) -> dict[str, str | int]:
        return offsets.written("stream", self._options.queue, offset)

    def _number(self, offset: dict[str, Any]) -> int:
        return offsets.read("stream", self._options.queue, offset)


class StreamBatchReader(DataSourceReader):
    """`spark.read` of a stream: from startingOffsets to endingOffsets."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        """minPartitions ranges of about equal length. Raises: OperatorError, ClientError."""
        planner = StreamPlanner(self._options, "Spark source")
        try:
            first, stop = planner.whole()
        finally:
            planner.stop()
        parts = split(first, stop, self._options.partitions) or [(first, first)]
        return [StreamPartition(*part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        assert isinstance(partition, StreamPartition), "partitions come from partitions()"
        return read_range(self._options, partition.first, partition.stop, self._shape)


def rows_of(limit: ReadLimit, all_rows: int) -> int:
    """Rows the engine wants at most; `all_rows` where it wants all there are (trigger once).

    Raises: OperatorError for a limit this source never offered.
    """
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return all_rows
    raise OperatorError(f"read limit {type(limit).__name__} is not supported by the source amqp")
