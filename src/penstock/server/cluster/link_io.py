"""One connection between members: dialled or accepted, greeted, and its frames."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, SupportsIndex

import msgspec

from penstock.broker.session.access import TlsPeer
from penstock.server.cluster.admission import Self, hello_fault, welcome_fault
from penstock.server.cluster.frame_reader import HEAD_BYTES
from penstock.server.cluster.link_frames import (
    HELLO,
    PROTOCOL,
    REFUSED,
    WELCOME,
    Hello,
    LinkFault,
    Welcome,
    frame,
    read_head,
)
from penstock.server.cluster.link_tls import HANDSHAKE_S, LinkTls, certified_name

READER_BYTES: Final = 1 << 18
"""Bytes that are read ahead of a frame's end; twice as many stop the socket."""


class Client(NamedTuple):
    """A client of this node: his address, and what is known by his TLS, None without."""

    host: str
    port: int
    tls: TlsPeer | None


NOBODY: Final = Client("", 0, None)


def split_address(address: str) -> tuple[str, int]:
    """`10.0.0.1:25672`, `[::1]:25672`. Raises: ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ValueError(address)
    return host.strip("[]"), int(port)


class LinkReader(asyncio.StreamReader):
    """A stream that can be passed on: what comes is then taken where it is received, without a
    task that has to be woken for it.

    unread: bytes received and not read; who reads counts them down, see LinkConnection.
    """

    def __init__(self) -> None:
        self._loop_here = asyncio.get_running_loop()
        super().__init__(limit=READER_BYTES, loop=self._loop_here)
        self.unread = 0
        self._take: Callable[[bytes], None] | None = None
        self._over: asyncio.Future[None] | None = None

    async def pass_on(self, take: Callable[[bytes], None]) -> None:
        """Call `take` with everything that comes, until the stream ends.

        Raises: what `take` raises, and nothing is taken any more; OSError."""
        rest = await self.readexactly(self.unread)
        if self.at_eof():
            take(rest)
            return
        over = self._over = self._loop_here.create_future()
        self._take = take
        if rest:
            self.feed_data(rest)
        await over

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Called by the transport, with bytes."""
        assert isinstance(data, bytes), "transports give nothing else"
        if self._take is None or self._over is None:
            self.unread += len(data)
            super().feed_data(data)
        elif not self._over.done():
            try:
                self._take(data)
            except Exception as fault:
                self._over.set_exception(fault)

    def feed_eof(self) -> None:
        """Called by the transport."""
        super().feed_eof()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def set_exception(self, exc: Exception) -> None:
        """Called by the transport."""
        super().set_exception(exc)
        if self._over is not None and not self._over.done():
            self._over.set_exception(exc)


class LinkConnection:
    """Frames over one connection. `write` never waits; `drain` does."""

    __slots__ = ("reader", "writer")

    def __init__(self, reader: LinkReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        sock = writer.get_extra_info("socket")
        if sock is not None:
            # asyncio does so only where the socket was made for TCP by name, which one that was
            # accepted is not: a small frame would wait 40 ms for an acknowledgement of the last.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def certified(self) -> str | None:
        """The name in the peer's certificate, None without TLS."""
        return certified_name(self.writer.get_extra_info("ssl_object"))

    async def read(self, *, is_welcome: bool = True) -> tuple[int, bytes]:
        """The next frame. Raises: LinkFault; OSError; IncompleteReadError."""
        reader = self.reader
        kind, size = read_head(await reader.readexactly(HEAD_BYTES), is_welcome=is_welcome)
        reader.unread -= HEAD_BYTES
        payload = await reader.readexactly(size) if size else b""
        reader.unread -= size
        return kind, payload

    def write(self, kind: int, payload: bytes = b"") -> None:
        self.writer.write(frame(kind, payload))

    async def drain(self) -> None:
        await self.writer.drain()

    def abort(self) -> None:
        """Close at once; what is not sent is not sent."""
        self.writer.transport.abort()


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


async def dial(
    address: str,
    tls: LinkTls | None,
    me: Self,
    name: str,
    purpose: str,
    client: Client = NOBODY,
    *,
    asks: bool = False,
) -> LinkConnection:
    """A connection to member `name`, which has welcomed us. client: one to be forwarded; asks: see
    Hello.
    Raises: LinkFault; OSError; EOFError; ValueError for an address that is none."""
    host, port = split_address(address)
    async with asyncio.timeout(HANDSHAKE_S):
        loop = asyncio.get_running_loop()
        reader = LinkReader()
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(
            lambda: protocol, host, port, ssl=None if tls is None else tls.dialling
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        connection = LinkConnection(reader, writer)
        try:
            hello = Hello(
                PROTOCOL,
                me.cluster,
                me.cluster_id,
                me.name,
                me.identity,
                name,
                me.boot_id,
                clock_ms(),
                purpose,
                client.host,
                client.port,
                client.tls,
                asks,
            )
            connection.write(HELLO, msgspec.json.encode(hello))
            kind, payload = await connection.read(is_welcome=False)
            if kind == REFUSED:
                raise LinkFault(f"refuses this node: {payload.decode(errors='replace')}")
            try:
                welcome = msgspec.json.decode(payload, type=Welcome)
            except msgspec.DecodeError as fault:
                raise LinkFault("answers something else than a node does") from fault
            wrong = welcome_fault(welcome, name, connection.certified)
            if wrong:
                raise LinkFault(wrong)
        except BaseException:
            connection.abort()
            raise
        return connection


async def greet(connection: LinkConnection, me: Self, known: dict[str, str]) -> Hello:
    """Read HELLO and answer it. known: identities of members by name.
    Raises: LinkFault, when the peer has been told why not; OSError; EOFError."""
    async with asyncio.timeout(HANDSHAKE_S):
        kind, payload = await connection.read(is_welcome=False)
        if kind != HELLO:
            raise LinkFault("does not say hello")
        try:
            hello = msgspec.json.decode(payload, type=Hello)
        except msgspec.DecodeError as fault:
            raise LinkFault("says hello in another way than a node does") from fault
        wrong = hello_fault(hello, me, known, connection.certified, clock_ms())
        if wrong:
            connection.write(REFUSED, wrong.encode())
            await connection.drain()
            connection.writer.close()
            raise LinkFault(wrong)
        welcome = Welcome(PROTOCOL, me.name, me.identity, me.boot_id)
        connection.write(WELCOME, msgspec.json.encode(welcome))
        await connection.drain()
        return hello
