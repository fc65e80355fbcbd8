"""pika: the life of queues, and what their methods count."""

import pytest
from pika import BasicProperties, BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.conformance.live import Broker
from tests.conformance.through_pika import connect, counts, deliveries, publish, take, wait
from tests.patience import PATIENCE_S


def missing(broker: Broker, queue: str) -> bool:
    """Does a passive declare on a fresh connection say 404?"""
    with connect(broker) as other:
        try:
            other.channel().queue_declare(queue, passive=True)
        except ChannelClosedByBroker as closed:
            return bool(closed.reply_code == 404)
        return False


def test_declare_and_passive_declare_count(channel: BlockingChannel, name: str) -> None:
    # Confirms make the counts exact: RabbitMQ lets a declare overtake publishes on their way.
    channel.confirm_delivery()
    declared = channel.queue_declare(name).method
    assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 0)
    publish(channel, name, "a", "b", "c")
    assert counts(channel, name) == (3, 0)
    deliveries(channel, name, 3)
    assert counts(channel, name) == (0, 1)
    assert channel.queue_purge(name).method.message_count == 0, "only what is ready is purged"


def test_purge_and_delete_tell_how_many(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    channel.queue_declare(name)
    publish(channel, name, "a", "b", "c")
    assert channel.queue_purge(name).method.message_count == 3
    publish(channel, name, "d", "e")
    assert channel.queue_delete(name).method.message_count == 2
    assert channel.queue_delete(name).method.message_count == 0


def test_the_broker_names_a_queue_that_has_no_name(channel: BlockingChannel) -> None:
    names = {channel.queue_declare("", exclusive=True).method.queue for _ in range(3)}
    assert len(names) == 3
    assert all(queue.startswith("amq.gen-") and len(queue) == 30 for queue in names)


def test_an_empty_name_means_the_queue_declared_last(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    publish(channel, name, "a")
    got, _, body = channel.basic_get("", auto_ack=True)
    assert got is not None and body == b"a"
    channel.queue_bind("", "amq.direct", name + ".key")
    publish(channel, name + ".key", "b", exchange="amq.direct")
    assert take(channel, name) == ["b"]
    channel.queue_bind("", "amq.topic")
    publish(channel, name, "by name", exchange="amq.topic")
    assert take(channel, name) == ["by name"], "both empty: the key is the queue's name"


def test_an_exclusive_queue_goes_with_its_connection(broker: Broker, name: str) -> None:
    with connect(broker) as owner:
        owner.channel().queue_declare(name, exclusive=True)
    assert missing(broker, name)


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    broker: Broker, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, auto_delete=True)
    assert not missing(broker, name), "it waits for its first consumer"
    tags = [channel.basic_consume(name, lambda *_: None) for _ in range(2)]
    channel.basic_cancel(tags[0])
    assert not missing(broker, name)
    channel.basic_cancel(tags[1])
    assert missing(broker, name)


def test_a_closed_channel_cancels_too(
    broker: Broker, connection: BlockingConnection, name: str
) -> None:
    consumer = connection.channel()
    consumer.queue_declare(name, auto_delete=True)
    consumer.basic_consume(name, lambda *_: None)
    consumer.close()
    assert missing(broker, name)


def test_an_auto_delete_exchange_goes_with_its_last_binding(
    channel: BlockingChannel, connection: BlockingConnection, name: str
) -> None:
    channel.exchange_declare(name, auto_delete=True)
    for queue in (name + ".a", name + ".b"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, name)
    channel.queue_unbind(name + ".a", name)
    channel.exchange_declare(name, passive=True)
    channel.queue_delete(name + ".b")
    with pytest.raises(ChannelClosedByBroker, match="no exchange"):
        channel.exchange_declare(name, passive=True)
    connection.channel().queue_delete(name + ".a")


def test_deleting_a_queue_tells_its_consumers(
    connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    told: list[str] = []
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    channel.basic_consume(queue, lambda *_: None, consumer_tag="watching")
    connection.channel().queue_delete(queue)
    wait(channel, lambda: told)
    assert told == ["watching"]
    channel.basic_qos(prefetch_count=1)


@pytest.mark.parametrize(
    ("arguments", "published", "left"),
    [
        ({"x-max-length": 2}, "abcd", ["c", "d"]),
        ({"x-max-length": 0}, "ab", []),
        ({"x-max-length-bytes": 2}, "abc", ["b", "c"]),
        ({"x-max-length": 2, "x-overflow": "drop-head"}, "abc", ["b", "c"]),
        ({"x-max-length": 2, "x-overflow": "reject-publish"}, "abcd", ["a", "b"]),
    ],
    ids=str,
)
def test_a_bounded_queue_keeps_what_its_rule_says(
    channel: BlockingChannel,
    name: str,
    arguments: dict[str, object],
    published: str,
    left: list[str],
) -> None:
    channel.queue_declare(name, arguments=arguments)
    publish(channel, name, *published)
    assert take(channel, name) == left


def test_messages_expire_with_the_queues_lifetime_or_their_own(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    channel.queue_declare(name, arguments={"x-message-ttl": 60_000})
    publish(channel, name, "1", expiration="1")
    publish(channel, name, "2")
    wait(channel, lambda: counts(channel, name)[0] == 1)
    assert take(channel, name) == ["2"]
    publish(channel, name, "needs a consumer that waits", expiration="0")
    assert take(channel, name) == []


def test_priorities_are_served_highest_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 5})
    for body, priority in (("low", 1), ("none", None), ("high", 5), ("over", 9), ("low again", 1)):
        publish(channel, name, body, priority=priority)
    assert take(channel, name) == ["high", "over", "low", "low again", "none"]


def test_a_quorum_queue_counts_how_often_a_message_came_back(
    channel: BlockingChannel, name: str
) -> None:
    """basic.get always says it, a consumer sees it from the second time on; the publisher's own
    header gives way, and a dead letter has none. As RabbitMQ 3.10.8 does it."""
    count = "x-delivery-count"
    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 3}
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(f"{name}-dead", durable=True)
    channel.queue_declare(name, durable=True, arguments={**quorum, **dead})
    channel.confirm_delivery()
    properties = BasicProperties(delivery_mode=2, headers={"own": "kept", count: "mine"})
    channel.basic_publish("", name, b"m", properties)
    seen: list[object] = []
    for method, found, _ in channel.consume(name, inactivity_timeout=PATIENCE_S):
        assert method is not None and found.headers["own"] == "kept"
        seen.append(found.headers[count])
        channel.basic_nack(method.delivery_tag)
        if len(seen) == 2:
            break
    channel.cancel()
    assert seen[:2] == ["mine", 1]
    got: list[tuple[object, bool]] = []

    def look() -> bool:
        method, found, _ = channel.basic_get(name)
        if method is not None:
            got.append((found.headers[count], method.redelivered))
            channel.basic_nack(method.delivery_tag)
        return counts(channel, f"{name}-dead")[0] == 1

    wait(channel, look)
    assert got[-1] == (3, True)
    _, found, _ = channel.basic_get(f"{name}-dead", auto_ack=True)
    assert found.headers["own"] == "kept" and found.headers[count] == "mine"
