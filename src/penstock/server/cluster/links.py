"""The links of a member: one connection for each pair, and no peer that holds another one.

Of two members the one whose name is smaller dials; the other looks now and then whether anything
answers at the peer's port, so that both learn at once that a process is gone. What is sent to a
peer waits in a queue of its own with a bound in bytes. A peer that falls behind it is cut off, and
whoever uses the link begins anew when it is there again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import CLUSTER_LINK_BYTES, CLUSTER_LINK_SILENCE_MS
from penstock.server.cluster.admission import Self
from penstock.server.cluster.link_frames import (
    BEAT,
    FORWARD,
    FORWARDED,
    HANDED,
    HANDOVER,
    PROBE,
    PUBLISHES,
    REPLICATION,
    TAKEN,
    Hello,
    LinkFault,
    frame,
)
from penstock.server.cluster.link_io import Client, LinkConnection, dial, greet
from penstock.server.cluster.link_tls import LinkTls, dial_words
from penstock.server.cluster.member_events import LinkEvents
from penstock.server.net.listener import open_socket
from penstock.server.net.tls import TlsSession

RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 1.0
BEAT_S: Final = 1.0
TAKEN_S: Final = 5.0
"""For a leader's broker to take a forwarded client."""
_PIECES: Final = 1 << 18
"""Small frames are written together, up to about so many bytes."""
OF_PEERS: Final = (LinkFault, OSError, EOFError)
"""What ends a connection and is no bug of ours."""
_REFUSALS: Final = 64
"""Sentences that are not said again."""

OnForward = Callable[[Hello, LinkConnection], Awaitable[None]]


