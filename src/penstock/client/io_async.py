"""The asyncio client: the same session behind streams, one reader task a connection. IO.

    async with await connect("amqp://localhost") as connection:
        channel = await connection.channel()
        await channel.declare_queue("orders", durable=True)
        await channel.publish("", "orders", b"hello")

The reader task belongs to the connection and ends in `close`. Heartbeats have one timer. Waiters
are woken once per batch of bytes, whatever it held.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from penstock.client.channel_async import AsyncChannel, AsyncShell
from penstock.client.errors import ConnectError, ConnectionClosedError, NoReplyError
from penstock.client.events import Replied
from penstock.client.inbox import ChannelInbox, Inbox
from penstock.client.io_socket import connect_error
from penstock.client.session import Session
from penstock.client.url import BrokerUrl, parse_url
from penstock.protocol.methods import Method

READ_BYTES: Final = 262_144
REPLY_TIMEOUT_MS: Final = 30_000
_NS_PER_S: Final = 1_000_000_000


async def connect(
    url: str | BrokerUrl, name: str = "", context: ssl.SSLContext | None = None
) -> "AsyncConnection":
    """Open a connection; it is ready for channels.

    name, context: as in `io_blocking.connect`. Raises: OperatorError for a malformed address,
    ConnectError for everything else.
    """
    where = parse_url(url) if isinstance(url, str) else url
    tls = (context or ssl.create_default_context()) if where.tls else None
    try:
        async with asyncio.timeout(where.connection_timeout_ms / 1000):
            reader, writer = await asyncio.open_connection(where.host, where.port, ssl=tls)
    except OSError as error:
        raise connect_error(where, error) from error
    session = Session(where, name, time.monotonic_ns())
    connection = AsyncConnection(reader, writer, session)
    try:
        await connection.wait(
            lambda: connection.inbox.is_open, where.connection_timeout_ms, "open-ok"
        )
    except BaseException as error:
        await connection.drop()
        if isinstance(error, ConnectionClosedError):
            raise ConnectError(f"{where.address()} refused the connection: {error}") from error
        if isinstance(error, NoReplyError):
            raise ConnectError(f"cannot connect to {where.address()}: {error}") from error
        raise
    return connection


class AsyncConnection(AsyncShell):
    """An open connection; made by `connect`. For one event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: Session
    ) -> None:
        self.session = session
        self.inbox = Inbox()
        self._writer = writer
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._reading = self._loop.create_task(self._read(reader))

    async def __aenter__(self) -> "AsyncConnection":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker reads no publishes at the moment; None while it does."""
        return self.inbox.blocked_reason

    async def channel(self) -> AsyncChannel:
        """Open a channel. Raises: ConnectionClosedError, NoReplyError, ClientError."""
        number, request = self.session.open_channel()
        inbox = self.inbox.add_channel(number)
        await self.wait_for_reply(inbox, request)
        return AsyncChannel(self, inbox)

    async def close(self) -> None:
        """Close in order, waiting for the broker's answer a short while. Idempotent."""
        self.session.close()
        try:
            await self.wait(self.inbox.is_closed, REPLY_TIMEOUT_MS, "connection.close-ok")
        except ConnectionClosedError:
            return
        finally:
            await self.drop()

    async def drop(self) -> None:
        """Close the socket without a word to the broker, and end the reader task. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self._writer.close()
        # The other side may have gone first, and that is no fault of a connection being dropped.
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def flush(self) -> None:
        """Hand everything said so far to the socket; waits while its buffer is full.

        Raises: ConnectionClosedError when the socket broke.
        """
        self._write()
        try:
            await self._writer.drain()
        except OSError:
            self._take_end()
            self.inbox.check()

    async def wait_for_reply(self, inbox: ChannelInbox, request: Method) -> Replied:
        """Wait for the reply to `request`. Raises: ChannelClosedError, NoReplyError, …"""
        found: list[Replied] = []

        def is_there() -> bool:
            reply = inbox.reply_to(request)
            if reply is not None:
                found.append(reply)
            return reply is not None

        await self.wait(is_there, REPLY_TIMEOUT_MS, f"reply to {request.NAME}")
        return found[0]

    async def wait(self, is_there: Callable[[], bool], timeout_ms: int | None, what: str) -> None:
        """Wait until `is_there()`; `what` names it in the error. None: for ever.

        Raises: NoReplyError after `timeout_ms`; ConnectionClosedError.
        """
        self._write()
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                while not is_there():
                    self.inbox.check()
                    await self._changed.wait()
        except TimeoutError as error:
            raise NoReplyError(f"no {what} within {timeout_ms} ms") from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while not self.inbox.is_closed():
                data = await reader.read(READ_BYTES)
                if not data:
                    return
                self.inbox.put(self.session.feed(data, time.monotonic_ns()))
                self._write()
                self._wake()
                if self._timer is None:
                    self._arm()
        except OSError:
            # The end below says all there is to say: the socket is gone.
            return
        finally:
            self._take_end()

    def _take_end(self) -> None:
        self.inbox.put(self.session.end_of_stream())
        self._wake()

    def _wake(self) -> None:
        """Let every waiter look again; those that come later wait for the next batch."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _write(self) -> None:
        data = self.session.output(time.monotonic_ns())
        if data:
            self._writer.write(data)

    def _arm(self) -> None:
        """Set the one timer to the session's next heartbeat deadline, if there is one."""
        tick_ns = self.session.next_tick_ns()
        if tick_ns is not None:
            delay_s = max(0, tick_ns - time.monotonic_ns()) / _NS_PER_S
            self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self.inbox.put(self.session.tick(time.monotonic_ns()))
        self._write()
        if self.inbox.is_closed():
            self._wake()
        else:
            self._arm()
