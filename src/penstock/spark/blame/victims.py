"""Whose waiting is told: that of publishers whom gates have held, or else that of queues.

A publisher that waits for a confirm before it publishes more is held by no gate: what it has sent
lies at a queue that takes nothing. Where queues were stopped for longer than connections and
channels were held, that is what has happened, and the queues are told of.
"""

from collections.abc import Iterable
from typing import Final

from penstock.spark.blame.blame import actor_kind
from penstock.spark.schema.rows import BlameRow

HELD_KINDS: Final = frozenset({"conn", "chan"})
QUEUES: Final = frozenset({"queue"})


def held_kinds(rows: Iterable[BlameRow]) -> frozenset[str]:
    """HELD_KINDS, or QUEUES where they have more of the blame."""
    sums: dict[str, int] = {}
    for row in rows:
        kind = actor_kind(row.victim)
        sums[kind] = sums.get(kind, 0) + row.blamed_ns
    publishers_ns = sum(sums.get(kind, 0) for kind in HELD_KINDS)
    return QUEUES if sums.get("queue", 0) > publishers_ns else HELD_KINDS


def of_whom(kinds: frozenset[str]) -> str:
    """In words."""
    return "queues" if kinds == QUEUES else "connections and channels"
