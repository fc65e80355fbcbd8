"""Two nodes that are one broker: what is for the virtual host of the other one is handed over."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.base.config import Config
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import method_frame
from penstock.server.boot.node import MakeTokens, Node
from penstock.server.net.handover_messages import handover_pair
from penstock.server.net.handover_socket import HandoverSocket
from tests.unit.broker.peer import LogBook, start_ok
from tests.unit.server.wire import Wire

HERE = "here"
THERE = "there"
MISSING = "missing"
WORKERS = {THERE: 1, MISSING: 1}


def of_first(vhost: str) -> int:
    """What the first node thinks: MISSING is one that the other node has lost meanwhile."""
    return WORKERS.get(vhost, -1)


def of_second(vhost: str) -> int:
    return 0 if vhost in (HERE, MISSING) else -1


@asynccontextmanager
async def two(
    directory: Path,
    make_tokens: MakeTokens | None = None,
    /,
    **settings: object,
) -> AsyncIterator[tuple[Node, Node]]:
    """The first has the virtual host HERE, the second THERE, and neither guesses where a client by
    TLS wants to go. settings: of Config."""
    loop = asyncio.get_running_loop()
    pairs = [handover_pair(), handover_pair()]
    nodes = []
    for number, vhost in enumerate((HERE, THERE)):
        config = Config(
            port=0,
            vhosts=(vhost,),
            control_socket=str(directory / f"control{number}.sock"),
            **settings,  # type: ignore[arg-type]  # tests name fields of Config
        )
        node = Node(config, loop, LogBook(), make_tokens)
        # Each has ends of its own, as a process has that inherits them.
        receive, send = pairs[number][0].dup(), pairs[1 - number][1].dup()
        node.join(receive, {1 - number: send}, (of_first, of_second)[number])
        nodes.append(node)
        await node.start()
        if node.tls_listener is not None:
            node.tls_listener.give_new = None
    try:
        yield nodes[0], nodes[1]
    finally:
        await asyncio.gather(*(node.stop() for node in nodes))
        for receive, send in pairs:
            receive.close()
            send.close()


def handover_of(node: Node) -> HandoverSocket:
    assert node.handover is not None
    return node.handover


def let_guess(*nodes: Node) -> None:
    """A client by TLS goes where the one before it was for, as it does outside of tests."""
    for node in nodes:
        assert node.tls_listener is not None
        node.tls_listener.give_new = handover_of(node).give_new


def open_files() -> int:
    """Of this process."""
    return len(os.listdir("/proc/self/fd"))


def opening(vhost: str, heartbeat_s: int = 0, user: str = "guest", password: str = "") -> bytes:
    """All that a client says until its channel 1 is open, in one piece."""
    return PROTOCOL_HEADER + b"".join(
        (
            method_frame(0, start_ok(user=user, password=password or user, name="tested")),
            method_frame(0, m.ConnectionTuneOk(2047, 131_072, heartbeat_s)),
            method_frame(0, m.ConnectionOpen(vhost)),
            method_frame(1, m.ChannelOpen()),
        )
    )


async def greeted(wire: Wire) -> None:
    """What the broker says until connection.open."""
    await wire.expect(m.ConnectionStart)
    await wire.expect(m.ConnectionTune)


async def opened(node: Node, vhost: str = THERE, heartbeat_s: int = 0) -> Wire:
    """A client of `node` with channel 1, that has said everything step by step."""
    wire = await Wire.connect(node)
    await open_at(wire, vhost, heartbeat_s)
    return wire


async def open_at(wire: Wire, vhost: str = THERE, heartbeat_s: int = 0) -> None:
    wire.writer.write(PROTOCOL_HEADER)
    await wire.expect(m.ConnectionStart)
    wire.say(0, start_ok(name="tested"))
    await wire.expect(m.ConnectionTune)
    wire.say(0, m.ConnectionTuneOk(2047, 131_072, heartbeat_s), m.ConnectionOpen(vhost))
    await wire.expect(m.ConnectionOpenOk)
    wire.say(1, m.ChannelOpen())
    await wire.expect(m.ChannelOpenOk)


def publish(queue: str, body: bytes, channel: int = 1) -> bytes:
    """The frames of a publish to the default exchange."""
    number = channel.to_bytes(2, "big")
    head = b"\x02" + number + (14).to_bytes(4, "big")
    head += b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00\xce"
    frames = [method_frame(channel, m.BasicPublish("", queue)), head]
    for at in range(0, len(body), 131_064):
        part = body[at : at + 131_064]
        frames.append(b"\x03" + number + len(part).to_bytes(4, "big") + part + b"\xce")
    return b"".join(frames)


async def content(wire: Wire) -> bytes:
    """The content that follows a method."""
    header = await wire.read(7)
    payload = await wire.read(int.from_bytes(header[3:], "big") + 1)
    size, body = int.from_bytes(payload[4:12], "big"), bytearray()
    while len(body) < size:
        head = await wire.read(7)
        body += (await wire.read(int.from_bytes(head[3:], "big") + 1))[:-1]
    return bytes(body)
