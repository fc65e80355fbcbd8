"""A queue's rules in the words of its arguments, for listings and snapshots."""

from penstock.queues.rules import NEVER, OVERFLOW_NAMES, QueueRules


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
