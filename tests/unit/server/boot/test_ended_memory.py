"""What has ended holds nothing large, though the garbage collector may come much later."""

import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.server.boot.node import Node
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, running, until

BODY = b"x" * 1_000_000
CLIENTS = 5


async def consumed(wire: Wire) -> None:
    wire.say(1, m.BasicConsume("q", "t"))
    await wire.expect(m.BasicConsumeOk)
    await wire.read(len(BODY))


async def fetched(wire: Wire) -> None:
    wire.say(1, m.BasicGet("q", True))
    await wire.read(len(BODY))


async def left_unread(wire: Wire) -> None:
    for _ in range(10):
        wire.writer.write(publish(1, "", "nobody", BODY, mandatory=True))
    await wire.writer.drain()
    await wire.read(len(BODY))


async def half_published(wire: Wire) -> None:
    wire.say(1, m.ConfirmSelect())
    await wire.expect(m.ConfirmSelectOk)
    whole = publish(1, "", "nobody", BODY)
    last_frame_bytes = len(BODY) % (131_072 - 8) + 8
    wire.writer.write(whole + whole[:-last_frame_bytes])
    await wire.expect(m.BasicAck)


async def not_committed(wire: Wire) -> None:
    wire.say(1, m.TxSelect())
    await wire.expect(m.TxSelectOk)
    wire.writer.write(publish(1, "", "q", BODY))
    wire.say(1, m.BasicQos(0, 1, False))
    await wire.expect(m.BasicQosOk)


async def client(node: Node, act: Callable[[Wire], Awaitable[None]], is_clean: bool) -> None:
    """One that does something, and ends; until the broker has put everything away."""
    count = len(node.broker.connections)
    wire = await Wire.opened(node)
    await act(wire)
    if is_clean:
        wire.say(0, m.ConnectionClose(200, "", 0, 0))
        await wire.rest()
    wire.writer.transport.abort()
    assert node.listener is not None
    lingering = node.listener.lingering
    await until(lambda: len(node.broker.connections) == count and not lingering.deadlines)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector stays away, and memory is counted."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("act", [consumed, fetched, left_unread, half_published, not_committed])
async def test_an_ended_connection_keeps_no_body(
    tmp_path: Path, act: Callable[[Wire], Awaitable[None]], is_clean: bool
) -> None:
    async with running(tmp_path) as node:
        owner = await Wire.opened(node)
        owner.say(1, m.QueueDeclare("q"))
        await owner.expect(m.QueueDeclareOk)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(CLIENTS):
            owner.writer.write(publish(1, "", "q", BODY))
            owner.say(1, m.BasicQos(0, 1, False))
            await owner.expect(m.BasicQosOk)
            await client(node, act, is_clean)
            owner.say(1, m.QueuePurge("q"))
            await owner.expect(m.QueuePurgeOk)
        kept = tracemalloc.get_traced_memory()[0] - before
        assert kept < CLIENTS * 100_000
        await owner.close()
