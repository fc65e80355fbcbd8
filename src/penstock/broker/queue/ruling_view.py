"""A queue's rules in its snapshot: which are in force, who says so, and what it gave up."""

from penstock.broker.queue.queue_actor import QueueRuling
from penstock.queues.applied import Applied
from penstock.queues.rules import DROP_NAMES, NEVER, QueueRules, rules_in_words


def note_ruling(ruling: QueueRuling, numbers: dict[str, float], labels: dict[str, str]) -> None:
    """Add `dropped:<reason>` to `numbers`, counts since the queue was declared; to `labels` its
    `rules` in words. What its dead letters count goes to `numbers`."""
    for name, count in zip(DROP_NAMES, ruling.drops, strict=True):
        if count > 0:
            numbers[f"dropped:{name}"] = float(count)
    if ruling.dead_letters is not None:
        numbers.update(ruling.dead_letters.numbers())
    said = rules_in_words(ruling.rules)
    if said:
        labels["rules"] = ", ".join(f"{name} {text}" for name, text in said.items())


def note_limit(rules: QueueRules, applied: Applied | None, labels: dict[str, str]) -> None:
    """Add to `labels` what bounds the queue as its `limit`, with the policy that says so."""
    found = []
    for key, value in (("max-length", rules.max_length), ("max-length-bytes", rules.max_bytes)):
        if value == NEVER:
            continue
        source = ""
        # An argument may be smaller than the policy, and then it is not the policy's.
        if applied is not None and applied.definition.get(key) == value:
            source = applied.source_of(key)
        found.append(f"{key} {int(value)}" + (f" ({source})" if source else ""))
    if found:
        labels["limit"] = ", ".join(found)
