"""pika: exchanges that delay, and exchanges and queues that know duplicates.

The plugins that bring them to RabbitMQ are not part of it, so these run against Penstock alone.
"""

import time
from itertools import combinations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.conformance.live import Broker
from tests.conformance.through_pika import counts, take, wait


@pytest.fixture(autouse=True)
def _ours(broker: Broker) -> None:
    if not broker.pid:
        pytest.skip("RabbitMQ has these as plugins of others")


def headers(**table: object) -> BasicProperties:
    return BasicProperties(headers={key.replace("_", "-"): value for key, value in table.items()})


def delayed(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": "topic"})
    channel.queue_declare(name)
    channel.queue_bind(name, name, "a.#")


def test_messages_come_when_their_time_has_come(channel: BlockingChannel, name: str) -> None:
    delayed(channel, name)
    channel.confirm_delivery()
    seen: list[tuple[bytes, object, float]] = []

    def keep(_channel: object, _method: object, found: BasicProperties, body: bytes) -> None:
        seen.append((body, found.headers, time.monotonic()))

    channel.basic_consume(name, keep, auto_ack=True)
    # Between these two moments each falls due.
    due_s: dict[bytes, tuple[float, float]] = {}
    for body, delay in ((b"third", 400), (b"second", 200), (b"first", 0)):
        early_s = time.monotonic() + delay / 1000
        channel.basic_publish(name, "a.b", body, headers(x_delay=delay))
        due_s[body] = (early_s, time.monotonic() + delay / 1000)
    wait(channel, lambda: len(seen) == 3)
    assert {body: table for body, table, _ in seen if body != b"first"} == {
        b"second": {"x-delay": -200},
        b"third": {"x-delay": -400},
    }
    assert all(came_s >= due_s[body][0] for body, _, came_s in seen)
    for (one, _, _), (other, _, _) in combinations(seen, 2):
        # A machine that stood still between two publishes may have turned their order round.
        assert due_s[one][0] <= due_s[other][1], (one, other)


def test_a_delayed_mandatory_message_comes_back_at_once(
    channel: BlockingChannel, name: str
) -> None:
    delayed(channel, name)
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish(name, "a", b"m", headers(x_delay=1), mandatory=True)
    wait(channel, lambda: counts(channel, name)[0] == 1)


def test_an_inner_type_must_exist(channel: BlockingChannel, name: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.exchange_declare(name, "x-delayed-message")
    assert closed.value.reply_code == 406
    assert "'x-delayed-type' must be an existing exchange type" in closed.value.reply_text


def test_an_exchange_lets_a_message_through_once(channel: BlockingChannel, name: str) -> None:
    arguments = {"x-cache-size": 100, "x-cache-ttl": 60_000}
    channel.exchange_declare(name, "x-message-deduplication", arguments=arguments)
    channel.queue_declare(name)
    channel.queue_bind(name, name)
    for body in (b"1", b"2"):
        channel.basic_publish(name, "", body, headers(x_deduplication_header="same"))
    channel.basic_publish(name, "", b"3", headers(x_deduplication_header="other"))
    assert take(channel, name) == ["1", "3"]


def test_a_queue_takes_a_message_again_after_its_ack(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-message-deduplication": True})
    twin = headers(x_deduplication_header="same")
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body, twin)
    assert take(channel, name) == ["1"]
    channel.basic_publish("", name, b"3", twin)
    assert take(channel, name) == ["3"]


def test_modulus_hash_keeps_a_key_with_a_queue(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "x-modulus-hash")
    names = [f"{name}-{number}" for number in range(3)]
    for queue in names:
        channel.queue_declare(queue)
        channel.queue_bind(queue, name)
    for number in range(60):
        channel.basic_publish(name, f"key {number % 20}", b"m")
    lengths = [counts(channel, queue)[0] for queue in names]
    assert sum(lengths) == 60 and all(length % 3 == 0 for length in lengths)
    assert min(lengths) > 0
