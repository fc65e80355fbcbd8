"""Scenarios 88 and 117 of flow-semantics 19.D and 19.F: many flips, and what the kernel holds once
the broker has stopped reading."""

import asyncio
import socket
from pathlib import Path

import pytest

from penstock.base.config import Config
from penstock.broker.broker import Log
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.flow.profile import PENSTOCK, RABBITMQ_4, Profile
from penstock.protocol import methods as m
from penstock.server.net.sockets import SocketShell
from penstock.simulation.machine.clock import VirtualClock
from penstock.simulation.machine.dice import Dice
from penstock.simulation.world.world import SimulatedBroker
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, running

S_NS = 1_000_000_000
MIB = 1024 * 1024


@pytest.mark.parametrize("profile", [RABBITMQ_4, PENSTOCK], ids=lambda profile: profile.name)
def test_scenario_88_eighty_flips_a_second(profile: Profile) -> None:
    """The word `flow` says nothing, as it never changes; the books say 5 s and 800 stops."""
    clock = VirtualClock(tick_ns=0)
    broker = SimulatedBroker(Config(profile=profile.name), clock, Dice(1), Log(), profile)
    queue = ClassicActor("/", "q", False, False, "", {}, broker.scheduler, broker.strategy, 0)
    half_ns = S_NS // 160
    began_ns = clock.now_ns
    words = set()
    for flip in range(800):
        queue.gate.close("store:/", "credit")
        clock.jump(began_ns + (2 * flip + 1) * half_ns)
        words.add(queue.gate.state(clock.now_ns))
        queue.gate.open("store:/", "credit")
        clock.jump(began_ns + (2 * flip + 2) * half_ns)
        words.add(queue.gate.state(clock.now_ns))
    books = queue.books().snapshot(clock.now_ns)
    assert words == {"flow"}
    assert clock.now_ns - began_ns == 10 * S_NS
    assert abs(books.blocked_ns - 5 * S_NS) <= 0.05 * 5 * S_NS
    assert books.stops == 800


def test_scenario_117_what_the_kernel_holds(tmp_path: Path) -> None:
    """Once the connection has stopped, the broker takes not one byte more, and what a client can
    still write is what the two socket buffers take."""

    async def scenario() -> None:
        async with running(tmp_path, queue_depth_bytes=MIB) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("q"))
            await wire.expect(m.QueueDeclareOk)
            (connection,) = node.broker.connections.values()
            shell = connection.shell
            assert isinstance(shell, SocketShell)
            sender = wire.writer.transport.get_extra_info("socket")
            piece = publish(1, "", "q", b"x" * 1024) * 32
            loop = asyncio.get_running_loop()
            raw = socket.socket(fileno=socket.dup(sender.fileno()))
            raw.setblocking(False)
            sent = await _flood(raw, piece, loop)
            assert not connection.gate.is_open, "the flood has stopped the connection"
            taken = shell.received_bytes
            more = await _flood(raw, piece, loop)
            assert shell.received_bytes == taken, "not a byte after the pause"
            assert more == 0
            handshake_bytes_max = 4096
            in_kernel = sent + handshake_bytes_max - taken
            buffers = shell.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            buffers += raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            assert 0 < in_kernel <= buffers
            raw.close()
            await wire.close()

    asyncio.run(scenario())


async def _flood(raw: socket.socket, piece: bytes, loop: asyncio.AbstractEventLoop) -> int:
    """Write `piece` again and again until the socket has taken nothing for half a second, in which
    the broker, which runs in this loop, had many turns."""
    sent = 0
    quiet_since = loop.time()
    refused = 0
    while loop.time() - quiet_since < 0.5 or refused < 30:
        at = sent % len(piece)
        try:
            sent += raw.send(piece[at:])
            quiet_since = loop.time()
            refused = 0
        except BlockingIOError:
            refused += 1
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
    return sent
