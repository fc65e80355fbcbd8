"""Exactly once into a broker: a task stages its rows, the driver commits a whole batch. IO.

What is staged is invisible and gone after a while, so tasks may be repeated, killed or run
twice. The commit names the transactions of the tasks that Spark counts, and the batch: the broker
makes all of it visible with one write that a crash leaves whole or undone, and remembers the batch,
so that the same commit said again, by this driver or the next one, changes nothing.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.client.errors import (
    ChannelClosedError,
    ClientError,
    ConnectError,
    ConnectionClosedError,
)
from penstock.client.events import ChannelClosed, ClientEvent, Replied
from penstock.client.io_blocking import Channel, Connection
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.spark.connector.common.link import OpenChannel
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SinkOptions
from penstock.spark.connector.sink.messages import MessageMaker, Origin, RowPlan
from penstock.spark.connector.sink.publisher import TELL_EVERY_MS, ConfirmingPublisher

_log = logging.getLogger("penstock.spark")
CAPABILITY: Final = "penstock.transactions"
RETRY_S: Final = 0.5
NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What a commit is remembered under. app: 1..255 bytes; number: 0.. ."""

    app: str
    number: int


class StagingPublisher(ConfirmingPublisher):
    """A publisher whose rows go into a transaction of `batch`; `identity`: the transaction's."""

    def __init__(self, options: SinkOptions, name: str, batch: StagedBatch, attempt: str) -> None:
        self.identity = ""
        self._batch = batch
        self._attempt = attempt
        self._answer: Table | None = None
        super().__init__(options, name)

    def _begin(self, connection: Connection, channel: Channel) -> None:
        check_capability(connection)
        delivery = self._options.delivery
        answer = channel.request(
            "transaction.begin",
            {
                "app": self._batch.app,
                "batch": self._batch.number,
                "attempt": self._attempt,
                "ttl_ms": delivery.staged_ms,
                "max_bytes": delivery.staged_bytes,
            },
        )
        self.identity = str(answer["id"])

    def finish(self) -> None:
        """Wait until the broker has counted everything. Raises: as `publish_rows`."""
        super().finish()
        session = self._wire.session
        session.request(self.channel, m.RequestAsk("transaction.stage", {"id": self.identity}))
        self._progress_ns = time.monotonic_ns()
        while self._answer is None:
            self._take(self._wire.exchange(1000)[1])
            self._check_time()

    def staged_count(self) -> int:
        """Rows that the broker has staged, after `finish`."""
        assert self._answer is not None, "finish has waited for it"
        count = self._answer["messages"]
        assert isinstance(count, int), "the broker counts"
        return count

    def _take(self, events: list[ClientEvent]) -> None:
        super()._take(events)
        for event in events:
            if isinstance(event, Replied) and isinstance(event.reply, m.RequestAskOk):
                self._answer = event.reply.answer


def check_capability(connection: Connection) -> None:
    """Raises: OperatorError for a broker without transactions."""
    if CAPABILITY not in connection.session.server_capabilities():
        raise OperatorError(
            f"delivery=exactly-once needs a broker with the capability {CAPABILITY}, as Penstock "
            "has it, and this one does not announce it. Use delivery=at-least-once, or dedup"
        )


def stage_rows(
    batches: Iterable[Any], plan: RowPlan, options: SinkOptions, origin: Origin, batch: StagedBatch
) -> tuple[str, int]:
    """Stage every row of `batches` (Arrow): (the transaction, how many there were).

    Raises: OperatorError for rows that cannot be sent, and a broker without transactions;
    ClientError with the broker's own words."""
    attempt = f"{origin.partition}.{origin.attempt}"
    publisher = StagingPublisher(options, f"Spark sink {origin.partition}", batch, attempt)
    try:
        maker = MessageMaker(plan, options, publisher.channel, publisher.frame_bytes_max, origin)
        for rows in batches:
            for frames in maker.frames(rows):
                publisher.publish(frames)
        publisher.finish()
    except BaseException:
        # Without its connection the transaction is rolled back.
        publisher.drop()
        raise
    publisher.close()
    if publisher.staged_count() != maker.rows:
        raise OperatorError(
            f"the broker has staged {publisher.staged_count()} of {maker.rows} rows; nothing is "
            "committed"
        )
    return publisher.identity, maker.rows


def commit_batch(options: SinkOptions, batch: StagedBatch, identities: list[str]) -> bool:
    """Commit the transactions `identities`, as one; False when the batch had been committed before.

    A broker that goes away meanwhile is waited for as long as reconnectTimeout says, and asked
    again, which is safe. Raises: ClientError, OperatorError: nothing of it is committed, unless the
    connection was lost; then the next start of the query finds out."""
    end_ns = time.monotonic_ns() + options.endpoint.reconnect_timeout_ms * NS_PER_MS
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
    try:
        wire.session.request(number, m.RequestAsk(verb, arguments))
        began_ns = told_ns = time.monotonic_ns()
        while True:
            for event in wire.exchange(1000)[1]:
                if isinstance(event, Replied) and isinstance(event.reply, m.RequestAskOk):
                    return event.reply.answer
                if isinstance(event, ChannelClosed):
                    raise ChannelClosedError(event.channel, event.code, event.text)
            now_ns = time.monotonic_ns()
            if now_ns - told_ns > TELL_EVERY_MS * NS_PER_MS:
                told_ns = now_ns
                seconds = (now_ns - began_ns) // (1000 * NS_PER_MS)
                _log.warning("sink: %s has waited %d s: a queue or the disk is full", verb, seconds)
    finally:
        wire.close()
