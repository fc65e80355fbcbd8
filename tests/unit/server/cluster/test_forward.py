"""Clients of a node that does not lead are handed on with their own address."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.config import Config
from penstock.broker.session.access import TlsPeer, operator
from penstock.broker.session.handover import Handover
from penstock.protocol import methods as m
from penstock.protocol.constants import HEARTBEAT_FRAME, SHUTDOWN_TEXT
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from penstock.server.boot.node import FORWARDED, Node
from penstock.server.cluster.forward import Forwarder, deliver
from penstock.server.cluster.kept_client import Place as Where
from penstock.server.cluster.kept_client import Reach, Shards
from penstock.server.cluster.link_frames import Hello, LinkFault
from penstock.server.cluster.link_io import LinkConnection
from penstock.server.control import control_client
from penstock.server.net.listener import open_socket
from penstock.server.net.proxy_header import HeaderFault, header_of, read_header
from tests.unit.broker.peer import LogBook
from tests.unit.server.cluster.test_links import End
from tests.unit.server.net.test_tls import echo, fill, settings, trusting
from tests.unit.server.wire import Wire, until

HEADER = b"AMQP\x00\x00\x09\x01"


async def nothing_seen(unknown: bytes) -> bytes:
    """Of a log without publishes."""
    return b""


@pytest.mark.parametrize("tls", [None, TlsPeer("TLSv1.3", "AES", "CN=ü,O=\r\n", "app")])
@pytest.mark.parametrize(("host", "port"), [("192.0.2.7", 1), ("::1", 65_535), ("fe80::1%eth0", 7)])
def test_a_header_says_what_it_was_made_of(host: str, port: int, tls: TlsPeer | None) -> None:
    line = header_of(host, port, tls)
    assert read_header(line + HEADER) == (host.partition("%")[0], port, tls, len(line))
    for cut in range(len(line)):
        assert read_header(line[:cut]) is None


@pytest.mark.parametrize(
    "data",
    [
        HEADER,
        b"PROXY UNKNOWN\r\n",
        b"PROXY TCP4 here 127.0.0.1 1 0\r\n",
        b"PROXY TCP4 1.2.3.4 127.0.0.1 99999 0\r\n",
        b"PROXY TCP4 1.2.3.4 127.0.0.1 -1 0\r\n",
        b"PROXY TCP4 1.2.3.4 127.0.0.1\r\n",
        b"PROXY TCP4 " + b"1" * 120,
        b"TLS {}\r\nPROXY TCP4 1.2.3.4 127.0.0.1 1 0\r\n",
        b"TLS " + b"{" * 16_384,
        header_of("1.2.3.4", 1, operator("root")),
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(HeaderFault):
        read_header(data)


class Place:
    """A broker with a private socket, the leader's links, and a follower that forwards to it."""

    def __init__(self, folder: Path, clients_max: int = 2) -> None:
        self.folder = folder
        self.clients_max = clients_max
        self.is_ready = True
        self.asked = self.at_once = self.most_at_once = 0
        self.path = str(folder / "private.sock")
        self.private = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.private.setblocking(False)
        self.private.bind(self.path)
        self.private.listen()
        self.leads = True

    async def start(self) -> None:
        config = Config(port=0, control_socket=str(self.folder / "control.sock"))
        self.node = Node(config, asyncio.get_running_loop(), LogBook())
        self.node.inherited = {FORWARDED: os.dup(self.private.fileno())}
        await self.node.start()
        self.leader, self.follower = End("a"), End("b")
        self.leader.links.on_forward = self._forwarded
        self.address = await self.leader.listen()
        self.port = open_socket("127.0.0.1", 0)
        reach = Reach(self.follower.links, self._leader, lambda: self.path, nothing_seen)
        self.forwarder = Forwarder(
            [(self.port, False)], Config(connections_max=self.clients_max), reach, LogBook()
        )
        self.forwarder.open()

    def _leader(self) -> Where | None:
        return Where("a", self.address, 1) if self.leads else None

    async def _forwarded(self, hello: Hello, link: LinkConnection) -> None:
        self.asked += 1
        if not self.is_ready:
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
            await asyncio.sleep(0.1)
            self.at_once -= 1
            raise LinkFault("has no broker yet")
        if not self.leads:
            raise LinkFault("does not lead")
        await deliver(hello, link, self.path)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port.getsockname()[1])

    async def close(self) -> None:
        await self.forwarder.close()
        await self.leader.links.close()
        await self.follower.links.close()
        await self.node.stop()
        self.port.close()
        self.private.close()


