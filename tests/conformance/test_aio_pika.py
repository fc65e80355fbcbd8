"""aio-pika and aiormq: robust connections, confirms, iterators, transactions and RPC."""

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractRobustConnection
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, QueueEmpty
from aio_pika.patterns import RPC, Master

from tests.conformance.live import Broker
from tests.patience import PATIENCE_S

Story = Callable[[AbstractRobustConnection, AbstractChannel, str], Awaitable[None]]


def run(broker: Broker, name: str, story: Story) -> None:
    """Run a story with a robust connection and a confirming channel, for at most PATIENCE_S."""

    async def play() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            await aio_pika.connect_robust(broker.url) as connection,
        ):
            await story(connection, await connection.channel(), name)

    asyncio.run(play())


async def publish(channel: AbstractChannel, key: str, *bodies: bytes) -> None:
    """Publish all at once and wait for the confirms."""
    await asyncio.gather(
        *(
            channel.default_exchange.publish(aio_pika.Message(body), routing_key=key)
            for body in bodies
        )
    )


async def iterates(_: AbstractRobustConnection, channel: AbstractChannel, name: str) -> None:
    await channel.set_qos(prefetch_count=3)
    queue = await channel.declare_queue(name, auto_delete=True)
    await publish(channel, name, *(b"%d" % number for number in range(50)))
    seen = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                seen.append(int(message.body))
            if len(seen) == 50:
                break
    assert seen == list(range(50))


async def gets(_: AbstractRobustConnection, channel: AbstractChannel, name: str) -> None:
    queue = await channel.declare_queue(name, exclusive=True)
    with pytest.raises(QueueEmpty):
        await queue.get(timeout=PATIENCE_S)
    await publish(channel, name, b"x")
    message = await queue.get(timeout=PATIENCE_S)
    await message.reject(requeue=True)
    again = await queue.get(timeout=PATIENCE_S)
    assert (again.body, again.redelivered) == (b"x", True)
    await again.ack()


async def returns(connection: AbstractRobustConnection, _: AbstractChannel, name: str) -> None:
    channel = await connection.channel(on_return_raises=True)
    with pytest.raises(DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b""), routing_key=name)


async def differs(connection: AbstractRobustConnection, _: AbstractChannel, name: str) -> None:
    other = await connection.channel()
    await other.declare_queue(name, auto_delete=True)
    with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable'"):
        await other.declare_queue(name, durable=True, auto_delete=True)


async def transacts(
    connection: AbstractRobustConnection, reader: AbstractChannel, name: str
) -> None:
    channel = await connection.channel(publisher_confirms=False)
    queue = await reader.declare_queue(name, auto_delete=True)
    async with channel.transaction():
        await channel.default_exchange.publish(aio_pika.Message(b"a"), routing_key=name)
        assert await queue.get(fail=False, timeout=PATIENCE_S) is None
    assert await queue.get(no_ack=True, timeout=PATIENCE_S) is not None


async def calls(_: AbstractRobustConnection, channel: AbstractChannel, name: str) -> None:
    async def add(*, a: int, b: int) -> int:
        return a + b

    rpc = await RPC.create(channel)
    await rpc.register(name, add, auto_delete=True)
    answers = await asyncio.gather(*(rpc.call(name, {"a": n, "b": 1}) for n in range(20)))
    assert answers == list(range(1, 21))
    await rpc.close()


async def works(_: AbstractRobustConnection, channel: AbstractChannel, name: str) -> None:
    done: list[int] = []
    finished = asyncio.Event()

    async def work(*, n: int) -> None:
        done.append(n)
        if len(done) == 10:
            finished.set()

    master = Master(channel)
    worker = await master.create_worker(name, work, auto_delete=True)
    for n in range(10):
        await master.create_task(name, {"n": n})
    await finished.wait()
    await worker.close()
    assert sorted(done) == list(range(10))


async def interleaves(connection: AbstractRobustConnection, _: AbstractChannel, name: str) -> None:
    async def one(number: int) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(f"{name}.{number}", exclusive=True)
        body = bytes([number]) * 300_000
        await publish(channel, queue.name, body, body)
        for _ in range(2):
            assert (await queue.get(no_ack=True, timeout=PATIENCE_S)).body == body

    await asyncio.gather(*(one(number) for number in range(10)))


STORIES: tuple[Story, ...] = (
    iterates,
    gets,
    returns,
    differs,
    transacts,
    calls,
    works,
    interleaves,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_aio_pika(broker: Broker, name: str, story: Story) -> None:
    run(broker, name, story)
