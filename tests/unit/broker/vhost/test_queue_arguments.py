"""Quorum queues as they are taken here: one replica, RabbitMQ's refusals, a delivery limit."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.broker.actors.log import Log
from penstock.broker.vhost.queue_arguments import (
    KindNotes,
    check_properties,
    check_queue,
    check_type,
    type_in_words,
)
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.queues.applied import merge_arguments
from penstock.queues.rules import NEVER, QUORUM_DELIVERY_LIMIT, rules_from
from tests.unit.broker.peer import Bed

QUORUM: Table = {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    ("name", "more", "text"),
    [
        ("", {}, "Cannot declare a server-named queue for type rabbit_quorum_queue"),
        (
            "q",
            {"x-max-priority": 3},
            "invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type "
            "rabbit_quorum_queue",
        ),
        (
            "q",
            {"x-queue-mode": "lazy"},
            "invalid arg 'x-queue-mode' for queue 'q' in vhost '/' of queue type "
            "rabbit_quorum_queue",
        ),
    ],
)
def test_what_a_quorum_queue_does_not_have(name: str, more: Table, text: str) -> None:
    with pytest.raises(ChannelFault) as fault:
        check_type(name, "/", {**QUORUM, **more})
    assert (fault.value.code, fault.value.text) == (406, text)
    check_type(name, "/", more)


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ((False, False, False), "non-durable"),
        ((False, False, True), "exclusive-owner"),
        ((True, True, True), "auto-delete"),
    ],
)
def test_what_a_quorum_queue_cannot_be(properties: tuple[bool, bool, bool], word: str) -> None:
    with pytest.raises(ChannelFault) as fault:
        check_properties("q", "/", *properties, QUORUM)
    assert fault.value.text == f"invalid property '{word}' for queue 'q' in vhost '/'"
    check_properties("q", "/", *properties, {})
    check_properties("q", "/", True, False, False, QUORUM)


@pytest.mark.parametrize(
    ("key", "value", "fault_text"),
    [
        ("x-quorum-initial-group-size", 3, ""),
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "balanced", ""),
        ("x-queue-leader-locator", "near", "invalid_queue_locator_arg"),
        ("x-delivery-limit", -1, ""),
    ],
)
def test_arguments_of_quorum_queues_are_looked_at(
    key: str, value: str | int, fault_text: str
) -> None:
    table: Table = {**QUORUM, key: value}
    if fault_text == "":
        check_queue("q", "/", table)
        return
    with pytest.raises(ChannelFault) as fault:
        check_queue("q", "/", table)
    assert fault.value.text == f"invalid arg '{key}' for queue 'q' in vhost '/': {fault_text}"


@pytest.mark.parametrize(
    ("arguments", "policy", "limit"),
    [
        (QUORUM, {}, QUORUM_DELIVERY_LIMIT),
        ({}, {}, NEVER),
        ({**QUORUM, "x-delivery-limit": 3}, {}, 3),
        ({**QUORUM, "x-delivery-limit": -1}, {}, NEVER),
        (QUORUM, {"delivery-limit": 50}, 50),
        ({**QUORUM, "x-delivery-limit": 3}, {"delivery-limit": 50}, 3),
    ],
)
def test_the_delivery_limit(arguments: Table, policy: dict[str, object], limit: int) -> None:
    assert rules_from(merge_arguments(arguments, policy)).delivery_limit == limit


class Lines(Log):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


def test_the_log_says_once_what_it_is() -> None:
    lines = Lines()
    notes = KindNotes(lines)
    notes.made("/", "plain", {"x-queue-type": "classic"})
    notes.made("/", "a", QUORUM)
    notes.made("/", "b", QUORUM)
    (said,) = lines.warnings
    assert said.startswith("queue 'a' in vhost '/'")
    assert "one replica" in said
    assert type_in_words(QUORUM) == "quorum"
    assert type_in_words({}) == ""


def test_a_message_is_given_up_after_twenty_redeliveries() -> None:
    bed = Bed()
    peer = bed.connect()
    declare = m.QueueDeclare("q", durable=True, arguments=QUORUM)
    assert peer.call(1, declare, m.QueueDeclareOk).message_count == 0
    peer.publish("q", b"poison")
    deliveries = 0
    while True:
        peer.say(1, m.BasicGet("q"))
        got = peer.heard()[-1].method
        if not isinstance(got, m.BasicGetOk):
            break
        deliveries += 1
        peer.say(1, m.BasicNack(got.delivery_tag, requeue=True))
    assert isinstance(got, m.BasicGetEmpty)
    assert deliveries == QUORUM_DELIVERY_LIMIT + 1
