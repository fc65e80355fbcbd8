"""Clients whose virtual host another process has: they do not notice, whatever they do."""

import asyncio
import os
import resource
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.base.config import EntryLimits, UserConfig
from penstock.base.limits import Limit
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from penstock.server.boot.node import Node
from penstock.server.net import handover_socket
from penstock.server.net.handover_messages import handover_pair, send_operator
from penstock.server.net.token_checker import JwtChecker
from tests.unit.broker.peer import LogBook, start_ok
from tests.unit.server.handover_bed import (
    HERE,
    MISSING,
    THERE,
    content,
    greeted,
    handover_of,
    of_second,
    open_files,
    opened,
    opening,
    publish,
    two,
)
from tests.unit.server.net.test_token_checker import SECRET, token
from tests.unit.server.wire import Wire, book_of, until

GUEST = UserConfig("guest", "guest", True)
OTHER = UserConfig("other", "other")


async def echo(wire: Wire, body: bytes) -> None:
    """`body` there and back, confirmed."""
    wire.say(1, m.ConfirmSelect())
    await wire.expect(m.ConfirmSelectOk)
    wire.say(1, m.QueueDeclare(exclusive=True))
    queue = (await wire.expect(m.QueueDeclareOk)).queue
    wire.say(1, m.BasicConsume(queue, "reader", no_ack=True))
    await wire.expect(m.BasicConsumeOk)
    wire.writer.write(publish(queue, body))
    await wire.expect(m.BasicDeliver)
    assert await content(wire) == body
    await wire.expect(m.BasicAck)


def nothing_is_left(*nodes: Node) -> bool:
    """Whether no node knows of a client."""
    return all(
        not node.broker.connections
        and not node.broker.negotiators
        and not node.broker.guessing.strangers
        and all(not listener.shells for listener in node.listeners)
        for node in nodes
    )


