"""One connection between members: dialled or accepted, greeted, and its frames."""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from penstock.broker.session.access import TlsPeer
from penstock.server.cluster.admission import Self, hello_fault, welcome_fault
from penstock.server.cluster.frame_reader import HEAD_BYTES, FrameReader
from penstock.server.cluster.link_frames import (
    HELLO,
    PROTOCOL,
    REFUSED,
    WELCOME,
    Hello,
    LinkFault,
    Welcome,
    check_frame,
    frame,
    read_head,
)
from penstock.server.cluster.link_tls import HANDSHAKE_S, LinkTls, certified_name
from penstock.server.net.tls import TlsFault, TlsSession

READER_BYTES: Final = 1 << 18
"""Bytes of frames that nobody has read; twice as many stop the socket."""
_RECEIVED: Final = memoryview(bytearray(READER_BYTES))
"""What a socket has just given, of whichever connection: all are of one loop, and each has taken it
before another one's turn."""


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


class LinkConnection(asyncio.BufferedProtocol):
    """Frames over one socket, with TLS or without. `write` never waits; `drain` does.

    asyncio's own TLS and streams did the same, with two layers and a task more for every frame.

    unread: bytes of frames that are there and were not read; twice READER_BYTES stop the socket.
    """

    def __init__(
        self, tls: TlsSession | None, on_made: "Callable[[LinkConnection], None] | None" = None
    ) -> None:
        self._tls = tls
        self._on_made = on_made
        # Content that waits for the end of the handshake; None when that is over.
        self._unsealed: list[bytes] | None = None if tls is None else []
        # What came before anybody has said that a second frame may.
        self._before: bytearray | None = bytearray()
        self._frames = FrameReader(check_frame)
        self._came: deque[tuple[int, bytes]] = deque()
        self.unread = 0
        self._is_paused = False
        self._take: Callable[[int, bytes], None] | None = None
        self._news = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        # Why nothing comes any more; None while something may.
        self._fault: Exception | None = None
        self._is_lost = False
        self._transport: asyncio.Transport | None = None

    # -- called by the transport -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "sockets have no other"
        self._transport = transport
        transport.set_write_buffer_limits(high=READER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            # asyncio does so only where the socket was made for TCP by name, which one that was
            # accepted is not: a small frame would wait 40 ms for an acknowledgement of the last.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._on_made is not None:
            self._on_made(self)
        elif self._tls is not None:
            self._shake(self._tls)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        if self._fault is not None:
            return
        data = bytes(_RECEIVED[:nbytes])
        try:
            if self._tls is not None:
                data = self._opened(self._tls, data)
            if data:
                self._content(data)
            if self._tls is not None and self._tls.is_ended:
                self._end(EOFError())
        except TlsFault as fault:
            self._end(_cause(fault))
        except Exception as fault:
            self._end(fault)

    def eof_received(self) -> None:
        self._end(EOFError())

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._end(EOFError() if exc is None else exc)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # -- what comes --------------------------------------------------------------------------------

    def _end(self, fault: Exception) -> None:
        if self._fault is None:
            self._fault = fault
        self._can_write.set()
        self._news.set()

    def _shake(self, tls: TlsSession) -> None:
        """Go on with the handshake. Raises: TlsFault."""
        is_over = False
        try:
            is_over = tls.shake()
        finally:
            # An alert tells the peer why.
            self._send(tls.to_send())
        if is_over:
            waiting, self._unsealed = self._unsealed or [], None
            for data in waiting:
                self._send(tls.sealed(data))

    def _opened(self, tls: TlsSession, data: bytes) -> bytes:
        """The content. Raises: TlsFault."""
        if self._unsealed is not None:
            tls.feed(data)
            self._shake(tls)
            if self._unsealed is not None:
                return b""
            data = b""
        content = tls.opened(data)
        if tls.has_answer:
            self._send(tls.to_send())
        return content

    def _content(self, data: bytes) -> None:
        """Raises: LinkFault; what whoever takes frames raises."""
        if self._before is not None:
            self._before += data
            if len(self._before) >= HEAD_BYTES:
                _, size = read_head(self._before[:HEAD_BYTES])
                if len(self._before) >= HEAD_BYTES + size:
                    self._pause(is_paused=True)
                    self._news.set()
            return
        take = self._take
        if take is not None:
            for kind, payload in self._frames.feed(data):
                take(kind, payload)
            return
        for kind, payload in self._frames.feed(data):
            self._came.append((kind, payload))
            self.unread += HEAD_BYTES + len(payload)
        if self._came:
            self._news.set()
        if self.unread > 2 * READER_BYTES:
            self._pause(is_paused=True)

    def _pause(self, *, is_paused: bool) -> None:
        transport = self._transport
        if transport is None or is_paused == self._is_paused or transport.is_closing():
            return
        self._is_paused = is_paused
        if is_paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    async def _more(self) -> None:
        """Wait for something to have come. Raises: why nothing does any more."""
        if self._fault is not None:
            raise self._fault
        self._news.clear()
        await self._news.wait()

    async def first(self) -> tuple[int, bytes]:
        """The first frame, of HELLO_BYTES at most; what is behind it waits for `go_on`.
        Raises: LinkFault; OSError; EOFError."""
        before = self._before
        assert before is not None, "there is only one"
        while True:
            if len(before) >= HEAD_BYTES:
                kind, size = read_head(before[:HEAD_BYTES])
                if len(before) >= HEAD_BYTES + size:
                    payload = bytes(before[HEAD_BYTES : HEAD_BYTES + size])
                    del before[: HEAD_BYTES + size]
                    return kind, payload
            await self._more()

    def go_on(self) -> None:
        """Others may follow the first frame. Raises: LinkFault."""
        rest, self._before = self._before, None
        self._pause(is_paused=False)
        if rest:
            self._content(bytes(rest))

    async def read(self) -> tuple[int, bytes]:
        """The next frame. Raises: LinkFault; OSError; EOFError."""
        while not self._came:
            await self._more()
        kind, payload = self._came.popleft()
        self.unread -= HEAD_BYTES + len(payload)
        if self.unread <= READER_BYTES:
            self._pause(is_paused=False)
        return kind, payload

    async def pass_on(self, take: Callable[[int, bytes], None]) -> None:
        """Call `take` with each frame where it is received, without a task that has to be woken for
        it, until the connection ends. What `take` raises ends it.
        Raises: LinkFault; OSError; EOFError."""
        while self._came:
            kind, payload = self._came.popleft()
            take(kind, payload)
        self.unread = 0
        self._take = take
        self._pause(is_paused=False)
        while True:
            await self._more()

    # -- what goes ---------------------------------------------------------------------------------

    @property
    def certified(self) -> str | None:
        """The name in the peer's certificate, None without TLS."""
        return None if self._tls is None else certified_name(self._tls.certificate())

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, kind: int, payload: bytes = b"") -> None:
        self.write_frames(frame(kind, payload))

    def write_frames(self, data: bytes) -> None:
        """One or several frames."""
        tls = self._tls
        if tls is None:
            self._send(data)
        elif self._unsealed is not None:
            self._unsealed.append(data)
        else:
            try:
                self._send(tls.sealed(data))
            except TlsFault as fault:
                self._end(_cause(fault))

    def _send(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the socket has taken most of it. Raises: OSError."""
        if not self._can_write.is_set():
            await self._can_write.wait()
        if self._is_lost:
            raise ConnectionResetError("the connection is gone")

    def close(self) -> None:
        """Close when all is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is not sent is not sent."""
        if self._transport is not None:
            self._transport.abort()


def _cause(fault: TlsFault) -> Exception:
    """What OpenSSL has said, which tells more."""
    cause = fault.__cause__
    return cause if isinstance(cause, OSError) else LinkFault(str(fault))


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
        session = None if tls is None else TlsSession(tls.dialling, is_server=False)
        connection = LinkConnection(session)
        await loop.create_connection(lambda: connection, host, port)
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
            kind, payload = await connection.first()
            if kind == REFUSED:
                raise LinkFault(f"refuses this node: {payload.decode(errors='replace')}")
            try:
                welcome = msgspec.json.decode(payload, type=Welcome)
            except msgspec.DecodeError as fault:
                raise LinkFault("answers something else than a node does") from fault
            wrong = welcome_fault(welcome, name, connection.certified)
            if wrong:
                raise LinkFault(wrong)
            connection.go_on()
        except BaseException:
            connection.abort()
            raise
        return connection


async def greet(connection: LinkConnection, me: Self, known: dict[str, str]) -> Hello:
    """Read HELLO and answer it. known: identities of members by name.
    Raises: LinkFault, when the peer has been told why not; OSError; EOFError."""
    async with asyncio.timeout(HANDSHAKE_S):
        kind, payload = await connection.first()
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
            connection.close()
            raise LinkFault(wrong)
        welcome = Welcome(PROTOCOL, me.name, me.identity, me.boot_id)
        connection.write(WELCOME, msgspec.json.encode(welcome))
        connection.go_on()
        await connection.drain()
        return hello
