"""Small verbs over an unmodified pika, so that a test reads as the story it checks."""

import time
from typing import Any

from pika import BasicProperties, BlockingConnection, ConnectionParameters, PlainCredentials
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.live import Broker
from tests.patience import PATIENCE_S


def connect(broker: Broker, **parameters: Any) -> BlockingConnection:
    """A blocking connection whose every wait for the broker is bounded."""
    return BlockingConnection(
        ConnectionParameters(
            host=broker.host,
            port=broker.port,
            virtual_host=broker.vhost,
            credentials=PlainCredentials(broker.user, broker.password),
            blocked_connection_timeout=PATIENCE_S,
            socket_timeout=PATIENCE_S,
            stack_timeout=PATIENCE_S,
            **parameters,
        )
    )


def publish(
    channel: BlockingChannel, queue: str, *bodies: str, exchange: str = "", **properties: Any
) -> None:
    """Publish each body with the queue's name (or a routing key) as the key."""
    for body in bodies:
        channel.basic_publish(exchange, queue, body.encode(), BasicProperties(**properties))


def take(channel: BlockingChannel, queue: str, *, ack: bool = True) -> list[str]:
    """Every message that is ready, by basic.get; a redelivered one starts with `again:`."""
    found: list[str] = []
    while True:
        got, _, body = channel.basic_get(queue, auto_ack=ack)
        if got is None:
            return found
        found.append(("again:" if got.redelivered else "") + body.decode())


def deliveries(channel: BlockingChannel, queue: str, count: int) -> list[str]:
    """Consume until `count` messages came or the wait ran out; what was seen, left unacknowledged.

    Consumers of the channel's own stay; this one stays too, so that its messages stay unsettled.
    """
    seen: list[str] = []

    def keep(_channel: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        seen.append(("again:" if method.redelivered else "") + body.decode())

    channel.basic_consume(queue, keep)
    wait(channel, lambda: len(seen) >= count)
    return seen


def wait(channel: BlockingChannel, done: Any, *, s_max: float = PATIENCE_S) -> None:
    """Let pika handle what arrives until `done()`; raises AssertionError after `s_max` seconds."""
    # By the clock: pika ends a round early for each delivery.
    end_s = time.monotonic() + s_max
    while not done():
        assert time.monotonic() < end_s, "nothing came"
        channel.connection.process_data_events(time_limit=0.05)


def counts(channel: BlockingChannel, queue: str) -> tuple[int, int]:
    """Messages ready and consumers, as a passive declare tells them."""
    method = channel.queue_declare(queue, passive=True).method
    return method.message_count, method.consumer_count