async def test_a_client_is_served_where_its_virtual_host_is(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        before = open_files()
        there, here = await opened(first), await opened(first, HERE)
        await until(lambda: len(first.broker.connections) == 1)
        (connection,) = second.broker.connections.values()
        address = "127.0.0.1:{}".format(there.writer.get_extra_info("sockname")[1])
        assert connection.name == address
        negotiator = second.broker.negotiators[address]
        assert negotiator.shown() == f"{address} (tested)"
        assert negotiator.peer_host == "127.0.0.1" and negotiator.mechanism == "PLAIN"
        assert negotiator.tuning.channel_max == 2047 and negotiator.tuning.heartbeat_s == 0
        assert negotiator.session is not None and negotiator.session.user == "guest"
        assert "basic.nack" not in negotiator.capabilities
        assert "connection.blocked" in negotiator.capabilities
        await echo(there, b"x" * 200_000)
        await echo(here, b"y")
        assert first.broker.counts.connections_opened == 1
        assert second.broker.counts.connections_opened == 1
        assert (handover_of(first).given, handover_of(second).taken) == (1, 1)
        await there.close()
        await here.close()
        await until(lambda: nothing_is_left(first, second))
        assert first.broker.counts.connections_closed == 1
        assert second.broker.counts.connections_closed == 1
        assert not [line for line in book_of(first).lines if address in line]
        await until(lambda: open_files() <= before)


async def test_all_may_come_in_one_piece(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        wire = await Wire.connect(first)
        wire.writer.write(
            opening(THERE)
            + method_frame(1, m.QueueDeclare("q"))
            + publish("q", b"z" * 300_000)
            + method_frame(1, m.BasicGet("q", no_ack=True))
        )
        await greeted(wire)
        await wire.expect(m.ConnectionOpenOk)
        await wire.expect(m.ChannelOpenOk)
        await wire.expect(m.QueueDeclareOk)
        await wire.expect(m.BasicGetOk)
        assert await content(wire) == b"z" * 300_000
        await wire.close()
        await until(lambda: nothing_is_left(first, second))


async def test_it_may_come_byte_by_byte(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        wire = await Wire.connect(first)
        sock = wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in opening(THERE):
            wire.writer.write(bytes((byte,)))
            await asyncio.sleep(0.0005)
        await greeted(wire)
        await wire.expect(m.ConnectionOpenOk)
        await wire.expect(m.ChannelOpenOk)
        await echo(wire, b"x")
        assert len(second.broker.connections) == 1
        await wire.close()


@pytest.mark.parametrize(
    ("vhost", "user", "text"),
    [
        (MISSING, "guest", "vhost missing not found"),
        ("nowhere", "guest", "vhost nowhere not found"),
        (THERE, "other", "access to vhost 'there' refused for user 'other'"),
        (THERE, "guest", "connection refused for user 'guest': user connection limit (0)"),
    ],
)
async def test_it_is_refused_as_anywhere(tmp_path: Path, vhost: str, user: str, text: str) -> None:
    limits = (EntryLimits("user", "guest", {"max-connections": 0}),)
    limited = limits if "limit" in text else ()
    async with two(tmp_path, users=(GUEST, OTHER), user_limits=limited) as (first, second):
        second.broker.permissions.clear("other", THERE)
        wire = await Wire.connect(first)
        wire.writer.write(opening(vhost, user=user))
        await greeted(wire)
        close = await wire.expect(m.ConnectionClose)
        assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)
        assert text in close.reply_text
        assert await wire.rest() == b""
        assert handover_of(first).given == (0 if vhost == "nowhere" else 1)
        assert handover_of(second).given == 0, "it is not handed on"
        await wire.close()
        await until(lambda: nothing_is_left(first, second))


async def test_two_hundred_at_once(tmp_path: Path) -> None:
    async with two(tmp_path, handshake_ms=60_000) as (first, second):
        before = open_files()
        wires = await asyncio.gather(*(opened(first) for _ in range(200)))
        assert len(second.broker.connections) == 200 and not first.broker.connections
        await asyncio.gather(*(echo(wire, b"x" * 1000) for wire in wires[::10]))
        await asyncio.gather(*(wire.close() for wire in wires))
        await until(lambda: nothing_is_left(first, second))
        assert first.broker.connection_count == 200
        await until(lambda: open_files() <= before)


async def crowd(first: Node, second: Node, count: int) -> list[Wire]:
    """So many clients for a node that takes nothing, of which some have to wait at the first."""
    handover = handover_of(first)
    (way,) = handover._ways.values()
    way.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    handover_of(second).stop()
    wires = [await Wire.connect(first) for _ in range(count)]
    for wire in wires:
        wire.writer.write(opening(THERE))
    await until(lambda: handover.given + len(way.waiting) == count)
    assert 1 < handover.given < count - 10
    return wires


async def test_what_a_process_does_not_take_waits_in_order(tmp_path: Path) -> None:
    async with two(tmp_path, handshake_ms=60_000) as (first, second):
        before = open_files()
        wires = await crowd(first, second, 60)
        for wire in wires[::10]:
            wire.writer.transport.abort()
        assert second.listener is not None
        handover_of(second).listen(second.listener)
        for wire in wires:
            if not wire.writer.is_closing():
                await greeted(wire)
                await wire.expect(m.ConnectionOpenOk)
                await wire.expect(m.ChannelOpenOk)
        await until(lambda: len(second.broker.connections) == 54)
        assert nothing_is_left(first)
        for wire in wires:
            await wire.close()
        await until(lambda: nothing_is_left(first, second))
        await until(lambda: open_files() <= before)


async def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    async with two(tmp_path, handshake_ms=3000) as (first, second):
        wires = await crowd(first, second, 30)
        given = handover_of(first).given
        await until(lambda: not first.broker.connections)
        assert handover_of(first).refused == 30 - given
        (said,) = [line for line in book_of(first).lines if "cannot be handed over" in line]
        assert said.endswith("worker 1 did not take it within 3 s; closed")
        for wire in wires[given:]:
            await greeted(wire)
            assert await wire.rest() == b""
        for wire in wires:
            await wire.close()


async def test_so_many_wait_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        handover_socket, "HANDOVERS_WAITING", Limit(3, 1, 3, "clients", "", "", "closed")
    )
    async with two(tmp_path, handshake_ms=60_000) as (first, second):
        handover = handover_of(first)
        handover_of(second).stop()
        (way,) = handover._ways.values()
        way.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        wires = []
        while not handover.refused:
            wires.append(await Wire.connect(first))
            wires[-1].writer.write(opening(THERE))
            await greeted(wires[-1])
        assert len(way.waiting) == 3
        assert await wires[-1].rest() == b""
        (said,) = [line for line in book_of(first).lines if "cannot be handed over" in line]
        assert said.endswith("3 wait for worker 1 already; closed")
        for wire in wires:
            await wire.close()
        assert second.listener is not None
        handover_of(second).listen(second.listener)
        await until(lambda: nothing_is_left(first, second))


async def test_a_process_without_files_says_so(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        wire = await Wire.connect(first)
        whole = opening(THERE)
        begun = whole.index(method_frame(0, m.ConnectionOpen(THERE)))
        wire.writer.write(whole[:begun])
        await greeted(wire)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Also the number that the first one leaves is no good then.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            wire.writer.write(whole[begun:])
            await until(lambda: handover_of(second).refused)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await wire.rest() == b""
        assert any("raise the limit of open files" in line for line in book_of(second).lines)
        await wire.close()
        await until(lambda: nothing_is_left(first, second))


async def test_a_client_that_has_gone_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        before = open_files()
        handover_of(second).stop()
        for _ in range(20):
            wire = await Wire.connect(first)
            wire.writer.write(opening(THERE))
            await greeted(wire)
            wire.writer.transport.abort()
        await until(lambda: nothing_is_left(first))
        assert second.listener is not None
        handover_of(second).listen(second.listener)
        await until(lambda: handover_of(second).taken == 20)
        await until(lambda: nothing_is_left(first, second))
        await until(lambda: open_files() <= before)


async def test_heartbeats_go_on_after_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        wire = await opened(first, heartbeat_s=1)
        assert await wire.rest() != b"", "heartbeats came"
        assert any("missed heartbeats from client" in line for line in book_of(second).lines)
        await wire.close()
        await until(lambda: nothing_is_left(first, second))


async def test_a_login_that_takes_its_time_may_have_everything_behind_it(tmp_path: Path) -> None:
    """What was said while the password was being checked goes along."""
    async with two(tmp_path) as (first, second):
        wire = await Wire.connect(first)
        held: list[tuple[Any, ...]] = []
        access = first.broker.access
        judge = access.judge
        first.broker.host.access = _Slow(held)  # type: ignore[assignment]
        wire.writer.write(opening(THERE) + method_frame(1, m.QueueDeclare("q"))[:-3])
        await wire.expect(m.ConnectionStart)
        await until(lambda: held)
        await asyncio.sleep(0.05)
        judge(*held[0])
        first.poller.request()
        await wire.expect(m.ConnectionTune)
        await wire.expect(m.ConnectionOpenOk)
        await wire.expect(m.ChannelOpenOk)
        wire.writer.write(method_frame(1, m.QueueDeclare("q"))[-3:])
        assert (await wire.expect(m.QueueDeclareOk)).queue == "q"
        assert second.broker.vhosts[THERE].queues.keys() == {"q"}
        await wire.close()


class _Slow:
    """Where passwords are checked once the test says so."""

    def __init__(self, held: list[tuple[Any, ...]]) -> None:
        self.held = held

    def judge(self, *asked: Any) -> None:
        self.held.append(asked)


async def test_what_is_no_message_harms_nobody(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        before = open_files()
        (way,) = handover_of(first)._ways.values()
        ours, theirs = socket.socketpair()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, theirs.fileno().to_bytes(4, "little"))]
        pipe = os.pipe()
        file = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pipe[0].to_bytes(4, "little"))]
        for data, with_it in (
            (b"", rights),
            (b"", []),
            (b"\x01", []),
            (b"\x01", rights),
            (b"\x01garbage", rights),
            (b"\x01" + os.urandom(90_000), rights),
            (b"\x02", rights),
            (b"\x03name", file),
            (b"\x09", rights),
            (b"\x01" + b"x" * 120_000, rights),
        ):
            way.sock.sendmsg([data], with_it)
        wire = await opened(first)
        assert handover_of(second).refused == 10
        await wire.close()
        for fd in pipe:
            os.close(fd)
        ours.close()
        theirs.close()
        await until(lambda: nothing_is_left(first, second))
        await until(lambda: open_files() <= before)


