"""Publishes to `orders` with pika, with confirms, at the rate of the phase."""

import random
import time
from typing import Any

import pika
from pika.adapters.select_connection import SelectConnection

from penstock.demo.scenario import BODY_BYTES, QUEUE_ORDERS, STATUS_SECONDS, UNCONFIRMED_MAX
from penstock.demo.workers.part import PhaseRates, Trace, Worker, play

TICK_SECONDS = 0.01


class PikaPublisher:
    """One connection, one channel, at most UNCONFIRMED_MAX messages in flight."""

    def __init__(self, part: Worker, trace: Trace) -> None:
        self._part = part
        self._trace = trace
        self._pace = PhaseRates()
        self._unconfirmed: dict[int, tuple[str, int]] = {}
        self._sequence = 0
        self._confirm_ns: list[int] = []
        self._body = random.Random(part.plan.seed).randbytes(BODY_BYTES)
        self._channel: Any = None
        parameters = pika.URLParameters(part.plan.url)
        parameters.client_properties = {"connection_name": part.name}
        self._connection: Any = SelectConnection(
            parameters,
            on_open_callback=self._opened,
            on_open_error_callback=self._failed,
            on_close_callback=self._closed,
        )

    def run(self) -> None:
        self._connection.add_on_connection_blocked_callback(self._blocked)
        self._connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _failed(self, connection: Any, error: BaseException) -> None:
        raise error

    def _closed(self, connection: Any, reason: BaseException) -> None:
        connection.ioloop.stop()

    def _blocked(self, connection: Any, frame: Any) -> None:
        self._part.count("blocked")

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._answered, callback=self._selected)

    def _selected(self, frame: Any) -> None:
        self._part.report()
        if not self._part.wait_for_go():
            self._connection.close()
            return
        self._connection.ioloop.call_later(STATUS_SECONDS, self._report)
        self._tick()

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        phase = self._part.phase_at(now_ns)
        if phase is not None:
            count = min(
                self._pace.due(now_ns, phase.orders_rate),
                UNCONFIRMED_MAX - len(self._unconfirmed),
            )
            for _ in range(count):
                self._publish(phase.name)
            self._pace.took(count)
        elif self._part.is_over(now_ns) and not self._unconfirmed:
            self._part.report()
            self._connection.close()
            return
        self._connection.ioloop.call_later(TICK_SECONDS, self._tick)

    def _publish(self, phase: str) -> None:
        self._sequence += 1
        message_id = f"{self._part.name}-{self._sequence}"
        now_ns = self._trace.note(message_id, "published", QUEUE_ORDERS, phase)
        self._unconfirmed[self._sequence] = (message_id, now_ns)
        self._channel.basic_publish(
            "",
            QUEUE_ORDERS,
            self._body,
            pika.BasicProperties(message_id=message_id, delivery_mode=2),
        )
        self._part.count("published")

    def _answered(self, frame: Any) -> None:
        method = frame.method
        stage = "confirmed" if isinstance(method, pika.spec.Basic.Ack) else "nacked"
        if method.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= method.delivery_tag]
        else:
            tags = [method.delivery_tag]
        for tag in tags:
            message_id, published_ns = self._unconfirmed.pop(tag)
            now_ns = self._trace.note(message_id, stage, QUEUE_ORDERS)
            self._confirm_ns.append(now_ns - published_ns)
        self._part.count(stage, len(tags))

    def _report(self) -> None:
        ordered = sorted(self._confirm_ns)
        self._confirm_ns.clear()
        self._part.counts["confirm_p99_ns"] = ordered[len(ordered) * 99 // 100] if ordered else 0
        self._part.report()
        self._connection.ioloop.call_later(STATUS_SECONDS, self._report)


if __name__ == "__main__":
    play(lambda part, trace: PikaPublisher(part, trace).run())
