"""A small blocking client: connect, declare, publish, get, consume, confirm. IO.

    with connect("amqp://localhost") as connection:
        channel = connection.channel()
        channel.declare_queue("orders", durable=True)
        channel.confirm_select()
        channel.publish("", "orders", b"hello")
        channel.wait_for_confirms()

Everything happens in the caller's thread: heartbeats go out and deliveries come in only while a
call is running, so an idle program calls `connection.process` now and then. Reading goes on while
a write waits for the socket, so that neither side can hold the other up for ever, and a broker that
is gone without a word is noticed by its heartbeats. One that reads nothing, as under an alarm,
holds up a publish that has no `timeout_ms`.
"""

import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.client.errors import (
    ConnectError,
    ConnectionClosedError,
    ConsumerCancelledError,
    NackedError,
    NoReplyError,
)
from penstock.client.events import Delivery, Replied
from penstock.client.inbox import ChannelInbox, ClientInbox
from penstock.client.io_sockets import open_socket
from penstock.client.io_transport import Transport
from penstock.client.session import ClientSession
from penstock.client.url import BrokerUrl, parse_url
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table

REPLY_TIMEOUT_MS: Final = 30_000
CLOSE_TIMEOUT_MS: Final = 5_000
_NS_PER_MS: Final = 1_000_000
_NO_PROPERTIES: Final = Properties()
_Reply = TypeVar("_Reply", bound=m.Method)


def connect(
    url: str | BrokerUrl, name: str = "", context: ssl.SSLContext | None = None, **more: Table
) -> "Connection":
    """Open a connection; it is ready for channels.

    name: shown by the broker; context: the default trusts the system's authorities; more: further
    client properties. Raises: OperatorError for a malformed address, ConnectError for the rest.
    """
    where = parse_url(url) if isinstance(url, str) else url
    return open_over(open_socket(where, context), where, name, **more)


def open_over(sock: socket.socket, where: BrokerUrl, name: str, **more: Table) -> "Connection":
    """As `connect`, over a socket that is connected already; an address that names no user logs in
    by SASL EXTERNAL."""
    session = ClientSession(where, name, time.monotonic_ns(), {**more})
    connection = Connection(sock, session)
    try:
        connection.wait(lambda: connection.inbox.is_open, where.connection_timeout_ms, "open-ok")
    except BaseException as error:
        connection.drop()
        if isinstance(error, ConnectionClosedError):
            text = f"{where.address()} refused the connection: {error}"
            raise ConnectError(text, error.code if error.is_by_broker else 0) from error
        if isinstance(error, NoReplyError):
            raise ConnectError(f"cannot connect to {where.address()}: {error}") from error
        raise
    return connection


