"""Asks a broker about leases, over one connection that is opened again when it breaks. IO.

Every request may be said twice: the broker answers a second lease.acquire with the same start as it
answered the first. Owner: one thread at a time.
"""

import logging
import time
from typing import Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ConnectionClosedError
from penstock.client.events import ChannelClosed, Replied
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.spark.connector.common.lease_group import is_made_up
from penstock.spark.connector.common.link import Link
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import Endpoint, SourceOptions

_log = logging.getLogger("penstock.spark")
CAPABILITY: Final = "penstock.leases"
REPLY_MS: Final = 30_000
"""How long an answer may take: it waits for the broker's disk."""
LOST: Final = "LEASE_LOST: "
STALE: Final = "STALE: "
_NS_PER_MS: Final = 1_000_000


def has_leases(endpoint: Endpoint, name: str) -> bool:
    """Whether the broker leases messages. Raises: OperatorError, ClientError."""
    with open_connection(endpoint, name) as connection:
        return CAPABILITY in connection.session.server_capabilities()


class LeaseAsker:
    """Raises, from every verb: OperatorError; ClientError with the broker's own words."""

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._link: Link | None = None

    def state(self, first: int = 0, stop: int = 0) -> Table:
        """What the group holds, and of first..stop-1 in detail; a sign of life."""
        return self._twice("lease.state", {"first": first, "stop": stop})

    def acquire(self, start: int, rows: int, bytes_max: int) -> Table:
        """Done with all before `start`; hold up to `rows` from there. bytes_max: 0 for no bound.

        Raises: OperatorError for what is gone, unless failOnDataLoss is off."""
        options = self._options
        arguments: Table = {
            "start": start,
            "max_messages": rows,
            "timeout_ms": options.lease_timeout_ms,
            "query": f"spark query {options.group}",
        }
        if is_made_up(options.group):
            arguments["forgettable"] = True
        if bytes_max > 0:
            arguments["max_bytes"] = bytes_max
        try:
            return self._twice("lease.acquire", arguments)
        except ChannelClosedError as error:
            check_loss(options, error)
            _log.warning("%s; going on, because failOnDataLoss is off", error.text)
        return self._twice("lease.acquire", {**arguments, "accept_loss": True})

    def keep_alive(self) -> None:
        """A sign of life over a connection that is open."""
        if self._link is not None:
            self.state()

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
                self.close()
        return self._ask(self._opened(), verb, arguments)

    def _opened(self) -> Link:
        options = self._options
        if self._link is None:
            self._link = Link(options.endpoint, options.queue, 1, self._name)
        if CAPABILITY not in self._link.session.server_capabilities():
            self.close()
            raise OperatorError(
                f"the broker at {options.endpoint.url.address()} has no leases ({CAPABILITY}): "
                "mode=lease needs Penstock. Read the queue with mode=queue (at least once)"
            )
        return self._link

    def _ask(self, link: Link, verb: str, arguments: Table) -> Table:
        named: Table = {"queue": self._options.queue, "group": self._options.group, **arguments}
        request = link.ask(m.RequestAsk(verb, named))
        end_ns = time.monotonic_ns() + REPLY_MS * _NS_PER_MS
        while True:
            _, events = link.exchange(1000)
            for event in events:
                if isinstance(event, ChannelClosed):
                    # The link has no other channel.
                    self.close()
                    raise ChannelClosedError(event.channel, event.code, event.text)
                if isinstance(event, Replied) and event.request is request:
                    assert isinstance(event.reply, m.RequestAskOk), "replies fit their requests"
                    return event.reply.answer
            if time.monotonic_ns() > end_ns:
                self.close()
                raise ConnectionClosedError(
                    0, f"no answer to {verb} for {REPLY_MS // 1000} s", False
                )


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
