"""pika: all kinds of exchanges, exchanges behind exchanges, alternates, CC and BCC."""

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.through_pika import take


class Binding(NamedTuple):
    """Queue `queue` is bound with this key and these arguments."""

    queue: str
    key: str = ""
    arguments: dict[str, Any] | None = None


class Sent(NamedTuple):
    """A message with this key and these headers must reach exactly the queues in `reached`."""

    reached: str
    key: str = ""
    headers: dict[str, Any] | None = None


TABLE: dict[str, tuple[str, list[Binding], list[Sent]]] = {
    "direct": (
        "direct",
        [Binding("a", "k"), Binding("b", "k"), Binding("b", "l"), Binding("c", "K")],
        [Sent("ab", "k"), Sent("b", "l"), Sent("c", "K"), Sent("", "none"), Sent("", "")],
    ),
    "fanout": (
        "fanout",
        [Binding("a", "k"), Binding("a", "l"), Binding("b")],
        [Sent("ab", "whatever"), Sent("ab", "")],
    ),
    "topic": (
        "topic",
        [
            Binding("a", "x.*"),
            Binding("b", "x.#"),
            Binding("c", "#"),
            Binding("d", "*.y.#.z"),
            Binding("e", "x..z"),
            Binding("f", "#.#"),
        ],
        [
            Sent("bcf", "x"),
            Sent("abcf", "x.y"),
            Sent("bcdf", "x.y.z"),
            Sent("bcdf", "x.y.1.2.z"),
            Sent("abcf", "x."),
            Sent("bcef", "x..z"),
            Sent("cf", ""),
            Sent("cf", "other"),
            Sent("cf", "*.y.z.q"),
        ],
    ),
    "headers": (
        "headers",
        [
            Binding("a", "", {"x-match": "all", "one": 1, "two": "2"}),
            Binding("b", "", {"x-match": "any", "one": 1, "two": "2"}),
            Binding("c", "", {"one": 1}),
            Binding("d", "", {"x-match": "all", "there": None}),
            Binding("e", "", {"x-match": "all"}),
            Binding("f", "", {"x-match": "any"}),
            Binding("g", "", {"x-match": "all", "x-hidden": "no", "one": 1}),
            Binding("h", "", {"x-match": "all-with-x", "x-hidden": "yes", "one": 1}),
        ],
        [
            Sent("abceg", "", {"one": 1, "two": "2", "three": 3}),
            Sent("bceg", "", {"one": 1}),
            Sent("be", "", {"two": "2"}),
            Sent("de", "", {"there": "anything"}),
            Sent("e", "", {"one": "1"}),
            Sent("e", ""),
            Sent("bcegh", "", {"one": 1, "x-hidden": "yes"}),
        ],
    ),
}


@pytest.mark.parametrize("kind", TABLE)
def test_where_messages_go(channel: BlockingChannel, name: str, kind: str) -> None:
    exchange_type, bindings, messages = TABLE[kind]
    channel.exchange_declare(name, exchange_type)
    queues = sorted({binding.queue for binding in bindings})
    for queue in queues:
        channel.queue_declare(name + queue, exclusive=True)
    for binding in bindings:
        channel.queue_bind(name + binding.queue, name, binding.key, binding.arguments)
    for sent in messages:
        channel.basic_publish(name, sent.key, b"m", BasicProperties(headers=sent.headers))
        reached = "".join(queue for queue in queues if take(channel, name + queue))
        assert reached == sent.reached, sent
    channel.exchange_delete(name)


def test_unbinding_takes_only_that_binding_away(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "topic")
    channel.queue_declare(name, exclusive=True)
    for key in ("a.*", "*.b"):
        channel.queue_bind(name, name, key)
        channel.queue_bind(name, name, key)
    channel.queue_unbind(name, name, "a.*")
    channel.queue_unbind(name, name, "never bound")
    for key in ("a.x", "x.b", "a.b"):
        channel.basic_publish(name, key, key.encode())
    assert take(channel, name) == ["x.b", "a.b"]


def test_a_message_reaches_a_queue_once(channel: BlockingChannel, name: str) -> None:
    """Two ways to one queue, direct and through another exchange, give one message."""
    for exchange, kind in ((name, "topic"), (name + ".next", "fanout")):
        channel.exchange_declare(exchange, kind)
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, name, "#")
    channel.queue_bind(name, name, "a")
    channel.queue_bind(name, name + ".next")
    channel.exchange_bind(name + ".next", name, "a")
    channel.exchange_bind(name, name + ".next")  # a circle
    channel.basic_publish(name, "a", b"once")
    assert take(channel, name) == ["once"]
    channel.exchange_unbind(name + ".next", name, "a")
    channel.queue_unbind(name, name, "#")
    channel.queue_unbind(name, name, "a")
    channel.basic_publish(name, "a", b"nowhere")
    assert take(channel, name) == []


def test_an_internal_exchange_serves_other_exchanges(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "fanout", internal=True)
    channel.exchange_bind(name, "amq.topic", name + ".#")
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, name)
    channel.basic_publish("amq.topic", name + ".x", b"through")
    assert take(channel, name) == ["through"]
    channel.exchange_delete(name)


def test_the_alternate_gets_what_has_no_other_way(channel: BlockingChannel, name: str) -> None:
    alternates = [name, name + ".second", name + ".third"]
    for exchange, alternate in pairwise(alternates):
        channel.exchange_declare(exchange, arguments={"alternate-exchange": alternate})
    channel.queue_declare(name, exclusive=True)
    channel.queue_declare(name + ".last", exclusive=True)
    channel.queue_bind(name, name, "known")
    channel.confirm_delivery()
    channel.basic_publish(name, "unknown", b"the alternate is missing: dropped in silence")
    channel.exchange_declare(name + ".third", "fanout")
    channel.queue_bind(name + ".last", name + ".third")
    channel.basic_publish(name, "known", b"known", mandatory=True)
    channel.basic_publish(name, "unknown", b"unknown", mandatory=True)
    assert take(channel, name) == ["known"]
    assert take(channel, name + ".last") == ["unknown"]


def test_carbon_copies(channel: BlockingChannel, name: str) -> None:
    queues = [name + suffix for suffix in ("to", "cc", "bcc")]
    for queue in queues:
        channel.queue_declare(queue, exclusive=True)
    headers = {"CC": [queues[1], queues[0]], "BCC": [queues[2]], "other": 1}
    channel.basic_publish("", queues[0], b"m", BasicProperties(headers=headers))
    for queue in queues:
        got, properties, _ = channel.basic_get(queue, auto_ack=True)
        assert got.routing_key == queues[0]
        assert properties.headers == {"CC": [queues[1], queues[0]], "other": 1}
        assert take(channel, queue) == []


def test_the_default_exchange_knows_every_queue(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"here")
    assert take(channel, name) == ["here"]
    channel.queue_delete(name)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"nowhere")


def test_the_built_in_exchanges(channel: BlockingChannel) -> None:
    kinds = {"direct": "direct", "fanout": "fanout", "topic": "topic"}
    for suffix, kind in {**kinds, "headers": "headers", "match": "headers"}.items():
        channel.exchange_declare("amq." + suffix, kind, durable=True)
        channel.exchange_declare("amq." + suffix, passive=True)
