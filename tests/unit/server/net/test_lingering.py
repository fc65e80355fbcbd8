"""After the end of a connection its peer may go on writing, for a while and without an error."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.server.boot.node import Node
from penstock.server.net.lingering import Lingering
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, book_of, running, until

MORE = publish(1, "", "q", b"x" * 100_000)


def lingering_of(node: Node) -> Lingering:
    assert node.listener is not None
    return node.listener.lingering


async def ended(node: Node) -> Wire:
    """A client whose connection.close was answered, and who has not closed its socket."""
    wire = await Wire.opened(node)
    wire.say(0, m.ConnectionClose(200, "bye", 0, 0))
    await wire.expect(m.ConnectionCloseOk)
    assert await wire.rest() == b"", "the end can be read at once"
    return wire


async def write_on(wire: Wire, count: int) -> None:
    """More than the kernel's buffers hold. Raises: ConnectionError when the peer has closed."""
    for _ in range(count):
        wire.writer.write(MORE)
        await asyncio.wait_for(wire.writer.drain(), PATIENCE_S)


async def until_gone(node: Node) -> None:
    await until(lambda: not lingering_of(node).deadlines)


async def test_what_is_written_after_the_end_is_thrown_away(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        wire = await ended(node)
        await write_on(wire, 100)
        assert node.broker.connections == {} and len(lingering_of(node).deadlines) == 1
        assert node.broker.vhosts["/"].queues == {}
        await wire.close()
        await until_gone(node)
        assert book_of(node).errors == []


@pytest.mark.parametrize("is_answered", [True, False])
async def test_so_it_is_when_the_broker_closes(tmp_path: Path, is_answered: bool) -> None:
    async with running(tmp_path) as node:
        wire = await Wire.opened(node)
        wire.say(9, m.QueueDeclare("q"))
        assert (await wire.expect(m.ConnectionClose)).reply_code == 504
        await write_on(wire, 20)
        if is_answered:
            wire.say(0, m.ConnectionCloseOk())
        else:
            node.config = replace(node.config, handshake_ms=100)
        assert await wire.rest() == b""
        await write_on(wire, 100)
        assert node.broker.connections == {}
        await wire.close()
        await until_gone(node)


async def test_it_does_not_last_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path, linger_ms=50) as node:
        first, second = await ended(node), await ended(node)
        with pytest.raises(ConnectionError):
            await write_on(first, 100_000)
        await until_gone(node)
        await first.close()
        await second.close()


async def test_of_too_many_the_oldest_goes(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        lingering_of(node).sockets_max = 1
        first, second = await ended(node), await ended(node)
        assert len(lingering_of(node).deadlines) == 1
        with pytest.raises(ConnectionError):
            await write_on(first, 100)
        await write_on(second, 100)
        await first.close()
        await second.close()


async def test_they_make_room_for_clients(tmp_path: Path) -> None:
    """Their handles are the first to go when handles are scarce."""
    async with running(tmp_path) as node:
        late = await ended(node)
        free = os.dup(0)
        os.close(free)
        assert node.listener is not None
        # The next client of this process gets the free one, and its connection the one after.
        node.listener.handles_end = free + 1
        wire = await Wire.opened(node)
        assert node.listener.refused == 0 and lingering_of(node).deadlines == {}
        await wire.close()
        await late.close()


async def test_a_stop_does_not_wait_for_them(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        wire = await ended(node)
        await asyncio.wait_for(node.stop(), PATIENCE_S)
        assert lingering_of(node).deadlines == {}
        await wire.close()
