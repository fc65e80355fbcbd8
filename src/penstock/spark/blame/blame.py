"""Root causes: follow the closed gates to actors that are not held, and charge the time there.

The open edges `actor -> peer` at one moment form the wait-for graph. Between two changes of that
graph every held actor is a *victim* of the roots its edges lead to. Its time is split equally among
several peers at every branch, in whole nanoseconds (`blame_columns.py`):

    sum of blame of a victim          = time in which at least one of its gates was closed
    blame of a victim within a bucket <= length of the bucket
    blame of two adjacent buckets     = blame of both in one pass, but for 1 ns a branch and state

A queue that waits for its consumers names the group `consumers:/orders`; the group is resolved to
the consumers of that queue which are held themselves, if any (their prefetch window is full, their
socket is), else it is a root. A cycle cannot happen in a correct broker: time that comes to where a
bucket has one is charged to the cause "cycle", so that it shows. Source of the rule: docs/flow.md,
law 10.

Reports show the waiting of publishers, or of queues: a publisher that waits for a confirm before it
publishes more is held by no gate, and what it has sent lies at a stopped queue.

A root blamed for "broker work" held others although nothing held it. If it was idle nearly all of
that time, it did not do the work slowly: it had none, because its senders may only have so much on
the way. Then the cause is named "small window". Both rules look at one bucket of one boot:

    it held one victim for HELD_SHARE_MIN of its own sampled time or more
    it was busy, blocked or waiting for BUSY_SHARE_MAX of that time or less

Only the name of the cause changes, so the sums stay. Without time samples of the root nothing is
known, and nothing changes.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from penstock.spark.schema.rows import BlameRow, StateRow

ARROW: Final = " → "
CYCLE: Final = "cycle"
UNEXPLAINED: Final = frozenset({CYCLE, "unknown"})
NOBODY: Final = "nobody"

_CAUSE_OF_KIND: Final = {
    "consumers": "slow consumers",
    "consumer": "slow consumers",
    "client": "slow consumers",
    NOBODY: "no consumer",
    "socket": "slow reader",
    "conn": "broker work",
    "chan": "broker work",
    "queue": "broker work",
    "store": "disk",
    "disk": "disk",
    "streams": "disk",
    "quota": "quota",
    "account": "debt account",
    "rate": "rate limit",
    "exchange": "full delayed exchange",
    "group": "slow reader group",
    "node": "unfinished messages",
}

CAUSE_OF_REASON: Final = {"debt": "debt account", "rate": "rate limit"}
"""An actor held for one of these is held by a limit of its own, which leads to no other actor."""

CAUSE_OF_CONSUMER: Final = {"prefetch": "slow consumers", "client_flow": "paused consumers"}
"""Where a chain ends at the consumer, because what it waits for is its own application: it has not
acknowledged, or has asked for a pause."""
HELD_KINDS: Final = frozenset({"conn", "chan"})
QUEUES: Final = frozenset({"queue"})
SMALL_WINDOW: Final = "small window"
SLOW: Final = "broker work"
STAGES: Final = frozenset({"chan", "queue"})
HELD_SHARE_MIN: Final = 0.2
BUSY_SHARE_MAX: Final = 0.2


class BlameKey(NamedTuple):
    """Who suffered, whom it is charged to, under which name, by which way."""

    victim: str
    root: str
    cause: str
    path: str


def is_group(actor: str) -> bool:
    """Whether the name stands for the consumers of a queue, which are no victims themselves."""
    return actor.startswith("consumers:")


def group_of(actor: str) -> str:
    """The group of a queue's consumers, named by the queue or by itself; "" for other actors."""
    if actor.startswith("queue:"):
        return "consumers:" + actor.removeprefix("queue:")
    return actor if is_group(actor) else ""


def actor_kind(actor: str) -> str:
    """The part before the first colon: conn, chan, queue, consumer, alarm, ..."""
    return actor.partition(":")[0]


def cause_of(root: str) -> str:
    """What a person calls the root: "slow consumers", "memory alarm", "disk", "broker work"."""
    kind, _, name = root.partition(":")
    if kind == "alarm":
        return f"{name} alarm"
    return _CAUSE_OF_KIND.get(kind, "unknown")


def held_kinds(rows: Iterable[BlameRow]) -> frozenset[str]:
    """HELD_KINDS, or QUEUES where they have more of the blame."""
    sums: dict[str, int] = {}
    for row in rows:
        kind = actor_kind(row.victim)
        sums[kind] = sums.get(kind, 0) + row.blamed_ns
    publishers_ns = sum(sums.get(kind, 0) for kind in HELD_KINDS)
    return QUEUES if sums.get("queue", 0) > publishers_ns else HELD_KINDS


def counted_once(rows: Iterable[BlameRow]) -> list[BlameRow]:
    """The rows of those of `held_kinds`, each wait once: a connection that waits for its channel,
    which is held itself, waits with it, and the channel's rows say for what."""
    known = tuple(rows)
    kinds = held_kinds(known)
    return [row for row in known if actor_kind(row.victim) in kinds and not _is_of_channel(row)]


def _is_of_channel(row: BlameRow) -> bool:
    hops = row.path.split(ARROW, 2)
    return len(hops) == 3 and actor_kind(hops[0]) == "conn" and actor_kind(hops[1]) == "chan"


def blamed(rows: Iterable[BlameRow], *fields: str) -> dict[tuple[str, ...], int]:
    """Nanoseconds for which those of `held_kinds` were held, each wait once, by `fields` of the
    rows, the most first."""
    key_of = attrgetter(*fields, "victim")
    sums: dict[tuple[str, ...], int] = {}
    for row in counted_once(rows):
        *key, _ = key_of(row)
        sums[tuple(key)] = sums.get(tuple(key), 0) + row.blamed_ns
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def of_whom(kinds: frozenset[str]) -> str:
    """In words."""
    return "queues" if kinds == QUEUES else "connections and channels"


def name_small_windows(blame: Iterable[BlameRow], states: Iterable[StateRow]) -> list[BlameRow]:
    """`blame` in its order, with the cause "small window" where it is one."""
    rows = list(blame)
    found = _starved(rows, {(row.boot_id, row.bucket_ns, row.actor): row for row in states})
    return [
        row._replace(cause=SMALL_WINDOW)
        if row.cause == SLOW and (row.boot_id, row.bucket_ns, row.root) in found
        else row
        for row in rows
    ]


def _starved(
    rows: Iterable[BlameRow], states: dict[tuple[str, int, str], StateRow]
) -> set[tuple[str, int, str]]:
    """The roots that had nothing to do, by boot and bucket."""
    held: dict[tuple[str, int, str, str], int] = {}
    for row in rows:
        if row.cause == SLOW and actor_kind(row.root) in STAGES:
            key = (row.boot_id, row.bucket_ns, row.root, row.victim)
            held[key] = held.get(key, 0) + row.blamed_ns
    found = set()
    for (boot_id, bucket_ns, root, _), blamed_ns in held.items():
        state = states.get((boot_id, bucket_ns, root))
        if state is None or state.wall_ns <= 0:
            continue
        used_ns = state.busy_ns + state.blocked_ns + state.waiting_ns
        is_held_for_long = blamed_ns >= HELD_SHARE_MIN * state.wall_ns
        if is_held_for_long and used_ns <= BUSY_SHARE_MAX * state.wall_ns:
            found.add((boot_id, bucket_ns, root))
    return found
