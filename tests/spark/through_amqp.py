"""Queues and publishers for tests of the connector, through our own client."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock.client.errors import NackedError
from penstock.client.io_blocking import Channel, Connection, connect
from penstock.client.url import parse_url
from tests.patience import PATIENCE_S, until

PATIENCE_MS = int(PATIENCE_S * 1000)

NAMES = iter(range(10**9))


def patiently(url: str) -> Connection:
    """A connection that may be left alone for as long as a test takes, and opens in its time."""
    where = parse_url(url)
    return connect(replace(where, heartbeat_s=0, connection_timeout_ms=PATIENCE_MS))


@contextmanager
def queue_at(
    url: str, arguments: Mapping[str, str | int] | None = None
) -> Iterator[tuple[Channel, str]]:
    """A confirming channel and a new durable queue, deleted afterwards."""
    with patiently(url) as connection:
        channel = connection.channel()
        name = f"connector.{os.getpid()}.{next(NAMES)}"
        channel.declare_queue(name, durable=True, arguments=dict(arguments or {}))
        channel.confirm_select()
        yield channel, name
        channel.delete_queue(name)


def publish(channel: Channel, queue: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        channel.publish("", queue, b"%d" % number)
    channel.wait_for_confirms(PATIENCE_MS)


def read_stream(url: str, stream: str) -> list[bytes]:
    """Everything in `stream`, in its order."""
    with patiently(url) as connection:
        channel = connection.channel()
        count = channel.declare_queue(stream, passive=True).message_count
        channel.qos(max(1, min(count, 60_000)))
        channel.consume(stream, arguments={"x-stream-offset": "first"})
        found: list[bytes] = []
        while len(found) < count:
            one = channel.next_delivery(PATIENCE_MS)
            assert one is not None, f"{len(found)} of {count} rows"
            found.append(one.body)
            channel.ack(one)
        return found


class Publisher:
    """Publishes numbers as fast as it is let, in a thread; what is refused is tried again."""

    WINDOW = 10

    def __init__(self, url: str, queue: str) -> None:
        self.confirmed: list[str] = []
        self._is_stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(url, queue))
        self.thread.start()

    def hold(self, engine: Any, count: int, ahead_most: int) -> None:
        """Let `engine` be a slow sink until `count` were confirmed, of which no more than
        `ahead_most` may be ahead of it; then let both end. The offset has one number."""
        try:
            while len(self.confirmed) < count:
                engine.step()
                # Publishers would be a hundred times as fast.
                time.sleep(0.05)
                (done,) = (number for number in engine.end.values() if isinstance(number, int))
                assert len(self.confirmed) - done <= ahead_most + self.WINDOW
        finally:
            self.stop(engine.step)
            engine.drain(rows=len(self.confirmed))
            engine.stop()

    def stop(self, step: Callable[[], object]) -> None:
        """Let it end with what it has begun, for which `step` makes room."""
        self._is_stopping.set()
        until(lambda: not self.thread.is_alive(), "the publisher's end", step)
        self.thread.join()

    def _run(self, url: str, queue: str) -> None:
        with patiently(url) as connection:
            channel = connection.channel()
            channel.confirm_select()
            number = 0
            while not self._is_stopping.is_set():
                sent = {
                    channel.publish("", queue, b"%d" % n): str(n)
                    for n in range(number, number + self.WINDOW)
                }
                number += self.WINDOW
                try:
                    channel.wait_for_confirms(PATIENCE_MS)
                except NackedError as refused:
                    for sequence in refused.sequences:
                        del sent[sequence]
                    # As clients do that were told that a queue is full.
                    self._is_stopping.wait(0.01)
                self.confirmed += sent.values()
