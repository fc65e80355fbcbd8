"""Metrics of very many objects are written beside other requests, not before them."""

import asyncio
import time
from typing import Any, Final

from starlette.types import Message

from penstock.management.app import make_metrics_app
from penstock.management.broker_link import BrokerLink, Row
from penstock.management.metrics import Metrics

COUNT: Final = 10_000
QUEUES: Final[list[Row]] = [
    {"vhost": "/", "name": f"q{number}"}
    | dict.fromkeys(("messages_ready", "messages_unacknowledged", "messages"), 1)
    | dict.fromkeys(("message_bytes", "memory", "consumers", "consumer_capacity"), 2)
    for number in range(COUNT)
]


class Crowded(BrokerLink):
    """A broker with COUNT queues, which are there at once."""

    def __init__(self) -> None:
        super().__init__("")

    async def listing(self, what: str, **fields: object) -> list[Row]:
        node = {"node": "penstock@here", "cluster_name": "here", "uptime_ms": 1}
        return {"queues": QUEUES, "node": [node]}[what]


async def longest_pause(work: Any) -> tuple[float, float]:
    """Seconds for which nothing else was done at most while `work` went on, and that it took."""
    worst = 0.0
    began = time.monotonic()
    task = asyncio.ensure_future(work)
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.001)
        worst = max(worst, time.monotonic() - before)
    await task
    return worst, time.monotonic() - began


def test_others_are_answered_while_a_large_page_of_metrics_is_written() -> None:
    app = make_metrics_app(Metrics(Crowded(), "3.10.8"))
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/metrics/detailed",
        "headers": [],
        "query_string": b"family=queue_coarse_metrics&family=queue_consumer_count",
    }
    sent: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    async def scrape() -> None:
        await app(scope, receive, send)

    worst_s, took_s = asyncio.run(longest_pause(scrape()))
    assert b"".join(sent).count(b'queue="q') == 7 * COUNT
    assert worst_s < took_s / 3, f"{worst_s:.2f} of {took_s:.2f} s"
