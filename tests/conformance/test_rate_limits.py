"""A limited publisher gets its rate and nobody else notices; pika against a live broker."""

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.live import Broker, penstock_process
from tests.conformance.through_pika import connect, counts
from tests.patience import PATIENCE_S, undisturbed, until

pytestmark = pytest.mark.slow

RATE = 500
MEASURED_S = 3.0
BURST_S = 1
SLOW = "100/s"
LARGE = bytes(20_000)
"""What is published behind this has to wait for minutes at SLOW bytes."""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker in which one queue takes 500 messages a second.

    The burst is a second's, so that nothing is lost to a machine that is busy with other tests."""
    config = f'rate_burst_ms = {BURST_S * 1000}\n[[rates]]\nqueue = "/limited"\nmessages = {RATE}\n'
    with penstock_process(tmp_path_factory.mktemp("rates"), config=config) as running:
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


class Look(NamedTuple):
    """How much is in the queues at a moment between `from_s` and `to_s`."""

    from_s: float
    limited: int
    free: int
    to_s: float


def look(channel: BlockingChannel) -> Look:
    from_s = time.monotonic()
    limited, _ = counts(channel, "limited")
    free, _ = counts(channel, "free")
    return Look(from_s, limited, free, time.monotonic())


def has_its_rate(channel: BlockingChannel) -> bool:
    """Do RATE messages a second come into `limited`, and many more into `free`, while MEASURED_S?
    Not while the machine stands still."""
    # However often this is asked, it does not fill up.
    channel.queue_purge("free")
    first = look(channel)
    time.sleep(MEASURED_S)
    last = look(channel)
    is_whole = last.limited - first.limited >= 0.98 * RATE * (last.from_s - first.to_s)
    return is_whole and last.free - first.free > 2 * RATE * MEASURED_S


def test_a_limited_publisher_gets_its_rate_and_another_is_not_affected(limited: Broker) -> None:
    with connect(limited) as connection:
        channel = connection.channel()
        for queue in ("limited", "free"):
            channel.queue_declare(queue)
        publishers = [Publishing(limited, "limited"), Publishing(limited, "free")]
        start_s = time.monotonic()
        for publisher in publishers:
            publisher.start()
        time.sleep(1.5)  # The burst is over then.
        until(lambda: has_its_rate(channel), f"{RATE} messages a second, and many more beside them")
        last = look(channel)
        blocked = limited.asked("flow", do="edges", blocked=True)
        for publisher in publishers:
            publisher.is_over.set()
        # What the limited one has written would otherwise take as long as it takes.
        limited.change("rate.queue.messages:/limited", "off")
        for publisher in publishers:
            publisher.join(PATIENCE_S)
    # Whoever was slow meanwhile, no more than the burst and the rate have come.
    assert last.limited <= BURST_S * RATE + 1.02 * RATE * (last.to_s - start_s)
    edges = blocked["edges"]
    assert isinstance(edges, list)
    assert not any(edge["reason"] == "rate" and "free" in edge["receiver"] for edge in edges)


def test_acks_on_a_limited_connection_are_handled_promptly(limited: Broker, name: str) -> None:
    """One publish is over the rate and held; the ack comes behind it in the same connection."""

    def acked_after_s() -> float:
        """The quickest of three: what else the machine does only makes them slower."""
        with connect(limited) as watching, connect(limited) as connection:
            channel, other = connection.channel(), watching.channel()
            channel.queue_declare(name)
            for _ in range(3):
                channel.basic_publish("", name, b"x")
            got = [channel.basic_get(name)[0] for _ in range(3)]
            limited.change("rate.connection.bytes", SLOW)
            try:
                channel.basic_publish("", name, LARGE)
                channel.basic_publish("", name, b"is held")
                waited_s = []
                while got:
                    method = got.pop()
                    assert method is not None
                    start_s = time.monotonic()
                    channel.basic_ack(method.delivery_tag)
                    connection.process_data_events(0)
                    until(lambda: unacked(limited, name) == len(got), "the ack")
                    waited_s.append(time.monotonic() - start_s)
                ready, _ = counts(other, name)
            finally:
                limited.change("rate.connection.bytes", "off")
                other.queue_delete(name)
        assert ready == 1, "the second publish is still held"
        return min(waited_s)

    assert undisturbed(acked_after_s, 0.1, limited.pid) < 0.1


def unacked(broker: Broker, queue: str) -> int:
    rows = broker.asked("queues", name=queue)["queues"]
    assert isinstance(rows, list)
    return int(rows[0]["messages_unacknowledged"])
