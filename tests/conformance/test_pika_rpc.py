"""pika: direct reply-to, and what the connection itself can do."""

from typing import Any

import pytest
from pika import BasicProperties, BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ProbableAuthenticationError, UnroutableError

from tests.conformance.live import Broker
from tests.conformance.through_pika import connect, counts, wait

REPLY_TO = "amq.rabbitmq.reply-to"


def test_a_direct_reply_finds_its_asker(
    broker: Broker, channel: BlockingChannel, name: str
) -> None:
    answers: list[tuple[Any, Any, bytes]] = []
    channel.basic_consume(REPLY_TO, lambda _c, m, p, b: answers.append((m, p, b)), auto_ack=True)
    channel.queue_declare(name)
    asked = BasicProperties(reply_to=REPLY_TO, correlation_id="1")
    channel.basic_publish("", name, b"question", asked)
    wait(channel, lambda: counts(channel, name)[0] == 1)
    with connect(broker) as other:
        server = other.channel()
        _, properties, body = server.basic_get(name, auto_ack=True)
        assert body == b"question"
        assert properties.reply_to.startswith(REPLY_TO + ".")
        alive = server.queue_declare(properties.reply_to, passive=True).method
        assert (alive.queue, alive.message_count, alive.consumer_count) == (
            properties.reply_to,
            0,
            1,
        )
        server.confirm_delivery()
        answer = BasicProperties(correlation_id="1")
        server.basic_publish("", properties.reply_to, b"answer", answer)
    wait(channel, lambda: answers)
    method, properties_back, body = answers[0]
    assert (body, properties_back.correlation_id) == (b"answer", "1")
    assert (method.exchange, method.redelivered) == ("", False)


def test_a_reply_to_someone_gone_is_unroutable(
    broker: Broker, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    with connect(broker) as asker:
        asking = asker.channel()
        asking.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
        asking.basic_publish("", name, b"question", BasicProperties(reply_to=REPLY_TO))
        asking.basic_qos()
    _, properties, _ = channel.basic_get(name, auto_ack=True)
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(properties.reply_to, passive=True)
    assert closed.value.reply_code == 404


def test_a_mandatory_reply_arrives(broker: Broker, channel: BlockingChannel, name: str) -> None:
    """RabbitMQ returns it as unroutable although it delivers it; Penstock, on purpose, does not."""
    answers: list[bytes] = []
    channel.basic_consume(REPLY_TO, lambda _c, _m, _p, b: answers.append(b), auto_ack=True)
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"question", BasicProperties(reply_to=REPLY_TO))
    _, properties, _ = channel.basic_get(name, auto_ack=True)
    channel.confirm_delivery()
    is_returned = False
    try:
        channel.basic_publish("", properties.reply_to, b"answer", mandatory=True)
    except UnroutableError:
        is_returned = True
    assert is_returned == (broker.pid == 0)
    wait(channel, lambda: answers)
    assert answers == [b"answer"]


def test_a_new_secret_is_accepted(connection: BlockingConnection) -> None:
    connection.update_secret("guest", "rotated")
    connection.channel()


def test_a_wrong_password_is_told(broker: Broker) -> None:
    wrong = Broker(broker.host, broker.port, broker.user, "wrong")
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        connect(wrong)


def test_a_channel_number_can_be_used_again(connection: BlockingConnection) -> None:
    for _ in range(3):
        channel = connection.channel(7)
        channel.basic_qos(prefetch_count=1)
        channel.close()


def test_what_an_answer_goes_to_is_no_queue(
    broker: Broker, connection: BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """It can be published to and asked for, and that is all."""
    channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
    channel.queue_declare(name)
    channel.basic_publish("", name, b"question", BasicProperties(reply_to=REPLY_TO))
    _, properties, _ = channel.basic_get(name, auto_ack=True)
    mine = properties.reply_to
    verbs: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("basic_get", ()),
        ("queue_bind", ("amq.fanout",)),
        ("queue_purge", ()),
        ("basic_consume", (lambda *_: None, True)),
    )
    for verb, more in verbs:
        with pytest.raises(ChannelClosedByBroker) as closed:
            getattr(connection.channel(), verb)(mine, *more)
        assert closed.value.reply_code == 404
    with connect(broker) as other:
        assert other.channel().queue_declare(mine, passive=True).method.consumer_count == 1