async def test_an_operator_may_be_handed_over(tmp_path: Path) -> None:
    """By the parent, and on to the process that has the virtual host."""
    async with two(tmp_path) as (first, second):
        (way,) = handover_of(second)._ways.values()
        for vhost, node in ((HERE, first), (THERE, second)):
            ours, theirs = socket.socketpair()
            assert send_operator(way.sock, theirs, "uid 7")
            theirs.close()
            wire = Wire(*await asyncio.open_connection(sock=ours))
            wire.writer.write(PROTOCOL_HEADER)
            await wire.expect(m.ConnectionStart)
            wire.say(0, m.ConnectionStartOk({}, "EXTERNAL", b"", "en_US"))
            await wire.expect(m.ConnectionTune)
            wire.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen(vhost))
            await wire.expect(m.ConnectionOpenOk)
            wire.say(1, m.ChannelOpen())
            await wire.expect(m.ChannelOpenOk)
            await echo(wire, b"x")
            (negotiator,) = node.broker.negotiators.values()
            assert negotiator.is_operator and negotiator.peer == "control"
            await wire.close()
            await until(lambda: nothing_is_left(first, second))


def test_a_full_socket_takes_no_operator() -> None:
    receive, send = handover_pair()
    ours, theirs = socket.socketpair()
    with receive, send, ours, theirs:
        taken = 0
        while send_operator(send, theirs, "uid 7"):
            taken += 1
        assert taken > 50


