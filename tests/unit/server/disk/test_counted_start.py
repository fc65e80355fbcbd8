"""How often messages of a quorum queue came back goes on over a start, and so does their limit."""

import asyncio
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.protocol.properties import decode_properties
from penstock.protocol.values import Table
from tests.unit.server.disk.test_paged_start import COUNT, DEPTH_BYTES, publish, queue_of
from tests.unit.server.disk.test_ruled_start import PERSISTENT, forget_clean, opened
from tests.unit.server.wire import Wire, running

LIMIT = 20
"""Of a quorum queue that says nothing."""
QUORUM: Table = {"x-queue-type": "quorum"}
DEAD: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


async def counts(wire: Wire, most: int) -> tuple[int, list[tuple[int, int]]]:
    """(last tag, (number, x-delivery-count) of each) of the first `most` messages, out now."""
    found = []
    tag = 0
    for _ in range(most):
        wire.say(1, m.BasicGet(queue="d"))
        tag = (await wire.expect(m.BasicGetOk)).delivery_tag
        parts = []
        for _ in range(2):
            head = await wire.read(7)
            parts.append((await wire.read(int.from_bytes(head[3:], "big") + 1))[:-1])
        headers = decode_properties(parts[0], 12).headers or {}
        found.append((int(parts[1][:8]), int(str(headers["x-delivery-count"]))))
    return tag, found


async def ready(wire: Wire, queue: str) -> int:
    wire.say(1, m.QueueDeclare(queue, passive=True))
    return (await wire.expect(m.QueueDeclareOk)).message_count


@pytest.mark.parametrize("is_crash", [False, True])
@pytest.mark.parametrize("is_unread", [True, False])
def test_they_go_on_and_the_limit_holds(tmp_path: Path, is_crash: bool, is_unread: bool) -> None:
    """Three messages come back again and again, one at the end of each life only. is_unread: the
    queue is restored as positions, otherwise each message is read at the start."""
    where = {"data_dir": str(tmp_path / "data"), "queue_depth_bytes": DEPTH_BYTES}
    rules = QUORUM | DEAD | ({} if is_unread else {"x-message-deduplication": True})

    async def come_back(wire: Wire, count: int, times: int) -> int:
        for _ in range(times):
            tag, found = await counts(wire, 3)
            assert found == [(one, count) for one in range(3)]
            wire.say(1, m.BasicNack(tag, True, True))
            count += 1
        return count

    async def life(number: int, count: int, times: int) -> int:
        async with running(tmp_path, **where) as node:
            wire = await opened(node, "dead", QUORUM)
            wire.say(1, m.QueueDeclare("d", durable=True, arguments=rules))
            await wire.expect(m.QueueDeclareOk)
            if number == 0:
                await publish(wire, "d", 0, PERSISTENT)
                while queue_of(node, "d").uncommitted_count() > 0:
                    await asyncio.sleep(0.001)
            assert queue_of(node, "d").messages.is_paging
            count = await come_back(wire, count, times)
            if number < 2:
                # They come back with the end of their connection. After a crash anything may have
                # been delivered once.
                never = 1 if is_crash and number > 0 else 0
                wanted = [*((one, count) for one in range(3)), (3, max(number, never))]
                assert (await counts(wire, 4))[1] == wanted
                await wire.close()
                return count + 1
            assert count == LIMIT and await ready(wire, "dead") == 0
            await come_back(wire, count, 1)
            while await ready(wire, "dead") < 3:
                await asyncio.sleep(0.001)
            assert await ready(wire, "d") == COUNT - 3
            assert (await counts(wire, 2))[1] == [(3, 2), (4, 1 if is_crash else 0)]
            await wire.close()
            return count

    count = 0
    for number, times in enumerate((9, 0, 9)):
        count = asyncio.run(life(number, count, times))
        if is_crash:
            forget_clean(tmp_path)
