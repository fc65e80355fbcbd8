"""Tells a stage that is slow from one that is starved by the window in front of it.

Whoever is blamed for "broker work" held others although nobody held it. If it was idle nearly all
of that time, it did not do the work slowly: it had none, because its senders may only have so much
on the way. Both rules look at one bucket:

    it held one victim for HELD_SHARE_MIN of its own sampled time or more
    it was busy, blocked or waiting for BUSY_SHARE_MAX of that time or less

Only the name of the cause changes, so the sums stay what they are. Without time samples of the root
nothing is known, and nothing changes.
"""

from collections.abc import Iterable
from typing import Final

from penstock.spark.blame.blame import actor_kind
from penstock.spark.schema.rows import BlameRow, StateRow

SMALL_WINDOW: Final = "small window"
SLOW: Final = "broker work"
STAGES: Final = frozenset({"chan", "queue"})
HELD_SHARE_MIN: Final = 0.2
BUSY_SHARE_MAX: Final = 0.2


def name_small_windows(blame: Iterable[BlameRow], states: Iterable[StateRow]) -> list[BlameRow]:
    """`blame` in its order, with the cause "small window" where it is one."""
    rows = list(blame)
    found = _starved(rows, {(row.bucket_ns, row.actor): row for row in states})
    return [
        row._replace(cause=SMALL_WINDOW)
        if row.cause == SLOW and (row.bucket_ns, row.root) in found
        else row
        for row in rows
    ]


def _starved(
    rows: Iterable[BlameRow], states: dict[tuple[int, str], StateRow]
) -> set[tuple[int, str]]:
    """The roots that had nothing to do, by bucket."""
    held: dict[tuple[int, str, str], int] = {}
    for row in rows:
        if row.cause == SLOW and actor_kind(row.root) in STAGES:
            key = (row.bucket_ns, row.root, row.victim)
            held[key] = held.get(key, 0) + row.blamed_ns
    found = set()
    for (bucket_ns, root, _), blamed_ns in held.items():
        state = states.get((bucket_ns, root))
        if state is None or state.wall_ns <= 0:
            continue
        used_ns = state.busy_ns + state.blocked_ns + state.waiting_ns
        is_held_for_long = blamed_ns >= HELD_SHARE_MIN * state.wall_ns
        if is_held_for_long and used_ns <= BUSY_SHARE_MAX * state.wall_ns:
            found.add((bucket_ns, root))
    return found
