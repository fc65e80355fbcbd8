"""Clients that come to a node which does not lead: their bytes go to the leader and back.

Each has a connection of its own between the nodes, so that one that does not read holds nobody. A
side is read again when the other has taken what came: at most some CLUSTER_FORWARD_BYTES wait on
either way.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import (
    CLUSTER_FORWARD_BYTES,
    CLUSTER_KEPT_BYTES,
    CLUSTER_KEPT_NODE_BYTES,
    CONTROL_CLIENTS,
)
from penstock.broker.broker import Log
from penstock.broker.session.handover import Handover
from penstock.forwarding.asked import Budget, Share
from penstock.forwarding.kept_channel import CannotKeep
from penstock.protocol.methods import ConnectionTuneOk
from penstock.server.cluster.kept_client import AGAIN_S, GONE, KeptClient, Place, Reach, Shards
from penstock.server.cluster.link_frames import (
    ASK_BROKER,
    ASK_MEMBER,
    DATA,
    END,
    FORWARD,
    TAKEN,
    Hello,
)
from penstock.server.cluster.link_io import NOBODY, Client, LinkConnection
from penstock.server.cluster.links import Links
from penstock.server.control.control_client import NOBODY_LEADS
from penstock.server.net.handshakes import Handshakes
from penstock.server.net.listener import set_up
from penstock.server.net.proxy_header import header_of
from penstock.server.net.tls import TlsSession
from penstock.server.net.tls_endpoint import TlsEndpoint

_ACCEPTS: Final = 64
_TELL_S: Final = 1.0
_ASK_S: Final = 5.0
"""For a node to lead, and to take a question."""
_ANSWER_S: Final = 60.0


async def relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: LinkConnection
) -> None:
    """Between a socket and a link until both have said all, or one is gone."""

    async def out() -> None:
        while data := await reader.read(CLUSTER_FORWARD_BYTES.default):
            link.write(DATA, data)
            await link.drain()
        link.write(END)
        await link.drain()

    async def back() -> None:
        while True:
            kind, data = await link.read()
            if kind == END:
                break
            if kind == DATA:
                writer.write(data)
                await writer.drain()
        writer.write_eof()

    tasks = [asyncio.create_task(out()), asyncio.create_task(back())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Forwarder:
    """Accepts clients at the node's own listening sockets while another node leads.

    socks: them, and whether each is for TLS; endpoint: what the latter show, None where there are
    none. They are this process's all the time, and the broker
    has them, too, while it serves here: nobody is turned away in between, he waits to be accepted.
    """

    def __init__(
        self,
        socks: list[tuple[socket.socket, bool]],
        config: Config,
        reach: Reach,
        log: Log,
        shards: Shards | None = None,
    ) -> None:
        """Raises: OperatorError, for a certificate that cannot be read."""
        self.loop = asyncio.get_running_loop()
        self.socks = socks
        self.clients_max = config.connections_max
        self.reach = reach
        self.shards = shards
        self.clients: dict[asyncio.Task[None], KeptClient] = {}
        self.budget = Budget(CLUSTER_KEPT_NODE_BYTES.default)
        self.is_open = False
        self.refused = 0
        self.endpoint: TlsEndpoint | None = None
        self.handshakes: Handshakes | None = None
        if any(is_tls for _, is_tls in socks):
            self.endpoint = TlsEndpoint(config, log.warning)
            self.handshakes = Handshakes(
                self.loop, self.endpoint, config.tls_handshake_ms, log, self._take_tls
            )
        self.told = 0
        self.told_at = 0.0

    def open(self) -> None:
        """Take clients."""
        if not self.is_open:
            self.is_open = True
            for sock, is_tls in self.socks:
                self.loop.add_reader(sock, self._accept, sock, is_tls)

    def shut(self) -> None:
        """Take no more: they wait, or another process accepts them."""
        if self.is_open:
            self.is_open = False
            for sock, _ in self.socks:
                self.loop.remove_reader(sock)

    def look(self) -> str:
        """Clients of a leader that is none any more go on with the next one. How many have gone on
        a second ago, "" if none have."""
        reaches = [self.reach] if self.shards is None else self.shards.reaches()
        places = {one: one.place() for one in reaches}
        for client in self.clients.values():
            there = places[client.reach]
            if there is not None:
                client.look(there)
        now = self.loop.time()
        place = self.reach.place()
        went_on = sum(one.went_on for one in reaches)
        if went_on == self.told:
            self.told_at = now
        elif place is not None and now - self.told_at >= _TELL_S:
            count, self.told = went_on - self.told, went_on
            words = f"clients of this node that go on with node '{place.name}': {count}"
            if self.shards is not None:
                words = f"clients of this node that go on with another leader: {count}"
            dropped = sum(one.dropped for one in reaches)
            for one in reaches:
                one.dropped = 0
            return f"{words}; publishes that were there already: {dropped}" if dropped else words
        return ""

    async def close(self) -> None:
        self.shut()
        if self.handshakes is not None:
            self.handshakes.close()
        tasks = list(self.clients)
        for client in self.clients.values():
            client.farewell()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listening: socket.socket, is_tls: bool) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, address = listening.accept()
            except OSError:
                # Nobody waits, or there are no files left: the next look is as good.
                return
            sock.setblocking(False)
            if is_tls and self.handshakes is not None:
                self.handshakes.take(sock, str(address[0]), address[1])
            else:
                self._take(sock, Client(str(address[0]), address[1], None), None)

    def take_new(self, sock: socket.socket) -> None:
        """A client by TLS that another process has accepted, and not heard."""
        try:
            host, port = sock.getpeername()[:2]
        except OSError:
            sock.close()
            return
        if self.handshakes is None:
            sock.close()
        else:
            self.handshakes.take(sock, str(host), int(port))

    def take_handed(self, sock: socket.socket, record: Handover, reach: Reach) -> bool:
        """A client that a broker of this node has heard up to connection.open, whose virtual host
        another node has; kept as any other. reach: of its shard. False, and `sock` stays open: it
        cannot be."""
        if len(self.clients) >= self.clients_max:
            return False
        port = record.peer.rpartition(":")[2]
        client = Client(record.peer_host, int(port) if port.isdecimal() else 0, record.tls_peer)
        share = Share(self.budget, CLUSTER_KEPT_BYTES.default)
        kept = KeptClient(reach, client, share, None, self.shards)
        tuned = ConnectionTuneOk(record.channel_max, record.frame_bytes_max, record.heartbeat_s)
        try:
            if kept.kept.resume(record.login, tuned, record.said):
                self._begin(kept, sock)
                return True
        except CannotKeep:
            pass
        share.close()
        return False

    def _take_tls(self, sock: socket.socket, host: str, port: int, tls: TlsSession) -> None:
        assert self.endpoint is not None, "it made the session"
        self._take(sock, Client(host, port, tls.peer(self.endpoint.user_from)), tls)

    def _take(self, sock: socket.socket, client: Client, tls: TlsSession | None) -> None:
        if len(self.clients) >= self.clients_max:
            self.refused += 1
            sock.close()
            return
        share = Share(self.budget, CLUSTER_KEPT_BYTES.default)
        reach = self.reach if self.shards is None else self.shards.first()
        kept = KeptClient(reach, client, share, tls, self.shards)
        self._begin(kept, sock)

    def _begin(self, client: KeptClient, sock: socket.socket) -> None:
        task = self.loop.create_task(self._serve(client, sock))
        self.clients[task] = client
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        client = self.clients.pop(task)
        client.share.close()
        self.refused += client.is_refused

    async def _serve(self, client: KeptClient, sock: socket.socket) -> None:
        try:
            set_up(sock)
            reader, writer = await asyncio.open_connection(
                sock=sock, limit=CLUSTER_FORWARD_BYTES.default
            )
        except OSError:
            sock.close()
            return
        await client.serve(reader, writer)


async def deliver(hello: Hello, link: LinkConnection, path: str, seen: bytes = b"") -> None:
    """At the leader: hand a forwarded client to the broker's private socket at `path`, with the
    client's own address, or a question to the control socket there. seen: of the client's
    publishes, those that are in the log. Raises: OSError; EOFError; LinkFault."""
    reader, writer = await asyncio.open_unix_connection(path, limit=CLUSTER_FORWARD_BYTES.default)
    try:
        if hello.purpose == FORWARD:
            writer.write(header_of(hello.client_host, hello.client_port, hello.client_tls))
        link.write(TAKEN, seen)
        await relay(reader, writer, link)
    finally:
        writer.close()


class Questions:
    """Questions that the leader alone can answer, asked of another node.

    path: of the broker's control socket, which is this one's while the broker is elsewhere.
    """

    def __init__(self, links: Links, path: str, place: Callable[[], Place | None]) -> None:
        self.links = links
        self.path = path
        self.place = place
        self.server: asyncio.Server | None = None
        self.clients: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take questions to the broker. Raises: OperatorError."""
        if self.server is not None:
            return
        before = os.umask(0o177)
        try:
            self.server = await asyncio.start_unix_server(
                self._accepted, self.path, limit=CLUSTER_FORWARD_BYTES.default
            )
        except OSError as fault:
            raise OperatorError(
                f"cannot make the control socket {self.path}: {fault.strerror or fault}; choose "
                "another place with --control"
            ) from fault
        finally:
            os.umask(before)

    def shut(self) -> None:
        """Take no more: a broker of this node is to."""
        if self.server is not None:
            self.server.close()
            self.server = None

    def close(self) -> None:
        """The node ends."""
        for task in self.clients:
            task.cancel()
        if self.server is not None:
            self.shut()
            Path(self.path).unlink(missing_ok=True)

    async def ask_member(self, request: dict[str, object]) -> dict[str, object]:
        """The answer of the member that leads. Raises: OperatorError."""
        link = await self._reach(ASK_MEMBER)
        if link is None:
            raise OperatorError(NOBODY_LEADS)
        try:
            async with asyncio.timeout(_ANSWER_S):
                link.write(DATA, msgspec.json.encode(request) + b"\n")
                await link.drain()
                data = b""
                while not data.endswith(b"\n"):
                    kind, more = await link.read()
                    if kind == END:
                        break
                    data += more
                return msgspec.json.decode(data, type=dict[str, object])
        except (*GONE, TimeoutError, msgspec.DecodeError) as fault:
            raise OperatorError("the node that leads has not answered: try again") from fault
        finally:
            link.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "because it is called in one"
        if len(self.clients) >= CONTROL_CLIENTS.default:
            writer.close()
            return
        self.clients.add(task)
        link = None
        try:
            link = await self._reach(ASK_BROKER)
            if link is not None:
                await relay(reader, writer, link)
            else:
                async with asyncio.timeout(_ASK_S):
                    await reader.readline()
                    writer.write(msgspec.json.encode({"error": NOBODY_LEADS}) + b"\n")
                    await writer.drain()
        except (*GONE, TimeoutError, ValueError):
            # Whoever asked is gone, or the leader is.
            return
        finally:
            self.clients.discard(task)
            if link is not None:
                link.abort()
            writer.close()

    async def _reach(self, purpose: str) -> LinkConnection | None:
        """A connection to whoever leads, None when nobody has for too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _ASK_S
        while loop.time() < end:
            place = self.place()
            if place is not None and not place.is_here:
                try:
                    link, _ = await self.links.forward(place.name, place.address, NOBODY, purpose)
                    return link
                except (*GONE, ValueError):
                    # It leads no more, or not yet.
                    pass
            await asyncio.sleep(AGAIN_S)
        return None
