"""Our own client against a live broker."""

import pytest

from penstock.client import io_blocking
from penstock.client.errors import ChannelClosedError, ConnectError
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from tests.conformance.live import Broker, free_port
from tests.patience import PATIENCE_S

PATIENCE_MS = int(PATIENCE_S * 1000)


def test_blocking_publishes_confirms_gets_and_consumes(broker: Broker) -> None:
    bodies = [b"", b"one", b"x" * 300_000]
    with io_blocking.connect(broker.patient_url, "own client") as connection:
        channel = connection.channel()
        queue = channel.declare_queue(exclusive=True).queue
        channel.confirm_select()
        for body in bodies:
            channel.publish("", queue, body, Properties(content_type="text/plain", priority=1))
        channel.wait_for_confirms(PATIENCE_MS)
        first = channel.get(queue)
        assert first is not None and first.properties.content_type == "text/plain"
        channel.ack(first)
        channel.qos(10)
        tag = channel.consume(queue)
        got: list[bytes] = []
        while len(got) < len(bodies) - 1:
            delivery = channel.next_delivery(PATIENCE_MS)
            assert delivery is not None and delivery.consumer_tag == tag
            channel.ack(delivery)
            got.append(delivery.body)
        assert got == bodies[1:]
        channel.cancel(tag)
        assert channel.get(queue) is None
        channel.close()


def test_blocking_binds_purges_and_deletes(broker: Broker) -> None:
    with io_blocking.connect(broker.patient_url) as connection:
        channel = connection.channel()
        queue = channel.declare_queue(exclusive=True).queue
        exchange = f"own-client-{queue}"
        channel.declare_exchange(exchange, "topic", auto_delete=True)
        channel.bind_queue(queue, exchange, "a.*")
        channel.publish(exchange, "a.b", b"kept")
        channel.publish(exchange, "b.b", b"lost")
        assert channel.purge_queue(queue) == 1
        channel.ask(m.QueueUnbind(queue, exchange, "a.*"), m.QueueUnbindOk)
        assert channel.delete_queue(queue) == 0


def test_a_channel_error_carries_code_and_text_and_spares_the_connection(broker: Broker) -> None:
    with io_blocking.connect(broker.patient_url) as connection:
        channel = connection.channel()
        with pytest.raises(ChannelClosedError, match="no queue 'never-declared'") as caught:
            channel.declare_queue("never-declared", passive=True)
        assert caught.value.code == 404
        assert connection.channel().declare_queue(exclusive=True).message_count == 0


def test_a_refused_connection_names_host_and_port() -> None:
    port = free_port()
    with pytest.raises(ConnectError, match=f"127.0.0.1:{port}: connection refused"):
        io_blocking.connect(f"amqp://127.0.0.1:{port}")


def test_a_refused_login_names_the_code(broker: Broker) -> None:
    with pytest.raises(ConnectError, match="403 ACCESS_REFUSED"):
        io_blocking.connect(f"amqp://nobody:wrong@{broker.host}:{broker.port}")
