"""Publishes payments with aio-pika and confirms, as fast as the broker takes them."""

import asyncio
import time
from typing import Final

import aio_pika
from aio_pika.abc import AbstractExchange

from penstock.demo.scenario import (
    BODY_BYTES,
    EXCHANGE_PAYMENTS,
    QUEUE_PAYMENTS,
    SPARK,
    STATUS_SECONDS,
)
from penstock.demo.workers.part import InputEnd, Trace, Worker, play

AT_A_TIME: Final = 600
"""More than fit on the way to a stopped queue, so that the broker has to hold the connection."""
REPORT_SECONDS: Final = STATUS_SECONDS / 5


class Payments:
    """AT_A_TIME payments are on their way; one that is counted has been confirmed."""

    def __init__(self, part: Worker, trace: Trace) -> None:
        self._part = part
        self._trace = trace
        self._number = 0
        self._ended = InputEnd(part)
        part.counts |= {"published": 0, "confirmed": 0}

    async def run(self) -> None:
        """Publish until the input ends."""
        loop = asyncio.get_running_loop()
        connection = await aio_pika.connect(
            self._part.plan.url, client_properties={"connection_name": self._part.name}
        )
        async with connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange(EXCHANGE_PAYMENTS, ensure=False)
            self._tell()
            if await loop.run_in_executor(None, self._part.wait_for_go):
                self._ended.listen()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._ended.report_until(REPORT_SECONDS, self._tell))
                    for _ in range(AT_A_TIME):
                        group.create_task(self._publish(exchange))
            self._tell()

    async def _publish(self, exchange: AbstractExchange) -> None:
        body = bytes(BODY_BYTES)
        while not self._ended.is_over():
            self._number += 1
            message_id = f"payment-{self._number}"
            self._trace.note(message_id, "published", QUEUE_PAYMENTS, SPARK)
            self._part.count("published")
            # aio-pika returns from here when the broker has confirmed.
            await exchange.publish(aio_pika.Message(body, message_id=message_id), routing_key="")
            self._trace.note(message_id, "confirmed", QUEUE_PAYMENTS)
            self._part.count("confirmed")

    def _tell(self) -> None:
        """The number, and when it was true."""
        self._part.counts["at_ns"] = time.monotonic_ns()
        self._part.report()


if __name__ == "__main__":
    play(lambda part, trace: Payments(part, trace).run())
