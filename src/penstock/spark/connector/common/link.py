"""One connection of a reader or writer: socket, session and scanner, in a loop of its own. IO.

Opened through the blocking client, then taken over: the client's own channel makes an object of
each delivery, which a data path of many thousand messages a second cannot pay, and its writes wait
for the socket however long that takes.
Owner: one thread at a time. Nothing blocks here longer than the caller's own time-out.
"""

import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

from penstock.base.errors import ConnectionFault
from penstock.client.errors import ChannelClosedError, ConnectionClosedError
from penstock.client.events import ChannelClosed, ClientEvent, ConnectionClosed, Replied
from penstock.client.io_blocking import Connection
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.spark.connector.common.endpoint import Endpoint
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.scan import DeliveryScanner, Scanned

READ_BYTES: Final = 262_144
_NS_PER_MS: Final = 1_000_000
_NOTHING: Final = Scanned(b"", [], [])


REPLY_MS: Final = 30_000
"""How long an answer may take: it waits for the broker's disk."""


def check_channel(events: list[ClientEvent]) -> None:
    """Raises: ChannelClosedError when the broker has closed the channel."""
    for event in events:
        if isinstance(event, ChannelClosed):
            raise ChannelClosedError(event.channel, event.code, event.text)


class Wire:
    """An open connection with one channel, taken over from the blocking client."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.number = number
        self._socket, self.session = connection.detach()
        self._unsent = memoryview(b"")

    def fileno(self) -> int:
        """The socket, for a poll of the caller's."""
        return self._socket.fileno()

    def wants_write(self) -> bool:
        """Whether bytes wait for the socket to take them."""
        return len(self._unsent) > 0

    def write(self) -> None:
        """Write what the socket takes. A broken socket is noticed by the next `read`."""
        if not self._unsent:
            self._unsent = memoryview(self.session.output(time.monotonic_ns()))
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._unsent = memoryview(b"")

    def drop(self) -> None:
        """Close the socket without a word. Idempotent."""
        self._socket.close()

    def _wait(self, timeout_ms: float) -> bool:
        """Wait for input, or for room for what is unsent; whether there is any."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        return bool(poll.poll(max(0.0, timeout_ms)))


class OpenChannel(Wire):
    """A channel whose deliveries come out as bytes, back to back (see `scan`)."""

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self._scanner = DeliveryScanner(number)

    def read(self) -> tuple[Scanned, list[ClientEvent]]:
        """Take in what the socket holds, at most READ_BYTES: deliveries and everything else."""
        now_ns = time.monotonic_ns()
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return _NOTHING, []
        except OSError as error:
            closed = ConnectionClosed(0, f"the connection broke: {error.strerror or error}", False)
            self.session.end_of_stream()
            return _NOTHING, [closed]
        if not data:
            return _NOTHING, self.session.end_of_stream()
        try:
            scanned = self._scanner.feed(data)
        except ConnectionFault as fault:
            self.drop()
            return _NOTHING, [ConnectionClosed(fault.code, fault.text, False)]
        # Also without frames of its own: the session watches over heartbeats.
        return scanned, self.session.feed(b"".join(scanned.frames), now_ns)

    def has_pending(self) -> bool:
        """Whether TLS has decrypted bytes that a poll of the socket would not show."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def exchange(self, timeout_ms: float) -> tuple[Scanned, list[ClientEvent]]:
        """Write, wait up to `timeout_ms` for input, read once; for callers without a loop.

        Nothing is waited for where the socket has just taken the last of what was left from before:
        a caller that waited for that goes on. Raises: ConnectionClosedError.
        """
        events = self.session.tick(time.monotonic_ns())
        was_waiting = self.wants_write()
        self.write()
        if was_waiting and not self.wants_write():
            timeout_ms = 0.0
        scanned = _NOTHING
        if self.has_pending() or self._wait(timeout_ms):
            scanned, more = self.read()
            events += more
        for event in events:
            if isinstance(event, ConnectionClosed):
                raise ConnectionClosedError(event.code, event.text, event.is_by_broker)
        return scanned, events

    def ask(self, request: m.Method) -> m.Method:
        """Say `request` on the channel; it comes back in a Replied event."""
        self.session.request(self.number, request)
        return request

    def answer(
        self,
        request: m.Method,
        check: Callable[[list[ClientEvent]], None] = check_channel,
        timeout_ms: float = 0.0,
    ) -> m.Method:
        """Say `request` and wait for its reply; deliveries meanwhile are dropped. check: called
        with events at least once a second, raises for one after which no reply comes; timeout_ms:
        0 for REPLY_MS.

        Raises: ConnectionClosedError, also after `timeout_ms`: the broker, or the way to it, is
        gone without a word; what `check` raises."""
        timeout_ms = timeout_ms or REPLY_MS
        self.ask(request)
        end_ns = time.monotonic_ns() + timeout_ms * _NS_PER_MS
        while True:
            _, events = self.exchange(1000)
            check(events)
            for event in events:
                if isinstance(event, Replied) and event.request is request:
                    return event.reply
            if time.monotonic_ns() > end_ns:
                name = request.verb if isinstance(request, m.RequestAsk) else request.NAME
                why = f"no answer to {name} for {timeout_ms / 1000:g} s"
                raise ConnectionClosedError(0, why, False)

    def request(
        self,
        verb: str,
        arguments: Table,
        check: Callable[[list[ClientEvent]], None] = check_channel,
        timeout_ms: float = 0.0,
    ) -> Table:
        """As `answer`, for what AMQP has no method for (docs/requests.md)."""
        reply = self.answer(m.RequestAsk(verb, arguments), check, timeout_ms)
        assert isinstance(reply, m.RequestAskOk), "replies fit their requests"
        return reply.answer

    def close(self, timeout_ms: int = 1000) -> None:
        """Close in order, so that the broker has read every acknowledgement; at most `timeout_ms`
        are spent on it. Idempotent."""
        if self._socket.fileno() < 0:
            return
        end_ns = time.monotonic_ns() + timeout_ms * _NS_PER_MS
        self.session.close()
        try:
            while not self.session.is_closed():
                left_ms = (end_ns - time.monotonic_ns()) / _NS_PER_MS
                if left_ms <= 0:
                    break
                self.exchange(left_ms)
        except ConnectionClosedError:
            # That is what was asked for.
            return
        finally:
            self.drop()


