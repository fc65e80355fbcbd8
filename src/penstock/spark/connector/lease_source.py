"""The reader of leased queues for Spark, see `lease_plan`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from penstock.spark.connector.lease_plan import LeasePlanner
from penstock.spark.connector.lease_read import read_lease
from penstock.spark.connector.options import SourceOptions, named
from penstock.spark.connector.reader import CONNECTION_NAME, AmqpStreamReader
from penstock.spark.connector.stream_plan import split
from penstock.spark.connector.worker_care import spare_worker


class LeasePartition(InputPartition):
    """Numbers first..stop-1 of a queue, which the task reads from the broker itself."""

    def __init__(self, queue: str, first: int, stop: int) -> None:
        super().__init__((queue, first, stop))
        self.queue = queue
        self.first = first
        self.stop = stop


class LeaseStreamReader(AmqpStreamReader[LeasePlanner]):
    """A streaming query over ordinary queues, exactly once."""

    MODE = "lease"

    def planner_of(self, options: SourceOptions) -> LeasePlanner:
        """One that leases messages of that queue."""
        return LeasePlanner(options, CONNECTION_NAME)

    def parts_of(
        self, number: int, planner: LeasePlanner, start: int, end: int, count: int
    ) -> Sequence[InputPartition]:
        """Ranges of about equal length."""
        queue = self._options.queues[number]
        return [LeasePartition(queue, *part) for part in split(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        assert isinstance(partition, LeasePartition), "partitions come from partitions()"
        spare_worker()
        options = named(self._options, partition.queue)
        shape = replace(self._shape, queue=options.queue)
        return read_lease(options, partition.first, partition.stop, shape)
