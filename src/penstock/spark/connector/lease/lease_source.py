"""Reads ordinary queues that the broker leases to the query: exactly once. IO.

A batch is a range of the group's numbers. The broker keeps what is leased, in order and on its
disk, until Spark names a `start` behind it, which it does when the batch is in its commit log; so a
range is the same messages as often as it is read, and is never read again once it is done. With a
sink that ignores a batch it has committed, every message is in its result once. The broker refuses
a range of which it does not hold every message, and hands it out in chunks, as a stream's
(`stream_read`), with the group's numbers for offsets.

Requests go over one connection, which is opened again when it breaks. Every request may be said
twice: the broker answers a second lease.acquire with the same start as it answered the first.
Owner: one thread at a time.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from penstock.base.errors import OperatorError
from penstock.base.limits import LEASE_BYTES
from penstock.client.errors import ChannelClosedError, ClientError, ConnectionClosedError
from penstock.protocol.values import Table
from penstock.spark.connector.common.engines import ReadLimit
from penstock.spark.connector.common.labels import in_task
from penstock.spark.connector.common.link import QueueLink
from penstock.spark.connector.common.offsets import GROUP, group_of, is_made_up, make_up
from penstock.spark.connector.common.opening import CONNECTION_NAME, LEASES
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.common.ranges import RangePlanner
from penstock.spark.connector.common.reader import (
    AmqpStreamReader,
    read_part,
)
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.stream_read import in_worker, read_chunks

_log = logging.getLogger("penstock.spark")
LOST: Final = "LEASE_LOST: "
STALE: Final = "STALE: "
ALIVE_MS_MAX: Final = 10_000
"""While a batch runs the broker hears of the query this often, or four times within leaseTimeout;
heartbeats are answered then, too."""


class LeaseAsker:
    """Raises, from every verb: OperatorError; ClientError with the broker's own words."""

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._link: QueueLink | None = None
        self._is_named = False

    def state(self, first: int = 0, stop: int = 0) -> Table:
        """What the group holds, and of first..stop-1 in detail; a sign of life."""
        answer = self._twice("lease.state", {"first": first, "stop": stop})
        self._is_named = answer.get("query", "") != ""
        return answer

    def acquire(self, start: int, rows: int, bytes_max: int) -> Table:
        """Done with all before `start`; hold up to `rows` from there. bytes_max: 0 for no bound.

        Raises: OperatorError for what is gone, unless failOnDataLoss is off."""
        options = self._options
        arguments: Table = {
            "start": start,
            "max_messages": rows,
            "timeout_ms": options.lease_timeout_ms,
        }
        if not self._is_named:
            # Its tasks know better, and have said it where the broker has a name already.
            arguments["query"] = label_of(options)
        if is_made_up(options.group):
            arguments["forgettable"] = True
        if bytes_max > 0:
            # A group leases no more than that, and the broker refuses to be asked for it.
            arguments["max_bytes"] = min(bytes_max, LEASE_BYTES.default)
        try:
            return self._twice("lease.acquire", arguments)
        except ChannelClosedError as error:
            check_loss(options, error)
            _log.warning("%s; going on, because failOnDataLoss is off", error.text)
        return self._twice("lease.acquire", {**arguments, "accept_loss": True})

    def close(self) -> None:
        """End the connection; what is leased stays leased. Idempotent."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _twice(self, verb: str, arguments: Table) -> Table:
        """Ask, over a new connection if the old one has ended: nothing may have been said on it for
        long, which a broker with heartbeats does not put up with."""
        if self._link is not None:
            try:
                return self._ask(self._link, verb, arguments)
            except ConnectionClosedError:
                pass
        return self._ask(self._opened(), verb, arguments)

    def _opened(self) -> QueueLink:
        options = self._options
        if self._link is None:
            self._link = QueueLink(options.endpoint, options.queue, 1, self._name)
        if LEASES not in self._link.session.server_capabilities():
            self.close()
            raise OperatorError(
                f"the broker at {options.endpoint.url.address()} has no leases ({LEASES}): "
                "mode=lease needs Penstock. Leave option mode out, and rows come at least once"
            )
        return self._link

    def _ask(self, link: QueueLink, verb: str, arguments: Table) -> Table:
        named: Table = {"queue": self._options.queue, "group": self._options.group, **arguments}
        try:
            return link.request(verb, named)
        except (ChannelClosedError, ConnectionClosedError):
            # The link has no other channel.
            self.close()
            raise


def label_of(options: SourceOptions) -> str:
    """What people know the group by, as far as this process knows it."""
    group = "" if is_made_up(options.group) else options.group
    return in_task(options.endpoint.labels).of_group(group)


def number(answer: Table, name: str) -> int:
    """A number in an answer."""
    value = answer[name]
    assert isinstance(value, int), "the broker answers as it says"
    return value


def check_loss(options: SourceOptions, error: ChannelClosedError) -> None:
    """Raises: `error` if it is about something else than messages that are gone; OperatorError if
    it is about these and failOnDataLoss is on."""
    if LOST not in error.text and STALE not in error.text:
        raise error
    if options.fails_on_data_loss:
        raise OperatorError(
            f"{error.text}. Set failOnDataLoss=false to go on without them, or use another group "
            "and a new checkpointLocation"
        ) from error


class LeasePlanner(RangePlanner):
    """One query's planner, in one process."""

    KIND = "queue"

    def __init__(self, options: SourceOptions, name: str) -> None:
        super().__init__(options)
        self._lock = threading.Condition()
        self._asker = LeaseAsker(options, name)
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._acked = -1
        self._begun = -1

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
        """As every planner; without messages the broker hears what is committed."""
        rows = super().available(start)
        if rows == 0 and self._acked < start and not self._outage.is_on():
            self._acquire(start, 0, 0)
        return rows

    def look(self, start: int) -> None:
        """What the group holds, and what is ready behind it."""
        with self._lock:
            state = self._asker.state()
        self._note(state)
        self._stay_alive()
        self._tail = max(start, number(state, "end")) + number(state, "ready")

    def _note(self, answer: Table) -> None:
        """What is shown of it."""
        count = number(answer, "count")
        if count > 0:
            self._row_bytes = number(answer, "bytes") / count
        if "held_ns" in answer:
            self._held_ns = number(answer, "held_ns")

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        """The end of a batch of up to `rows` messages, of `bytes_max` bytes at most: they are the
        query's now."""
        if rows == 0:
            return start
        end = self._acquire(start, rows, bytes_max)
        if end > start:
            self._seen_ns = 0
        return min(end, start + rows)

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
        self._note(answer)
        return max(start, number(answer, "end"))

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
                    self._asker.state()
                except (ClientError, OperatorError) as error:
                    # Until it works again: the time without one may count from a restart of the
                    # broker. The next call of Spark's says what is wrong.
                    _log.info("queue %s: no sign of life: %s", self._options.queue, error)


