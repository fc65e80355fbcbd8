"""A limited publisher gets its rate and nobody else notices; pika against a live broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.server.control_client import ask, control_path
from tests.conformance.live import Broker, penstock_process
from tests.conformance.through_pika import connect, counts

pytestmark = pytest.mark.slow

RATE = 500
MEASURED_S = 3.0


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker in which one queue takes 500 messages a second.

    The burst is a second's, so that nothing is lost to a machine that is busy with other tests."""
    folder: Path = tmp_path_factory.mktemp("rates")
    config = folder / "penstock.toml"
    config.write_text(
        f'rate_burst_ms = 1000\n[[rates]]\nqueue = "/limited"\nmessages = {RATE}\n',
        encoding="utf-8",
    )
    with penstock_process(folder, "--config", str(config)) as running:
        yield running


class Publishing(threading.Thread):
    """Publishes to `queue` as fast as it is let, without confirms."""

    def __init__(self, broker: Broker, queue: str) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.queue = queue
        self.is_over = threading.Event()

    def run(self) -> None:
        connection = connect(self.broker)
        channel = connection.channel()
        while not self.is_over.is_set():
            channel.basic_publish("", self.queue, b"x" * 64)
        connection.close()


def change(broker: Broker, key: str, value: str) -> None:
    ask(control_path(broker.port), {"op": "flow", "do": "set", "changes": {key: value}})


def rate_over(channel: BlockingChannel, queue: str, seconds: float) -> float:
    """Messages a second into `queue`, which nobody consumes."""
    before, _ = counts(channel, queue)
    start = time.monotonic()
    time.sleep(seconds)
    after, _ = counts(channel, queue)
    return (after - before) / (time.monotonic() - start)


def test_a_limited_publisher_gets_its_rate_and_another_is_not_affected(limited: Broker) -> None:
    with connect(limited) as connection:
        channel = connection.channel()
        for queue in ("limited", "free"):
            channel.queue_declare(queue)
        publishers = [Publishing(limited, "limited"), Publishing(limited, "free")]
        for publisher in publishers:
            publisher.start()
        time.sleep(1.5)  # The burst is over then.
        free_before, _ = counts(channel, "free")
        rate = rate_over(channel, "limited", MEASURED_S)
        free_after, _ = counts(channel, "free")
        blocked = ask(control_path(limited.port), {"op": "flow", "do": "edges", "blocked": True})
        for publisher in publishers:
            publisher.is_over.set()
        # What the limited one has written would otherwise take as long as it takes.
        change(limited, "rate.queue.messages:/limited", "off")
        for publisher in publishers:
            publisher.join(20)
    assert abs(rate - RATE) <= 0.02 * RATE, rate
    assert free_after - free_before > 2 * RATE * MEASURED_S
    edges = blocked["edges"]
    assert isinstance(edges, list)
    assert not any(edge["reason"] == "rate" and "free" in edge["receiver"] for edge in edges)


def test_acks_on_a_limited_connection_are_handled_promptly(limited: Broker, name: str) -> None:
    """One publish is over the rate and held; the ack comes behind it in the same connection."""
    with connect(limited) as watching, connect(limited) as connection:
        channel, other = connection.channel(), watching.channel()
        channel.queue_declare(name)
        for _ in range(3):
            channel.basic_publish("", name, b"x")
        got = [channel.basic_get(name)[0] for _ in range(3)]
        change(limited, "rate.connection.messages", "1/s")
        try:
            channel.basic_publish("", name, b"passes")
            channel.basic_publish("", name, b"is held")
            start = time.monotonic()
            for method in got:
                assert method is not None
                channel.basic_ack(method.delivery_tag)
            connection.process_data_events(0)
            while unacked(limited, name) > 0 and time.monotonic() - start < 5:
                time.sleep(0.002)
            waited_s = time.monotonic() - start
            ready, _ = counts(other, name)
        finally:
            change(limited, "rate.connection.messages", "off")
            other.queue_delete(name)
    assert waited_s < 0.1, waited_s
    assert ready == 1, "the second publish is still held"


def unacked(broker: Broker, queue: str) -> int:
    status = ask(control_path(broker.port), {"op": "status"})
    queues = status["queues"]
    assert isinstance(queues, dict)
    return int(queues[f"queue:/{queue}"]["unacked"])
