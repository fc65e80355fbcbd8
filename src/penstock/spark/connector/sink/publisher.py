"""Publishes the rows of a task, at least once or exactly once, or stages them. IO.

At least once: a task ends well only when everything is confirmed; a nack or a return fails it, and
Spark runs it again. A broker that blocks the connection is waited for, and said so in the log with
its reason; one that only takes its time (credit, a slow disk) just confirms later, and the window
of `maxInFlight` publishes passes that on to Spark as a longer batch. When the connection breaks
what is in that window is published once more over another one, so that much may come twice.

Exactly once: a task stages its rows, the driver commits a whole batch (`committer`). What is staged
is invisible and gone after a while, so tasks may be repeated, killed or run twice. A broker that is
started anew has lost what was staged: then it is staged again, by the task or, after its end, by
the driver.
"""

import itertools
import logging
import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from penstock.base.errors import OperatorError
from penstock.base.limits import CONNECTOR_IN_FLIGHT_BYTES
from penstock.client.errors import ChannelClosedError, ClientError, ConnectionClosedError
from penstock.client.events import (
    Blocked,
    ClientEvent,
    Confirmed,
    ReturnedPublish,
    Unblocked,
)
from penstock.client.io_blocking import Channel, Connection
from penstock.protocol.values import Table
from penstock.spark.connector.common.link import OpenChannel, check_channel
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SinkOptions
from penstock.spark.connector.common.outage import Outage
from penstock.spark.connector.sink.committer import (
    TELL_EVERY_MS,
    StagedBatch,
    check_capability,
)
from penstock.spark.connector.sink.messages import MessageMaker, Origin, RowFrames, RowPlan

_log = logging.getLogger("penstock.spark")
_NS_PER_MS: Final = 1_000_000
RUN_BYTES: Final = 262_144
"""Rows are handed over in runs of so many bytes, or half a window: few writes, few confirms to look
at, and the broker reads while the next run is made."""


def publish_rows(
    batches: Iterable[Any], plan: RowPlan, options: SinkOptions, origin: Origin
) -> int:
    """Publish every row of `batches` (Arrow) and wait for all confirms; how many there were.

    A broker that goes away is waited for, and has what it had not confirmed published again.
    Raises: OperatorError for rows that cannot be sent, refused or returned ones, and at
    confirmTimeout; ClientError with the broker's own words when the channel ends, or the broker is
    away for longer than reconnectTimeout.
    """
    publisher = ConfirmingPublisher(options, origin)
    return _send(publisher, batches, plan, options, origin)


def stage_rows(
    batches: Iterable[Any],
    plan: RowPlan,
    options: SinkOptions,
    origin: Origin,
    batch: StagedBatch,
    kept: list[Any] | None = None,
) -> tuple[str, int]:
    """Stage every row of `batches` (Arrow): (the transaction, how many there were).

    What is staged dies with its broker, and with the connection. So the rows are kept, in `kept`,
    for as long as they may have to be staged again, without the columns that nobody sends: so there
    is no more of them than maxStagedBytes.
    Raises: as `publish_rows`; OperatorError for a broker without transactions."""
    kept = [] if kept is None else kept
    rest = iter(batches)
    outage = Outage()
    limit_ms = options.endpoint.reconnect_timeout_ms
    while True:
        known = list(kept)
        try:
            publisher = StagingPublisher(options, origin, batch)
            every = itertools.chain(known, _keeping(rest, kept, plan) if limit_ms else rest)
            rows = _send(publisher, every, plan, options, origin)
        except ClientError as error:
            if isinstance(error, ChannelClosedError) and "larger max_bytes" in error.text:
                raise OperatorError(
                    f"{error.text}. That is option maxStagedBytes, {options.staged_bytes} bytes a "
                    "task: raise it, or have more tasks (repartition), or smaller batches"
                ) from error
            if len(kept) > len(known):
                # It has taken more than the time before: another outage is one of its own. Rows
                # come to an end, so that does not go on for ever.
                outage.end()
            outage.wait(error, limit_ms, f"sink: staging of batch {batch.number}")
            continue
        if publisher.staged != rows:
            raise OperatorError(
                f"the broker has staged {publisher.staged} of {rows} rows; nothing is committed"
            )
        return publisher.identity, rows


def _keeping(batches: Iterator[Any], kept: list[Any], plan: RowPlan) -> Iterator[Any]:
    for one in batches:
        kept.append(plan.sent(one))
        yield one


def _send(
    publisher: "ConfirmingPublisher",
    batches: Iterable[Any],
    plan: RowPlan,
    options: SinkOptions,
    origin: Origin,
) -> int:
    try:
        maker = MessageMaker(plan, options, publisher.channel, publisher.frame_bytes_max, origin)
        for batch in batches:
            for frames in maker.frames(batch):
                publisher.publish(frames)
        publisher.finish()
    except BaseException:
        # Without its connection a transaction is rolled back.
        publisher.drop()
        raise
    publisher.close()
    return maker.rows


