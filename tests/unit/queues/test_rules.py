"""Arguments and policies to rules, and back to words."""

import pytest

from penstock.queues.rules import (
    BACKPRESSURE,
    DROP_HEAD,
    LIFETIME_MS_MAX,
    NEVER,
    OVERFLOW_NAMES,
    QueueRules,
    rules_from,
    rules_in_words,
)

ALL = {
    "message-ttl": 5000,
    "expires": 60_000,
    "max-length": 10,
    "max-length-bytes": 1000,
    "delivery-limit": 3,
    "overflow": "backpressure",
    "max-priority": 9,
    "last-value-key": "routing-key",
    "dead-letter-exchange": "",
    "dead-letter-routing-key": "dead",
    "dead-letter-strategy": "at-least-once",
    "single-active-consumer": True,
}


@pytest.mark.parametrize("prefix", ["", "x-"])
def test_arguments_and_policies_say_the_same(prefix: str) -> None:
    rules = rules_from({prefix + key: value for key, value in ALL.items()})
    assert (rules.ttl_ms, rules.expires_ms) == (5000, 60_000)
    assert (rules.max_length, rules.max_bytes, rules.overflow) == (10, 1000, BACKPRESSURE)
    assert (rules.max_priority, rules.delivery_limit) == (9, 3)
    assert rules.last_value_key == "routing-key"
    assert (rules.dead_letter_exchange, rules.dead_letter_key) == ("", "dead")
    assert rules.is_at_least_once and rules.is_single_active
    said = {key: str(value).lower() if value is True else str(value) for key, value in ALL.items()}
    assert rules_in_words(rules) == said


def test_arguments_go_before_policies() -> None:
    assert rules_from({"x-max-length": 3, "max-length": 5}).max_length == 3


def test_nothing_is_said() -> None:
    rules = rules_from({"x-queue-mode": "lazy", "x-message-ttl": "soon", "overflow": "spill"})
    assert rules.is_plain() and rules_in_words(rules) == rules_in_words(QueueRules()) == {}
    assert (rules.ttl_ms, rules.max_length, rules.overflow) == (NEVER, NEVER, DROP_HEAD)


def test_lifetimes_of_64_bits_are_for_ever() -> None:
    assert rules_from({"x-message-ttl": 134_217_728_000}).ttl_ms == 134_217_728_000
    assert rules_from({"x-message-ttl": (1 << 64) - 1}).ttl_ms == LIFETIME_MS_MAX


def test_every_overflow_is_known() -> None:
    for number, name in enumerate(OVERFLOW_NAMES):
        assert rules_from({"x-overflow": name}).overflow == number
