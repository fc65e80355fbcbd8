"""One snapshot as plain JSON data and back: empty fields are left out, and nothing is lost."""

from penstock.telemetry.snapshots import (
    NEVER_BLOCKED,
    NO_TIME,
    NOT_TAKEN,
    ActorSnapshot,
    BlockedTotals,
    BlockTotals,
    Times,
)
from penstock.telemetry.words import kind_of


def snapshot_plain(one: ActorSnapshot) -> dict[str, object]:
    """What is not empty, by field; times and blocks as lists in the order of their fields."""
    plain: dict[str, object] = {}
    if one.kind != kind_of(one.actor):
        plain["kind"] = one.kind
    for name, value, empty in (
        ("state", one.state, ""),
        ("started_ns", one.started_ns, 0),
        ("taken_ns", one.taken_ns, NOT_TAKEN),
        ("numbers", one.numbers, {}),
        ("labels", one.labels, {}),
    ):
        if value != empty:
            plain[name] = value
    if one.times != NO_TIME:
        times = one.times
        plain["times"] = [times.idle_ns, times.busy_ns, times.blocked_ns, times.waiting_ns]
    if one.blocked != NEVER_BLOCKED:
        plain["blocked"] = _blocked_plain(one.blocked)
    return plain


def _blocked_plain(all_: BlockedTotals) -> list[object]:
    blocks = [
        [b.peer, b.reason, b.ns, b.closed_ns, b.stops, b.longest_ns, b.since_ns, b.first_ns]
        for b in all_.blocks
    ]
    return [all_.blocked_ns, all_.stops, all_.longest_ns, all_.since_ns, blocks]


def snapshot_of(actor: str, plain: dict[str, object]) -> ActorSnapshot:
    """The snapshot that `plain` was made of.

    Raises: KeyError, TypeError or ValueError when it was made of none.
    """
    blocked = plain.get("blocked")
    times = plain.get("times")
    return ActorSnapshot(
        actor,
        str(plain.get("kind", kind_of(actor))),
        str(plain.get("state", "")),
        _whole(plain.get("started_ns", 0)),
        NO_TIME if times is None else Times(*(_whole(ns) for ns in _list(times))),
        NEVER_BLOCKED if blocked is None else _blocked_of(_list(blocked)),
        {str(key): _number(value) for key, value in _dict(plain.get("numbers", {})).items()},
        {str(key): str(value) for key, value in _dict(plain.get("labels", {})).items()},
        _whole(plain.get("taken_ns", NOT_TAKEN)),
    )


def _blocked_of(fields: list[object]) -> BlockedTotals:
    blocked_ns, stops, longest_ns, since_ns, blocks = fields
    return BlockedTotals(
        _whole(blocked_ns),
        _whole(stops),
        _whole(longest_ns),
        None if since_ns is None else _whole(since_ns),
        tuple(_block_of(_list(block)) for block in _list(blocks)),
    )


def _block_of(fields: list[object]) -> BlockTotals:
    peer, reason, ns, closed_ns, stops, longest_ns, since_ns, first_ns = fields
    return BlockTotals(
        str(peer),
        str(reason),
        _whole(ns),
        _whole(closed_ns),
        _whole(stops),
        _whole(longest_ns),
        None if since_ns is None else _whole(since_ns),
        _whole(first_ns),
    )


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _dict(value: object) -> dict[object, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value
