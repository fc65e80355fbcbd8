"""The blocking client beside brokers that are frozen, killed, or out of memory."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from penstock.client.errors import ConnectionClosedError, ConsumerCancelledError
from penstock.client.io_blocking import connect
from penstock.testing import Broker
from tests.patience import until

MIB = b"x" * 1_048_576


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@contextmanager
def frozen(broker: Broker) -> Iterator[None]:
    """It is there, and neither reads nor says anything."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def ended(work: Callable[[], object]) -> BaseException | None:
    """What `work` raises. Raises: AssertionError when it does not end."""
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            found.append(error)
        else:
            found.append(None)

    Thread(target=run, daemon=True).start()
    until(lambda: found, "the call has ended")
    return found[0]


def test_a_publish_notices_that_the_broker_is_gone(broker: Broker) -> None:
    """It waited for room in the socket for ever, and nobody looked at heartbeats meanwhile."""
    connection = connect(f"{broker.url}?heartbeat=1")
    channel = connection.channel()

    def publish() -> None:
        for _ in range(64):
            channel.publish("", "nowhere", MIB)

    with frozen(broker):
        error = ended(publish)
    assert isinstance(error, ConnectionClosedError), error
    assert "the broker was silent for two heartbeats of 1 s" in str(error)
    connection.drop()


def test_who_was_busy_hears_what_the_broker_has_said_meanwhile(broker: Broker) -> None:
    """Its heartbeats lay in the socket, and it was taken for dead."""
    with connect(f"{broker.url}?heartbeat=1") as connection:
        time.sleep(2.2)
        connection.process()
        assert connection.channel().declare_queue(exclusive=True).message_count == 0


def test_a_publish_into_a_broken_socket_says_so() -> None:
    """The last one before the end of a program was lost without a word."""
    with Broker() as mortal:
        connection = connect(mortal.url)
        channel = connection.channel()
        mortal.restart(is_killed=True)
        with pytest.raises(ConnectionClosedError):
            for _ in range(2):
                # The first one is answered by a reset, which is here a little later.
                channel.publish("", "nowhere", b"lost")
                time.sleep(0.2)
        connection.drop()


def test_who_only_publishes_has_not_lost_a_broker_that_it_never_listened_to(
    broker: Broker,
) -> None:
    """After two minutes of publishing the next question ended the connection."""
    with connect(f"{broker.url}?heartbeat=1") as connection:
        channel = connection.channel()
        queue = channel.declare_queue(exclusive=True).queue
        for _ in range(30):
            channel.publish("", queue, b"one")
            time.sleep(0.1)
        assert channel.purge_queue(queue) == 30


def test_who_works_on_what_is_here_already_is_alive(broker: Broker) -> None:
    """Nothing was written meanwhile, no heartbeat either."""
    with connect(f"{broker.url}?heartbeat=1") as connection:
        channel = connection.channel()
        queue = channel.declare_queue(exclusive=True).queue
        for number in range(40):
            channel.publish("", queue, b"%d" % number)
        channel.consume(queue, no_ack=True)
        for number in range(40):
            delivery = channel.next_delivery()
            assert delivery is not None and delivery.body == b"%d" % number
            time.sleep(0.1)
        assert channel.purge_queue(queue) == 0


def test_who_looks_for_a_delivery_without_waiting_finds_it(broker: Broker) -> None:
    """Nothing was read from the socket, so there was never one."""
    with connect(broker.url) as connection:
        channel = connection.channel()
        queue = channel.declare_queue(exclusive=True).queue
        channel.consume(queue, no_ack=True)
        channel.publish("", queue, b"one")
        found: list[bytes] = []

        def look() -> None:
            delivery = channel.next_delivery(0)
            if delivery is not None:
                found.append(delivery.body)

        until(lambda: found, "the delivery", look)
        assert found == [b"one"]


def test_a_consumer_whose_queue_is_deleted_is_told(broker: Broker) -> None:
    """It waited for the next delivery for ever."""
    with connect(broker.url) as connection:
        channel, other = connection.channel(), connection.channel()
        for queue in ("goes", "stays"):
            channel.declare_queue(queue)
            channel.publish("", queue, queue.encode())
        tag = channel.consume("goes", no_ack=True)
        until(lambda: channel.inbox.deliveries, "it has come", lambda: connection.process(10))
        other.delete_queue("goes")
        first = channel.next_delivery()
        assert first is not None and first.body == b"goes"
        error = ended(channel.next_delivery)
        assert isinstance(error, ConsumerCancelledError) and error.consumer_tag == tag
        channel.consume("stays", no_ack=True)
        second = channel.next_delivery()
        assert second is not None and second.body == b"stays"
        channel.delete_queue("stays")
