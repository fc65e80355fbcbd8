"""A start with queues that have rules and are larger than memory: what they come back with."""

import asyncio
import itertools
import time
from pathlib import Path

import pytest

from penstock.broker.paging.paged_view import paged_of
from penstock.protocol import methods as m
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.protocol.values import Table
from penstock.queues.priorities import PriorityQueue
from penstock.server.boot.node import Node
from tests.patience import PATIENCE_S, undisturbed
from tests.unit.server.disk.test_paged_start import (
    COUNT,
    DEPTH_BYTES,
    body_of,
    get,
    publish,
    queue_of,
)
from tests.unit.server.wire import Wire, running

PERSISTENT = Properties(delivery_mode=2)


async def opened(node: Node, queue: str, arguments: Table) -> Wire:
    wire = await Wire.connect(node)
    await wire.open()
    wire.say(1, m.QueueDeclare(queue, durable=True, arguments=arguments))
    await wire.expect(m.QueueDeclareOk)
    return wire


async def consume(wire: Wire, queue: str, count: int) -> list[tuple[int, bool]]:
    """The next `count` messages: their numbers, and whether they are marked as redelivered."""
    wire.say(1, m.BasicConsume(queue=queue, no_ack=True))
    await wire.expect(m.BasicConsumeOk)
    found = []
    for _ in range(count):
        delivered = await wire.expect(m.BasicDeliver)
        for _ in range(2):
            head = await wire.read(7)
            content = await wire.read(int.from_bytes(head[3:], "big") + 1)
        found.append((int(content[:8]), delivered.redelivered))
    return found


def forget_clean(tmp_path: Path) -> None:
    for mark in (tmp_path / "data" / "vhosts").glob("*/CLEAN"):
        mark.unlink()


@pytest.mark.parametrize("is_crash", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 3_600_000},
        {"x-queue-type": "quorum"},
        {"x-max-length-bytes": COUNT * len(body_of(0)), "x-overflow": "drop-head"},
    ],
    ids=["ttl", "quorum", "bytes"],
)
def test_positions_come_back_and_order_and_counts(
    tmp_path: Path, arguments: Table, is_crash: bool
) -> None:
    where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": DEPTH_BYTES}

    async def scenario() -> None:
        async with running(tmp_path, **where) as node:
            wire = await opened(node, "d", arguments)
            await publish(wire, "d", 0, PERSISTENT)
            while queue_of(node, "d").uncommitted_count() > 0:
                await asyncio.sleep(0.001)
            assert paged_of(queue_of(node, "d"))[0] > COUNT // 3
            assert [await get(wire, "d") for _ in range(2)] == [(0, False), (1, False)]
            await wire.close()
        if is_crash:
            forget_clean(tmp_path)
        async with running(tmp_path, **where) as node:
            messages = queue_of(node, "d").messages
            assert isinstance(messages, PriorityQueue) and messages.is_paging
            assert messages.ready_count() == paged_of(queue_of(node, "d"))[0] == COUNT - 2
            assert messages.bytes_ready < 1000
            wire = await opened(node, "d", arguments)
            await publish(wire, "d", COUNT, PERSISTENT)
            first = COUNT if "x-max-length-bytes" in arguments else 2
            found = [await get(wire, "d") for _ in range(2 * COUNT - first)]
            assert found == [(one, is_crash and one < COUNT) for one in range(first, 2 * COUNT)]
            wire.say(1, m.BasicGet(queue="d", no_ack=True))
            await wire.expect(m.BasicGetEmpty)
            assert not queue_of(node, "d").messages.is_paging
            await wire.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_of_queue", [True, False])
def test_lifetimes_go_on_over_a_stop(tmp_path: Path, is_of_queue: bool) -> None:
    """Of the queue, and of messages in a queue without rules; letters have their bodies."""
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "g"}
    lifetime_ms = 800
    properties = PERSISTENT
    if is_of_queue:
        arguments["x-message-ttl"] = lifetime_ms
    else:
        properties = Properties(delivery_mode=2, expiration=str(lifetime_ms))
    folders = (tmp_path / str(number) for number in itertools.count())

    async def scenario(folder: Path) -> None:
        where = {"data_dir": str(folder / "data"), "queue_depth_bytes": DEPTH_BYTES}
        async with running(folder, **where) as node:
            wire = await opened(node, "g", {})
            wire.say(1, m.QueueDeclare("d", durable=True, arguments=arguments))
            await wire.expect(m.QueueDeclareOk)
            await publish(wire, "d", 0, properties)
            assert paged_of(queue_of(node, "d"))[0] > COUNT // 3
            await wire.close()
        await asyncio.sleep(lifetime_ms / 1000)
        async with running(folder, **where) as node:
            wire = await Wire.connect(node)
            await wire.open()
            end_s = time.monotonic() + PATIENCE_S
            for number in range(COUNT):
                while (await ready(wire, "g")) == 0:
                    assert time.monotonic() < end_s, f"letter {number} never came"
                    await asyncio.sleep(0.01)
                assert (await get(wire, "g"))[0] == number
            assert await ready(wire, "d") == 0
            await wire.close()

    # Not if the machine stands still until some expire before the stop.
    undisturbed(lambda: asyncio.run(scenario(next(folders))), 0.3)