class Peer:
    """The link to one peer: there, or tried again until it is stopped.

    waiting: frames that are not on their way; waiting_bytes: theirs, and those that the socket has
    not taken; fault: why there is no connection, "" while there is one; heard_at: when it last said
    something, by the monotonic clock.
    """

    def __init__(self, links: "Links", name: str, address: str) -> None:
        self.links = links
        self.name = name
        self.address = address
        self.purpose = REPLICATION if links.me.name < name else PROBE
        self.waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        self.wake = asyncio.Event()
        self.connection: LinkConnection | None = None
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self.fault = "not reached yet"
        self.heard_at = 0.0
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        fault = None if task.cancelled() else task.exception()
        if isinstance(fault, Exception):
            self.links.events.link_failed(fault)

    def queue(self, kind: int, payload: bytes = b"") -> bool:
        """To be written by `flush`. False: there is no link, or there was one and the peer falls
        behind."""
        if self.connection is None:
            return False
        data = frame(kind, payload)
        if self.waiting and self.waiting_bytes + len(data) > CLUSTER_LINK_BYTES.default:
            self.fault = f"falls behind: {self.waiting_bytes:,} bytes wait for it"
            self.connection.abort()
            return False
        self.waiting.append(data)
        self.waiting_bytes += len(data)
        return True

    def flush(self) -> None:
        """Write what waits, at once as far as the socket has taken all of before."""
        connection = self.connection
        if not self.waiting or connection is None:
            return
        if connection.unsent == 0:
            data = self._next()
            connection.write_frames(data)
            self.waiting_bytes -= len(data)
        if self.waiting:
            self.wake.set()

    def _next(self) -> bytes:
        """The frames to be written next, as one piece."""
        pieces = [self.waiting.popleft()]
        size = len(pieces[0])
        while self.waiting and size < _PIECES:
            pieces.append(self.waiting.popleft())
            size += len(pieces[-1])
        return b"".join(pieces)

    async def _run(self) -> None:
        delay_s = RETRY_MIN_S
        while True:
            is_refused = False
            try:
                links = self.links
                connection = await dial(self.address, links.tls, links.me, self.name, self.purpose)
            except ConnectionRefusedError as fault:
                is_refused = True
                self._failed(dial_words(fault))
            except (OSError, EOFError, LinkFault, ValueError) as fault:
                self._failed(dial_words(fault))
            else:
                delay_s = RETRY_MIN_S
                if self.purpose == PROBE:
                    # It lives and will dial.
                    connection.abort()
                    delay_s = RETRY_MAX_S
                else:
                    await self.serve(connection)
            if self.connection is None:
                self.links.events.link_down(self.name, is_refused=is_refused)
            await asyncio.sleep(delay_s)
            await self.is_idle.wait()
            delay_s = min(delay_s * 2, RETRY_MAX_S)

    def _failed(self, words: str) -> None:
        """Say once why, and again when it is for another reason."""
        if self.connection is None and words != self.fault:
            self.fault = words
            self.links.events.said(f"node '{self.name}' at {self.address} {words}")

    async def serve(self, connection: LinkConnection) -> None:
        """Until the connection ends. Ends an earlier one first: frames of two may not mix."""
        while self.connection is not None:
            self.connection.abort()
            await self.is_idle.wait()
        self.connection = connection
        self.is_idle.clear()
        self.fault = ""
        self.heard_at = time.monotonic()
        self.wake = asyncio.Event()
        works = (self._write(connection), self._read(connection), self._beat())
        tasks = [asyncio.create_task(one) for one in works]
        self.links.events.link_up(self.name)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connection = None
            self.waiting.clear()
            self.waiting_bytes = 0
            connection.abort()
            for task in tasks:
                task.cancel()
            faults = await asyncio.gather(*tasks, return_exceptions=True)
            self.is_idle.set()
            for one in faults:
                if isinstance(one, Exception) and not isinstance(one, OF_PEERS):
                    self.links.events.link_failed(one)
        said = [str(one) for one in faults if isinstance(one, LinkFault)]
        words, self.fault = (said[0] if said else self.fault or "closed the connection"), ""
        self._failed(words)
        self.links.events.link_down(self.name, is_refused=False)

    async def _write(self, connection: LinkConnection) -> None:
        wake = self.wake
        while True:
            wake.clear()
            while self.waiting:
                data = self._next()
                connection.write_frames(data)
                await connection.drain()
                self.waiting_bytes -= len(data)
            await wake.wait()

    async def _read(self, connection: LinkConnection) -> None:
        def take(kind: int, payload: bytes) -> None:
            self.heard_at = time.monotonic()
            if kind != BEAT and self.connection is connection:
                self.links.events.received(self.name, kind, payload)

        await connection.pass_on(take)

    async def _beat(self) -> None:
        while True:
            if self.waiting_bytes == 0:
                self.queue(BEAT)
                self.flush()
            silent_s = time.monotonic() - self.heard_at
            if silent_s * 1000 > CLUSTER_LINK_SILENCE_MS.default:
                raise LinkFault(f"has said nothing for {silent_s:.1f} s")
            await asyncio.sleep(BEAT_S)

    def stop(self) -> None:
        self.task.cancel()
        if self.connection is not None:
            self.connection.abort()


