"""The reader of leased queues for Spark: a range is exactly its messages, in order. IO.

The broker refuses a range of which it does not hold every message, and numbers have no holes, so
the k-th delivery is number first + k. A connection that breaks is opened again where it stopped.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.protocol.values import Table
from penstock.spark.connector.common.decode import Shape
from penstock.spark.connector.common.link import QueueLink
from penstock.spark.connector.common.offsets import group_of, make_up, with_group
from penstock.spark.connector.common.options import SourceOptions, named
from penstock.spark.connector.common.ranges import Run, arrivals, read_batches, split
from penstock.spark.connector.common.reader import (
    CONNECTION_NAME,
    AmqpStreamReader,
    RangePartition,
    spare_worker,
)
from penstock.spark.connector.lease.lease_plan import LOST, LeaseAsker, LeasePlanner, check_loss

_log = logging.getLogger("penstock.spark")


def read_lease(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    """Numbers first..stop-1 as Arrow batches.

    Raises: OperatorError for messages that are not there (failOnDataLoss), and after readTimeout
    without a row; ClientError when the broker refuses.
    """
    for begin, end in _runs_there(options, first, stop):
        yield from read_batches(options, begin, end, shape, _runs)


def _runs_there(options: SourceOptions, first: int, stop: int) -> list[tuple[int, int]]:
    """What has to be read: all of it, or with failOnDataLoss off what is left of it."""
    if options.fails_on_data_loss:
        return [(first, stop)]
    asker = LeaseAsker(options, f"Spark task {first}..{stop}")
    try:
        found = asker.state(first, stop)["runs"]
    finally:
        asker.close()
    assert isinstance(found, list), "the broker answers as it says"
    numbers = [value for value in found if isinstance(value, int)]
    runs = list(zip(numbers[::2], numbers[1::2], strict=True))
    lost = stop - first - sum(end - begin for begin, end in runs)
    if lost > 0:
        _log.warning(
            "queue %s: %d of the messages %d..%d are gone; going on, because failOnDataLoss is off",
            options.queue, lost, first, stop - 1,
        )  # fmt: skip
    return runs


def _runs(link: QueueLink, options: SourceOptions, first: int, stop: int) -> Iterator[Run]:
    arguments: Table = {"x-lease-group": options.group, "x-lease-from": first, "x-lease-to": stop}
    expected = first

    def cancelled() -> ChannelClosedError:
        return ChannelClosedError(
            link.number, 406, f"{LOST}queue {options.queue!r}: what was read went back to the "
            f"queue, or with it, at {expected} of {first}..{stop - 1}"
        )  # fmt: skip

    def late() -> OperatorError:
        return OperatorError(
            f"queue {options.queue!r}: message {expected} of the range {first}..{stop - 1} did not "
            f"come within {options.read_timeout_ms} ms (readTimeout)"
        )

    try:
        for scanned in arrivals(link, arguments, options.read_timeout_ms, cancelled, late):
            start, expected = expected, expected + len(scanned.ends)
            yield start, scanned.raw, expected
            if expected >= stop:
                return
    except ChannelClosedError as error:
        check_loss(options, error)
        raise OperatorError(f"{error.text}; that was while it was read") from error


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
        """None as long as it is not known which group this is."""
        return super().reportLatestOffset() if self._group else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end; a query that does not know its group yet looks when it
        does, which is its next call."""
        self._is_ending = True
        if self._group:
            super().prepareForTriggerAvailableNow()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a batch of the group that stands in `end`: a `start` that Spark has not
        written down, because the first batch did not end, has a name that is never used."""
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
        return [RangePartition(queue, *part, self._group) for part in split(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        assert isinstance(partition, RangePartition), "partitions come from partitions()"
        spare_worker()
        options = replace(named(self._options, partition.queue), group=partition.group)
        shape = replace(self._shape, queue=options.queue)
        return read_lease(options, partition.first, partition.stop, shape)
