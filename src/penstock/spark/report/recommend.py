"""What to do about it: rules over the gold tables, each answer with the numbers it rests on.

A rule speaks up when what it is about held connections and channels (or queues, see blame.py) for
SHARE_MIN of all the time they were held; the ones that cost most come first. Names of settings are
those of docs/tuning.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from penstock.spark.blame.blame import actor_kind, blamed, group_of
from penstock.spark.report.names import on_node, one_of_each
from penstock.spark.schema.rows import StateRow, Tables, whole_time

SHARE_MIN: Final = 0.05
FREE_SHARE_MAX: Final = 0.05
"""A channel that was held for less than this share of a bucket was free in it."""


class Recommendation(NamedTuple):
    """`rule`: its name; `scope`: who or what it is about; `share`: 0..1 of the time publishers were
    held that it is about; `evidence`: the numbers and the tables they are from; `advice`."""

    rule: str
    scope: str
    share: float
    evidence: str
    advice: str


class HeadOfLine(NamedTuple):
    """`connection` was stopped for `channel` alone for `held_ns`, while up to `others` of its other
    channels could have gone on."""

    connection: str
    channel: str
    others: int
    held_ns: int
    node: str = ""


class _Charge(NamedTuple):
    """What one root is charged with. `path`: the way most of it came."""

    cause: str
    root: str
    held_ns: int
    victims: int
    path: str
    node: str


def recommend(tables: Tables, bucket_ns: int) -> tuple[Recommendation, ...]:
    """The best first; none where no publisher was held."""
    one = one_of_each()
    charges = _charges(tables, one)
    whole_ns = sum(charge.held_ns for charge in charges)
    if whole_ns == 0:
        return ()
    named = (row._replace(actor=one(row.actor, row.node)) for row in tables.time_in_state)
    states = {(row.node, row.actor): row for row in whole_time(named)}
    found = [
        Recommendation(
            charge.cause,
            charge.root + on_node(charge.node),
            charge.held_ns / whole_ns,
            f"{charge.held_ns / 1e9:.2f} s of {whole_ns / 1e9:.2f} s held (root_cause), "
            f"{_count(charge.victims, 'victim')}{_more(charge, tables, states)}",
            advice_for(charge.cause),
        )
        for charge in charges
        if charge.held_ns >= SHARE_MIN * whole_ns
    ]
    found += _parted(tables, whole_ns, bucket_ns)
    found += _mixed(tables, whole_ns)
    found += _paged(tables, charges, whole_ns)
    return tuple(sorted(found, key=lambda one: (-one.share, one.rule, one.scope)))


def head_of_line(tables: Tables, bucket_ns: int) -> list[HeadOfLine]:
    """Connections that were not read because of one of their channels, the worst first; those of
    one name are one.

    bucket_ns: width of the buckets of the tables.
    """
    one_id = one_of_each()
    there = _channels(tables)
    held = {(row.boot_id, row.bucket_ns, row.actor): row.held_ns for row in tables.held_time}
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for row in tables.who_blocked_whom:
        if actor_kind(row.actor) != "conn" or actor_kind(row.peer) != "chan":
            continue
        free = [
            channel
            for channel in there.get((row.boot_id, row.bucket_ns, row.actor), ())
            if channel != row.peer
            and held.get((row.boot_id, row.bucket_ns, channel), 0) <= FREE_SHARE_MAX * bucket_ns
        ]
        if free:
            key = (row.node, one_id(row.actor, row.node), one_id(row.peer, row.node))
            others, held_ns = sums.get(key, (0, 0))
            sums[key] = max(others, len(free)), held_ns + row.blocked_ns
    found = [HeadOfLine(*key[1:], *value, key[0]) for key, value in sums.items()]
    return sorted(found, key=lambda one: (-one.held_ns, one))


def _charges(tables: Tables, one: Callable[[str, str], str]) -> list[_Charge]:
    of_root = ("cause", "root", "node")
    rows = [row._replace(root=one(row.root, row.node)) for row in tables.root_cause]
    victims: dict[tuple[str, ...], set[str]] = {}
    for *key, victim in blamed(rows, *of_root, "victim"):
        victims.setdefault(tuple(key), set()).add(victim)
    ways: dict[tuple[str, ...], str] = {}
    for *key, path in blamed(rows, *of_root, "path"):
        ways.setdefault(tuple(key), path)
    return [
        _Charge(key[0], key[1], held_ns, len(victims[key]), ways[key], key[2])
        for key, held_ns in blamed(rows, *of_root).items()
    ]


# -- evidence --------------------------------------------------------------------------------------


def _more(charge: _Charge, tables: Tables, states: Mapping[tuple[str, str], StateRow]) -> str:
    """What else is known about this root."""
    parts = [rule(charge, tables) for rule in _EVIDENCE.get(charge.cause, ())]
    state = states.get((charge.node, charge.root))
    if state is not None and state.wall_ns > 0 and charge.cause in _WORKERS:
        busy, idle = state.busy_ns / state.wall_ns, state.idle_ns / state.wall_ns
        parts.append(f"busy {busy:.0%}, idle {idle:.0%} of its time (time_in_state)")
    return "".join(f"; {part}" for part in parts if part)


def _queue_on_path(charge: _Charge) -> str:
    for actor in charge.path.split(" → "):
        group = group_of(actor)
        if group:
            return group.removeprefix("consumers:")
    return ""


def _backlog(charge: _Charge, tables: Tables) -> str:
    queue = _queue_on_path(charge)
    rows = [row for row in tables.queue_depth if (row.node, row.queue) == (charge.node, queue)]
    if not rows:
        return ""
    ready, unacked = max(row.ready for row in rows), max(row.unacked for row in rows)
    consumers = {row.consumers for row in rows}
    said = _count(max(consumers), "consumer")
    if len(consumers) > 1:
        said = f"{min(consumers)} to {said}"
    return (
        f"queue {queue}{on_node(charge.node)} had up to {ready:,} ready and {unacked:,} "
        f"unacknowledged messages and {said} (queue_depth)"
    )


def _times_set(charge: _Charge, tables: Tables) -> str:
    rows = [row for row in tables.alarms if (row.node, row.alarm) == (charge.node, charge.root)]
    if not rows:
        return ""
    seconds = sum(row.end_ns - row.start_ns for row in rows) / 1e9
    return f"set {_count(len(rows), 'time')}, {seconds:.1f} s in all (alarm_interval)"


_EVIDENCE: Final[Mapping[str, tuple[Callable[[_Charge, Tables], str], ...]]] = {
    "slow consumers": (_backlog,),
    "slow reader": (_backlog,),
    "paused consumers": (_backlog,),
    "no consumer": (_backlog,),
    "memory alarm": (_times_set,),
    "disk alarm": (_times_set,),
}
_WORKERS: Final = frozenset({"broker work", "small window"})
_LOOK: Final = "look at this chain with `penstock why`"


def advice_for(cause: str) -> str:
    """What helps against a cause, whatever its share."""
    return _ADVICE.get(cause, _LOOK)


_ADVICE: Final[Mapping[str, str]] = {
    "slow consumers": (
        "add consumers; if they have time to spare, raise their prefetch above rate × time to ack"
    ),
    "slow reader": (
        "the consumer does not take what is sent to it: look at its network and reading thread, "
        "and give it a prefetch so that others are served meanwhile"
    ),
    "paused consumers": "the client has asked for a pause with channel.flow: let it go on",
    "no consumer": "start a consumer, or bound the queue with x-max-length and x-overflow",
    "memory alarm": (
        "bound queues (x-max-length-bytes with x-overflow = backpressure) so that what publishes "
        "too much is stopped before all are; smaller windows do not protect memory"
    ),
    "disk alarm": "free space, or move data_dir; see disk_free_min",
    "disk": (
        "a faster disk, or store_sync = interval where the loss of its last moments is allowed; "
        "larger batches come with more publishers"
    ),
    "broker work": "spread this load over more channels and queues; the stage itself is too slow",
    "small window": (
        "the stage waits for work that its senders may not send: raise credit_connection_channel "
        "or credit_channel_queue to at least 1.25 × rate × time until a grant"
    ),
    "rate limit": "this limit was set: raise rate_connection_* or the row of [[rates]]",
    "debt account": "raise this account's limit (account_*_high), or have less under way",
    "full delayed exchange": "raise delayed_messages_max, or delay less",
    "slow reader group": (
        "let it read faster, or be further behind (maxLagMessages, maxLagBytes, or the stream's "
        "x-max-lag-messages, x-max-lag-bytes); if it never comes back, stream.group.remove"
    ),
    "unfinished messages": (
        "messages come in slower than they are begun: raise unfinished_bytes and "
        "unfinished_node_bytes, or send large bodies over fewer connections at a time"
    ),
}


# -- rules about connections -----------------------------------------------------------------------


def _parted(tables: Tables, whole_ns: int, bucket_ns: int) -> list[Recommendation]:
    """One slow channel stops a whole connection."""
    return [
        Recommendation(
            "head of line",
            one.connection + on_node(one.node),
            one.held_ns / whole_ns,
            f"stopped for {one.channel} alone for {one.held_ns / 1e9:.2f} s, while up to "
            f"{_count(one.others, 'other channel')} could have gone on (who_blocked_whom)",
            "give what publishes to the slow queue a connection of its own",
        )
        for one in head_of_line(tables, bucket_ns)
        if one.held_ns >= SHARE_MIN * whole_ns
    ]


def _mixed(tables: Tables, whole_ns: int) -> list[Recommendation]:
    """A connection that is stopped for publishing consumes as well."""
    consuming = {
        (row.node, "conn:" + row.actor.rpartition("@conn:")[2])
        for row in tables.time_in_state
        if row.actor.startswith("consumer:")
    }
    one = one_of_each()
    sums: dict[tuple[str, str], int] = {}
    for row in tables.root_cause:
        is_own_socket = row.cause == "slow reader" and row.root.endswith(row.victim[5:])
        key = (row.node, row.victim)
        if key in consuming and not is_own_socket:
            key = (row.node, one(row.victim, row.node))
            sums[key] = sums.get(key, 0) + row.blamed_ns
    return [
        Recommendation(
            "publishes and consumes",
            connection + on_node(node),
            held_ns / whole_ns,
            f"held for {held_ns / 1e9:.2f} s, and its consumers' acknowledgements waited as long "
            "(root_cause)",
            "publish and consume over two connections",
        )
        for (node, connection), held_ns in sorted(sums.items())
        if held_ns >= SHARE_MIN * whole_ns
    ]


def _paged(tables: Tables, charges: Iterable[_Charge], whole_ns: int) -> list[Recommendation]:
    """Publishers wait for a disk that is busy with a backlog."""
    disk_ns = sum(charge.held_ns for charge in charges if charge.cause == "disk")
    peaks: dict[tuple[str, str], int] = {}
    samples: dict[tuple[str, str], int] = {}
    for row in tables.queue_depth:
        if row.paged:
            key = (row.node, row.queue)
            peaks[key] = max(peaks.get(key, 0), row.paged)
            samples[key] = samples.get(key, 0) + 1
    if not peaks or disk_ns < SHARE_MIN * whole_ns:
        return []
    worst = max(peaks, key=lambda queue: (peaks[queue], queue))
    return [
        Recommendation(
            "paging",
            f"queue:{worst[1]}{on_node(worst[0])}",
            disk_ns / whole_ns,
            f"publishers were held for the disk for {disk_ns / 1e9:.2f} s, while {worst[1]} had "
            f"up to {peaks[worst]:,} messages on it, in {_count(samples[worst], 'sample')} "
            "(queue_depth)",
            "more consumers for that queue; or more memory, or a higher paging_ratio",
        )
    ]


def _channels(tables: Tables) -> dict[tuple[str, int, str], set[str]]:
    """The channels of each connection of a boot that were there in each bucket."""
    found: dict[tuple[str, int, str], set[str]] = {}
    for row in tables.time_in_state:
        if actor_kind(row.actor) == "chan":
            connection = "conn:" + row.actor.removeprefix("chan:").rpartition("/")[0]
            key = (row.boot_id, row.bucket_ns, connection)
            found.setdefault(key, set()).add(row.actor)
    return found


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