def read_lease(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    """Numbers first..stop-1 as Arrow batches.

    Raises: OperatorError for messages that are not there (failOnDataLoss), and after readTimeout
    without a row; ClientError when the broker refuses.
    """
    options = in_worker(options)
    cancelled = (
        f"{LOST}queue {options.queue!r}: what was read went back to the queue, or with it, while "
        f"{first}..{stop - 1} was read"
    )
    for begin, end in _runs_there(options, first, stop):
        try:
            yield from read_chunks(options, begin, end, shape, None, _range_of, cancelled)
        except ChannelClosedError as error:
            check_loss(options, error)
            raise OperatorError(f"{error.text}; that was while it was read") from error


def _runs_there(options: SourceOptions, first: int, stop: int) -> list[tuple[int, int]]:
    """What has to be read: all of it, or with failOnDataLoss off what is left of it."""
    if options.fails_on_data_loss:
        return [(first, stop)]
    asker = LeaseAsker(options, f"task {first}..{stop}")
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


def _range_of(options: SourceOptions, first: int, stop: int) -> Table:
    return {
        "x-lease-group": options.group, "x-lease-from": first, "x-lease-to": stop,
        "x-lease-query": label_of(options),
    }  # fmt: skip


@plainly
class LeaseStreamReader(AmqpStreamReader[LeasePlanner]):
    """A streaming query over ordinary queues, exactly once. Without the option group it has one of
    its own, whose name is in every offset, and so in its checkpoint.

    _group: "" until it is known; _is_ending: what is there when it is known is all there will be.
    """

    MODE = "lease"

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        self._is_ending = False

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins: where its group is, or at 0 under a name of its own."""
        if self._options.group:
            return super().initialOffset()
        self._go_as(self._group or make_up())
        return self._written([0] * len(self._options.queues))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As every reader, for the group that stands in `start`."""
        self._check(start)
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
        self._check(end)
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
        return offset if self._options.group else {**offset, GROUP: self._group}

    def planner_of(self, options: SourceOptions) -> LeasePlanner:
        """One that leases messages of that queue."""
        return LeasePlanner(replace(options, group=self._group), CONNECTION_NAME)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        return read_part(partition, self._options, self._shape, read_lease)
