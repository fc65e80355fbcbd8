"""How much of the time publishers were held is charged to whoever was made slow on purpose."""

from collections.abc import Iterable

from penstock.spark.blame.blame import HELD_KINDS, actor_kind
from penstock.spark.schema.rows import BlameRow
from tests.spark.injected_causes import Truth

SHARE_MIN = 0.93
HELD_MIN_NS = 100_000_000


def named_share(rows: Iterable[BlameRow], truth: Truth) -> float:
    """0..1; fails when nobody was held, because then nothing was to be found."""
    whole_ns = named_ns = 0
    for row in rows:
        if actor_kind(row.victim) in HELD_KINDS:
            whole_ns += row.blamed_ns
            if row.cause == truth.cause and row.root.startswith(truth.roots):
                named_ns += row.blamed_ns
    assert whole_ns >= HELD_MIN_NS, "the culprit held nobody"
    return named_ns / whole_ns
