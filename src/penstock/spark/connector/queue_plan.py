"""Plans batches of an ordinary queue: at least once, acknowledged at the watermark.

When Spark asks for the next batch and names `start`, the batch that ended there is in its commit
log: that is when its messages are acknowledged, and the only time. Acknowledging in Spark's
`commit` call instead would stop the query for good as soon as one batch fills the prefetch, because
Spark commits batch N only once batch N+1 has data, which the broker would then not send.

With trigger availableNow: what was in the queue when the query started, or less if other consumers
take some of it. At its end the connection is closed in order, so that nothing comes twice.
"""

import time
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import CONNECTOR_TASK_BYTES
from penstock.spark.connector.feed import QueueFeed
from penstock.spark.connector.ledger import Piece, admit
from penstock.spark.connector.options import SourceOptions

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
        self._is_finished = False

    def prepare_available_now(self) -> None:
        """What is in the queue now is all that will be read."""
        self._target_rows = self._opened().ready

    def latest(self, start: int, rows_max: int) -> int:
        """Settle everything up to `start` and plan the next batch; where it ends.

        start: all up to here is committed; rows_max: messages, 1... The end is `start` when there
        is nothing to do.
        """
        if self._is_finished:
            return start
        feed = self._opened()
        with feed.lock:
            feed.check()
            ledger = feed.ledger
            is_first = not ledger.is_begun
            if is_first:
                ledger.begin(start)
                feed.wake()
            feed.settle(start)
            rows_max -= ledger.planned - start
            if self._target_rows >= 0:
                if is_first:
                    self._target = start + self._target_rows
                rows = self._rows_available_now(feed, rows_max)
            else:
                if is_first:
                    feed.wait_for_rows(1, FIRST_ROWS_MS)
                rows = admit(ledger, self._options, rows_max, feed.waited_ms(), feed.is_full())
            if rows > 0:
                feed.planned()
            end = ledger.plan(rows)
            is_over = self._target >= 0 and rows == 0 and end == start
        if is_over:
            self.stop()
            self._is_finished = True
        return end

    def pieces(self, after: int, until: int) -> list[Piece]:
        """The deliveries of the batch (after, until]; [] if an earlier process planned it."""
        if self._feed is None:
            return []
        with self._feed.lock:
            ledger = self._feed.ledger
            # Spark sends tasks in messages of up to 128 MB.
            needed = -(-ledger.bytes_held // CONNECTOR_TASK_BYTES.default)
            count = max(self._options.partitions, needed)
            return ledger.pieces(after, until, count)

    def tail(self) -> int | None:
        """The position of the last message there is, for showing the lag; None if unknown."""
        feed = self._feed
        if feed is None:
            return None
        with feed.lock:
            return feed.ledger.received + feed.ready if feed.ledger.is_begun else None

    def stop(self) -> None:
        """Close the connection. Idempotent."""
        if self._feed is not None:
            self._feed.stop()

    def _opened(self) -> QueueFeed:
        if self._feed is None:
            self._feed = QueueFeed(self._options, self._name)
        return self._feed

    def _rows_available_now(self, feed: QueueFeed, rows_max: int) -> int:
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
                return admit(ledger, options, wanted, 0.0, True)
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
