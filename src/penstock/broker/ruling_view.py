"""A queue's rules in its snapshot: which are in force, and what it gave up because of them."""

from penstock.broker.queue_ruling import QueueRuling
from penstock.queues.rules import DROP_NAMES
from penstock.queues.rules_words import rules_in_words


def note_ruling(ruling: QueueRuling, numbers: dict[str, float], labels: dict[str, str]) -> None:
    """Add `dropped:<reason>` to `numbers`, counts since the queue was declared; to `labels` its
    `rules` in words, and `paused` while it is. What its dead letters count goes to `numbers`."""
    for name, count in zip(DROP_NAMES, ruling.drops, strict=True):
        if count > 0:
            numbers[f"dropped:{name}"] = float(count)
    if ruling.dead_letters is not None:
        numbers.update(ruling.dead_letters.numbers())
    said = rules_in_words(ruling.rules)
    if said:
        labels["rules"] = ", ".join(f"{name} {text}" for name, text in said.items())
    if ruling.is_paused:
        labels["paused"] = "yes"