class Links:
    """All of them, and the port where peers come in.

    known: identities of members by name, as etcd has them.
    """

    def __init__(
        self, me: Self, tls: LinkTls | None, events: LinkEvents, on_forward: OnForward
    ) -> None:
        self.me = me
        self.tls = tls
        self.events = events
        self.on_forward = on_forward
        self.known: dict[str, str] = {}
        self.peers: dict[str, Peer] = {}
        self.server: asyncio.Server | None = None
        self.open: dict[asyncio.Task[None], LinkConnection] = {}
        self.refusals: set[str] = set()

    async def listen(self, host: str, port: int) -> int:
        """The port. Raises: OperatorError."""
        sock = open_socket(host, port, "--cluster-listen")
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self._incoming, sock=sock)
        return int(sock.getsockname()[1])

    def set_peers(self, addresses: dict[str, str]) -> None:
        """Have links to those, and to nobody else."""
        for name, peer in list(self.peers.items()):
            if addresses.get(name) != peer.address:
                peer.stop()
                del self.peers[name]
                self.events.link_down(name, is_refused=False)
        for name, address in addresses.items():
            if name not in self.peers:
                self.peers[name] = Peer(self, name, address)

    def send(self, name: str, kind: int, payload: bytes = b"") -> bool:
        """False if it was not queued: the link is down, or goes down."""
        is_queued = self.queue(name, kind, payload)
        self.flush()
        return is_queued

    def queue(self, name: str, kind: int, payload: bytes = b"") -> bool:
        """As `send`, to be written by the next `flush`: frames that go together are one piece."""
        peer = self.peers.get(name)
        return peer is not None and peer.queue(kind, payload)

    def flush(self) -> None:
        """Write what was queued for every peer."""
        for peer in self.peers.values():
            peer.flush()

    def linked(self) -> set[str]:
        """Peers to which there is a link."""
        return {name for name, peer in self.peers.items() if peer.connection is not None}

    def fault_of(self, name: str) -> str:
        """Why there is no link to a peer, "" if there is one."""
        peer = self.peers.get(name)
        return "" if peer is None else peer.fault

    def send_all(self, kind: int, payload: bytes = b"") -> None:
        for peer in self.peers.values():
            peer.queue(kind, payload)
        self.flush()

    async def forward(
        self,
        name: str,
        address: str,
        client: Client,
        purpose: str = FORWARD,
        unknown: bytes = b"",
    ) -> tuple[LinkConnection, bytes]:
        """As `forward_from`, from this member."""
        return await forward_from(self.me, self.tls, name, address, client, purpose, unknown)

    def drop(self, name: str) -> None:
        """Close the link; it is made again."""
        peer = self.peers.get(name)
        if peer is not None and peer.connection is not None:
            peer.connection.abort()

    def _incoming(self) -> LinkConnection:
        tls = None if self.tls is None else TlsSession(self.tls.accepting)
        return LinkConnection(tls, self._came)

    def _came(self, connection: LinkConnection) -> None:
        task = asyncio.create_task(self._accepted(connection))
        self.open[task] = connection
        task.add_done_callback(self.open.pop)

    async def _accepted(self, connection: LinkConnection) -> None:
        try:
            hello = await greet(connection, self.me, self.known)
            peer = self.peers.get(hello.name)
            if hello.purpose in FORWARDED:
                await self.on_forward(hello, connection)
            elif hello.purpose == REPLICATION and peer is not None:
                # A name that etcd has not told of yet dials again.
                await peer.serve(connection)
        except LinkFault as fault:
            self._refused(str(fault))
        except (OSError, EOFError):
            # It is gone, which whoever waits for it hears from its own link.
            return
        finally:
            connection.abort()

    def _refused(self, words: str) -> None:
        if words not in self.refusals:
            if len(self.refusals) >= _REFUSALS:
                self.refusals.clear()
            self.refusals.add(words)
            self.events.said(f"refused: {words}")

    async def close(self) -> None:
        for peer in self.peers.values():
            peer.stop()
        if self.server is not None:
            self.server.close()
        for connection in self.open.values():
            connection.abort()
        await asyncio.gather(*(peer.task for peer in self.peers.values()), return_exceptions=True)


async def forward_from(
    me: Self,
    tls: LinkTls | None,
    name: str,
    address: str,
    client: Client,
    purpose: str,
    first: bytes,
) -> tuple[LinkConnection, bytes]:
    """A connection for one client, which the broker there has taken, or for one who asks. first:
    publishes of the client, with the connection comes which of them are in the log; or the record
    of one that is handed over; b"" for neither. Raises: as `dial`."""
    asks = first != b"" and purpose == FORWARD
    connection = await dial(address, tls, me, name, purpose, client, asks=asks)
    try:
        if first:
            connection.write(HANDED if purpose == HANDOVER else PUBLISHES, first)
        async with asyncio.timeout(TAKEN_S):
            kind, seen = await connection.read()
        if kind != TAKEN:
            raise LinkFault("does not take clients")
    except BaseException:
        connection.abort()
        raise
    return connection, seen


def check_plain(host: str, *, is_plain: bool, has_tls: bool) -> None:
    """Raises: OperatorError for links that others could read or write."""
    if has_tls:
        return
    if not is_plain:
        raise OperatorError(
            "nodes talk to each other by TLS: give --cluster-cert, --cluster-key and --cluster-ca "
            "(`penstock cluster certificates DIR NAME…` makes some for trying out), or "
            "--cluster-plain on 127.0.0.1"
        )
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise OperatorError(
            f"--cluster-plain is for 127.0.0.1 only, and --cluster-listen is {host}: anybody there "
            "could read and write all messages; give --cluster-cert, --cluster-key, --cluster-ca"
        )
