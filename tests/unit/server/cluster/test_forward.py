"""Clients of a node that does not lead are handed on with their own address."""

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.base.config import Config
from penstock.server.boot.node import FORWARDED, Node
from penstock.server.cluster.forward import Forwarder, deliver
from penstock.server.cluster.link_frames import Hello, LinkFault
from penstock.server.cluster.link_io import LinkConnection
from penstock.server.net.listener import open_socket
from penstock.server.net.proxy_header import HeaderFault, header_of, read_header
from tests.unit.broker.peer import LogBook
from tests.unit.server.cluster.test_links import End
from tests.unit.server.wire import until

HEADER = b"AMQP\x00\x00\x09\x01"


@pytest.mark.parametrize(("host", "port"), [("192.0.2.7", 1), ("::1", 65_535), ("fe80::1%eth0", 7)])
def test_a_header_says_what_it_was_made_of(host: str, port: int) -> None:
    line = header_of(host, port)
    assert len(line) <= 107
    assert read_header(line + HEADER) == (host.partition("%")[0], port, len(line))
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
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(HeaderFault):
        read_header(data)


class Place:
    """A broker with a private socket, the leader's links, and a follower that forwards to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
        self.forwarder = Forwarder(self.follower.links, [(self.port, False)], 2, self._leader)
        self.forwarder.open()

    def _leader(self) -> tuple[str, str]:
        return ("a", self.address) if self.leads else ("", "")

    async def _forwarded(self, hello: Hello, link: LinkConnection) -> None:
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
