"""Consumes `orders` with aio-pika; in the slow phase each message takes its time."""

import asyncio
import sys

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from penstock.demo.scenario import PREFETCH, QUEUE_ORDERS, STATUS_SECONDS
from penstock.demo.workers.part import Trace, Worker, part_from_arguments


async def consume(part: Worker, trace: Trace) -> None:
    """Take messages until the run closes this worker's input."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def take(message: AbstractIncomingMessage) -> None:
        message_id = message.message_id or ""
        now_ns = trace.note(message_id, "delivered", QUEUE_ORDERS)
        phase = part.phase_at(now_ns) if part.start_ns else None
        if phase is not None and phase.delay_ms:
            await asyncio.sleep(phase.delay_ms / 1e3)
        await message.ack()
        trace.note(message_id, "acked", QUEUE_ORDERS)
        part.count("delivered")

    def read_input() -> None:
        if not part.take_line(sys.stdin.readline()):
            loop.remove_reader(sys.stdin.fileno())
            ended.set()

    connection = await aio_pika.connect(
        part.plan.url, client_properties={"connection_name": part.name}
    )
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.get_queue(QUEUE_ORDERS)
        tag = await queue.consume(take)
        loop.add_reader(sys.stdin.fileno(), read_input)
        part.report()
        while not ended.is_set():
            try:
                async with asyncio.timeout(STATUS_SECONDS):
                    await ended.wait()
            except TimeoutError:
                part.report()
        await queue.cancel(tag)
    part.report()


def main(arguments: list[str]) -> None:
    part = part_from_arguments(arguments)
    with Trace(part.plan.directory, part.name) as trace:
        asyncio.run(consume(part, trace))


if __name__ == "__main__":
    main(sys.argv[1:])
