"""What a queue does with messages beyond keeping them in order: one value, never changed.

It is made from a queue's arguments and the policies that apply to it; a queue without any rule has
none of this and pays nothing for it. Source: features.md 1.3; RabbitMQ's classic queue.

Arguments and policies speak of the same things: `x-message-ttl` of an argument is `message-ttl` of
a policy. What is malformed is passed over here, because declarations and policies are checked
before they are kept.
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

DROP_HEAD: Final = 0
REJECT_PUBLISH: Final = 1
REJECT_PUBLISH_DLX: Final = 2
BACKPRESSURE: Final = 3
OVERFLOW_NAMES: Final = ("drop-head", "reject-publish", "reject-publish-dlx", "backpressure")

REASON_EXPIRED: Final = 0
REASON_MAXLEN: Final = 1
REASON_REJECTED: Final = 2
REASON_DELIVERY_LIMIT: Final = 3
REASON_SUPERSEDED: Final = 4
REASON_DUPLICATE: Final = 5
REASON_REFUSED: Final = 6
DROP_NAMES: Final = (
    "expired",
    "maxlen",
    "rejected",
    "delivery_limit",
    "superseded",
    "duplicate",
    "refused",
)
"""Why a message left a queue other than to a consumer, or never came into it (refused: the queue
was full and says so to its publisher); the first four are RabbitMQ's words in x-death, and lead to
a dead-letter exchange where there is one."""

NEVER: Final = -1
NS_PER_MS: Final = 1_000_000
LIFETIME_MS_MAX: Final = 9_000_000_000_000
"""About 285 years: longer lifetimes are held to be for ever, because nanoseconds are counted in 63
bits."""

BY_ROUTING_KEY: Final = "routing-key"


class QueueRules:
    """ttl_ms, expires_ms: milliseconds, NEVER for none; depth_bytes: depth mark, 0 for none;
    max_length: ready messages, max_bytes: of
    their bodies, NEVER for none; overflow: what happens at either; max_priority: 0..255, 0 for
    none; delivery_limit: redeliveries, NEVER for none; last_value_key: a header's name,
    BY_ROUTING_KEY, or "" for none; dead_letter_exchange: None for none, "" is the default one;
    dead_letter_key: None keeps the message's own keys; is_at_least_once: dead letters wait for
    their confirm; is_single_active: one consumer at a time; is_deduplicated: one message at a
    time with the same x-deduplication-header; is_counted: messages say how often they came back,
    as those of quorum queues do."""

    __slots__ = (
        "dead_letter_exchange",
        "dead_letter_key",
        "delivery_limit",
        "depth_bytes",
        "expires_ms",
        "is_at_least_once",
        "is_counted",
        "is_deduplicated",
        "is_single_active",
        "last_value_key",
        "max_bytes",
        "max_length",
        "max_priority",
        "overflow",
        "ttl_ms",
    )

    def __init__(self) -> None:
        self.ttl_ms: i64 = NEVER
        self.expires_ms: i64 = NEVER
        self.max_length: i64 = NEVER
        self.max_bytes: i64 = NEVER
        self.overflow: i64 = DROP_HEAD
        self.max_priority: i64 = 0
        self.depth_bytes: i64 = NEVER
        self.delivery_limit: i64 = NEVER
        self.last_value_key = ""
        self.dead_letter_exchange: str | None = None
        self.dead_letter_key: str | None = None
        self.is_at_least_once = False
        self.is_counted = False
        self.is_single_active = False
        self.is_deduplicated = False

    def keeps_records(self) -> bool:
        """Whether messages need an entry of their own (PriorityQueue), not the plain ring."""
        return (
            self.ttl_ms != NEVER
            or self.max_bytes != NEVER
            or self.max_priority > 0
            or self.delivery_limit != NEVER
            or self.last_value_key != ""
            or self.is_deduplicated
            or self.is_counted
        )

    def is_plain(self) -> bool:
        """Whether none of them is in force, so that a queue needs none of them enforced."""
        return (
            not self.keeps_records()
            and not self.is_limited()
            and self.expires_ms == NEVER
            and self.dead_letter_exchange is None
        )

    def is_limited(self) -> bool:
        """Whether length or bytes are bounded."""
        return self.max_length != NEVER or self.max_bytes != NEVER

    def is_over(self, count: i64, body_bytes: i64) -> bool:
        """Whether `count` ready messages with `body_bytes` break a limit."""
        if self.max_length != NEVER and count > self.max_length:
            return True
        return self.max_bytes != NEVER and body_bytes > self.max_bytes


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
    rules.depth_bytes = _number(table, "depth-mark", rules.depth_bytes)
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


def rules_in_words(rules: QueueRules) -> dict[str, str]:
    """The rules in force by the names of their arguments without `x-`; empty for a plain queue."""
    said: dict[str, str] = {}
    for name, value in (
        ("message-ttl", rules.ttl_ms),
        ("expires", rules.expires_ms),
        ("max-length", rules.max_length),
        ("max-length-bytes", rules.max_bytes),
        ("delivery-limit", rules.delivery_limit),
    ):
        if value != NEVER:
            said[name] = str(int(value))
    if rules.is_limited():
        said["overflow"] = OVERFLOW_NAMES[int(rules.overflow)]
    if rules.max_priority > 0:
        said["max-priority"] = str(int(rules.max_priority))
    for name, text in (
        ("last-value-key", rules.last_value_key),
        ("dead-letter-exchange", rules.dead_letter_exchange),
        ("dead-letter-routing-key", rules.dead_letter_key),
    ):
        # The default exchange is called "", and is a dead-letter exchange like any other.
        if text is not None and (text != "" or name == "dead-letter-exchange"):
            said[name] = text
    if rules.is_at_least_once:
        said["dead-letter-strategy"] = "at-least-once"
    if rules.is_deduplicated:
        said["message-deduplication"] = "true"
    if rules.is_single_active:
        said["single-active-consumer"] = "true"
    return said
