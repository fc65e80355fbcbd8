"""The reader of ordinary queues for Spark: at least once, acknowledged at the watermark.

When Spark asks for the next batch and names `start`, the batch that ended there is in its commit
log: that is when its messages are acknowledged, and the only time. Acknowledging in Spark's
`commit` call instead would stop the query for good as soon as one batch fills the prefetch, because
Spark commits batch N only once batch N+1 has data, which the broker would then not send.

With trigger availableNow: what was in the queue when the query started, or less if other consumers
take some of it. At its end the connection is closed in order, so that nothing comes twice.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from penstock.base.errors import OperatorError
from penstock.base.limits import CONNECTOR_TASK_BYTES
from penstock.spark.connector.common.decode import record_batches
from penstock.spark.connector.common.lag import Told
from penstock.spark.connector.common.opening import CONNECTION_NAME
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.common.reader import AmqpStreamReader, spare_worker
from penstock.spark.connector.queue.feed import QueueFeed
from penstock.spark.connector.queue.ledger import fit

FIRST_ROWS_MS: Final = 200
"""What the first call waits for the first delivery: with long triggers the first batch would
otherwise be empty."""
IDLE_MS: Final = 250
"""availableNow: after so long without a delivery the queue is asked whether there is more."""
UNDELIVERED_MS_MAX: Final = 30_000
"""availableNow: messages are ready and none is delivered; then the query fails."""
_NS_PER_MS: Final = 1_000_000


class QueuePlanner:
    """One query's planner, in one process. Positions: see `ledger`. Opens nothing before the first
    call that needs the broker.

    Every verb raises OperatorError, or ClientError with the broker's own words.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._feed: QueueFeed | None = None
        self._target_rows = -1
        self._target = -1
        self._first_until_ns = 0
        self._is_finished = False

    def prepare_available_now(self) -> None:
        """What is in the queue now is all that will be read."""
        self._target_rows = self._opened().ready

    def initial(self) -> int:
        """Nothing has been read."""
        return 0

    def first(self) -> int:
        """Nothing has been read."""
        return 0

    def begin(self, start: int) -> None:
        """Settle everything up to `start`: it is committed."""
        if self._is_finished:
            return
        feed = self._opened()
        with feed.lock:
            feed.check()
            ledger = feed.ledger
            if not ledger.is_begun:
                ledger.begin(start)
                feed.wake()
                self._first_until_ns = time.monotonic_ns() + FIRST_ROWS_MS * _NS_PER_MS
                if self._target_rows >= 0:
                    self._target = start + self._target_rows
            feed.settle(start)

    def available(self, start: int) -> int:
        """Messages behind `start` that came, or with availableNow will come."""
        feed = self._feed
        if self._is_finished or feed is None:
            return 0
        if self._target >= 0:
            return max(0, self._target - start)
        with feed.lock:
            left_ms = (self._first_until_ns - time.monotonic_ns()) / _NS_PER_MS
            if left_ms > 0:
                feed.wait_for_rows(1, left_ms)
                self._first_until_ns = 0
            return feed.ledger.received - start

    def waited_ms(self) -> float:
        """How long the oldest message that is in no batch has been here."""
        feed = self._feed
        if feed is None:
            return 0.0
        with feed.lock:
            return feed.waited_ms()

    def is_pressing(self) -> bool:
        """Whether nothing more is delivered until a batch has gone, or the query ends."""
        feed = self._feed
        if self._target >= 0 or feed is None:
            return True
        with feed.lock:
            return feed.is_full()

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        """Plan the batch of `rows` messages behind `start`; where it ends."""
        feed = self._feed
        if self._is_finished or feed is None:
            return start
        with feed.lock:
            feed.check()
            ledger = feed.ledger
            # Spark did not run what was planned for the same start before.
            wanted = rows - (ledger.planned - start)
            if self._target >= 0:
                fitting = self._rows_available_now(feed, wanted, bytes_max)
            else:
                fitting = fit(ledger, wanted, bytes_max)
            if fitting > 0:
                feed.planned()
            end = ledger.plan(fitting)
            is_over = self._target >= 0 and end == start
        if is_over:
            self.stop()
            self._is_finished = True
        return end

    def pieces(self, after: int, until: int, count: int) -> list[tuple[int, bytes]]:
        """As the ledger, in about `count` parts."""
        if self._feed is None:
            return []
        with self._feed.lock:
            ledger = self._feed.ledger
            # Spark sends tasks in messages of up to 128 MB.
            needed = -(-ledger.bytes_held // CONNECTOR_TASK_BYTES.default)
            return ledger.pieces(after, until, max(count, needed))

    def tail(self) -> int | None:
        """The position of the last message there is, for showing the lag; None if unknown."""
        feed = self._feed
        if feed is None:
            return None
        with feed.lock:
            return feed.ledger.received + feed.ready if feed.ledger.is_begun else None

    def told(self) -> Told:
        """The size of rows, as far as known."""
        feed = self._feed
        if feed is None:
            return Told()
        with feed.lock:
            held = feed.ledger.received - feed.ledger.acknowledged
            return Told(feed.ledger.bytes_held / held if held else 0.0)

    def stop(self) -> None:
        """Close the connection. Idempotent."""
        if self._feed is not None:
            self._feed.stop()

    def _opened(self) -> QueueFeed:
        if self._feed is None:
            self._feed = QueueFeed(self._options, self._name)
        return self._feed

    def _rows_available_now(self, feed: QueueFeed, rows_max: int, bytes_max: int) -> int:
        """Rows of the next batch, 0 when the target is reached or the queue has run dry."""
        ledger, options = feed.ledger, self._options
        end_ns = time.monotonic_ns() + UNDELIVERED_MS_MAX * _NS_PER_MS
        while True:
            wanted = min(rows_max, self._target - ledger.planned, options.prefetch)
            if wanted <= 0:
                return 0
            feed.wait_for_rows(wanted, IDLE_MS)
            feed.check()
            if ledger.waiting() > 0:
                return fit(ledger, wanted, bytes_max)
            feed.count_again(UNDELIVERED_MS_MAX)
            feed.check()
            if feed.ready == 0:
                # RabbitMQ's answer may overtake deliveries that were on their way before it.
                feed.wait_for_rows(1, IDLE_MS)
                feed.check()
                if ledger.waiting() == 0:
                    return 0
            if time.monotonic_ns() > end_ns:
                raise OperatorError(
                    f"queue {options.queue!r}: {feed.ready} messages are ready and none was "
                    f"delivered for {UNDELIVERED_MS_MAX // 1000} s; does another consumer have it "
                    "to itself (exclusive, or x-single-active-consumer)?"
                )


@dataclass
class QueuePartition(InputPartition):
    """A part of a batch with the deliveries themselves: only the planner has the connection."""

    queue: str
    first: int
    raw: bytes = field(repr=False)


@plainly
class QueueStreamReader(AmqpStreamReader[QueuePlanner]):
    """A streaming query over ordinary queues."""

    MODE = "queue"
    DELIVERY = "at least once"

    def planner_of(self, options: SourceOptions) -> QueuePlanner:
        """A consumer of that queue."""
        return QueuePlanner(options, CONNECTION_NAME)

    def parts_of(
        self, number: int, planner: QueuePlanner, start: int, end: int, count: int
    ) -> Sequence[InputPartition]:
        """The batch's deliveries; none for a batch that an earlier process planned."""
        queue = self._options.queues[number]
        return [QueuePartition(queue, *piece) for piece in planner.pieces(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker."""
        assert isinstance(partition, QueuePartition), "partitions come from partitions()"
        spare_worker()
        shape = replace(self._shape, queue=partition.queue)
        return record_batches(partition.raw, partition.first, shape)
