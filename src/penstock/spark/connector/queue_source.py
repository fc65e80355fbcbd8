"""The reader of ordinary queues for Spark, see `queue_plan`."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.spark.connector import offsets
from penstock.spark.connector.decode import Shape, record_batches
from penstock.spark.connector.options import SourceOptions
from penstock.spark.connector.queue_plan import QueuePlanner
from penstock.spark.connector.stream_source import rows_of


class QueuePartition(InputPartition):
    """A part of a batch with the deliveries themselves: only the planner has the connection."""

    def __init__(self, first: int, raw: bytes) -> None:
        super().__init__(first)
        self.first = first
        self.raw = raw

    def __repr__(self) -> str:
        return f"QueuePartition(first={self.first}, {len(self.raw)} bytes)"


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query over an ordinary queue, see `queue_plan`."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._planner: QueuePlanner | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_shape": self._shape, "_planner": None}

    def initialOffset(self) -> dict[str, str | int]:
        """Nothing has been read."""
        return self._offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger; the other bounds are kept beside it."""
        return ReadMaxRows(self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, str | int]:
        """Settle what is done, plan the next batch. Raises: OperatorError, ClientError."""
        rows = rows_of(limit, self._options.prefetch)
        return self._offset(self._opened().latest(self._number(start), rows))

    def reportLatestOffset(self) -> dict[str, str | int] | None:
        """The last message there is, as far as known."""
        tail = self._opened().tail()
        return None if tail is None else self._offset(tail)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end."""
        self._opened().prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The batch's deliveries; none for a batch that an earlier process planned."""
        pieces = self._opened().pieces(self._number(start), self._number(end))
        return [QueuePartition(piece.first, piece.raw) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker."""
        assert isinstance(partition, QueuePartition), "partitions come from partitions()"
        return record_batches(partition.raw, partition.first, self._shape)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: acknowledging here would deadlock, see `queue_plan`."""

    def stop(self) -> None:
        """Close the connection."""
        if self._planner is not None:
            self._planner.stop()

    def _opened(self) -> QueuePlanner:
        if self._planner is None:
            self._planner = QueuePlanner(self._options, "Spark source")
        return self._planner

    def _offset(self, position: int) -> dict[str, str | int]:
        return offsets.written("queue", self._options.queue, position)

    def _number(self, offset: dict[str, Any]) -> int:
        return offsets.read("queue", self._options.queue, offset)
