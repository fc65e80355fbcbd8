"""The tables of the pipeline, one row type each; Spark and plain Python fill the same ones.

The names of the fields are the names of the Parquet and CSV columns. Times and durations are
nanoseconds; `bucket_ns` is the start of a bucket. Silver tables are facts, gold tables answers.
`boot_id` is one life of a broker and belongs to one `node`: two brokers may have queues and
connections of the same names, so no fact of one boot is ever joined with one of another. What
traces of clients say has the node alone.

The broker knows a client by its address; `renamed` puts in the names that runs and clients give.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple, get_args, get_type_hints

CONNECTION: Final = "conn:"
_OF_ACTORS: Final = ("actor", "peer", "victim", "root", "path")
"""Fields with names of actors in them, which people may see by other names."""

_OF_TIME: Final = ("wall_ns", "idle_ns", "busy_ns", "blocked_ns", "waiting_ns")


class BlockInterval(NamedTuple):
    """Silver: `actor` was held by `peer` for `reason` in [start_ns, end_ns)."""

    boot_id: str
    actor: str
    peer: str
    reason: str
    start_ns: int
    end_ns: int
    closed_by: str
    node: str = ""


class BlockedByRow(NamedTuple):
    """Gold who_blocked_whom: how long `peer` held `actor` within one bucket."""

    bucket_ns: int
    actor: str
    peer: str
    reason: str
    blocked_ns: int
    node: str = ""
    boot_id: str = ""


class BlameRow(NamedTuple):
    """Gold root_cause: what part of the time `victim` was held is charged to `root`."""

    bucket_ns: int
    victim: str
    root: str
    cause: str
    path: str
    blamed_ns: int
    node: str = ""
    boot_id: str = ""


class HeldRow(NamedTuple):
    """Gold held_time: how long at least one gate of `actor` was closed within one bucket."""

    bucket_ns: int
    actor: str
    held_ns: int
    node: str = ""
    boot_id: str = ""


class StateRow(NamedTuple):
    """Gold time_in_state: where one actor's wall time went, between samples of one bucket.

    A stretch between two samples belongs to the bucket in which its middle lies.
    """

    bucket_ns: int
    actor: str
    wall_ns: int
    idle_ns: int
    busy_ns: int
    blocked_ns: int
    waiting_ns: int
    node: str = ""
    boot_id: str = ""


class LatencyRow(NamedTuple):
    """Gold latency: percentiles of one measure for the messages published in one phase.

    With Spark exact up to SKETCH_SIZE messages and within about 0.1 % of the rank beyond.

    `measure`: "confirm" = published to confirmed; "delivery" = published to first delivered.
    """

    phase: str
    queue: str
    measure: str
    messages: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float
    node: str = ""


class ThroughputRow(NamedTuple):
    """Gold throughput: messages that reached each stage within one 250 ms bucket."""

    bucket_ns: int
    queue: str
    published: int
    confirmed: int
    delivered: int
    acked: int
    node: str = ""


class IntegrityRow(NamedTuple):
    """Gold integrity: what became of the messages of one queue.

    `lost`: confirmed but never delivered. `duplicated`: deliveries beyond the first of a message.
    `refused`: nacked or returned. `unanswered`: published, neither confirmed nor refused.
    """

    queue: str
    published: int
    confirmed: int
    refused: int
    unanswered: int
    delivered: int
    lost: int
    duplicated: int
    node: str = ""


INTEGRITY_COUNTS: Final = IntegrityRow._fields[1:-1]
"""Its columns that are numbers of messages."""


class DepthRow(NamedTuple):
    """Gold queue_depth: one sample of one queue. `paged`: of `ready`, those on the disk only.
    `published`, `acked`: messages that have come, and that are done with, since the broker began.
    """

    t_ns: int
    queue: str
    ready: int
    unacked: int
    consumers: int
    paged: int
    published: int
    acked: int
    node: str = ""
    boot_id: str = ""


class KindRow(NamedTuple):
    """Gold event_kinds: how many events of a kind one bucket has, and the sum of their amounts."""

    bucket_ns: int
    kind: str
    events: int
    amount: int
    node: str = ""
    boot_id: str = ""


class CdfRow(NamedTuple):
    """Gold stage_cdf: `rank` (0..1) of the times of `stage` are at most `value_ns`.

    `stage`: "confirm" and "delivery" as in LatencyRow, over all messages; or "chan ← queue", how
    long a channel was held by a queue each time. `samples`: how many times there were.
    """

    stage: str
    samples: int
    rank: float
    value_ns: float
    node: str = ""


class AlarmInterval(NamedTuple):
    """Silver alarm_interval: when an alarm was set; `is_open`: still was when the data ended."""

    boot_id: str
    alarm: str
    start_ns: int
    end_ns: int
    is_open: bool
    node: str = ""


def whole_time(rows: Iterable[StateRow]) -> list[StateRow]:
    """One row an actor of a node: the sums over all buckets, with the first of them."""
    sums: dict[tuple[str, str], list[int]] = {}
    first: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.node, row.actor)
        first[key] = min(first.get(key, row.bucket_ns), row.bucket_ns)
        total = sums.setdefault(key, [0] * len(_OF_TIME))
        for at, name in enumerate(_OF_TIME):
            total[at] += getattr(row, name)
    return [StateRow._make((first[key], key[1], *sums[key], key[0], "")) for key in sorted(sums)]


def whole_counts(rows: Iterable[KindRow]) -> dict[str, int]:
    """Events of each kind, over all buckets."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.kind] += row.events
    return dict(sorted(sums.items()))


