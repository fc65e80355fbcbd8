"""The readers of streams for Spark, see `stream_plan`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.spark.connector.common.decode import Shape
from penstock.spark.connector.common.offsets import (
    beginning_of,
    begun_at,
    has_beginning,
    identified,
    ids_in,
)
from penstock.spark.connector.common.options import SourceOptions, named, of_queue
from penstock.spark.connector.common.planner import tasks_of
from penstock.spark.connector.common.ranges import split
from penstock.spark.connector.common.reader import (
    CONNECTION_NAME,
    AmqpStreamReader,
    RangePartition,
    spare_worker,
)
from penstock.spark.connector.stream.stream_plan import StreamPlanner
from penstock.spark.connector.stream.stream_read import read_rows


class StreamStreamReader(AmqpStreamReader[StreamPlanner]):
    """A streaming query over streams.

    Spark writes down where a batch ends, and of the first one that died it asks again where it
    begins: with startingOffsets=latest somewhere else. So the end of the first batch says it.

    _began: where the query begins, None until Spark has asked.
    """

    MODE = "stream"

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        self._began: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        self._began = super().initialOffset()
        return self._began

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As every reader; of the first batch with its beginning."""
        numbers = self._numbers(start)
        self._expect(start)
        end = super().latestOffset(start, limit)
        is_known = has_beginning(start) or not self._options.pattern
        if is_known and self._numbers(end) == numbers:
            # Spark compares texts: without new rows it has to be the same one.
            return start
        if has_beginning(start):
            return end
        return begun_at(end, start) if start == self._began != end else end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a batch, which may say itself where it begins. Raises: OperatorError when
        they are those of a stream that was deleted and made anew."""
        begun = beginning_of(end, start)
        known, numbers = self._expect(end), self._numbers(begun)
        for planner, made_as, number in zip(self._opened(), known, numbers, strict=True):
            if made_as:
                planner.check_made(number)
        return super().partitions(begun, end)

    def _expect(self, offset: dict[str, Any]) -> list[str]:
        """Tell the planners which streams `offset` is of, "" where it does not say."""
        known = ids_in(offset, self._options.queues)
        for planner, made_as in zip(self._opened(), known, strict=True):
            planner.expect(made_as)
        return known

    def _written(self, numbers: list[int]) -> dict[str, Any]:
        ids = [planner.made_as() for planner in self._opened()]
        return identified(super()._written(numbers), self._options.queues, ids)

    def planner_of(self, options: SourceOptions) -> StreamPlanner:
        """One that finds the ends of that stream."""
        return StreamPlanner(options, CONNECTION_NAME)

    def parts_of(
        self, number: int, planner: StreamPlanner, start: int, end: int, count: int
    ) -> Sequence[InputPartition]:
        """Ranges of about equal length."""
        queue = self._options.queues[number]
        return [RangePartition(queue, *part) for part in split(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        return read_partition(self._options, self._shape, partition)


class StreamBatchReader(DataSourceReader):
    """`spark.read` of streams: from startingOffsets to endingOffsets, or between times."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        """About minPartitions ranges, or what `width` says. Raises: OperatorError, ClientError."""
        ranges = [self.range_of(number) for number in range(len(self._options.queues))]
        rows = [max(0, stop - first) for first, stop in ranges]
        counts = tasks_of(rows, self._options.partitions, self._options.cores)
        parts: list[InputPartition] = [
            RangePartition(self._options.queues[number], *part)
            for number, (first, stop) in enumerate(ranges)
            for part in split(first, stop, counts[number])
        ]
        # Spark wants a partition even for no rows.
        return parts or [RangePartition(self._options.queue, 0, 0)]

    def range_of(self, number: int) -> tuple[int, int]:
        """What is read of the stream of that number. Raises: OperatorError, ClientError."""
        planner = StreamPlanner(of_queue(self._options, number), CONNECTION_NAME)
        try:
            return planner.whole()
        finally:
            planner.stop()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        return read_partition(self._options, self._shape, partition)


def read_partition(
    options: SourceOptions, shape: Shape, partition: InputPartition
) -> Iterator[Any]:
    """Arrow batches of one range. Raises: OperatorError, ClientError."""
    assert isinstance(partition, RangePartition), "partitions come from partitions()"
    spare_worker()
    options = named(options, partition.queue)
    shape = replace(shape, queue=options.queue)
    return read_rows(options, partition.first, partition.stop, shape)