async def test_the_broker_sees_the_client_and_not_the_node(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.start()
    reader, writer = await place.connect()
    own = writer.get_extra_info("sockname")
    writer.write(HEADER)
    async with asyncio.timeout(60):
        assert (await reader.readexactly(1)) == b"\x01"
    names = list(place.node.broker.connections)
    assert [f"127.0.0.1:{own[1]}" in name for name in names] == [True], names
    writer.close()
    await until(lambda: not place.node.broker.connections and not place.forwarder.clients)
    await place.close()


async def test_a_client_waits_for_a_leader_and_no_more_than_may_come(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.start()
    place.leads = False
    reader, writer = await place.connect()
    writer.write(HEADER)
    await until(lambda: len(place.forwarder.clients) == 1)
    assert not place.node.broker.connections
    other, third = await place.connect(), await place.connect()
    await until(lambda: place.forwarder.refused == 1)
    place.leads = True
    async with asyncio.timeout(60):
        assert (await reader.readexactly(1)) == b"\x01"
    for one in (writer, other[1], third[1]):
        one.close()
    await place.close()


async def test_one_client_asks_whether_there_is_a_broker_yet(tmp_path: Path) -> None:
    place = Place(tmp_path, 20)
    await place.start()
    place.is_ready = False
    clients = [await place.connect() for _ in range(20)]
    for _, writer in clients:
        writer.write(HEADER)
    await until(lambda: place.asked >= 5)
    assert place.most_at_once == 1
    place.is_ready = True
    async with asyncio.timeout(60):
        for reader, writer in clients:
            assert (await reader.readexactly(1)) == b"\x01"
            writer.close()
    await place.close()


async def test_a_client_that_has_said_all_still_hears_the_rest(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.start()
    reader, writer = await place.connect()
    # What is no AMQP is answered with the version that is spoken, and closed.
    writer.write(b"HTTP/1.1")
    writer.write_eof()
    async with asyncio.timeout(60):
        assert await reader.read() == HEADER
    writer.close()
    await place.close()


async def test_the_line_is_no_more_than_junk_at_a_public_port(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.start()
    assert place.node.listener is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", place.node.listener.port)
    writer.write(header_of("10.9.8.7", 5) + HEADER)
    async with asyncio.timeout(60):
        assert await reader.read() == HEADER
    assert not any("10.9.8.7" in name for name in place.node.broker.connections)
    writer.close()
    await place.close()


async def test_whoever_sends_no_line_to_the_private_socket_is_closed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.start()
    reader, writer = await asyncio.open_unix_connection(place.path)
    writer.write(HEADER)
    async with asyncio.timeout(60):
        # What it has sent was not read, which the system calls a reset.
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    assert not place.node.broker.connections
    writer.close()
    await place.close()


class Leaders:
    """Brokers of which one leads, all at this node, and a client's way to it."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder = folder
        self.config = config
        self.nodes: list[Node] = []
        self.private: list[socket.socket] = []
        self.leading = -1
        self.port = open_socket("127.0.0.1", 0)
        links = End("b").links
        reach = Reach(links, self._place, self._path, nothing_seen)
        is_tls = config.tls_cert != ""
        self.forwarder = Forwarder([(self.port, is_tls)], config, reach, LogBook())

    def _path(self) -> str:
        return str(self.folder / f"{self.leading}.sock")

    def _place(self) -> Where | None:
        return Where("b", "", self.leading, is_here=True) if self.leading >= 0 else None

    async def start(self) -> None:
        """One more broker."""
        number = len(self.nodes)
        private = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        private.setblocking(False)
        private.bind(str(self.folder / f"{number}.sock"))
        private.listen()
        control = str(self.folder / f"{number}-control.sock")
        node = Node(
            replace(self.config, control_socket=control), asyncio.get_running_loop(), LogBook()
        )
        node.inherited = {FORWARDED: os.dup(private.fileno())}
        await node.start()
        self.nodes.append(node)
        self.private.append(private)

    async def connect(self) -> Wire:
        self.forwarder.open()
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port.getsockname()[1]))
        await wire.open()
        return wire

    def names(self, number: int) -> list[str]:
        return list(self.nodes[number].broker.connections)

    async def close(self) -> None:
        await self.forwarder.close()
        for node, private in zip(self.nodes, self.private, strict=True):
            await node.stop()
            private.close()
        self.port.close()


async def ask(leaders: Leaders, leading: int) -> list[dict[str, object]]:
    """Its connections, as operators see them."""
    path = str(leaders.folder / f"{leading}-control.sock")
    answer = await asyncio.to_thread(
        control_client.ask, path, {"op": "objects", "do": "connections"}
    )
    rows = answer["items"]
    assert isinstance(rows, list)
    return rows


@asynccontextmanager
async def two_leaders(folder: Path, **settings: object) -> AsyncIterator[Leaders]:
    config = Config(port=0, **settings)  # type: ignore[arg-type]  # fields of Config
    made = Leaders(folder, config)
    await made.start()
    await made.start()
    made.leading = 0
    try:
        yield made
    finally:
        await made.close()


async def test_a_client_goes_on_with_the_next_leader(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        wire = await leaders.connect()
        own = wire.writer.get_extra_info("sockname")
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        leaders.leading = 1
        # Whoever led stands still: it says nothing, and is left.
        leaders.forwarder.look()
        wire.say(1, m.QueueDeclare("q", passive=True))
        assert (await wire.expect(m.QueueDeclareOk)).queue == "q"
        assert [f"127.0.0.1:{own[1]}" in name for name in leaders.names(1)] == [True]
        await until(lambda: not leaders.names(0))
        assert leaders.forwarder.reach.went_on == 1
        await wire.close()


class Late(Shards):
    """Where a virtual host is led, which is not known here at first."""

    def __init__(self, login: Reach, home: Reach) -> None:
        self.login = login
        self.home = home
        self.is_known = False

    def first(self) -> Reach:
        return self.login

    def of(self, vhost: str) -> Reach | None:
        return self.home if self.is_known else None

    def reaches(self) -> list[Reach]:
        return [self.login, self.home]


async def test_a_client_of_a_new_virtual_host_goes_on_where_that_is_led(tmp_path: Path) -> None:
    """The broker that heard the login has handed it on. The log of its shard knows none of the
    client's publishes, so they must not be asked for there."""
    async with two_leaders(tmp_path) as leaders:
        await leaders.start()
        reach = leaders.forwarder.reach
        home = Reach(
            reach.links,
            lambda: Where("b", "", 1, is_here=True, shard=1),
            lambda: str(tmp_path / "1.sock"),
            nothing_seen,
        )
        shards = leaders.forwarder.shards = Late(reach, home)
        wire = await leaders.connect()
        shards.is_known = True
        leaders.leading = 2
        leaders.forwarder.look()
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        assert leaders.names(1) and not leaders.names(2)
        await wire.close()


async def handed(leaders: Leaders) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that another broker has heard up to connection.open."""
    login = method_frame(0, m.ConnectionStartOk(Table(), "PLAIN", b"\0guest\0guest", "en_US"))
    record = Handover(
        *("127.0.0.1", "127.0.0.1:5", None, "PLAIN", "guest", False, "", b"\0\0\0\0", ()),
        *(2047, 131_072, 1, method_frame(0, m.ConnectionOpen("/")), login),
    )
    client, theirs = socket.socketpair()
    client.setblocking(False)
    theirs.setblocking(False)
    assert leaders.forwarder.take_handed(theirs, record, leaders.forwarder.reach)
    return await asyncio.open_connection(sock=client)


async def test_a_client_that_waits_for_its_virtual_host_is_told_why_no_more(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        leaders.leading = -1
        reader, writer = await handed(leaders)
        # Once it waits.
        await asyncio.sleep(0.2)
        await leaders.forwarder.close()
        async with asyncio.timeout(60):
            said = (await reader.read()).replace(HEARTBEAT_FRAME, b"")
        assert said == method_frame(0, m.ConnectionClose(320, SHUTDOWN_TEXT, 0, 0))
        writer.close()


async def test_a_client_that_was_handed_over_hears_of_life_while_nobody_leads(
    tmp_path: Path,
) -> None:
    async with two_leaders(tmp_path) as leaders:
        leaders.leading = -1
        reader, writer = await handed(leaders)
        async with asyncio.timeout(60):
            assert await reader.readexactly(len(HEARTBEAT_FRAME)) == HEARTBEAT_FRAME
            leaders.leading = 0
            said = await reader.readuntil(method_frame(0, m.ConnectionOpenOk()))
        assert not said.replace(HEARTBEAT_FRAME, b"").removesuffix(
            method_frame(0, m.ConnectionOpenOk())
        )
        writer.close()


async def test_a_broker_that_is_stopped_in_order_is_not_noticed(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        wire = await leaders.connect()
        stop = asyncio.create_task(leaders.nodes[0].stop())
        await asyncio.sleep(0.1)
        leaders.leading = 1
        leaders.forwarder.look()
        wire.say(1, m.QueueDeclare("q", durable=True))
        await wire.expect(m.QueueDeclareOk)
        await stop
        assert "q" in leaders.nodes[1].broker.vhosts["/"].queues
        await wire.close()


async def test_a_broker_that_leads_on_and_ends_a_client_means_it(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        wire = await leaders.connect()
        for connection in list(leaders.nodes[0].broker.connections.values()):
            connection.shell.close_after_output()
            connection.output.mark()
        assert await wire.rest() == b""
        assert leaders.forwarder.reach.went_on == 0
        await wire.close()


async def test_a_client_that_is_gone_is_not_kept(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        wire = await leaders.connect()
        wire.writer.transport.abort()
        await until(lambda: not leaders.names(0) and not leaders.forwarder.clients)
        assert leaders.forwarder.budget.used == 0


async def test_heartbeats_go_on_while_nobody_leads(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        leaders.forwarder.open()
        address = ("127.0.0.1", leaders.port.getsockname()[1])
        wire = Wire(*await asyncio.open_connection(*address))
        await wire.open(heartbeat_s=1)
        leaders.leading = -1
        for client in leaders.forwarder.clients.values():
            assert client.upstream is not None
            client.upstream.abort()
        await asyncio.sleep(1.3)
        leaders.leading = 1
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        assert wire.heartbeats >= 2
        await wire.close()


async def test_a_node_that_stops_says_so(tmp_path: Path) -> None:
    async with two_leaders(tmp_path) as leaders:
        wire = await leaders.connect()
        await leaders.forwarder.close()
        assert (await wire.expect(m.ConnectionClose)).reply_code == 320
        assert await wire.rest() == b""
        await wire.close()


async def test_tls_ends_at_the_node_and_its_user_is_known_to_each_leader(
    tmp_path: Path,
) -> None:
    shelf = fill(tmp_path)
    async with two_leaders(tmp_path, **settings(shelf, "require")) as leaders:
        leaders.forwarder.open()
        address = ("127.0.0.1", leaders.port.getsockname()[1])
        context = trusting(shelf, "app")
        wire = Wire(
            *await asyncio.open_connection(*address, ssl=context, server_hostname="localhost")
        )
        wire.writer.write(HEADER)
        await wire.expect(m.ConnectionStart)
        wire.say(0, m.ConnectionStartOk(Table(), "EXTERNAL", b"", "en_US"))
        await wire.expect(m.ConnectionTune)
        wire.say(0, m.ConnectionTuneOk(2047, 131_072, 0), m.ConnectionOpen("/"))
        await wire.expect(m.ConnectionOpenOk)
        wire.say(1, m.ChannelOpen())
        await wire.expect(m.ChannelOpenOk)
        for leading in (0, 1):
            leaders.leading = leading
            leaders.forwarder.look()
            for size in (1, 70_000, 3_000_000):
                await echo(wire, b"x" * size)
            (row,) = await ask(leaders, leading)
            assert (row["user"], row["ssl"], row["peer_cert_subject"]) == ("app", True, "CN=app")
        await wire.close()


async def test_who_shows_no_certificate_is_refused_by_the_node(tmp_path: Path) -> None:
    shelf = fill(tmp_path)
    async with two_leaders(tmp_path, **settings(shelf, "require")) as leaders:
        leaders.forwarder.open()
        address = ("127.0.0.1", leaders.port.getsockname()[1])
        with pytest.raises((OSError, EOFError)):
            reader, writer = await asyncio.open_connection(
                *address, ssl=trusting(shelf), server_hostname="localhost"
            )
            writer.write(HEADER)
            try:
                await reader.readexactly(1)
            finally:
                writer.close()
        assert not leaders.names(0)
