"""The reader of leased queues for Spark, see `lease_plan`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.spark.connector.common.decode import Shape
from penstock.spark.connector.common.lease_group import group_of, make_up, with_group
from penstock.spark.connector.common.options import SourceOptions, named
from penstock.spark.connector.common.reader import CONNECTION_NAME, AmqpStreamReader, spare_worker
from penstock.spark.connector.lease.lease_plan import LeasePlanner
from penstock.spark.connector.lease.lease_read import read_lease
from penstock.spark.connector.stream.stream_plan import split


class LeasePartition(InputPartition):
    """Numbers first..stop-1 of a group's, which the task reads from the broker itself."""

    def __init__(self, queue: str, group: str, first: int, stop: int) -> None:
        super().__init__((queue, first, stop))
        self.queue = queue
        self.group = group
        self.first = first
        self.stop = stop


class LeaseStreamReader(AmqpStreamReader[LeasePlanner]):
    """A streaming query over ordinary queues, exactly once. Without the option group it has one of
    its own, whose name is in every offset, and so in its checkpoint.

    _group: "" until it is known; _is_ending: what is there when it is known is all there will be.
    """

    MODE = "lease"

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        self._group = options.group
        self._is_ending = False

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins: where its group is, or at 0 under a name of its own."""
        if self._options.group:
            return super().initialOffset()
        self._go_as(self._group or make_up())
        return self._written([0] * len(self._options.queues))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As every reader, for the group that stands in `start`."""
        self._go_as(group_of(self._options.group, start))
        return super().latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """None as long as nobody knows which group this is."""
        return super().reportLatestOffset() if self._group else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end; a query that does not know its group yet looks when it
        does, which is its next call."""
        self._is_ending = True
        if self._group:
            super().prepareForTriggerAvailableNow()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a batch of the group that stands in `end`: a `start` that Spark has not
        written down, because the first batch did not end, has a name that nobody will use."""
        self._go_as(group_of(self._options.group, end))
        return super().partitions(start, end)

    def _go_as(self, group: str) -> None:
        """The group of the query is `group`."""
        if group == self._group:
            return
        self.stop()
        self._planners = []
        self._group = group
        if self._is_ending:
            super().prepareForTriggerAvailableNow()

    def _written(self, numbers: list[int]) -> dict[str, Any]:
        offset = super()._written(numbers)
        return offset if self._options.group else with_group(offset, self._group)

    def planner_of(self, options: SourceOptions) -> LeasePlanner:
        """One that leases messages of that queue."""
        return LeasePlanner(replace(options, group=self._group), CONNECTION_NAME)

    def parts_of(
        self, number: int, planner: LeasePlanner, start: int, end: int, count: int
    ) -> Sequence[InputPartition]:
        """Ranges of about equal length."""
        queue = self._options.queues[number]
        return [LeasePartition(queue, self._group, *part) for part in split(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        assert isinstance(partition, LeasePartition), "partitions come from partitions()"
        spare_worker()
        options = replace(named(self._options, partition.queue), group=partition.group)
        shape = replace(self._shape, queue=options.queue)
        return read_lease(options, partition.first, partition.stop, shape)
