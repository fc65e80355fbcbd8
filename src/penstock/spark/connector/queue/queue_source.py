"""The reader of ordinary queues for Spark, see `queue_plan`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from penstock.spark.connector.common.decode import record_batches
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.reader import CONNECTION_NAME, AmqpStreamReader, spare_worker
from penstock.spark.connector.queue.queue_plan import QueuePlanner


class QueuePartition(InputPartition):
    """A part of a batch with the deliveries themselves: only the planner has the connection."""

    def __init__(self, queue: str, first: int, raw: bytes) -> None:
        super().__init__(first)
        self.queue = queue
        self.first = first
        self.raw = raw

    def __repr__(self) -> str:
        return f"QueuePartition({self.queue}, first={self.first}, {len(self.raw)} bytes)"


class QueueStreamReader(AmqpStreamReader[QueuePlanner]):
    """A streaming query over ordinary queues, see `queue_plan`."""

    MODE = "queue"

    def planner_of(self, options: SourceOptions) -> QueuePlanner:
        """A consumer of that queue."""
        return QueuePlanner(options, CONNECTION_NAME)

    def parts_of(
        self, number: int, planner: QueuePlanner, start: int, end: int, count: int
    ) -> Sequence[InputPartition]:
        """The batch's deliveries; none for a batch that an earlier process planned."""
        queue = self._options.queues[number]
        pieces = planner.pieces(start, end, count)
        return [QueuePartition(queue, piece.first, piece.raw) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker."""
        assert isinstance(partition, QueuePartition), "partitions come from partitions()"
        spare_worker()
        shape = replace(self._shape, queue=partition.queue)
        return record_batches(partition.raw, partition.first, shape)
