"""A process that may open no more files: what other stores have open and do not use is closed."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, running

PERSISTENT = (0x1000, b"\x02")
STREAMS = 5


@contextmanager
def no_handle_left() -> Iterator[None]:
    """Every number below the limit is taken meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        while len(taken) <= highest:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in taken:
            os.close(number)


def test_a_message_store_gets_what_streams_need_not_have(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.ConfirmSelect())
            await wire.expect(m.ConfirmSelectOk)
            for number in range(STREAMS + 1):
                is_stream = number < STREAMS
                arguments: Table = {"x-queue-type": "stream"} if is_stream else {}
                wire.say(1, m.QueueDeclare(f"q{number}", durable=True, arguments=arguments))
                await wire.expect(m.QueueDeclareOk)
                if is_stream:
                    wire.writer.write(publish(1, "", f"q{number}", b"kept", PERSISTENT))
                    await wire.expect(m.BasicAck)
            handles = node.broker.streams.stores["/"].handles
            assert len(handles.files) == STREAMS
            with no_handle_left():
                wire.writer.write(publish(1, "", f"q{STREAMS}", b"kept", PERSISTENT))
                store = node.broker.stores.stores["/"]
                while not store.is_full:
                    await asyncio.sleep(0.01)
                node.tick()
                await wire.expect(m.BasicAck)
            assert not handles.files and not store.is_full and not store.is_failed
            await wire.close()

    asyncio.run(scenario())
