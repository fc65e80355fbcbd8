"""What waits for a client's socket: nothing of it is copied again and again, all of it in order."""

import asyncio
import socket
import tracemalloc
from pathlib import Path

from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.server.boot.node import Node
from penstock.server.net.socket_output import SocketOutput
from tests.unit.server.wire import Wire, running, until

BODY = bytes(range(250)) * 48_000
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


async def of_little_room(node: Node) -> Wire:
    """A client whose kernel takes a few kilobytes, with channel 1."""
    assert node.listener is not None
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", node.listener.port))
    wire = Wire(*await asyncio.open_connection(sock=sock, limit=4096))
    await wire.open()
    return wire


async def put(node: Node) -> None:
    """`BODY` into the queue `q`."""
    wire = await Wire.opened(node)
    wire.say(1, m.QueueDeclare("q"))
    await wire.expect(m.QueueDeclareOk)
    head = b"\x02\x00\x01" + (14).to_bytes(4, "big")
    head += b"\x00\x3c\x00\x00" + len(BODY).to_bytes(8, "big") + b"\x00\x00\xce"
    frames = [method_frame(1, m.BasicPublish("", "q")), head]
    for at in range(0, len(BODY), 131_064):
        part = BODY[at : at + 131_064]
        frames.append(b"\x03\x00\x01" + len(part).to_bytes(4, "big") + part + b"\xce")
    wire.writer.write(b"".join(frames))
    await until(lambda: node.broker.vhosts["/"].queues["q"].messages.ready_count() == 1)
    await wire.close()
    await until(lambda: not node.broker.connections)


async def asking(node: Node) -> tuple[Wire, SocketOutput]:
    """A client that has asked for `BODY`, and the output where most of it waits."""
    await put(node)
    wire = await of_little_room(node)
    wire.say(1, m.BasicGet("q", no_ack=True))
    (shell,) = node.listeners[0].shells
    await until(lambda: shell.output.held_bytes > len(BODY) // 2)
    return wire, shell.output


async def test_what_waits_is_not_copied_to_send_a_little_of_it(tmp_path: Path) -> None:
    """Else a client that takes a large message in small pieces costs its square."""
    async with running(tmp_path) as node:
        wire, output = await asking(node)
        before = int(output.held_bytes)
        tracemalloc.start()
        while output.held_bytes == before:
            await wire.read(100_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3_000_000
        await wire.close()


async def test_what_waits_is_not_copied_to_add_an_answer(tmp_path: Path) -> None:
    """Else a client that asks on and does not read costs the square of what it is answered."""
    async with running(tmp_path) as node:
        wire, output = await asking(node)
        before = int(output.held_bytes)
        tracemalloc.start()
        output.writer.write(HEARTBEAT)
        output.flush()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert output.held_bytes == before + len(HEARTBEAT)
        assert peak < 1_000_000
        await wire.close()


async def test_all_of_it_comes_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        wire, output = await asking(node)
        wire.say(1, *(m.QueueDeclare(f"q{number}") for number in range(3)))
        assert (await wire.expect(m.BasicGetOk)).routing_key == "q"
        came: list[bytes] = []
        while sum(len(one) for one in came) < len(BODY):
            head = await wire.read(7)
            payload = (await wire.read(int.from_bytes(head[3:], "big") + 1))[:-1]
            if head[0] == 3:
                came.append(payload)
        assert b"".join(came) == BODY
        names = [(await wire.expect(m.QueueDeclareOk)).queue for _ in range(3)]
        assert names == ["q0", "q1", "q2"]
        assert output.held_bytes == 0
        await wire.close()