async def test_connections_max_holds_there_too(tmp_path: Path) -> None:
    async with two(tmp_path, connections_max=2) as (first, second):
        wires = [await opened(first) for _ in range(2)]
        third = await Wire.connect(first)
        third.writer.write(opening(THERE))
        await greeted(third)
        assert await third.rest() == b""
        assert second.listener is not None and second.listener.refused == 1
        for wire in (*wires, third):
            await wire.close()


async def test_bytes_that_are_too_many_for_a_message_go_in_a_file(tmp_path: Path) -> None:
    """Methods that came while the password was being checked, all together."""
    async with two(tmp_path) as (first, _):
        wire = await Wire.connect(first)
        held: list[tuple[Any, ...]] = []
        judge = first.broker.access.judge
        first.broker.host.access = _Slow(held)  # type: ignore[assignment]
        wire.writer.write(PROTOCOL_HEADER + method_frame(0, start_ok()))
        await wire.expect(m.ConnectionStart)
        wire.say(0, m.ConnectionTuneOk(2047, 131_072, 0), m.ConnectionOpen(THERE))
        wire.say(1, m.ChannelOpen())
        names = [f"q{number}" for number in range(55)]
        arguments: Table = {"x-note": "n" * 7900}
        for name in names:
            wire.say(1, m.QueueDeclare(name, arguments=arguments))
        await wire.writer.drain()
        await until(lambda: held)
        negotiator = next(iter(first.broker.negotiators.values()))
        await until(lambda: negotiator.deferred and len(negotiator.deferred) == 58)
        judge(*held[0])
        first.poller.request()
        await wire.expect(m.ConnectionTune)
        await wire.expect(m.ConnectionOpenOk)
        await wire.expect(m.ChannelOpenOk)
        for name in names:
            assert (await wire.expect(m.QueueDeclareOk)).queue == name
        await wire.close()


