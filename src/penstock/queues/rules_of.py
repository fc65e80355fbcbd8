"""From a queue's arguments, or a policy's definition, to its rules.

Both speak of the same things: `x-message-ttl` of an argument is `message-ttl` of a policy. What is
malformed is passed over here, because declarations and policies are checked before they are kept.
"""

from collections.abc import Mapping
from typing import Final

from penstock.queues.rules import LIFETIME_MS_MAX, NEVER, OVERFLOW_NAMES, QueueRules

AT_LEAST_ONCE: Final = "at-least-once"
PRIORITY_MAX: Final = 255
QUORUM: Final = "quorum"
QUORUM_DELIVERY_LIMIT: Final = 20
"""Redeliveries of a message in a quorum queue that says nothing of them; RabbitMQ 4's default."""


def rules_from(table: Mapping[str, object]) -> QueueRules:
    """The rules that `table` asks for; keys with and without `x-`, the former go first."""
    rules = QueueRules()
    rules.ttl_ms = _number(table, "message-ttl", rules.ttl_ms)
    rules.expires_ms = _number(table, "expires", rules.expires_ms)
    rules.max_length = _number(table, "max-length", rules.max_length)
    rules.max_bytes = _number(table, "max-length-bytes", rules.max_bytes)
    rules.max_priority = min(PRIORITY_MAX, _number(table, "max-priority", rules.max_priority))
    rules.delivery_limit = _delivery_limit(table)
    overflow = _value(table, "overflow")
    if overflow in OVERFLOW_NAMES:
        rules.overflow = OVERFLOW_NAMES.index(str(overflow))
    key = _value(table, "last-value-key")
    if isinstance(key, str):
        rules.last_value_key = key
    exchange = _value(table, "dead-letter-exchange")
    if isinstance(exchange, str):
        rules.dead_letter_exchange = exchange
    routing_key = _value(table, "dead-letter-routing-key")
    if isinstance(routing_key, str):
        rules.dead_letter_key = routing_key
    rules.is_at_least_once = _value(table, "dead-letter-strategy") == AT_LEAST_ONCE
    rules.is_deduplicated = table.get("x-message-deduplication") is True
    rules.is_counted = _value(table, "queue-type") == QUORUM
    rules.is_single_active = _value(table, "single-active-consumer") is True
    return rules


def _delivery_limit(table: Mapping[str, object]) -> int:
    """NEVER where it is below 0, or where a classic queue says none."""
    if _value(table, "delivery-limit") is None and _value(table, "queue-type") == QUORUM:
        return QUORUM_DELIVERY_LIMIT
    return _number(table, "delivery-limit", NEVER)


def _value(table: Mapping[str, object], key: str) -> object:
    return table.get("x-" + key, table.get(key))


def _number(table: Mapping[str, object], key: str, default: int) -> int:
    """Of 0.. ; `default` where there is none. Held to LIFETIME_MS_MAX, which is for ever in
    milliseconds and out of reach for everything else."""
    value = _value(table, key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return int(default)
    return min(value, LIFETIME_MS_MAX)
