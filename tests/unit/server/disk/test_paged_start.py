"""A start with queues larger than memory: positions come back, and bodies when they are read."""

import asyncio
from pathlib import Path

from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.server.boot.node import Node
from tests.unit.server.wire import Wire, running

DEPTH_BYTES = 40_000
COUNT = 120


def body_of(number: int) -> bytes:
    return b"%08d" % number + b"." * 500


async def publish(wire: Wire, queue: str, first: int, properties: Properties) -> None:
    """COUNT numbered messages, and the answer to a method behind them."""
    header = encode_header_payload(len(body_of(0)), properties)
    for number in range(first, first + COUNT):
        content = make_content(1, b"", header, body_of(number), 131_072)
        wire.writer.write(method_frame(1, m.BasicPublish("", queue)) + content.raw)
    wire.say(1, m.QueueDeclare(queue, passive=True))
    await wire.expect(m.QueueDeclareOk)


async def get(wire: Wire, queue: str) -> tuple[int, bool]:
    """The number of the first message, and whether it is marked as redelivered."""
    wire.say(1, m.BasicGet(queue=queue, no_ack=True))
    answer = await wire.expect(m.BasicGetOk)
    parts = []
    for _ in range(2):
        head = await wire.read(7)
        parts.append((await wire.read(int.from_bytes(head[3:], "big") + 1))[:-1])
    return int(parts[1][:8]), answer.redelivered


def queue_of(node: Node, name: str) -> QueueActor:
    return node.broker.vhosts["/"].queues[name]


def test_a_start_reads_nothing_and_get_reads_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": DEPTH_BYTES}
        async with running(tmp_path, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("d", durable=True), m.QueueDeclare("t"))
            await wire.expect(m.QueueDeclareOk)
            await wire.expect(m.QueueDeclareOk)
            await publish(wire, "d", 0, Properties(delivery_mode=2))
            await publish(wire, "d", COUNT, Properties(delivery_mode=1))
            await publish(wire, "t", 0, Properties(delivery_mode=2))
            assert int(queue_of(node, "d").messages.bytes_ready) <= DEPTH_BYTES
            assert [await get(wire, "d") for _ in range(5)] == [(one, False) for one in range(5)]
            assert [await get(wire, "t") for _ in range(70)] == [(one, False) for one in range(70)]
            await wire.close()
        assert list((tmp_path / "data" / "vhosts").glob("*/transient/*.log"))
        async with running(tmp_path, **where) as node:
            assert not list((tmp_path / "data" / "vhosts").glob("*/transient/*.log"))
            assert node.keeping is not None and node.keeping.stores.count == COUNT - 5
            queue = queue_of(node, "d")
            assert queue.messages.is_paging and isinstance(queue.paging, Pager)
            assert queue.messages.ready_count() == queue.messages.paged_count() == COUNT - 5
            wire = await Wire.connect(node)
            await wire.open()
            await publish(wire, "d", COUNT, Properties(delivery_mode=2))
            found = [await get(wire, "d") for _ in range(2 * COUNT - 5)]
            assert found == [(one, False) for one in range(5, 2 * COUNT)]
            wire.say(1, m.BasicGet(queue="d", no_ack=True))
            await wire.expect(m.BasicGetEmpty)
            await wire.close()

    asyncio.run(scenario())


def test_after_a_crash_all_of_it_may_have_been_delivered(tmp_path: Path) -> None:
    async def scenario() -> None:
        where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": DEPTH_BYTES}
        async with running(tmp_path, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("d", durable=True))
            await wire.expect(m.QueueDeclareOk)
            await publish(wire, "d", 0, Properties(delivery_mode=2))
            await wire.close()
        for mark in (tmp_path / "data" / "vhosts").glob("*/CLEAN"):
            mark.unlink()
        async with running(tmp_path, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            await publish(wire, "d", COUNT, Properties(delivery_mode=2))
            found = [await get(wire, "d") for _ in range(2 * COUNT)]
            assert found == [(one, one < COUNT) for one in range(2 * COUNT)]
            await wire.close()

    asyncio.run(scenario())


def test_a_clean_stop_after_a_crash_forgets_no_mark(tmp_path: Path) -> None:
    async def scenario() -> None:
        where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": DEPTH_BYTES}
        ranked = m.QueueDeclare("ranked", durable=True, arguments={"x-max-priority": 3})
        async with running(tmp_path, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("d", durable=True), ranked)
            await wire.expect(m.QueueDeclareOk)
            await wire.expect(m.QueueDeclareOk)
            for queue in ("d", "ranked"):
                await publish(wire, queue, 0, Properties(delivery_mode=2))
            await wire.close()
        for mark in (tmp_path / "data" / "vhosts").glob("*/CLEAN"):
            mark.unlink()
        async with running(tmp_path, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            await publish(wire, "d", COUNT, Properties(delivery_mode=2))
            await wire.close()
        for _ in range(2):
            async with running(tmp_path, **where):
                pass
        async with running(tmp_path, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            found = [await get(wire, "d") for _ in range(2 * COUNT)]
            assert found == [(one, one < COUNT) for one in range(2 * COUNT)]
            found = [await get(wire, "ranked") for _ in range(COUNT)]
            assert found == [(one, True) for one in range(COUNT)]
            await wire.close()

    asyncio.run(scenario())