async def test_what_waits_for_a_process_that_has_died_is_taken_by_the_next(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        before = open_files()
        handover = handover_of(second)
        handover.stop()
        receive = handover._receive.dup()
        wires = [await Wire.connect(first) for _ in range(5)]
        for wire in wires:
            wire.writer.write(opening(THERE))
        await until(lambda: handover_of(first).given == 5)
        await second.stop()
        config = replace(second.config, control_socket=str(tmp_path / "next.sock"))
        following = Node(config, asyncio.get_running_loop(), LogBook())
        following.join(receive, {}, of_second)
        await following.start()
        for wire in wires:
            await greeted(wire)
            await wire.expect(m.ConnectionOpenOk)
            await wire.expect(m.ChannelOpenOk)
            await echo(wire, b"x")
            await wire.close()
        await until(lambda: nothing_is_left(first, following))
        await following.stop()
        assert open_files() < before


OAUTH = {"oauth_resource_server_id": "rs", "oauth_secret": SECRET}
ALL = "rs.configure:*/* rs.write:*/*/* rs.read:*/*/*"


async def by_token(node: Node, shown: str) -> Wire:
    wire = await Wire.connect(node)
    wire.writer.write(opening(THERE, user="any", password=shown))
    await greeted(wire)
    return wire


async def test_a_token_goes_along(tmp_path: Path) -> None:
    """Its rights, its next one, and its end."""
    async with two(tmp_path, JwtChecker, **OAUTH) as (first, second):
        wire = await by_token(first, token(scope=ALL, exp=time.time() + 600))
        await wire.expect(m.ConnectionOpenOk)
        await wire.expect(m.ChannelOpenOk)
        await echo(wire, b"x")
        (negotiator,) = second.broker.negotiators.values()
        assert negotiator.session is not None and negotiator.session.user == "bob"
        until_s = time.time() + 2
        wire.say(0, m.ConnectionUpdateSecret(token(scope=ALL, exp=until_s).encode(), "later"))
        await wire.expect(m.ConnectionUpdateSecretOk)
        close = await wire.expect(m.ConnectionClose)
        assert close.reply_code == 320 and "expired" in close.reply_text
        assert time.time() >= until_s - 1
        await wire.close()
        await until(lambda: nothing_is_left(first, second))


async def test_a_token_that_is_no_good_there_is_refused(tmp_path: Path) -> None:
    async with two(tmp_path, JwtChecker, **OAUTH) as (first, second):
        assert second.broker.host.tokens is not None
        second.broker.host.tokens.close()
        second.broker.host.tokens = JwtChecker(
            replace(second.config, oauth_secret="t" * 32),
            second.loop,
            second.clock,
            second.log,
            second.poller.request,
        )
        wire = await by_token(first, token(scope=ALL))
        close = await wire.expect(m.ConnectionClose)
        assert close.reply_code == 530 and "access refused for user 'bob'" in close.reply_text
        assert any("the token is refused" in line for line in book_of(second).lines)
        assert await wire.rest() == b""
        await wire.close()
        second.broker.host.tokens.close()
        await until(lambda: nothing_is_left(first, second))


async def test_rights_of_a_token_are_those_there(tmp_path: Path) -> None:
    async with two(tmp_path, JwtChecker, **OAUTH) as (first, _):
        wire = await by_token(first, token(scope="rs.read:here/*"))
        close = await wire.expect(m.ConnectionClose)
        assert close.reply_code == 530 and "access to vhost 'there' refused" in close.reply_text
        await wire.close()
