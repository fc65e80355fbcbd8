"""Plans batches of an ordinary queue that the broker leases to the query: exactly once.

A batch is a range of the group's numbers. The broker keeps what is leased, in order and on its
disk, until Spark names a `start` behind it, which it does when the batch is in its commit log; so a
range is the same messages as often as it is read, and is never read again once it is done. With a
sink that ignores a batch it has committed, every message is in its result once.
"""

import logging
import threading
import time
from typing import Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.lease.lease_ask import LeaseAsker, number

_log = logging.getLogger("penstock.spark")
ALIVE_MS_MAX: Final = 10_000
"""While a batch runs the broker hears of the query this often, or four times within leaseTimeout;
heartbeats are answered then, too."""
_NS_PER_MS: Final = 1_000_000


class LeasePlanner:
    """One query's planner, in one process. Numbers: of the next message to be read.

    Every verb raises OperatorError, or ClientError with the broker's own words.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._lock = threading.Condition()
        self._asker = LeaseAsker(options, name)
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._acked = -1
        self._begun = -1
        self._target = -1
        self._tail = -1
        self._seen_ns = 0
        self._lost_ns = 0

    def initial(self) -> int:
        """Where the group is: 0 for a new one."""
        with self._lock:
            return number(self._asker.state(), "acked_to")

    def first(self) -> int:
        """Where the group is."""
        return self.initial()

    def prepare_available_now(self) -> None:
        """What is in the queue now is all that will be read."""
        with self._lock:
            state = self._asker.state()
            self._target = self._tail = number(state, "end") + number(state, "ready")

    def begin(self, start: int) -> None:
        """Everything before `start` is committed. The broker hears of it with the next batch, or
        when there is none."""
        if self._begun == start and self._acked < start:
            self._acquire(start, 0, 0)
        self._begun = start

    def available(self, start: int) -> int:
        """Messages from `start` on; 0 while the broker is away for less than reconnectTimeout."""
        try:
            with self._lock:
                state = self._asker.state()
        except ChannelClosedError:
            raise
        except ClientError as error:
            self._lose(error)
            return 0
        self._lost_ns = 0
        self._stay_alive()
        self._tail = max(start, number(state, "end")) + number(state, "ready")
        rows = max(0, (self._tail if self._target < 0 else min(self._tail, self._target)) - start)
        if rows == 0:
            self._seen_ns = 0
            if self._acked < start:
                self._acquire(start, 0, 0)
        else:
            self._seen_ns = self._seen_ns or time.monotonic_ns()
        return rows

    def waited_ms(self) -> float:
        """How long it has been known that there are messages."""
        return (time.monotonic_ns() - self._seen_ns) / _NS_PER_MS if self._seen_ns else 0.0

    def is_pressing(self) -> bool:
        """Whether the query ends with what is there."""
        return self._target >= 0

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        """The end of a batch of up to `rows` messages, of `bytes_max` bytes at most: they are the
        query's now."""
        if rows == 0:
            return start
        end = self._acquire(start, rows, bytes_max)
        if end > start:
            self._seen_ns = 0
        return min(end, start + rows)

    def tail(self) -> int | None:
        """The number behind the last message there is, for showing the lag."""
        return self._tail if self._tail >= 0 else None

    def stop(self) -> None:
        """Close the connection; what is leased stays leased for the next run. Idempotent."""
        with self._lock:
            self._is_stopping = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._asker.close()

    def _acquire(self, start: int, rows: int, bytes_max: int) -> int:
        """The end of what is held; `start` while the broker is away."""
        try:
            with self._lock:
                answer = self._asker.acquire(start, rows, bytes_max)
        except ChannelClosedError:
            raise
        except ClientError as error:
            self._lose(error)
            return start
        self._acked = start
        return max(start, number(answer, "end"))

    def _lose(self, error: ClientError) -> None:
        """The connection broke, and could not be opened again. Raises: OperatorError when that has
        been so for reconnectTimeout."""
        now_ns = time.monotonic_ns()
        limit_ms = self._options.endpoint.reconnect_timeout_ms
        if self._lost_ns == 0:
            self._lost_ns = now_ns
            _log.warning("queue %s: connection lost (%s)", self._options.queue, error)
        if now_ns - self._lost_ns >= limit_ms * _NS_PER_MS:
            raise OperatorError(
                f"queue {self._options.queue!r}: no connection for {limit_ms / 1000:g} s "
                f"(reconnectTimeout): {error}"
            ) from error

    def _stay_alive(self) -> None:
        """Begin to tell the broker that the query lives, whatever Spark is doing."""
        if self._thread is None and not self._is_stopping:
            self._thread = threading.Thread(
                target=self._keep_alive, name="penstock-spark-lease", daemon=True
            )
            self._thread.start()

    def _keep_alive(self) -> None:
        pause_s = min(self._options.lease_timeout_ms // 4, ALIVE_MS_MAX) / 1000
        with self._lock:
            while not self._lock.wait_for(lambda: self._is_stopping, pause_s):
                try:
                    self._asker.keep_alive()
                except (ClientError, OperatorError) as error:
                    # The next call of Spark's opens it again, or says what is wrong.
                    _log.info("queue %s: no sign of life: %s", self._options.queue, error)