async def ready(wire: Wire, queue: str) -> int:
    wire.say(1, m.QueueDeclare(queue, passive=True))
    return (await wire.expect(m.QueueDeclareOk)).message_count


@pytest.mark.parametrize("is_crash", [False, True])
def test_priorities_come_back_in_order(tmp_path: Path, is_crash: bool) -> None:
    """What the log has is read, and most of it leaves memory again."""
    where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": DEPTH_BYTES}
    arguments: Table = {"x-max-priority": 3}

    async def scenario() -> None:
        async with running(tmp_path, **where) as node:
            wire = await opened(node, "d", arguments)
            for priority in (1, 3):
                first = priority * COUNT
                await publish(wire, "d", first, Properties(delivery_mode=2, priority=priority))
            assert paged_of(queue_of(node, "d"))[0] > COUNT
            assert [await get(wire, "d") for _ in range(2)] == [
                (3 * COUNT, False), (3 * COUNT + 1, False)
            ]  # fmt: skip
            await wire.close()
        if is_crash:
            forget_clean(tmp_path)
        async with running(tmp_path, **where) as node:
            messages = queue_of(node, "d").messages
            assert isinstance(messages, PriorityQueue) and messages.is_paging
            assert messages.ready_count() == 2 * COUNT - 2
            assert messages.bytes_ready < DEPTH_BYTES
            wire = await opened(node, "d", arguments)
            found = await consume(wire, "d", 2 * COUNT - 2)
            old = [*range(3 * COUNT + 2, 4 * COUNT), *range(COUNT, 2 * COUNT)]
            assert found == [(one, is_crash) for one in old]
            assert not queue_of(node, "d").messages.is_paging
            await wire.close()

    asyncio.run(scenario())


def test_duplicates_are_known_after_a_start(tmp_path: Path) -> None:
    where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": 100_000}
    arguments: Table = {"x-message-deduplication": True}

    async def scenario() -> None:
        for life in range(2):
            async with running(tmp_path, **where) as node:
                wire = await opened(node, "d", arguments)
                for number in range(COUNT):
                    headers: Table = {"x-deduplication-header": f"key {number + 20 * life}"}
                    properties = Properties(delivery_mode=2, headers=headers)
                    header = encode_header_payload(len(body_of(0)), properties)
                    body = body_of(number + COUNT * life)
                    content = make_content(1, b"", header, body, 131_072)
                    wire.writer.write(method_frame(1, m.BasicPublish("", "d")) + content.raw)
                wire.say(1, m.QueueDeclare("d", passive=True))
                answer = await wire.expect(m.QueueDeclareOk)
                assert answer.message_count == COUNT + 20 * life
                assert paged_of(queue_of(node, "d"))[0] > 0
                await wire.close()

    asyncio.run(scenario())


def test_last_values_and_their_bodies_after_a_start(tmp_path: Path) -> None:
    """What was overtaken does not come back; what comes then overtakes what is on the disk."""
    where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": 200_000}
    arguments: Table = {"x-last-value-key": "key"}

    async def say(wire: Wire, first: int) -> None:
        for number in range(first, first + COUNT):
            properties = Properties(delivery_mode=2, headers={"key": number % (2 * COUNT)})
            header = encode_header_payload(1000, properties)
            body = (b"%08d" % number).ljust(1000, b".")
            content = make_content(1, b"", header, body, 131_072)
            wire.writer.write(method_frame(1, m.BasicPublish("", "d")) + content.raw)
        await ready(wire, "d")

    async def scenario() -> None:
        async with running(tmp_path, **where) as node:
            wire = await opened(node, "d", arguments)
            await say(wire, 0)
            await say(wire, COUNT)
            await say(wire, 2 * COUNT)
            assert await ready(wire, "d") == 2 * COUNT
            assert paged_of(queue_of(node, "d"))[0] > COUNT // 2
            assert (await get(wire, "d"))[0] == 2 * COUNT
            await wire.close()
        async with running(tmp_path, **where) as node:
            assert queue_of(node, "d").messages.is_paging
            wire = await opened(node, "d", arguments)
            assert await ready(wire, "d") == 2 * COUNT - 1
            # The first one has been taken; all others of the second half are overtaken where they
            # stand, in the order of their last values.
            await say(wire, 3 * COUNT)
            assert await ready(wire, "d") == 2 * COUNT - 1
            found = [await get(wire, "d") for _ in range(2 * COUNT - 1)]
            order = [*range(3 * COUNT, 4 * COUNT), *range(2 * COUNT + 1, 3 * COUNT)]
            assert [one[0] for one in found] == order
            await wire.close()

    asyncio.run(scenario())