class Connection:
    """An open connection; made by `connect`. For one thread."""

    def __init__(self, sock: socket.socket, session: ClientSession) -> None:
        self.session = session
        self.inbox = ClientInbox()
        self._transport = Transport(sock, session, self.inbox)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker reads no publishes at the moment; None while it does."""
        return self.inbox.blocked_reason

    def channel(self) -> "Channel":
        """Open a channel. Raises: ConnectionClosedError, NoReplyError, ClientError."""
        number, request = self.session.open_channel()
        inbox = self.inbox.add_channel(number)
        self.wait_for_reply(inbox, request)
        return Channel(self, inbox)

    def close(self) -> None:
        """Close in order; where the broker does not answer within CLOSE_TIMEOUT_MS, as under an
        alarm, without it. Idempotent."""
        self.session.close()
        try:
            self.wait(self.inbox.is_closed, CLOSE_TIMEOUT_MS, "connection.close-ok")
        except (ConnectionClosedError, NoReplyError):
            return
        finally:
            self.drop()

    def drop(self) -> None:
        """Close the socket without a word to the broker. Idempotent."""
        self._transport.close()

    def detach(self) -> tuple[socket.socket, ClientSession]:
        """Give away socket and session, for a caller with its own loop; this object is done.

        The socket is non-blocking; deliveries already taken in stay in `inbox`.
        """
        return self._transport.socket, self.session

    def process(self, timeout_ms: int = 0) -> None:
        """Read and write what is possible for up to `timeout_ms`: heartbeats, deliveries.

        Returns as soon as anything came in. Raises: ConnectionClosedError.
        """
        self._transport.step(_end_ns(timeout_ms))
        self.inbox.check()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Write everything said so far, reading meanwhile; None: for as long as that takes.

        Raises: ConnectionClosedError; NoReplyError where the broker has not read it within
        `timeout_ms`: the next call goes on with the rest.
        """
        is_written = self._transport.write(_end_ns(timeout_ms))
        self.inbox.check()
        if not is_written:
            raise NoReplyError(f"the broker has not read what it was told within {timeout_ms} ms")

    def wait_for_reply(self, inbox: ChannelInbox, request: m.Method) -> Replied:
        """Wait for the reply to `request`. Raises: ChannelClosedError, NoReplyError, …"""
        found: list[Replied] = []

        def is_there() -> bool:
            reply = inbox.reply_to(request)
            if reply is not None:
                found.append(reply)
            return reply is not None

        self.wait(is_there, REPLY_TIMEOUT_MS, f"reply to {request.NAME}")
        return found[0]

    def wait(self, is_there: Callable[[], bool], timeout_ms: int | None, what: str) -> None:
        """Read and write until `is_there()`; `what` names it in the error. None: for ever.

        Raises: NoReplyError after `timeout_ms`; ConnectionClosedError.
        """
        end_ns = _end_ns(timeout_ms)
        self._transport.write(end_ns)
        is_late = False
        while not is_there():
            self.inbox.check()
            if is_late:
                raise NoReplyError(f"no {what} within {timeout_ms} ms")
            # Also who gives it no time at all is told what has come.
            is_late = end_ns is not None and time.monotonic_ns() >= end_ns
            self._transport.step(end_ns)


def _end_ns(timeout_ms: int | None) -> int | None:
    """Monotonic."""
    return None if timeout_ms is None else time.monotonic_ns() + timeout_ms * _NS_PER_MS


