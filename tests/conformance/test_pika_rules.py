"""pika: what a queue does by its arguments: lifetimes, limits, priorities, choice of consumers."""

from __future__ import annotations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.conformance.through_pika import counts, publish, wait


def declare(channel: BlockingChannel, name: str, **arguments: object) -> None:
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.confirm_delivery()
    channel.queue_declare(name, arguments=table)


def drain(channel: BlockingChannel, name: str) -> list[str]:
    bodies: list[str] = []
    while True:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            return bodies
        bodies.append((body or b"").decode())


def test_messages_expire_with_the_queues_lifetime_or_their_own(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name, message_ttl=60_000)
    channel.basic_publish("", name, b"1", BasicProperties(expiration="1"))
    publish(channel, name, "2")
    wait(channel, lambda: counts(channel, name)[0] == 1)
    assert drain(channel, name) == ["2"]


def test_a_lifetime_of_nothing_needs_a_consumer_that_waits(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name)
    channel.basic_publish("", name, b"1", BasicProperties(expiration="0"))
    assert drain(channel, name) == []


def test_the_oldest_go_at_the_limit(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, max_length=2)
    publish(channel, name, "1", "2", "3", "4")
    assert drain(channel, name) == ["3", "4"]


def test_publishes_are_refused_at_the_limit(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, max_length=1, overflow="reject-publish")
    publish(channel, name, "1")
    with pytest.raises(NackError):
        publish(channel, name, "2")
    assert drain(channel, name) == ["1"]


def test_higher_priorities_come_first(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, max_priority=5)
    for body, priority in (("low", 1), ("high", 5), ("above", 9), ("none", None)):
        channel.basic_publish("", name, body.encode(), BasicProperties(priority=priority))
    assert drain(channel, name) == ["high", "above", "low", "none"]
