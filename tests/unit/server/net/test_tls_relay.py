"""Clients by TLS whose virtual host another process has: their TLS stays, and all else goes."""

import asyncio
import gc
import random
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.base.config import UserConfig
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import method_frame
from penstock.server.boot.node import Node
from penstock.server.net.sockets import SocketShell
from penstock.server.net.tls import TlsSession
from penstock.server.net.tls_relay import TlsRelay
from tests.patience import PATIENCE_S
from tests.unit.server.handover_bed import (
    HERE,
    THERE,
    content,
    greeted,
    handover_of,
    let_guess,
    open_at,
    open_files,
    opening,
    publish,
    two,
)
from tests.unit.server.net.test_handover import echo, nothing_is_left
from tests.unit.server.net.test_tls import connect, settings, shelf, trusting
from tests.unit.server.wire import Wire, book_of, until

__all__ = ["shelf"]
MB = 1_048_576
EMPTY = UserConfig("guest", "guest", True)


async def opened(node: Node, context: ssl.SSLContext) -> Wire:
    wire = await connect(node, context)
    await open_at(wire)
    return wire


def limited(shelf: Path, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = trusting(shelf)
    context.minimum_version = context.maximum_version = version
    return context


def ended(*nodes: Node) -> bool:
    return nothing_is_left(*nodes) and not any(handover_of(node).relays for node in nodes)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_is_served_where_its_virtual_host_is(
    tmp_path: Path, shelf: Path, version: ssl.TLSVersion
) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        before = open_files()
        wire = await opened(first, limited(shelf, version))
        assert not first.broker.connections and len(handover_of(first).relays) == 1
        (negotiator,) = second.broker.negotiators.values()
        assert negotiator.tls_peer is not None
        assert negotiator.tls_peer.version == version.name.replace("v1_", "v1.")
        assert negotiator.tls_peer.cipher == wire.writer.get_extra_info("cipher")[0]
        for size in (1, 16_384, 3 * MB):
            await one_way_and_back(wire, bytes(range(256)) * (size // 256 + 1))
        wire.say(0, m.ConnectionClose(200, "", 0, 0))
        await wire.expect(m.ConnectionCloseOk)
        assert await wire.rest() == b""
        await wire.close()
        await until(lambda: ended(first, second))
        await until(lambda: open_files() <= before)


async def test_the_next_client_of_a_host_needs_no_relay(tmp_path: Path, shelf: Path) -> None:
    """Its socket goes on before a byte of it is read."""
    async with two(tmp_path, **settings(shelf)) as (first, second):
        let_guess(first, second)
        before = open_files()
        relayed = await opened(first, trusting(shelf))
        wires = [await opened(first, trusting(shelf)) for _ in range(3)]
        assert len(handover_of(first).relays) == 1
        assert len(second.broker.connections) == 4
        direct = second.tls_listener
        assert direct is not None and len(direct.shells) == 3
        for wire in (relayed, *wires):
            await one_way_and_back(wire, b"x" * 1_000)
        # One that wants something else than those before is relayed back.
        other = await connect(first, trusting(shelf))
        await open_at(other, HERE)
        assert len(first.broker.connections) == 1 and len(handover_of(second).relays) == 1
        await one_way_and_back(other, b"y" * 1_000)
        for wire in (relayed, other, *wires):
            await wire.close()
        await until(lambda: ended(first, second))
        await until(lambda: open_files() <= before)


async def test_clients_of_a_host_that_want_what_is_here_stay_here(
    tmp_path: Path, shelf: Path
) -> None:
    """Though one before them wanted what is there: a single one is relayed back, and not all."""
    async with two(tmp_path, **settings(shelf)) as (first, second):
        let_guess(first, second)
        there = await opened(first, trusting(shelf))
        wires = []
        for _ in range(4):
            wires.append(await connect(first, trusting(shelf)))
            await open_at(wires[-1], HERE)
        assert len(first.broker.connections) == 4
        assert len(handover_of(second).relays) == 1
        # And one that has come to where it is served says so, too.
        homes = handover_of(second).homes
        homes.told("127.0.0.1", 0, second.loop.time())
        late = await connect(second, trusting(shelf))
        await open_at(late, THERE)
        assert homes.of("127.0.0.1", second.loop.time()) == -1
        for wire in (there, late, *wires):
            await wire.close()
        await until(lambda: ended(first, second))


async def test_a_worker_that_takes_nothing_holds_no_new_client(tmp_path: Path, shelf: Path) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        let_guess(first, second)
        handover = handover_of(first)
        handover.homes.told("127.0.0.1", 1, handover._loop.time())
        (way,) = handover._ways.values()
        way.is_full = True
        wire = await connect(first, trusting(shelf))
        await open_at(wire, HERE)
        assert len(first.broker.connections) == 1 and not second.broker.connections
        way.is_full = False
        await wire.close()


async def one_way_and_back(wire: Wire, body: bytes) -> None:
    """Written and read at the same time: neither end keeps all of it."""
    wire.say(1, m.QueueDeclare("q"))
    await wire.expect(m.QueueDeclareOk)
    wire.writer.write(publish("q", body))
    wire.say(1, m.BasicGet("q", no_ack=True))
    await wire.expect(m.BasicGetOk)
    assert await content(wire) == body


async def test_all_may_come_right_behind_the_handshake(tmp_path: Path, shelf: Path) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        wire = await connect(first, trusting(shelf))
        wire.writer.write(opening(THERE))
        await greeted(wire)
        await wire.expect(m.ConnectionOpenOk)
        await wire.expect(m.ChannelOpenOk)
        await echo(wire, b"x" * 100_000)
        await wire.close()
        await until(lambda: ended(first, second))


async def test_a_certificate_is_the_user_there_too(tmp_path: Path, shelf: Path) -> None:
    async with two(tmp_path, **settings(shelf, "require")) as (first, second):
        wire = await connect(first, trusting(shelf, "app"))
        wire.writer.write(PROTOCOL_HEADER)
        await wire.expect(m.ConnectionStart)
        wire.say(0, m.ConnectionStartOk({}, "EXTERNAL", b"", "en_US"))
        await wire.expect(m.ConnectionTune)
        wire.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen(THERE))
        await wire.expect(m.ConnectionOpenOk)
        (negotiator,) = second.broker.negotiators.values()
        assert negotiator.session is not None and negotiator.session.user == "app"
        assert negotiator.mechanism == "EXTERNAL"
        assert negotiator.tls_peer is not None and negotiator.tls_peer.subject == "CN=app"
        await wire.close()
        await until(lambda: ended(first, second))


async def test_a_client_of_megabytes_does_not_hold_one_of_bytes(
    tmp_path: Path, shelf: Path
) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        large, small = await opened(first, trusting(shelf)), await opened(first, trusting(shelf))
        large.say(1, m.QueueDeclare("large"))
        await large.expect(m.QueueDeclareOk)
        small.say(1, m.QueueDeclare("small"))
        await small.expect(m.QueueDeclareOk)
        body, waits = b"l" * MB, []

        async def pump() -> None:
            while True:
                large.writer.write(publish("large", body))
                large.say(1, m.BasicGet("large", no_ack=True))
                await large.expect(m.BasicGetOk)
                assert await content(large) == body

        pumping = asyncio.create_task(pump())
        for _ in range(20):
            began_s = time.monotonic()
            small.writer.write(publish("small", b"s"))
            small.say(1, m.BasicGet("small", no_ack=True))
            await small.expect(m.BasicGetOk)
            assert await content(small) == b"s"
            waits.append(time.monotonic() - began_s)
        pumping.cancel()
        with suppress(asyncio.CancelledError):
            await pumping
        assert sorted(waits)[10] < 0.5, "the client of the test is in the same loop"
        await large.close()
        await small.close()
        await until(lambda: ended(first, second))


async def test_a_client_that_reads_nothing_is_not_read_for(tmp_path: Path, shelf: Path) -> None:
    """What waits for it waits at the other process, where it is counted."""
    async with two(tmp_path, **settings(shelf)) as (first, second):
        wire = await opened(first, trusting(shelf))
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        pause(wire)
        body = b"x" * MB
        for _ in range(12):
            wire.writer.write(publish("q", body))
            wire.say(1, m.BasicGet("q", no_ack=True))
        await until(lambda: any(one.output.held_bytes > MB for one in shells(second)))
        (relay,) = handover_of(first).relays
        assert len(relay._client.data) < 100_000
        pause(wire, False)
        for _ in range(12):
            await wire.expect(m.BasicGetOk)
            assert await content(wire) == body
        await wire.close()
        await until(lambda: ended(first, second))


def pause(wire: Wire, is_paused: bool = True) -> None:
    """The client reads nothing from its socket, or goes on."""
    transport = wire.writer.transport
    assert isinstance(transport, asyncio.Transport)
    if is_paused:
        transport.pause_reading()
    else:
        transport.resume_reading()


def shells(node: Node) -> list[SocketShell]:
    return [shell for listener in node.listeners for shell in listener.shells]


async def test_a_broker_that_reads_nothing_is_not_written_for(tmp_path: Path, shelf: Path) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        wire = await opened(first, trusting(shelf))
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        (connection,) = second.broker.connections.values()
        connection.gate.close("test", "test")
        for _ in range(20):
            wire.writer.write(publish("q", b"x" * MB))
        (relay,) = handover_of(first).relays
        await until(lambda: relay._pair.data)
        await asyncio.sleep(0.3)
        assert len(relay._pair.data) < 100_000
        assert connection.parser.unread_bytes() < 200_000
        connection.gate.open("test", "test")
        second.poller.request()
        wire.say(1, m.QueueDeclare("last"))
        await wire.expect(m.QueueDeclareOk)
        assert second.broker.vhosts[THERE].queues["q"].messages.ready_count() == 20
        await wire.close()
        await until(lambda: ended(first, second))


@pytest.mark.parametrize("way", ["abort", "close"])
async def test_a_client_that_goes_is_gone_there(tmp_path: Path, shelf: Path, way: str) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        before = open_files()
        wire = await opened(first, trusting(shelf))
        if way == "abort":
            wire.writer.transport.abort()
        else:
            await wire.close()
        await until(lambda: ended(first, second))
        assert any("its socket ended without" in line for line in book_of(second).lines)
        await until(lambda: open_files() <= before)


async def test_a_broker_that_cuts_a_client_is_heard_to_its_last_word(
    tmp_path: Path, shelf: Path
) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        before = open_files()
        wire = await opened(first, trusting(shelf))
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        pause(wire)
        body = b"x" * (MB // 2)
        wire.writer.write(publish("q", body))
        wire.say(1, m.BasicGet("q", no_ack=True), m.ChannelOpen())
        await until(lambda: any("closing: 504" in line for line in book_of(second).lines))
        pause(wire, False)
        await wire.expect(m.BasicGetOk)
        assert await content(wire) == body
        assert (await wire.expect(m.ConnectionClose)).reply_code == 504
        wire.say(0, m.ConnectionCloseOk())
        assert await wire.rest() == b""
        await wire.close()
        await until(lambda: ended(first, second))
        await until(lambda: open_files() <= before)


async def test_one_who_takes_nothing_of_the_last_words_is_not_waited_for(
    tmp_path: Path, shelf: Path
) -> None:
    async with two(tmp_path, handshake_ms=1000, **settings(shelf)) as (first, second):
        before = open_files()
        wire = await opened(first, trusting(shelf))
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        pause(wire)
        for _ in range(8):
            wire.writer.write(publish("q", b"x" * MB))
            wire.say(1, m.BasicGet("q", no_ack=True))
        await until(lambda: any(one.output.held_bytes > MB for one in shells(second)))
        for shell in shells(second):
            shell.close()
        await until(lambda: ended(first, second))
        wire.writer.transport.abort()
        await until(lambda: open_files() <= before)


async def test_no_tls_in_the_middle_is_said(tmp_path: Path, shelf: Path) -> None:
    async with two(tmp_path, **settings(shelf)) as (first, second):
        wire = await opened(first, trusting(shelf))
        fd = wire.writer.get_extra_info("socket").dup()
        fd.send(b"no TLS at all, " * 10)
        await until(lambda: ended(first, second))
        assert any("TLS: " in line and "closed" in line for line in book_of(first).lines)
        fd.close()
        wire.writer.transport.abort()


@pytest.mark.parametrize("vhost", [HERE, THERE])
async def test_one_who_says_all_and_ends_hears_the_answers(
    tmp_path: Path, shelf: Path, vhost: str
) -> None:
    """His close_notify comes in one piece with all that he says."""
    async with two(tmp_path, **settings(shelf)) as (first, second):
        before = open_files()
        loop = asyncio.get_running_loop()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = trusting(shelf).wrap_bio(incoming, outgoing, server_hostname="localhost")
        assert first.tls_listener is not None
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", first.tls_listener.port))
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await loop.sock_sendall(sock, outgoing.read())
                    incoming.write(await loop.sock_recv(sock, 65_536))
            session.write(opening(vhost) + method_frame(1, m.QueueDeclare("q")))
            with suppress(ssl.SSLWantReadError):
                session.unwrap()
            await loop.sock_sendall(sock, outgoing.read())
            while data := await asyncio.wait_for(loop.sock_recv(sock, 65_536), PATIENCE_S):
                incoming.write(data)
        heard = b""
        with suppress(ssl.SSLError):
            while part := session.read(65_536):
                heard += part
        assert heard.endswith(method_frame(1, m.QueueDeclareOk("q", 0, 0)))
        await until(lambda: ended(first, second))
        await until(lambda: open_files() <= before)


async def test_both_ways_at_once_in_pieces_of_any_size(tmp_path: Path, shelf: Path) -> None:
    """Whatever is full in between, nothing is lost and nothing is out of order."""
    chance = random.Random(7)
    async with two(tmp_path, **settings(shelf)) as (first, second):
        wire = await opened(first, trusting(shelf))
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        wire.say(1, m.BasicConsume("q", "reader", no_ack=True))
        await wire.expect(m.BasicConsumeOk)
        bodies = [
            chance.randbytes(chance.choice((0, 1, 900, 16_384, 70_000, 300_000)))
            for _ in range(150)
        ]

        async def write() -> None:
            for body in bodies:
                data = publish("q", body)
                cut = chance.randrange(len(data))
                wire.writer.write(data[:cut])
                await asyncio.sleep(0)
                wire.writer.write(data[cut:])
                await wire.writer.drain()

        writing = asyncio.create_task(write())
        for body in bodies:
            await wire.expect(m.BasicDeliver)
            assert await content(wire) == body
            if chance.random() < 0.1:
                await asyncio.sleep(0.01)
        await writing
        await wire.close()
        await until(lambda: ended(first, second))


async def test_a_relay_is_freed_without_the_collector(tmp_path: Path, shelf: Path) -> None:
    """Which looks at all there is, and comes late."""
    async with two(tmp_path, **settings(shelf)) as (first, second):
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                wire = await opened(first, trusting(shelf))
                wire.writer.transport.abort()
                await until(lambda: ended(first, second))
            kinds = (TlsRelay, TlsSession, SocketShell)
            assert [one for one in gc.get_objects() if isinstance(one, kinds)] == []
        finally:
            gc.enable()
