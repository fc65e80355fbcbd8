"""Publishes the rows of a task, at least once or exactly once, and commits staged batches. IO.

At least once: a task ends well only when everything is confirmed; a nack or a return fails it, and
Spark runs it again. A broker that blocks the connection is waited for, and said so in the log with
its reason; one that only takes its time (credit, a slow disk) just confirms later, and the window
of `maxInFlight` publishes passes that on to Spark as a longer batch.

Exactly once: a task stages its rows, the driver commits a whole batch. What is staged is invisible
and gone after a while, so tasks may be repeated, killed or run twice. The commit names the
transactions of the tasks that Spark counts, and the batch: the broker makes all of it visible with
one write that a crash leaves whole or undone, and remembers the batch, so that the same commit said
again, by this driver or the next one, changes nothing.
"""

import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ClientError, ConnectError, ConnectionClosedError
from penstock.client.events import (
    Blocked,
    ClientEvent,
    Confirmed,
    ReturnedPublish,
    Unblocked,
)
from penstock.client.io_blocking import Channel, Connection
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.spark.connector.common.link import OpenChannel, check_channel
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SinkOptions
from penstock.spark.connector.sink.messages import MessageMaker, Origin, RowPlan

_log = logging.getLogger("penstock.spark")
_NS_PER_MS: Final = 1_000_000
WRITE_BYTES: Final = 65_536
"""Frames are collected up to here before they are written: fewer system calls."""
TELL_EVERY_MS: Final = 30_000
"""How often the log says that a task still waits."""
CAPABILITY: Final = "penstock.transactions"
RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What a commit is remembered under. app: 1..255 bytes; number: 0.. ."""

    app: str
    number: int


def publish_rows(
    batches: Iterable[Any], plan: RowPlan, options: SinkOptions, origin: Origin
) -> int:
    """Publish every row of `batches` (Arrow) and wait for all confirms; how many there were.

    Raises: OperatorError for rows that cannot be sent, refused or returned ones, and at
    confirmTimeout; ClientError with the broker's own words when channel or connection end.
    """
    publisher = ConfirmingPublisher(options, f"Spark sink {origin.partition}")
    return _send(publisher, batches, plan, options, origin)


def stage_rows(
    batches: Iterable[Any], plan: RowPlan, options: SinkOptions, origin: Origin, batch: StagedBatch
) -> tuple[str, int]:
    """Stage every row of `batches` (Arrow): (the transaction, how many there were).

    Raises: as `publish_rows`; OperatorError for a broker without transactions."""
    attempt = f"{origin.partition}.{origin.attempt}"
    publisher = StagingPublisher(options, f"Spark sink {origin.partition}", batch, attempt)
    rows = _send(publisher, batches, plan, options, origin)
    if publisher.staged != rows:
        raise OperatorError(
            f"the broker has staged {publisher.staged} of {rows} rows; nothing is committed"
        )
    return publisher.identity, rows


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


class ConfirmingPublisher:
    """One confirming channel. For one thread. `channel`: its number; frame_bytes_max: as agreed."""

    def __init__(self, options: SinkOptions, name: str) -> None:
        self._options = options
        connection = open_connection(options.endpoint, name)
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
        self._unwritten_bytes = 0
        self._progress_ns = time.monotonic_ns()
        self._told_ns = self._progress_ns

    def _begin(self, connection: Connection, channel: Channel) -> None:
        """Make the channel ready for publishes."""
        channel.confirm_select()

    def publish(self, frames: bytes) -> None:
        """Send one message; waits while the window is full or the broker blocks. Raises: as
        `publish_rows`."""
        wire = self._wire
        wire.session.publish_frames(self.channel, frames, 0)
        self._unwritten_bytes += len(frames)
        if self._unwritten_bytes >= WRITE_BYTES:
            self._unwritten_bytes = 0
            self._pump(self._options.in_flight)
        elif wire.session.unconfirmed(self.channel) >= self._options.in_flight:
            # Half of the window, so that it is not waited for again at the next message.
            self._pump(-(-self._options.in_flight // 2))

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
        """Write and read until all is written and fewer than `below` publishes are unconfirmed."""
        wire, session = self._wire, self._wire.session
        self._progress_ns = time.monotonic_ns()
        self._take(wire.exchange(0)[1])
        while (
            wire.wants_write()
            or self._blocked is not None
            or session.unconfirmed(self.channel) >= below
        ):
            self._take(wire.exchange(1000)[1])
            self._check_time()

    def _take(self, events: list[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, Confirmed):
                self._progress_ns = time.monotonic_ns()
                if not event.is_accepted:
                    raise OperatorError(
                        f"the broker refused {len(event.sequences)} rows (basic.nack): a queue is "
                        "full and rejects publishes (x-overflow), or could not keep them. Spark "
                        "runs the task again if it may (spark.task.maxFailures)"
                    )
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
        waiting = self._wire.session.unconfirmed(self.channel)
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

    def __init__(self, options: SinkOptions, name: str, batch: StagedBatch, attempt: str) -> None:
        self.identity = ""
        self.staged = 0
        self._batch = batch
        self._attempt = attempt
        super().__init__(options, name)

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

    def finish(self) -> None:
        """Wait until the broker has counted everything. Raises: as `publish_rows`."""
        super().finish()
        self._progress_ns = time.monotonic_ns()
        stage = m.RequestAsk("transaction.stage", {"id": self.identity})
        reply = self._wire.answer(stage, self._watch, math.inf)
        assert isinstance(reply, m.RequestAskOk), "replies fit their requests"
        count = reply.answer["messages"]
        assert isinstance(count, int), "the broker counts"
        self.staged = count

    def _watch(self, events: list[ClientEvent]) -> None:
        self._take(events)
        self._check_time()


def check_capability(connection: Connection) -> None:
    """Raises: OperatorError for a broker without transactions."""
    if CAPABILITY not in connection.session.server_capabilities():
        raise OperatorError(
            f"delivery=exactly-once needs a broker with the capability {CAPABILITY}, as Penstock "
            "has it, and this one does not announce it. Use delivery=at-least-once, or dedup"
        )


def commit_batch(options: SinkOptions, batch: StagedBatch, identities: list[str]) -> bool:
    """Commit the transactions `identities`, as one; False when the batch had been committed before.

    A broker that goes away meanwhile is waited for as long as reconnectTimeout says, and asked
    again, which is safe. Raises: ClientError, OperatorError: nothing of it is committed, unless the
    connection was lost; then the next start of the query finds out."""
    end_ns = time.monotonic_ns() + options.endpoint.reconnect_timeout_ms * _NS_PER_MS
    arguments: Table = {"app": batch.app, "batch": batch.number, "ids": list(identities)}
    while True:
        try:
            answer = _ask(options, "transaction.commit", arguments)
        except (ConnectError, ConnectionClosedError) as error:
            if time.monotonic_ns() >= end_ns:
                raise
            _log.warning("sink: commit of batch %d is tried again: %s", batch.number, error)
            time.sleep(RETRY_S)
            continue
        return answer["already"] is False


def roll_back(options: SinkOptions, batch: StagedBatch, identities: list[str]) -> None:
    """Drop what was staged. A broker that cannot be asked drops it by itself, a little later."""
    arguments: Table = {"app": batch.app, "batch": batch.number, "ids": list(identities)}
    try:
        _ask(options, "transaction.rollback", arguments)
    except (ClientError, OSError) as error:
        _log.warning("sink: batch %d could not be rolled back: %s", batch.number, error)


def forget_app(options: SinkOptions, app: str) -> None:
    """Nothing of `app` has to be remembered any more. It is, when the broker cannot be asked."""
    try:
        _ask(options, "transaction.forget", {"app": app})
    except (ClientError, OSError) as error:
        _log.warning("sink: app %s could not be forgotten: %s", app, error)


def _ask(options: SinkOptions, verb: str, arguments: Table) -> Table:
    """Ask, and wait for as long as the broker lives: a commit waits for queues that are full."""
    connection = open_connection(options.endpoint, "Spark sink driver")
    try:
        check_capability(connection)
        number = connection.channel().number
    except BaseException:
        connection.drop()
        raise
    wire = OpenChannel(connection, number)
    began_ns = told_ns = time.monotonic_ns()

    def check(events: list[ClientEvent]) -> None:
        nonlocal told_ns
        check_channel(events)
        now_ns = time.monotonic_ns()
        if now_ns - told_ns > TELL_EVERY_MS * _NS_PER_MS:
            told_ns = now_ns
            seconds = (now_ns - began_ns) // (1000 * _NS_PER_MS)
            _log.warning("sink: %s has waited %d s: a queue or the disk is full", verb, seconds)

    try:
        reply = wire.answer(m.RequestAsk(verb, arguments), check, math.inf)
    finally:
        wire.close()
    assert isinstance(reply, m.RequestAskOk), "replies fit their requests"
    return reply.answer
