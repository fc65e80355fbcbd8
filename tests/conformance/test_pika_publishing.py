"""pika: confirms, returns, transactions, properties, and bodies of every size."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pika import BasicProperties, BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError, UnroutableError

from tests.conformance.live import Broker
from tests.conformance.through_pika import connect, publish, take, wait

BODY_BYTES_MAX = 16 * 1024 * 1024


def test_an_unroutable_mandatory_message_comes_back(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    properties = BasicProperties(headers={"who": "me"}, message_id="1")
    with pytest.raises(UnroutableError) as error:
        channel.basic_publish("amq.direct", name, b"m", properties, mandatory=True)
    (returned,) = error.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", name)
    assert returned.properties.headers == {"who": "me"}
    assert returned.body == b"m"


def test_a_full_queue_refuses_by_nack(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(
        name, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    channel.confirm_delivery()
    publish(channel, name, "fits")
    with pytest.raises(NackError):
        publish(channel, name, "does not")
    assert take(channel, name) == ["fits"]


def test_confirms_also_for_what_went_nowhere(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("amq.direct", name, b"dropped")


def test_a_transaction_publishes_at_commit(
    connection: BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    other = connection.channel()
    channel.queue_declare(name)
    channel.tx_select()
    publish(channel, name, "a", "b")
    assert take(other, name) == []
    channel.tx_commit()
    assert take(other, name) == ["a", "b"]
    publish(channel, name, "c")
    channel.tx_rollback()
    channel.tx_commit()
    assert take(other, name) == []


def test_a_transaction_acknowledges_at_commit(
    connection: BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    other = connection.channel()
    channel.queue_declare(name)
    publish(channel, name, "a", "b", "c")
    channel.tx_select()
    assert take(channel, name, ack=False) == ["a", "b", "c"]
    channel.basic_ack(1)
    channel.tx_rollback()
    channel.basic_ack(1)
    channel.basic_reject(2, requeue=False)
    channel.tx_commit()
    channel.basic_ack(3)
    channel.close()
    assert take(other, name) == ["again:c"], "its acknowledgement was never committed"


PROPERTIES = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={
        "text": "schön",
        "long": "x" * 70_000,
        "int": 1,
        "negative": -5,
        "big": 2**40,
        "true": True,
        "none": None,
        "bytes": b"\x00\xff",
        "list": [1, "two", [3], {"four": 4}],
        "table": {"nested": {"deeper": "yes"}},
        "decimal": Decimal("1.25"),
        "time": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        "": "empty key",
    },
    delivery_mode=2,
    priority=7,
    correlation_id="corr",
    reply_to="reply",
    expiration="60000",
    message_id="id",
    timestamp=1_600_000_000,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


def test_every_property_survives(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"m", PROPERTIES)
    _, properties, _ = channel.basic_get(name, auto_ack=True)
    assert vars(properties) == vars(PROPERTIES)


def test_no_properties_at_all(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"m")
    _, properties, _ = channel.basic_get(name, auto_ack=True)
    assert vars(properties) == vars(BasicProperties())


@pytest.mark.parametrize("frame_bytes_max", [4096, 131072])
@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 131064, 131065, 1_000_003])
def test_bodies_of_every_size(broker: Broker, name: str, frame_bytes_max: int, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    with connect(broker, frame_max=frame_bytes_max) as connection:
        channel = connection.channel()
        channel.queue_declare(name, exclusive=True)
        channel.confirm_delivery()
        channel.basic_publish("", name, body)
        assert channel.basic_get(name, auto_ack=True)[2] == body
        seen: list[bytes] = []
        channel.basic_consume(name, lambda _c, _m, _p, b: seen.append(b), auto_ack=True)
        channel.basic_publish("", name, body)
        wait(channel, lambda: seen)
        assert seen == [body]


@pytest.mark.slow
def test_the_largest_body(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.confirm_delivery()
    body = bytes(range(256)) * (BODY_BYTES_MAX // 256)
    channel.basic_publish("", name, body)
    assert channel.basic_get(name, auto_ack=True)[2] == body


def test_many_channels_do_not_mix(connection: BlockingConnection, name: str) -> None:
    channels = [connection.channel() for _ in range(20)]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"{name}.{number}", exclusive=True)
    for turn in range(10):
        for number, channel in enumerate(channels):
            publish(channel, f"{name}.{number}", f"{number}/{turn}")
    for number, channel in enumerate(channels):
        assert take(channel, f"{name}.{number}") == [f"{number}/{turn}" for turn in range(10)]


def test_a_thousand_messages_stay_in_order(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    sent = [str(number) for number in range(1000)]
    publish(channel, name, *sent)
    seen: list[str] = []
    channel.basic_consume(name, lambda _c, _m, _p, b: seen.append(b.decode()), auto_ack=True)
    wait(channel, lambda: len(seen) == len(sent))
    assert seen == sent
