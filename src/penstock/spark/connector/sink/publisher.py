"""Publishes a task's rows and waits until the broker has answered for every one of them. IO.

At least once: a task ends well only when everything is confirmed; a nack or a return fails it, and
Spark runs it again. A broker that blocks the connection is waited for, and said so in the log with
its reason; one that only takes its time (credit, a slow disk) just confirms later, and the window
of `maxInFlight` publishes passes that on to Spark as a longer batch.
"""

import logging
import time
from collections.abc import Iterable
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.client.events import (
    Blocked,
    ChannelClosed,
    ClientEvent,
    Confirmed,
    ReturnedPublish,
    Unblocked,
)
from penstock.client.io_blocking import Channel, Connection
from penstock.spark.connector.common.link import OpenChannel
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SinkOptions
from penstock.spark.connector.sink.messages import MessageMaker, Origin, RowPlan

_log = logging.getLogger("penstock.spark")
_NS_PER_MS: Final = 1_000_000
WRITE_BYTES: Final = 65_536
"""Frames are collected up to here before they are written: fewer system calls."""
TELL_EVERY_MS: Final = 30_000
"""How often the log says that a task still waits."""


def publish_rows(
    batches: Iterable[Any], plan: RowPlan, options: SinkOptions, origin: Origin
) -> int:
    """Publish every row of `batches` (Arrow) and wait for all confirms; how many there were.

    Raises: OperatorError for rows that cannot be sent, refused or returned ones, and at
    confirmTimeout; ClientError with the broker's own words when channel or connection end.
    """
    publisher = ConfirmingPublisher(options, f"Spark sink {origin.partition}")
    try:
        maker = MessageMaker(plan, options, publisher.channel, publisher.frame_bytes_max, origin)
        for batch in batches:
            for frames in maker.frames(batch):
                publisher.publish(frames)
        publisher.finish()
    except BaseException:
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
            elif isinstance(event, ChannelClosed):
                raise ChannelClosedError(event.channel, event.code, event.text)

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