class QueueLink(OpenChannel):
    """A channel that consumes one queue.

    connection: one that is open already, and belongs to this object from now on. Raises from
    `__init__`: OperatorError; ConnectError; ChannelClosedError, as when there is no such queue.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        queue: str,
        prefetch: int,
        name: str,
        connection: Connection | None = None,
    ) -> None:
        self.queue = queue
        connection = connection or open_connection(endpoint, name)
        try:
            channel = connection.channel()
            self.ready_at_opening = channel.declare_queue(queue, passive=True).message_count
            channel.qos(prefetch)
        except BaseException:
            connection.drop()
            raise
        super().__init__(connection, channel.number)

    def consume(self, tag: str, arguments: Table | None = None) -> m.Method:
        """Start the consumer; the request, which a Replied event will name."""
        request = m.BasicConsume(self.queue, tag, False, False, False, False, arguments or {})
        self.session.request(self.number, request)
        return request

    def acknowledge(self, delivery_tag: int) -> None:
        """Acknowledge everything up to `delivery_tag`."""
        self.session.ack(self.number, delivery_tag, True)


def waker() -> tuple[socket.socket, socket.socket]:
    """Two ends of a pair that wakes a loop: write to the second, poll the first."""
    first, second = socket.socketpair()
    first.setblocking(False)
    second.setblocking(False)
    return first, second
