"""The reader of leased queues for Spark: a range is exactly its messages, in order. IO.

The broker refuses a range of which it does not hold every message, and numbers have no holes, so
the k-th delivery is number first + k. A connection that breaks is opened again where it stopped.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.events import Cancelled, ChannelClosed
from penstock.protocol.values import Table
from penstock.spark.connector.common.decode import Gathered, Shape
from penstock.spark.connector.common.lease_group import group_of, make_up, with_group
from penstock.spark.connector.common.link import QueueLink
from penstock.spark.connector.common.options import SourceOptions, named
from penstock.spark.connector.common.reader import CONNECTION_NAME, AmqpStreamReader, spare_worker
from penstock.spark.connector.lease.lease_plan import LOST, LeaseAsker, LeasePlanner, check_loss
from penstock.spark.connector.stream.stream_plan import split

_log = logging.getLogger("penstock.spark")
PREFETCH: Final = 4000
"""Deliveries on their way at most; half of them are acknowledged at once, which gives room and
nothing else."""
CONSUMER_TAG: Final = "penstock-spark"
RETRY_MS: Final = 500
_NS_PER_MS: Final = 1_000_000


def read_lease(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    """Numbers first..stop-1 as Arrow batches.

    Raises: OperatorError for messages that are not there (failOnDataLoss), and after readTimeout
    without a row; ClientError when the broker refuses.
    """
    for begin, end in _runs_there(options, first, stop):
        yield from _read_run(options, begin, end, shape)


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


def _read_run(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    expected = first
    gathered = Gathered(shape)
    lost_ns = 0
    while expected < stop:
        try:
            name = f"Spark task {first}..{stop}"
            link = QueueLink(options.endpoint, options.queue, PREFETCH, name)
        except ChannelClosedError:
            raise
        except ClientError:
            now_ns = time.monotonic_ns()
            lost_ns = lost_ns or now_ns
            if now_ns - lost_ns > options.endpoint.reconnect_timeout_ms * _NS_PER_MS:
                raise
            time.sleep(RETRY_MS / 1000)
            continue
        try:
            for raw, count in _deliveries(link, options, expected, stop):
                lost_ns = 0
                start, expected = expected, expected + count
                yield from gathered.add(raw, start, count)
        except ChannelClosedError as error:
            check_loss(options, error)
            raise OperatorError(f"{error.text}; that was while it was read") from error
        except ClientError:
            # The connection broke; what has come stays, the rest is read from `expected` on.
            lost_ns = lost_ns or time.monotonic_ns()
        finally:
            link.close()
    yield from gathered.rest()


def _deliveries(
    link: QueueLink, options: SourceOptions, first: int, stop: int
) -> Iterator[tuple[bytes, int]]:
    """The deliveries of first..stop-1: their bytes, and how many they are."""
    arguments: Table = {"x-lease-group": options.group, "x-lease-from": first, "x-lease-to": stop}
    link.consume(CONSUMER_TAG, arguments)
    taken, acknowledged = 0, 0
    quiet_ns = time.monotonic_ns()
    while taken < stop - first:
        scanned, events = link.exchange(1000)
        if scanned.ends:
            quiet_ns = time.monotonic_ns()
            taken += len(scanned.ends)
            if taken - acknowledged >= PREFETCH // 2:
                acknowledged = taken
                link.acknowledge(taken)
                link.write()
            yield scanned.raw, len(scanned.ends)
            continue
        for event in events:
            if isinstance(event, ChannelClosed):
                raise ChannelClosedError(event.channel, event.code, event.text)
            if isinstance(event, Cancelled):
                raise ChannelClosedError(
                    link.number, 406, f"{LOST}queue {options.queue!r}: what was read went back to "
                    f"the queue, or with it, at {first + taken} of {first}..{stop - 1}"
                )  # fmt: skip
        if time.monotonic_ns() - quiet_ns > options.read_timeout_ms * _NS_PER_MS:
            raise OperatorError(
                f"queue {options.queue!r}: message {first + taken} of the range {first}.."
                f"{stop - 1} did not come within {options.read_timeout_ms} ms (readTimeout)"
            )


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
        return [LeasePartition(queue, self._group, *part) for part in split(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        assert isinstance(partition, LeasePartition), "partitions come from partitions()"
        spare_worker()
        options = replace(named(self._options, partition.queue), group=partition.group)
        shape = replace(self._shape, queue=options.queue)
        return read_lease(options, partition.first, partition.stop, shape)
