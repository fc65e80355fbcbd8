"""Connections that other brokers of this node hand over to a shard which another node leads.

While this node leads it, its broker reads them (net/handover_socket); otherwise its member does, or
another member of this node while that one stands still.
Each goes on as a client of this member, see kept_client: its login came with it, and is said again
to the broker that leads. One whose login cannot be is relayed there with its record; when that
broker is gone, such a client's connection ends.
"""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Final

from penstock.base.limits import CLUSTER_FORWARD_BYTES
from penstock.broker.actors.log import Log
from penstock.broker.session.handover import HandoverFault, decode
from penstock.server.cluster.forward import Forwarder, relay
from penstock.server.cluster.kept_client import AGAIN_S, GONE, Reach
from penstock.server.cluster.link_frames import ASK_BROKER, DATA, HANDED, HANDOVER, TAKEN, LinkFault
from penstock.server.cluster.link_io import NOBODY, LinkConnection
from penstock.server.control.control_client import HELLO
from penstock.server.net.handover_messages import (
    CONNECTION,
    IN_FILE,
    NEW,
    OPERATOR,
    content_of,
    got,
    put,
    stream_of,
)

MESSAGES_PER_TURN: Final = 8
SAID_EVERY_S: Final = 10.0
ANSWER_S: Final = 10.0
TRIES: Final = (*GONE, ValueError, TimeoutError)


class Handed:
    """receive: where they come; own: where they are sent; reach: who leads the shard; forwarder:
    takes those that have said nothing yet; patience_s: for a broker to lead; clients_max: at once.

    relays: of clients, under way; refused: that came to nothing."""

    def __init__(
        self,
        receive: socket.socket,
        own: socket.socket,
        reach: Reach,
        forwarder: Forwarder,
        patience_s: float,
        clients_max: int,
        log: Log,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.receive = receive
        self.own = own
        self.reach = reach
        self.forwarder = forwarder
        self.patience_s = patience_s
        self.clients_max = clients_max
        self.log = log
        self.relays: set[asyncio.Task[None]] = set()
        self.refused = 0
        self.quiet_until = 0.0

    def open(self) -> None:
        """Take what comes, until the broker of this node does."""
        self.loop.add_reader(self.receive, self._readable)

    def shut(self) -> None:
        self.loop.remove_reader(self.receive)

    async def close(self) -> None:
        self.shut()
        tasks = list(self.relays)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _readable(self) -> None:
        for _ in range(MESSAGES_PER_TURN):
            try:
                data, fds, is_whole = got(self.receive)
            except OSError:
                # Nothing more now, or no files are left: the next look is as good.
                return
            if not data and not fds:
                # The process above is gone, and this one ends as well.
                self.shut()
                return
            try:
                if not data or not is_whole:
                    raise HandoverFault(f"of a message {len(data)} bytes came, and not the rest")
                self._take(data[0], data[1:], fds)
            except (HandoverFault, OSError) as fault:
                self._refused(f"another broker has handed over what cannot be served: {fault}")
            finally:
                for fd in fds:
                    with suppress(OSError):
                        os.close(fd)

    def _take(self, kind: int, body: bytes, fds: list[int]) -> None:
        """Takes what it uses out of `fds`. Raises: HandoverFault, OSError."""
        if len(fds) != (2 if kind == IN_FILE else 1):
            raise HandoverFault(f"{len(fds)} descriptors came with a message of kind {kind}")
        body = content_of(fds[1]) if kind == IN_FILE else body
        sock = stream_of(fds)
        sock.setblocking(False)
        if kind == NEW:
            self.forwarder.take_new(sock)
        elif kind not in (CONNECTION, IN_FILE, OPERATOR):
            sock.close()
            raise HandoverFault(f"{kind} is no kind of message")
        elif len(self.relays) >= self.clients_max:
            sock.close()
            self._refused(f"{len(self.relays)} clients are relayed already; one was closed")
        elif kind == OPERATOR or not self._is_kept(body, sock):
            kind = CONNECTION if kind == IN_FILE else kind
            task = self.loop.create_task(self._serve(kind, body, sock))
            self.relays.add(task)
            task.add_done_callback(self.relays.discard)

    def _is_kept(self, body: bytes, sock: socket.socket) -> bool:
        """Raises: HandoverFault."""
        try:
            record = decode(body)
        except HandoverFault:
            sock.close()
            raise
        is_operator = record.tls_peer is not None and record.tls_peer.is_operator
        if record.login == b"" or is_operator:
            return False
        return self.forwarder.take_handed(sock, record, self.reach)

    async def _serve(self, kind: int, body: bytes, sock: socket.socket) -> None:
        """Until the client or the broker that leads is gone. body: the client's record, or the
        name of an operator."""
        link: LinkConnection | None = None
        writer: asyncio.StreamWriter | None = None
        try:
            link = await self._connect(kind, body, sock)
            if link is not None:
                if kind == OPERATOR:
                    await _say_hello(link)
                reader, writer = await asyncio.open_connection(
                    sock=sock, limit=CLUSTER_FORWARD_BYTES.default
                )
                await relay(reader, writer, link)
        except TRIES as fault:
            self._refused(f"a client that was handed over was closed: {fault}")
        finally:
            if writer is None:
                sock.close()
            else:
                # Not at once: it may not have read yet what it was told last.
                writer.close()
            if link is not None:
                link.abort()

    async def _connect(self, kind: int, body: bytes, sock: socket.socket) -> LinkConnection | None:
        """To the node that leads. None: this one does, and its broker is given the connection.
        Raises: TimeoutError when none does for too long."""
        purpose, first = (ASK_BROKER, b"") if kind == OPERATOR else (HANDOVER, body)
        end = self.loop.time() + self.patience_s
        while self.loop.time() < end:
            place = self.reach.place()
            if place is not None and place.is_here:
                with suppress(BlockingIOError):
                    put(self.own, kind, body, sock.fileno())
                    return None
            elif place is not None:
                with suppress(*TRIES):
                    link, _ = await self.reach.links.forward(
                        place.name, place.address, NOBODY, purpose, first
                    )
                    return link
            await asyncio.sleep(AGAIN_S)
        raise TimeoutError(f"no node has led its virtual host for {self.patience_s:g} s")

    def _refused(self, what: str) -> None:
        """Said once in a while: clients who try again would fill the log."""
        self.refused += 1
        now = self.loop.time()
        if now >= self.quiet_until:
            self.quiet_until = now + SAID_EVERY_S
            self.log.warning(what)


async def _say_hello(link: LinkConnection) -> None:
    """From now on the broker there speaks AMQP. Raises: OSError; EOFError; LinkFault."""
    link.write(DATA, HELLO)
    async with asyncio.timeout(ANSWER_S):
        kind, data = await link.read()
    if kind != DATA or not data.endswith(b"\n"):
        raise LinkFault("lets no messages through its control socket")


async def serve_handed(link: LinkConnection, own: socket.socket, patience_s: float) -> None:
    """At the node that leads: give its broker a client that was handed over at another one. own:
    where it is sent connections. Raises: OSError; EOFError; LinkFault; TimeoutError."""
    async with asyncio.timeout(patience_s):
        kind, record = await link.read()
    if kind != HANDED:
        raise LinkFault("hands a client over, and does not say which")
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            put(own, CONNECTION, record, theirs.fileno())
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(
            sock=ours, limit=CLUSTER_FORWARD_BYTES.default
        )
    except OSError:
        ours.close()
        raise
    try:
        link.write(TAKEN)
        await relay(reader, writer, link)
    finally:
        writer.close()
