"""py-amqp and kombu: what they do differently from pika, against the live broker."""

import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.conformance.live import Broker
from tests.patience import PATIENCE_S, undisturbed

# Neither library describes its types well enough to be checked against.
amqp: Any = import_module("amqp")
kombu: Any = import_module("kombu")


def connected(broker: Broker, **options: Any) -> Any:
    """A kombu connection that is as patient as the tests are."""
    return kombu.Connection(broker.url, connect_timeout=PATIENCE_S, transport_options=options)


@pytest.fixture
def connection(broker: Broker) -> Iterator[Any]:
    """A py-amqp connection; a test may leave it closed by the broker."""
    opened = amqp.Connection(
        f"{broker.host}:{broker.port}", broker.user, broker.password, confirm_publish=True
    )
    opened.connect()
    yield opened
    if opened.connected:
        opened.close()


def ack_unknown(channel: Any, _: str) -> None:
    """A method without a reply: the error comes when the connection is read next."""
    channel.basic_ack(9)
    channel.connection.drain_events(timeout=PATIENCE_S)


def recover_without_requeue(channel: Any, _: str) -> None:
    """py-amqp does not wait for the reply."""
    channel.basic_recover(requeue=False)
    channel.connection.drain_events(timeout=PATIENCE_S)


def test_amqp_declares_publishes_and_gets(connection: Any, name: str) -> None:
    channel = connection.channel()
    channel.exchange_declare(name, "topic", auto_delete=True)
    declared = channel.queue_declare(name, auto_delete=True)
    assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 0)
    channel.queue_bind(name, name, "a.#")
    headers = {"int": 1, "float": 1.5, "list": [1, "2"], "none": None, "true": True}
    channel.basic_publish(
        amqp.Message("body", content_type="text/plain", application_headers=headers), name, "a.b"
    )
    message = channel.basic_get(name)
    assert (message.body, message.headers) == ("body", headers)
    channel.basic_ack(message.delivery_tag)
    assert channel.basic_get(name) is None


def test_line_ends_are_taken_out_of_names(connection: Any, name: str) -> None:
    channel = connection.channel()
    assert channel.queue_declare(name + "\r\n", exclusive=True).queue == name


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda c, n: c.queue_declare(n, passive=True), amqp.NotFound, "no queue '{n}'"),
        (lambda c, n: c.queue_declare("amq." + n), amqp.AccessRefused, "reserved prefix"),
        (ack_unknown, amqp.PreconditionFailed, "tag 9"),
        (
            recover_without_requeue,
            amqp.AMQPNotImplementedError,
            "requeue",
        ),
    ],
)
def test_amqp_raises_what_the_code_means(
    connection: Any, name: str, call: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text.replace("{n}", name)):
        call(connection.channel(), name)


def test_amqp_heartbeats(broker: Broker) -> None:
    address = f"{broker.host}:{broker.port}"

    def story() -> None:
        with amqp.Connection(address, broker.user, broker.password, heartbeat=1) as connection:
            assert connection.heartbeat == 1
            beats = connection.bytes_recv
            for _ in range(8):
                with pytest.raises(TimeoutError):
                    connection.drain_events(timeout=0.3)
                connection.heartbeat_tick()
            assert connection.bytes_recv > beats
            connection.channel().basic_qos(0, 1, False)

    # Both ends are right to give up when the other is silent for two seconds.
    undisturbed(story, 0.5, broker.pid)


def test_kombu_produces_and_consumes(broker: Broker, name: str) -> None:
    got: list[Any] = []
    queue = kombu.Queue(name, kombu.Exchange(name, "direct", auto_delete=True), auto_delete=True)
    with connected(broker, confirm_publish=True) as connection:

        def keep(body: Any, message: Any) -> None:
            got.append(body)
            message.ack()

        with connection.Consumer(queue, callbacks=[keep], prefetch_count=2):
            with connection.Producer() as producer:
                for number in range(5):
                    producer.publish(
                        {"n": number}, exchange=name, routing_key="", serializer="json"
                    )
            while len(got) < 5:
                connection.drain_events(timeout=PATIENCE_S)
    assert got == [{"n": number} for number in range(5)]


def test_kombu_simple_queue(broker: Broker, name: str) -> None:
    with connected(broker, confirm_publish=True) as connection:
        simple = connection.SimpleQueue(name)
        for number in range(3):
            simple.put(number)
        assert simple.qsize() == 3
        message = simple.get(timeout=PATIENCE_S)
        message.requeue()
        taken = []
        for _ in range(3):
            message = simple.get(timeout=PATIENCE_S)
            taken.append(message.payload)
            message.ack()
        assert sorted(taken) == [0, 1, 2]
        simple.close()
        connection.default_channel.queue_delete(name)


def test_kombu_pool_from_many_threads(broker: Broker, name: str) -> None:
    # Confirms make the count exact: other connections' publishes may still be on their way.
    pool = connected(broker, confirm_publish=True).Pool(4)
    failures: list[BaseException] = []

    def publish(number: int) -> None:
        try:
            for _ in range(10):
                with pool.acquire(block=True, timeout=PATIENCE_S) as connection:
                    connection.Producer().publish(number, routing_key=name, retry=False)
        except Exception as error:
            failures.append(error)

    with connected(broker) as connection:
        queue = kombu.Queue(name, routing_key=name, auto_delete=True)(connection.default_channel)
        queue.declare()
        threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert failures == []
        pool.force_close_all()
        assert queue.queue_declare(passive=True).message_count == 80
        queue.delete()
