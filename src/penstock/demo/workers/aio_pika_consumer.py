"""Consumes `orders` with aio-pika; in the slow phase each message takes its time."""

import asyncio

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from penstock.demo.scenario import PREFETCH, QUEUE_ORDERS, STATUS_SECONDS
from penstock.demo.workers.part import InputEnd, Trace, Worker, play


async def consume(part: Worker, trace: Trace) -> None:
    """Take messages until the run closes this worker's input."""
    ended = InputEnd(part)

    async def take(message: AbstractIncomingMessage) -> None:
        message_id = message.message_id or ""
        now_ns = trace.note(message_id, "delivered", QUEUE_ORDERS)
        phase = part.phase_at(now_ns) if part.start_ns else None
        if phase is not None and phase.delay_ms:
            await asyncio.sleep(phase.delay_ms / 1e3)
        await message.ack()
        trace.note(message_id, "acked", QUEUE_ORDERS)
        part.count("delivered")

    connection = await aio_pika.connect(
        part.plan.url, client_properties={"connection_name": part.name}
    )
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.get_queue(QUEUE_ORDERS)
        tag = await queue.consume(take)
        ended.listen()
        part.report()
        await ended.report_until(STATUS_SECONDS, part.report)
        await queue.cancel(tag)
    part.report()


if __name__ == "__main__":
    play(consume)
