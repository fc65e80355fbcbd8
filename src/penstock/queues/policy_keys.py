"""What a policy may say, and what is wrong with it, in RabbitMQ's words.

Source: RabbitMQ's rabbit_policies (validate_policy0) and rabbit_policy (validation0). A key of a
kind of queue that is not here is taken as RabbitMQ takes it, so that its definitions can be used
unchanged, and named as one without effect.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.policy import shown
from penstock.queues.mirror_rule import HA_MODES, MODE, PARAMS, check_mirrors
from penstock.queues.rules import OVERFLOW_NAMES

ALARM_ACTION: Final = "alarm-action"
PARKED_FULL: Final = "parked-full"
DEPTH_MARK: Final = "depth-mark"
ALTERNATE: Final = "alternate-exchange"
CONSUMER_TIMEOUT: Final = "consumer-timeout"
ALARM_ACTIONS: Final = ("block", "nack", "close")
FULL_ACTIONS: Final = ("stop", "nack", "close")
STRATEGIES: Final = ("at-most-once", "at-least-once")
LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
SEGMENT_BYTES_MAX: Final = 3_000_000_000
FIXED_KEYS: Final = ("max-priority", "single-active-consumer", "queue-type")

Accepts = Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """accepts: whether a value is one; words: what a wrong one is called; is_operators: operator
    policies may say it too; why_idle: why it has no effect here, "" if it has one."""

    accepts: Accepts
    words: str
    is_operators: bool = False
    why_idle: str = ""


def _at_least(lowest: int) -> Accepts:
    return lambda value: _is_integer(value) and int(str(value)) >= lowest


def _between(lowest: int, highest: int) -> Accepts:
    return lambda value: _is_integer(value) and lowest <= int(str(value)) <= highest


def _one_of(*known: object) -> Accepts:
    return lambda value: not isinstance(value, bool) and value in known


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_anything(value: object) -> bool:
    """What a value may be depends on another key."""
    return True


def _is_filled_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


_STREAMS: Final = "streams have no filters here"
_QUORUM: Final = "all members of the cluster keep every durable queue"
_SYNCED: Final = "every node of a cluster is brought up to date by itself, and none leads before"
_CLASSIC: Final = "there is one kind of classic queue here"

KEYS: Final[Mapping[str, PolicyKey]] = {
    ALTERNATE: PolicyKey(_is_text, "alternate exchange name"),
    CONSUMER_TIMEOUT: PolicyKey(_at_least(0), "consumer timeout"),
    "dead-letter-exchange": PolicyKey(_is_text, "dead letter exchange name"),
    "dead-letter-routing-key": PolicyKey(_is_text, "dead letter routing key"),
    "dead-letter-strategy": PolicyKey(_one_of(*STRATEGIES), "dead letter strategy"),
    "message-ttl": PolicyKey(_at_least(0), "message TTL", True),
    "expires": PolicyKey(_at_least(1), "queue expiry", True),
    "max-length": PolicyKey(_at_least(0), "maximum length", True),
    "max-length-bytes": PolicyKey(_at_least(0), "maximum length in bytes", True),
    "overflow": PolicyKey(_one_of(*OVERFLOW_NAMES), "overflow value", True),
    "delivery-limit": PolicyKey(_is_integer, "delivery limit", True),
    "last-value-key": PolicyKey(_is_filled_text, "last value key"),
    ALARM_ACTION: PolicyKey(_one_of(*ALARM_ACTIONS), "alarm action", True),
    PARKED_FULL: PolicyKey(_one_of(*FULL_ACTIONS), "action for what cannot be parked", True),
    DEPTH_MARK: PolicyKey(_at_least(0), "depth mark in bytes", True),
    MODE: PolicyKey(_one_of(*HA_MODES), "ha-mode value"),
    PARAMS: PolicyKey(_is_anything, "ha-params value"),
    "ha-sync-mode": PolicyKey(_one_of("automatic", "manual"), "ha-sync-mode", False, _SYNCED),
    "ha-sync-batch-size": PolicyKey(_at_least(1), "ha-sync-batch-size", False, _SYNCED),
    "ha-promote-on-shutdown": PolicyKey(
        _one_of("always", "when-synced"), "ha-promote-on-shutdown", False, _SYNCED
    ),
    "ha-promote-on-failure": PolicyKey(
        _one_of("always", "when-synced"), "ha-promote-on-failure", False, _SYNCED
    ),
    "queue-mode": PolicyKey(_one_of("default", "lazy"), "queue-mode value", False, _CLASSIC),
    "queue-version": PolicyKey(_one_of(1, 2), "queue-version value", True, _CLASSIC),
    "max-in-memory-length": PolicyKey(_at_least(0), "maximum memory in bytes", True, _QUORUM),
    "max-in-memory-bytes": PolicyKey(_at_least(0), "maximum memory in bytes", True, _QUORUM),
    "queue-leader-locator": PolicyKey(
        _one_of(*LOCATORS), "queue leader locator value", False, _QUORUM
    ),
    "initial-cluster-size": PolicyKey(_at_least(0), "cluster size", False, _QUORUM),
    "consumer-disconnected-timeout": PolicyKey(
        _at_least(0), "consumer disconnected timeout", False, _QUORUM
    ),
    "max-age": PolicyKey(_is_filled_text, "max age"),
    "stream-max-segment-size-bytes": PolicyKey(_between(0, SEGMENT_BYTES_MAX), "segment size"),
    "max-lag-messages": PolicyKey(_at_least(1), "maximum lag"),
    "max-lag-bytes": PolicyKey(_at_least(1), "maximum lag in bytes"),
    "stream-filter-size-bytes": PolicyKey(
        _between(16, 255), "filter size. Valid range is 16-255", False, _STREAMS
    ),
}


def check_definition(name: str, definition: Mapping[str, object], is_operator: bool) -> None:
    """Raise OperatorError for the first key of policy `name` that may not be there, or is wrong."""
    for key, value in definition.items():
        known = KEYS.get(key)
        if known is None or (is_operator and not known.is_operators):
            raise OperatorError(f"policy '{name}': {_unknown(key, value, is_operator)}")
        if not known.accepts(value):
            raise OperatorError(
                f"policy '{name}': {shown(value)} is not a valid {known.words} ({key})"
            )
    check_mirrors(name, definition)


def without_effect(definition: Mapping[str, object]) -> list[str]:
    """A sentence for each key of a checked `definition` that changes nothing here."""
    return [
        f"{key} has no effect: {KEYS[key].why_idle}" for key in definition if KEYS[key].why_idle
    ]


def _unknown(key: str, value: object, is_operator: bool) -> str:
    text = f"[{key}: {shown(value)}] are not recognised policy settings"
    if key in FIXED_KEYS:
        return f"{text}; {key} is fixed when a queue is declared (x-{key})"
    if is_operator and key in KEYS:
        fit = ", ".join(key for key, known in KEYS.items() if known.is_operators)
        return f"{text} of an operator policy; those are: {fit}"
    return f"{text}; those are: {', '.join(KEYS)}"
