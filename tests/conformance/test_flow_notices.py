"""pika and py-amqp hear that one queue holds them: connection.blocked with its name, and
channel.flow where they have asked for it, with the replies each of them gives or does not give."""

import contextlib
import socket
from collections.abc import Iterator, Sized

import amqp  # type: ignore[import-untyped]  # it has neither stubs nor py.typed
import pytest
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Channel as PikaChannel

from tests.conformance.live import Broker, penstock_process
from tests.conformance.through_pika import connect
from tests.patience import until

pytestmark = pytest.mark.slow

DEPTH_BYTES = 1_000_000
BODY = b"x" * 20_000
ENOUGH = 350
"""More than a queue of DEPTH_BYTES and a window of 4 MiB before it take (about 260), and too few to
fill a second window: that could stop the socket, and pika would then wait in a publish."""


@pytest.fixture(scope="module")
def shallow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose queues are soon full, and which tells its clients."""
    config = f"queue_depth_bytes = {DEPTH_BYTES}\nnotify_blocked_ms = 300\nparked_bytes = 1\n"
    with penstock_process(tmp_path_factory.mktemp("notices"), config=config) as running:
        yield running


def pika_connection(broker: Broker, **capabilities: bool) -> BlockingConnection:
    properties = {"capabilities": {"connection.blocked": True, **capabilities}}
    return connect(broker, client_properties=properties)


def purge(broker: Broker, queue: str) -> None:
    with pika_connection(broker) as other:
        other.channel().queue_purge(queue)


def fill(connection: BlockingConnection, channel: BlockingChannel, queue: str, told: Sized) -> None:
    """Publish to `queue` until the client is told something."""
    channel.queue_declare(queue)
    for _ in range(ENOUGH):
        if not told:
            channel.basic_publish("", queue, BODY)
            connection.process_data_events(time_limit=0)
    until(lambda: told, "a stop", lambda: connection.process_data_events(time_limit=0.05))


def relieve(broker: Broker, connection: BlockingConnection, queue: str, told: Sized) -> None:
    """Purge `queue` until the client is told something else."""

    def look() -> None:
        purge(broker, queue)
        connection.process_data_events(time_limit=0.1)

    until(lambda: len(told) > 1, "the end of it", look)


def test_pika_is_told_which_queue_holds_it(shallow: Broker, name: str) -> None:
    with pika_connection(shallow) as connection:
        told: list[str] = []
        connection.add_on_connection_blocked_callback(
            lambda _connection, frame: told.append(frame.method.reason)
        )
        connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        channel = connection.channel()
        fill(connection, channel, name, told)
        assert told[0].startswith(f"held for room in queue /{name} since ")
        assert "penstock why connection" in told[0]
        relieve(shallow, connection, name, told)
        assert told[1] == "unblocked"
        # Over this connection the method would stand behind what is still in its socket.
        with pika_connection(shallow) as other:
            other.channel().queue_delete(name)


def test_pika_never_answers_channel_flow_and_stays(shallow: Broker, name: str) -> None:
    """It has a callback for it and no reply: nothing depends on one."""
    with pika_connection(shallow, **{"channel.flow": True}) as connection:
        channel = connection.channel()
        flows: list[bool] = []
        channel._impl.add_callback(
            lambda frame: flows.append(frame.method.active), [PikaChannel.Flow], one_shot=False
        )
        fill(connection, channel, name, flows)
        assert flows == [False]
        # The broker waits 10 s for the reply that never comes, and then goes on without it.
        relieve(shallow, connection, name, flows)
        # The queue may be full again by now: what is held behind it fills it.
        assert flows[:2] == [False, True]
        channel.basic_publish("", name, b"it is still open")
        until(
            lambda: channel.basic_get(name, auto_ack=True)[2] == b"it is still open",
            "what was published last",
        )
        channel.queue_delete(name)


def test_py_amqp_answers_and_is_let_on(shallow: Broker, name: str) -> None:
    properties = {"capabilities": {"connection.blocked": True, "channel.flow": True}}
    address = f"{shallow.host}:{shallow.port}"
    with amqp.Connection(
        address,
        shallow.user,
        shallow.password,
        client_properties=properties,
        # It is 1 s by default, and Linux ends a socket that nobody reads for so long.
        socket_settings={socket.TCP_USER_TIMEOUT: 60_000},
    ) as connection:
        channel = connection.channel()
        channel.queue_declare(name, auto_delete=False)

        def listen() -> None:
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.05)

        for number in range(ENOUGH):
            if channel.active:
                channel.basic_publish(amqp.Message(BODY), routing_key=name)
                if number % 20 == 19:
                    listen()
        until(lambda: not channel.active, "a stop", listen)

        def look() -> None:
            purge(shallow, name)
            listen()

        until(lambda: channel.active, "the end of it", look)
        channel.queue_delete(name)


@pytest.fixture(scope="module")
def of_2008(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that tells its clients of alarms as RabbitMQ 1.5 did (seed S2)."""
    config = 'profile = "rabbitmq-1.5"\n'
    with penstock_process(tmp_path_factory.mktemp("broadcast"), config=config) as running:
        yield running


def test_every_channel_of_every_client_hears_of_a_memory_alarm(of_2008: Broker, name: str) -> None:
    """pika, which never answers, and py-amqp, which does; neither has asked for it."""
    address = f"{of_2008.host}:{of_2008.port}"
    with (
        connect(of_2008) as pika,
        amqp.Connection(address, of_2008.user, of_2008.password) as other,
    ):
        channels = [pika.channel(), pika.channel()]
        flows: list[tuple[int, bool]] = []
        for one in channels:
            one._impl.add_callback(
                lambda frame: flows.append((frame.channel_number, frame.method.active)),
                [PikaChannel.Flow],
                one_shot=False,
            )
        own = other.channel()
        own.queue_declare(name, auto_delete=False)

        def listen() -> None:
            pika.process_data_events(time_limit=0.05)
            with contextlib.suppress(TimeoutError):
                other.drain_events(timeout=0.05)

        of_2008.change("memory.high", "1MB")
        until(lambda: len(flows) == 2 and not own.active, "a pause on every channel", listen)
        assert flows == [(1, False), (2, False)]
        channels[0].basic_publish("", name, b"taken all the same")
        until(
            lambda: channels[1].basic_get(name, auto_ack=True)[2] == b"taken all the same",
            "what was published meanwhile",
        )
        of_2008.change("memory.high", "95%")
        until(lambda: len(flows) == 4 and own.active, "the end of it", listen)
        assert flows[2:] == [(1, True), (2, True)]
        own.queue_delete(name)