class Tables(NamedTuple):
    """Everything the summary, the promises and the report are made from."""

    who_blocked_whom: tuple[BlockedByRow, ...]
    root_cause: tuple[BlameRow, ...]
    held_time: tuple[HeldRow, ...]
    time_in_state: tuple[StateRow, ...]
    latency: tuple[LatencyRow, ...]
    throughput: tuple[ThroughputRow, ...]
    integrity: tuple[IntegrityRow, ...]
    queue_depth: tuple[DepthRow, ...]
    event_kinds: tuple[KindRow, ...]
    stage_cdf: tuple[CdfRow, ...] = ()
    alarms: tuple[AlarmInterval, ...] = ()


ROW_TYPES: Final[dict[str, Any]] = {
    name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()
}
"""By the names of the fields of Tables."""

MEASURES: Final = ("confirm", "delivery")
PERCENTILES: Final = (0.5, 0.9, 0.99, 0.999, 1.0)
THROUGHPUT_BUCKET_NS: Final = 250_000_000

SKETCH_SIZE: Final = 4000
"""Of the sketches that percentiles are made of; their error in rank is about 0.1 %."""

CDF_RANKS: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
HELD_BY: Final = " ← "


Names = Mapping[str, Mapping[str, str]]
"""By node: names of clients by their address there."""


def client_names(found: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Names by node and address, from nodes, connections and what their clients call themselves.

    Where several of a node have one name the address goes with it; an address that two clients had,
    one after the other, stays an address.
    """
    given: dict[str, dict[str, set[str]]] = {}
    for node, actor, name in found:
        if actor.startswith(CONNECTION):
            address = actor.removeprefix(CONNECTION)
            names = given.setdefault(node, {}).setdefault(address, set())
            # Two are as good as all of them, which may be as many as there ever were connections.
            if len(names) < 2:
                names.add(name)
    return {node: _single(names) for node, names in given.items()}


def _single(given: Mapping[str, set[str]]) -> dict[str, str]:
    single = {address: min(names) for address, names in given.items() if len(names) == 1}
    bearers = Counter(single.values())
    return {
        # A client may call itself what another one is shown as.
        address: name
        if bearers[name] == 1 and name.rpartition("@")[2] not in single
        else f"{name}@{address}"
        for address, name in single.items()
        if name
    }


def renamed(tables: Tables, names: Names) -> Tables:
    """The same tables with every address in `names` replaced, in actors, peers and paths.

    Only what people read is renamed; the files keep the broker's ids, so that they can be joined
    with its events.
    """
    renames = {node: renamer(known) for node, known in names.items() if known}
    if not renames:
        return tables
    found: dict[str, Any] = {}
    for table, rows in tables._asdict().items():
        fields = [field for field in _OF_ACTORS if field in ROW_TYPES[table]._fields]
        if fields:
            found[table] = tuple(
                row._replace(**{field: rename(getattr(row, field)) for field in fields})
                if (rename := renames.get(row.node))
                else row
                for row in rows
            )
    return tables._replace(**found)


def nodes_of(tables: Tables) -> set[str]:
    """Whose rows these are."""
    return {row.node for rows in tables for row in rows}


def without_lone_node(tables: Tables) -> Tables:
    """The same tables, in which nobody has to be told the node where there is but one: its name is
    "" then."""
    if len(nodes_of(tables)) != 1:
        return tables
    found: dict[str, Any] = {
        name: tuple(row._replace(node="") for row in rows)
        for name, rows in tables._asdict().items()
    }
    return Tables(**found)


def renamer(names: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces whole addresses: 127.0.0.1:551 is not part of 127.0.0.1:5512.

    It looks for their hosts, which are few: of days there may be a hundred thousand ports."""
    places = {address.rpartition(":")[0] for address in names}
    hosts = "|".join(re.escape(host) for host in sorted(places, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.])(?:{hosts}):\d+")

    def named(found: re.Match[str]) -> str:
        # An arrow parts the actors of a path, and no client adds one to it.
        return names.get(found[0], found[0]).replace("→", "->")

    return cache(partial(pattern.sub, named))