class Run:
    """Rows that were published together and wait for their confirms. first: the sequence of the
    first of them; left: how many are not confirmed."""

    def __init__(self, first: int, frames: RowFrames) -> None:
        self.first = first
        self.frames = frames
        self.left = len(frames.ends)


class ConfirmingPublisher:
    """One confirming channel, over as many connections as it takes. For one thread.

    channel: its number; frame_bytes_max: as agreed with the first connection. What is not confirmed
    is kept in its frames, up to maxInFlight rows and CONNECTOR_IN_FLIGHT_BYTES, in runs of which
    the last row is not confirmed, and published again when a connection has broken: the broker may
    have had some of it.
    """

    def __init__(self, options: SinkOptions, origin: Origin) -> None:
        self._options = options
        self._name = f"sink, partition {origin.partition}"
        self._unsettled: set[int] = set()
        self._runs: deque[Run] = deque()
        self._unsettled_bytes = 0
        self._outage = Outage()
        self._open_patiently()

    def _open_patiently(self) -> None:
        """Raises: OperatorError; ClientError after reconnectTimeout, or where it is no use."""
        while True:
            try:
                self._open()
                return
            except ClientError as error:
                self._wait_for_broker(error)

    def _wait_for_broker(self, error: ClientError) -> None:
        self._outage.wait(error, self._options.endpoint.reconnect_timeout_ms, self._name)

    def _open(self) -> None:
        connection = open_connection(self._options.endpoint, self._name)
        try:
            channel = connection.channel()
            self._begin(connection, channel)
        except BaseException:
            connection.drop()
            raise
        self.channel = channel.number
        self.frame_bytes_max = connection.session.frame_bytes_max
        self._wire = OpenChannel(connection, channel.number)
        self._blocked = connection.blocked_reason
        self._progress_ns = time.monotonic_ns()
        self._told_ns = self._progress_ns

    def _begin(self, connection: Connection, channel: Channel) -> None:
        """Make the channel ready for publishes."""
        channel.confirm_select()

    def publish(self, frames: RowFrames) -> None:
        """Send rows; waits while the window is full or the broker blocks. Raises: as
        `publish_rows`."""
        first, rows = 0, len(frames.ends)
        most = max(1, self._options.in_flight // 2)
        while first < rows:
            before = int(frames.ends[first - 1]) if first else 0
            stop = int(np.searchsorted(frames.ends, before + RUN_BYTES, "right"))
            stop = max(first + 1, min(stop, first + most))
            run = frames.part(first, stop)
            try:
                self._offer(run)
            except ConnectionClosedError as error:
                # It was read with the last confirms that the broker ends the connection.
                self._lose(error, run)
            # Until there is room for another run.
            self._pump(max(1, self._options.in_flight - most + 1))
            first = stop

    def _offer(self, run: RowFrames) -> None:
        count = len(run.ends)
        first = self._wire.session.publish_frames(self.channel, run.data, 0, count)
        self._unsettled.update(range(first, first + count))
        self._runs.append(Run(first, run))
        self._unsettled_bytes += len(run.data)

    def finish(self) -> None:
        """Wait until everything is confirmed. Raises: as `publish_rows`."""
        self._pump(1)

    def close(self) -> None:
        """End the connection in order."""
        self._wire.close()

    def drop(self) -> None:
        """End it without a word; what is unconfirmed was never promised."""
        self._wire.drop()

    def _pump(self, below: int) -> None:
        """Write and read until all is written, and fewer than `below` publishes and a window of
        bytes are unconfirmed."""
        while True:
            try:
                self._pump_once(below)
                return
            except ConnectionClosedError as error:
                self._lose(error)

    def _lose(self, error: ConnectionClosedError, *more: RowFrames) -> None:
        """The connection broke: publish what is not confirmed, and `more`, over another one.
        Raises: as `publish_rows`."""
        again = [*self._left(), *more]
        while True:
            self.drop()
            self._wait_for_broker(error)
            self._open_patiently()
            self._unsettled.clear()
            self._runs.clear()
            self._unsettled_bytes = 0
            try:
                for run in again:
                    self._offer(run)
                break
            except ConnectionClosedError as fault:
                error = fault
        rows = sum(len(run.ends) for run in again)
        _log.warning("%s: connected again; %d rows are published again", self._name, rows)

    def _left(self) -> Iterator[RowFrames]:
        """What is not confirmed, without what is."""
        for run in self._runs:
            at, behind = 0, run.first + len(run.frames.ends)
            marks = (sequence in self._unsettled for sequence in range(run.first, behind))
            for is_open, same in itertools.groupby(marks):
                first, at = at, at + len(list(same))
                if is_open:
                    yield run.frames.part(first, at)

    def _pump_once(self, below: int) -> None:
        wire = self._wire
        self._progress_ns = time.monotonic_ns()
        self._take(wire.exchange(0)[1])
        while (
            wire.wants_write()
            or self._blocked is not None
            or len(self._unsettled) >= below
            or self._unsettled_bytes > CONNECTOR_IN_FLIGHT_BYTES.default
        ):
            self._take(wire.exchange(1000)[1])
            self._check_time()

    def _settle(self, sequences: list[int]) -> None:
        """sequences: rising."""
        self._unsettled.difference_update(sequences)
        for run in self._runs:
            if run.first > sequences[-1]:
                break
            behind = run.first + len(run.frames.ends)
            count = bisect_left(sequences, behind) - bisect_left(sequences, run.first)
            run.left -= count
            if count > 0 and run.left == 0:
                self._unsettled_bytes -= len(run.frames.data)
        while self._runs and self._runs[0].left == 0:
            self._runs.popleft()

    def _take(self, events: list[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, Confirmed):
                self._progress_ns = time.monotonic_ns()
                self._outage.end()
                if not event.is_accepted:
                    raise OperatorError(
                        f"the broker refused {len(event.sequences)} rows (basic.nack): a queue is "
                        "full and rejects publishes (x-overflow), or could not keep them. Spark "
                        "runs the task again if it may (spark.task.maxFailures)"
                    )
                self._settle(event.sequences)
            elif isinstance(event, ReturnedPublish):
                raise OperatorError(
                    f"a row came back, {event.code} {event.text}: no queue is bound to exchange "
                    f"{event.exchange!r} for routing key {event.routing_key!r}. Bind one, or set "
                    "option mandatory=false to lose such rows"
                )
            elif isinstance(event, Blocked):
                self._on_blocked(event.reason)
            elif isinstance(event, Unblocked):
                self._blocked = None
                self._progress_ns = time.monotonic_ns()
                _log.warning("sink: the broker reads publishes again")
            else:
                check_channel([event])

    def _on_blocked(self, reason: str) -> None:
        if not self._options.can_wait_blocked:
            raise OperatorError(f"the broker blocks publishers (onBlocked=fail): {reason}")
        self._blocked = reason
        self._told_ns = time.monotonic_ns()
        _log.warning("sink: the broker blocks publishers and is waited for: %s", reason)

    def _check_time(self) -> None:
        """Say now and then what is waited for; give up at confirmTimeout."""
        now_ns = time.monotonic_ns()
        waiting = len(self._unsettled)
        if now_ns - max(self._told_ns, self._progress_ns) > TELL_EVERY_MS * _NS_PER_MS:
            self._told_ns = now_ns
            why = f"blocked: {self._blocked}" if self._blocked else "no confirm comes"
            _log.warning("sink: %d rows wait for their confirm (%s)", waiting, why)
        silent_ms = (now_ns - self._progress_ns) / _NS_PER_MS
        if self._blocked is None and silent_ms > self._options.confirm_timeout_ms:
            raise OperatorError(
                f"no confirm for {self._options.confirm_timeout_ms} ms (confirmTimeout) with "
                f"{waiting} rows unconfirmed; the broker holds its publishers, or is stuck. On "
                "Penstock `penstock why` says which"
            )


class StagingPublisher(ConfirmingPublisher):
    """A publisher whose rows go into a transaction of `batch`. identity: the transaction's; staged:
    rows that the broker has counted, after `finish`."""

    def __init__(self, options: SinkOptions, origin: Origin, batch: StagedBatch) -> None:
        self.identity = ""
        self.staged = 0
        self._batch = batch
        self._attempt = f"{origin.partition}.{origin.attempt}"
        super().__init__(options, origin)

    def _begin(self, connection: Connection, channel: Channel) -> None:
        check_capability(connection)
        answer = channel.request(
            "transaction.begin",
            {
                "app": self._batch.app,
                "batch": self._batch.number,
                "attempt": self._attempt,
                "ttl_ms": self._options.staged_ms,
                "max_bytes": self._options.staged_bytes,
            },
        )
        self.identity = str(answer["id"])

    def _offer(self, run: RowFrames) -> None:
        """Nothing is confirmed one by one: what has to be published again is the whole stage."""
        self._wire.session.publish_frames(self.channel, run.data, 0, len(run.ends))

    def _wait_for_broker(self, error: ClientError) -> None:
        raise error

    def finish(self) -> None:
        """Wait until the broker has counted everything. Raises: as `publish_rows`."""
        super().finish()
        self._progress_ns = time.monotonic_ns()
        asked: Table = {"id": self.identity}
        answer = self._wire.request("transaction.stage", asked, self._watch, math.inf)
        count = answer["messages"]
        assert isinstance(count, int), "the broker counts"
        self.staged = count

    def _watch(self, events: list[ClientEvent]) -> None:
        self._take(events)
        self._check_time()
