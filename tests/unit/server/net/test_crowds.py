"""Very many clients come in at once: those who are in go first, and all of them come in."""

import asyncio
import socket
from pathlib import Path

from penstock.broker.connection.phases import PHASE_OPEN
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import method_frame
from penstock.server.boot.node import Node
from tests.unit.broker.peer import publish, start_ok
from tests.unit.server.wire import Wire, running, until

CROWD = 300
HELLO = PROTOCOL_HEADER + b"".join(
    method_frame(0, one)
    for one in (start_ok(), m.ConnectionTuneOk(2047, 131_072, 0), m.ConnectionOpen("/"))
)


def open_count(node: Node) -> int:
    return sum(one.phase == PHASE_OPEN for one in node.broker.connections.values())


async def crowd(node: Node) -> list[socket.socket]:
    """Connected, and the broker knows it."""
    assert node.listener is not None
    found = []
    for _ in range(CROWD):
        found.append(socket.create_connection(("127.0.0.1", node.listener.port)))
        await asyncio.sleep(0)
    await until(lambda: len(node.broker.connections) == CROWD + 1)
    return found


async def test_a_message_does_not_wait_until_a_crowd_has_logged_in(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        wire = await Wire.opened(node)
        wire.say(1, m.QueueDeclare("q"))
        await wire.expect(m.QueueDeclareOk)
        wire.say(1, m.BasicConsume("q", "t", no_ack=True))
        await wire.expect(m.BasicConsumeOk)
        socks = await crowd(node)
        # All of them before the loop has a turn, and the message behind them.
        for sock in socks:
            sock.sendall(HELLO)
        wire.writer.write(publish(1, "", "q", b"x"))
        await until(lambda: node.broker.vhosts["/"].queues["q"].messages.deliver_count == 1)
        # Some come in before this is seen; it was all of them.
        assert open_count(node) - 1 < CROWD // 2
        await until(lambda: open_count(node) == CROWD + 1)
        for sock in socks:
            sock.close()
        await wire.close()
        await until(lambda: not node.broker.connections)


async def test_who_leaves_while_it_waits_to_come_in_is_forgotten(tmp_path: Path) -> None:
    """Half of them hang up, some in the middle of a word."""
    async with running(tmp_path) as node:
        wire = await Wire.opened(node)
        socks = await crowd(node)
        for number, sock in enumerate(socks):
            sock.sendall(HELLO[: 5 if number % 4 == 1 else None])
            if number % 2:
                sock.close()
        await until(lambda: len(node.broker.connections) == 1 + CROWD // 2)
        await until(lambda: open_count(node) == 1 + CROWD // 2)
        for sock in socks:
            sock.close()
        await wire.close()
        await until(lambda: not node.broker.connections)
