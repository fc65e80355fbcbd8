"""Publishes to and consumes `mail` with aio-pika: the bystander that must not notice the others."""

import asyncio
import time

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from penstock.demo.scenario import PREFETCH, QUEUE_MAIL, STATUS_SECONDS
from penstock.demo.workers.part import InputEnd, Trace, Worker, play, seconds_until


class Mail:
    """Two connections, as the books advise: one publishes, one consumes."""

    def __init__(self, part: Worker, trace: Trace) -> None:
        self._part = part
        self._trace = trace
        self._ended = InputEnd(part)

    async def run(self) -> None:
        """Publish through all phases, then take messages until the input ends."""
        loop = asyncio.get_running_loop()
        outgoing = await self._connect("publish")
        incoming = await self._connect("consume")
        async with outgoing, incoming:
            channel = await incoming.channel()
            await channel.set_qos(prefetch_count=PREFETCH)
            queue = await channel.get_queue(QUEUE_MAIL)
            tag = await queue.consume(self._take)
            self._part.report()
            if await loop.run_in_executor(None, self._part.wait_for_go):
                self._ended.listen()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._publish(await outgoing.channel()))
                    group.create_task(self._ended.report_until(STATUS_SECONDS, self._part.report))
            await queue.cancel(tag)
        self._part.report()

    async def _connect(self, purpose: str) -> aio_pika.abc.AbstractConnection:
        name = f"{self._part.name}-{purpose}"
        return await aio_pika.connect(
            self._part.plan.url, client_properties={"connection_name": name}
        )

    async def _publish(self, channel: AbstractChannel) -> None:
        await asyncio.sleep(seconds_until(self._part.start_ns))
        number = 0
        while not self._ended.is_over():
            phase = self._part.phase_at(time.monotonic_ns())
            if phase is None:
                return
            number += 1
            message_id = f"{self._part.name}-{number}"
            started_ns = self._trace.note(message_id, "published", QUEUE_MAIL, phase.name)
            self._part.count("published")
            # aio-pika returns from here when the broker has confirmed.
            await channel.default_exchange.publish(
                aio_pika.Message(b"mail", message_id=message_id), QUEUE_MAIL
            )
            self._trace.note(message_id, "confirmed", QUEUE_MAIL)
            self._part.count("confirmed")
            await asyncio.sleep(seconds_until(started_ns + int(1e9 / phase.mail_rate)))

    async def _take(self, message: AbstractIncomingMessage) -> None:
        message_id = message.message_id or ""
        self._trace.note(message_id, "delivered", QUEUE_MAIL)
        await message.ack()
        self._trace.note(message_id, "acked", QUEUE_MAIL)
        self._part.count("delivered")


if __name__ == "__main__":
    play(lambda part, trace: Mail(part, trace).run())