class Channel:
    """An open channel. Every verb raises ChannelClosedError or ConnectionClosedError with the
    broker's reply code and text, NoReplyError when no answer comes, ValueError for names and
    values the wire cannot hold."""

    def __init__(self, connection: Connection, inbox: ChannelInbox) -> None:
        self.number = inbox.number
        self.inbox = inbox
        self._connection = connection
        self._session = connection.session

    def declare_queue(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> m.QueueDeclareOk:
        """Make a queue, or only look for it (`passive`); "" asks the broker for a name."""
        request = m.QueueDeclare(
            name, passive, durable, exclusive, auto_delete, False, arguments or {}
        )
        return self.ask(request, m.QueueDeclareOk)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; how many messages went with it."""
        request = m.QueueDelete(name, if_unused, if_empty)
        return self.ask(request, m.QueueDeleteOk).message_count

    def purge_queue(self, name: str) -> int:
        """Drop every ready message; how many there were."""
        return self.ask(m.QueuePurge(name), m.QueuePurgeOk).message_count

    def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        """Make an exchange, or only look for it (`passive`)."""
        request = m.ExchangeDeclare(
            name, kind, passive, durable, auto_delete, internal, False, arguments or {}
        )
        self.ask(request, m.ExchangeDeclareOk)

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Bind a queue to an exchange."""
        request = m.QueueBind(queue, exchange, routing_key, False, arguments or {})
        self.ask(request, m.QueueBindOk)

    def request(self, verb: str, arguments: Table | None = None) -> Table:
        """Ask what AMQP has no method for (docs/requests.md); a Penstock broker answers."""
        return self.ask(m.RequestAsk(verb, arguments or {}), m.RequestAskOk).answer

    def confirm_select(self) -> None:
        """Have the broker confirm every later publish of this channel."""
        self.ask(m.ConfirmSelect(), m.ConfirmSelectOk)

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: Properties = _NO_PROPERTIES,
        mandatory: bool = False,
        timeout_ms: int | None = None,
    ) -> int:
        """Publish, and write it out; its sequence on a confirming channel, else 0. timeout_ms: see
        `Connection.flush`; what was not written by then is published all the same, later."""
        sequence = self._session.publish(
            self.number, exchange, routing_key, body, properties, mandatory
        )
        self._connection.flush(timeout_ms)
        return sequence

    def wait_for_confirms(self, timeout_ms: int | None = None) -> None:
        """Wait until every publish is settled. Raises: NackedError naming the refused ones."""

        def is_settled() -> bool:
            self.inbox.check()
            return self._session.unconfirmed(self.number) == 0

        self._connection.wait(is_settled, timeout_ms, "confirm of every publish")
        if self.inbox.nacked:
            refused = tuple(sorted(self.inbox.nacked))
            self.inbox.nacked.clear()
            raise NackedError(refused)

    def qos(self, prefetch_count: int, *, global_: bool = False) -> None:
        """Bound the unacknowledged deliveries of each later consumer, or of the channel."""
        self.ask(m.BasicQos(0, prefetch_count, global_), m.BasicQosOk)

    def get(self, queue: str, *, no_ack: bool = False) -> Delivery | None:
        """Take one message; None when there is none."""
        request = m.BasicGet(queue, no_ack)
        self._session.request(self.number, request)
        return self._connection.wait_for_reply(self.inbox, request).delivery

    def consume(
        self,
        queue: str,
        *,
        consumer_tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> str:
        """Start a consumer; its tag. Take what it gets with `next_delivery`."""
        request = m.BasicConsume(
            queue, consumer_tag, False, no_ack, exclusive, False, arguments or {}
        )
        return self.ask(request, m.BasicConsumeOk).consumer_tag

    def cancel(self, consumer_tag: str) -> None:
        """End a consumer; deliveries already here can still be taken."""
        self.ask(m.BasicCancel(consumer_tag), m.BasicCancelOk)

    def next_delivery(self, timeout_ms: int | None = None) -> Delivery | None:
        """The next delivery of any consumer of this channel; None after `timeout_ms`.

        Raises: ConsumerCancelledError, once for each consumer that the broker has ended, when all
        that came before has been taken.
        """
        waiting = self.inbox.deliveries

        def is_there() -> bool:
            if not waiting:
                self.inbox.check()
                if self.inbox.cancelled:
                    raise ConsumerCancelledError(self.inbox.cancelled.popleft())
            return bool(waiting)

        try:
            self._connection.wait(is_there, timeout_ms, "delivery")
        except NoReplyError:
            return None
        return waiting.popleft()

    def ack(self, delivery: Delivery, *, multiple: bool = False) -> None:
        """Acknowledge a delivery, or all up to it."""
        self._session.ack(self.number, delivery.delivery_tag, multiple)
        self._connection.flush()

    def nack(
        self,
        delivery: Delivery,
        *,
        multiple: bool = False,
        requeue: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Refuse a delivery, or all up to it: back into the queue, or on to its dead letters.
        timeout_ms: see `Connection.flush`."""
        self._session.nack(self.number, delivery.delivery_tag, multiple, requeue)
        self._connection.flush(timeout_ms)

    def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Bind an exchange to another one."""
        request = m.ExchangeBind(destination, source, routing_key, False, arguments or {})
        self.ask(request, m.ExchangeBindOk)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Undo a binding of a queue."""
        self.ask(m.QueueUnbind(queue, exchange, routing_key, arguments or {}), m.QueueUnbindOk)

    def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Undo a binding of an exchange to another one."""
        request = m.ExchangeUnbind(destination, source, routing_key, False, arguments or {})
        self.ask(request, m.ExchangeUnbindOk)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange."""
        self.ask(m.ExchangeDelete(name, if_unused), m.ExchangeDeleteOk)

    def close(self) -> None:
        """Close the channel in order."""
        self.ask(m.ChannelClose(200, "client closes"), m.ChannelCloseOk)
        self._connection.inbox.remove_channel(self.number)

    def ask(self, request: m.Method, kind: type[_Reply]) -> _Reply:
        """Say `request`, a method with a reply of `kind`, and wait for that."""
        self._session.request(self.number, request)
        reply = self._connection.wait_for_reply(self.inbox, request).reply
        assert isinstance(reply, kind), "cannot happen because the session matches the kinds"
        return reply
