"""A small blocking client: connect, declare, publish, get, consume, confirm. IO.

    with connect("amqp://localhost") as connection:
        channel = connection.channel()
        channel.declare_queue("orders", durable=True)
        channel.confirm_select()
        channel.publish("", "orders", b"hello")
        channel.wait_for_confirms()

Everything happens in the caller's thread: heartbeats go out and deliveries come in only while a
call is running, so an idle program calls `connection.process` now and then. Reading goes on while
a write waits for the socket, so that neither side can hold the other up for ever.
"""

import select
import socket
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from penstock.client.channel_blocking import BlockingShell, Channel
from penstock.client.errors import ConnectError, ConnectionClosedError, NoReplyError
from penstock.client.events import Replied
from penstock.client.inbox import ChannelInbox, Inbox
from penstock.client.io_socket import open_socket
from penstock.client.session import Session
from penstock.client.url import BrokerUrl, parse_url
from penstock.protocol.methods import Method

READ_BYTES: Final = 262_144
REPLY_TIMEOUT_MS: Final = 30_000
_NS_PER_MS: Final = 1_000_000


def connect(
    url: str | BrokerUrl, name: str = "", context: ssl.SSLContext | None = None
) -> "Connection":
    """Open a connection; it is ready for channels.

    name: shown by the broker. context: for amqps addresses, the default trusts the system's
    authorities. Raises: OperatorError for a malformed address, ConnectError for everything else.
    """
    where = parse_url(url) if isinstance(url, str) else url
    connection = Connection(open_socket(where, context), Session(where, name, time.monotonic_ns()))
    try:
        connection.wait(lambda: connection.inbox.is_open, where.connection_timeout_ms, "open-ok")
    except BaseException as error:
        connection.drop()
        if isinstance(error, ConnectionClosedError):
            raise ConnectError(f"{where.address()} refused the connection: {error}") from error
        if isinstance(error, NoReplyError):
            raise ConnectError(f"cannot connect to {where.address()}: {error}") from error
        raise
    return connection


class Connection(BlockingShell):
    """An open connection; made by `connect`. For one thread."""

    def __init__(self, sock: socket.socket, session: Session) -> None:
        self.session = session
        self.inbox = Inbox()
        self._socket = sock
        self._socket.setblocking(False)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker reads no publishes at the moment; None while it does."""
        return self.inbox.blocked_reason

    def channel(self) -> Channel:
        """Open a channel. Raises: ConnectionClosedError, NoReplyError, ClientError."""
        number, request = self.session.open_channel()
        inbox = self.inbox.add_channel(number)
        self.wait_for_reply(inbox, request)
        return Channel(self, inbox)

    def close(self) -> None:
        """Close in order, waiting for the broker's answer a short while. Idempotent."""
        self.session.close()
        try:
            self.wait(self.inbox.is_closed, REPLY_TIMEOUT_MS, "connection.close-ok")
        except ConnectionClosedError:
            return
        finally:
            self.drop()

    def drop(self) -> None:
        """Close the socket without a word to the broker. Idempotent."""
        self._socket.close()

    def detach(self) -> tuple[socket.socket, Session]:
        """Give away socket and session, for a caller with its own loop; this object is done.

        The socket is non-blocking; deliveries already taken in stay in `inbox`.
        """
        return self._socket, self.session

    def process(self, timeout_ms: int = 0) -> None:
        """Read and write what is possible for up to `timeout_ms`: heartbeats, deliveries.

        Returns as soon as anything came in. Raises: ConnectionClosedError.
        """
        self._step(timeout_ms)
        self.inbox.check()

    def flush(self) -> None:
        """Write everything said so far into the socket, reading meanwhile.

        Raises: ConnectionClosedError.
        """
        data = memoryview(self.session.output(time.monotonic_ns()))
        while data:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if self._ready(select.POLLIN | select.POLLOUT, None) & select.POLLIN:
                    self._read()
            except OSError as error:
                self._lost(error)
                return

    def wait_for_reply(self, inbox: ChannelInbox, request: Method) -> Replied:
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
        end_ns = None if timeout_ms is None else time.monotonic_ns() + timeout_ms * _NS_PER_MS
        self.flush()
        while not is_there():
            self.inbox.check()
            left_ms = None
            if end_ns is not None:
                left_ms = (end_ns - time.monotonic_ns()) / _NS_PER_MS
                if left_ms <= 0:
                    raise NoReplyError(f"no {what} within {timeout_ms} ms")
            self._step(left_ms)

    def _step(self, timeout_ms: float | None) -> None:
        """One round: write what is there, wait for input or the heartbeat, read once."""
        now_ns = time.monotonic_ns()
        self.inbox.put(self.session.tick(now_ns))
        self.flush()
        if self.inbox.is_closed():
            return
        tick_ns = self.session.next_tick_ns()
        if tick_ns is not None:
            tick_ms = max(0.0, (tick_ns - now_ns) / _NS_PER_MS)
            timeout_ms = tick_ms if timeout_ms is None else min(timeout_ms, tick_ms)
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        if pending or self._ready(select.POLLIN, timeout_ms):
            self._read()
            self.flush()

    def _ready(self, wanted: int, timeout_ms: float | None) -> int:
        """Wait for the socket; what it is ready for. poll, because select stops at 1024 files."""
        poll = select.poll()
        poll.register(self._socket, wanted)
        found = poll.poll(timeout_ms)
        return found[0][1] if found else 0

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._lost(error)
            return
        if data:
            self.inbox.put(self.session.feed(data, time.monotonic_ns()))
        else:
            self.inbox.put(self.session.end_of_stream())

    def _lost(self, error: OSError) -> None:
        """The socket broke. What the broker said before that, it may still hold, comes first."""
        try:
            data = self._socket.recv(READ_BYTES)
            self.inbox.put(self.session.feed(data, time.monotonic_ns()))
        except OSError:
            # Nothing was left in it; the write's own error is the one worth telling.
            assert isinstance(error, OSError), "a socket fails with nothing else"
        self.inbox.put(self.session.end_of_stream())
