"""Commits what the tasks of a batch have staged, or takes it back; on the driver. IO.

The commit names the transactions of the tasks that Spark counts, and the batch: the broker makes
all of it visible with one write that a crash leaves whole or undone, and remembers the batch, so
that the same commit said again, by this driver or the next one, changes nothing.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.events import ClientEvent
from penstock.client.io_blocking import Connection
from penstock.protocol.constants import NOT_FOUND
from penstock.protocol.values import Table
from penstock.spark.connector.common.link import OpenChannel, check_channel
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SinkOptions
from penstock.spark.connector.common.outage import Outage

_log = logging.getLogger("penstock.spark")
_NS_PER_MS: Final = 1_000_000
CAPABILITY: Final = "penstock.transactions"
TELL_EVERY_MS: Final = 30_000
"""How often the log says that something is still waited for."""


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What a commit is remembered under. app: 1..255 bytes; number: 0.. ."""

    app: str
    number: int


def check_capability(connection: Connection) -> None:
    """Raises: OperatorError for a broker without transactions."""
    if CAPABILITY not in connection.session.server_capabilities():
        raise OperatorError(
            f"delivery=exactly-once needs a broker with the capability {CAPABILITY}, as Penstock "
            "has it, and this one does not announce it. Use delivery=at-least-once, or dedup"
        )


def commit_batch(
    options: SinkOptions,
    batch: StagedBatch,
    identities: list[str],
    stage_again: Callable[[], list[str]] | None = None,
) -> bool:
    """Commit the transactions `identities`, as one; False when the batch had been committed before.

    A broker that goes away meanwhile is waited for as long as reconnectTimeout says, and asked
    again, which is safe. What was staged is gone with it: stage_again does it anew, and says under
    which names. Raises: ClientError, OperatorError: nothing of it is committed, unless the
    connection was lost; then the next start of the query finds out."""
    outage, loss = Outage(), Outage()
    limit_ms = options.endpoint.reconnect_timeout_ms
    while True:
        arguments: Table = {"app": batch.app, "batch": batch.number, "ids": list(identities)}
        try:
            answer = _ask(options, "transaction.commit", arguments)
        except ClientError as error:
            # Not for ever: a stagedTimeout too short for the batch would look the same each time.
            if is_gone(error) and stage_again is not None and loss.ms() <= limit_ms:
                _log.warning("sink: batch %d is staged again: %s", batch.number, error)
                # What later tasks have staged may be there still, and takes the room for the rest.
                roll_back(options, batch, identities)
                identities = stage_again()
                # The broker was there for all of that: another outage is one of its own.
                outage.end()
            else:
                outage.wait(error, limit_ms, f"sink: commit of batch {batch.number}")
            continue
        return answer["already"] is False


def is_gone(error: ClientError) -> bool:
    """Whether what was staged is not there any more, as after a restart of the broker."""
    return (
        isinstance(error, ChannelClosedError)
        and error.code == NOT_FOUND
        and "there is no staged transaction" in error.text
    )


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
    connection = open_connection(options.endpoint, "sink, driver")
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
        return wire.request(verb, arguments, check, math.inf)
    finally:
        wire.close()
