"""What a flight record tells at first sight: what it covers, top causes, alarms, and a timeline."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from penstock.explain.beyond import beyond
from penstock.explain.blame import follow
from penstock.explain.event_lines import clock_time
from penstock.explain.naming import named
from penstock.explain.render import plain
from penstock.explain.roots import name_cause
from penstock.explain.timeline import columns, draw
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.events import ALARM_CLEARED, ALARM_SET
from penstock.telemetry.rates import NS_PER_S
from penstock.telemetry.record_file import Record
from penstock.telemetry.words import amount, blamed, called, duration, percent

CAUSES_SHOWN: Final = 5
FOLLOWED_MAX: Final = 500
"""Connections whose blocked time is followed, the most blocked ones."""
ALARMS_SHOWN: Final = 10


def summary(record: Record, width: int) -> str:
    """The whole page, lines of at most about `width` characters where names allow it."""
    wall_ns = record.header.wall_ns - record.header.mono_ns
    windows = named(beyond(whole_windows(record)))
    lines = [*_head(record, windows), ""]
    lines += _causes(windows)
    lines += _alarms(record)
    lines += ["", *draw(columns(record.history, width), wall_ns, width)]
    return plain("\n".join(lines))


def whole_windows(record: Record) -> Mapping[str, ActorWindow]:
    """Every actor over all the time that the record covers, under the broker's own ids."""
    oldest_ns, newest_ns = record.history.oldest_ns(), record.history.newest_ns()
    if oldest_ns is None or newest_ns is None:
        return {}
    return record.history.over((newest_ns - oldest_ns) / NS_PER_S)


def _head(record: Record, windows: Mapping[str, ActorWindow]) -> list[str]:
    head = record.header
    at = f"{datetime.fromtimestamp(head.wall_ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S} UTC"
    lines = [
        f"node {head.node}   penstock {head.penstock}   profile {head.profile}   "
        f"taken {at} ({head.why})"
    ]
    oldest_ns, newest_ns = record.history.oldest_ns(), record.history.newest_ns()
    kinds = [window.kind for window in windows.values()]
    covers = "covers nothing"
    if oldest_ns is not None and newest_ns is not None:
        covers = (
            f"covers {clock_time(record.wall_at(oldest_ns))[:8]} to "
            f"{clock_time(record.wall_at(newest_ns))[:8]} ({duration(newest_ns - oldest_ns)})"
        )
    events = f"{amount(len(record.events))} events"
    if head.dropped > 0:
        events += f", {amount(head.dropped)} older ones had been dropped"
    if record.left_out_events or record.left_out_actors:
        events += (
            f"; left out for size: {amount(record.left_out_events)} events, "
            f"{amount(record.left_out_actors)} actors"
        )
    lines.append(
        f"{covers}   {kinds.count('conn')} connections, {kinds.count('queue')} queues   {events}"
    )
    return lines


def _causes(windows: Mapping[str, ActorWindow]) -> list[str]:
    """Root causes over all connections, by the blocked time they took."""
    held = [w for w in windows.values() if w.kind == "conn" and w.blocked_ns > 0]
    held.sort(key=lambda window: (-window.blocked_ns, window.actor))
    taken_ns: dict[tuple[str, str], int] = {}
    hit: dict[tuple[str, str], set[str]] = {}
    detail: dict[tuple[str, str], str] = {}
    for window in held[:FOLLOWED_MAX]:
        for stay in follow(window.actor, windows):
            reason, words = name_cause(stay, windows)
            key = (stay.root, reason)
            taken_ns[key] = taken_ns.get(key, 0) + stay.ns
            hit.setdefault(key, set()).add(window.actor)
            detail.setdefault(key, words)
    total = sum(taken_ns.values())
    if total == 0:
        return [" top causes   no connection was blocked"]
    order = sorted(taken_ns, key=lambda key: (-taken_ns[key], key))
    lines = []
    for index, key in enumerate(order[:CAUSES_SHOWN]):
        root, reason = key
        count = len(hit[key])
        lines.append(
            f" {'top causes' if index == 0 else '':<12} {index + 1}) {blamed(root, reason)}: "
            f"{percent(taken_ns[key] / total)} of all blocked time ({duration(taken_ns[key])}; "
            f"hits {count} connection{'' if count == 1 else 's'})"
        )
        if detail[key]:
            lines.append(f"{'':<17}{detail[key]}")
    more = len(order) - CAUSES_SHOWN
    if more > 0:
        rest = sum(taken_ns[key] for key in order[CAUSES_SHOWN:])
        lines.append(f"{'':<14}{more} more: {percent(rest / total)}")
    return lines


def _alarms(record: Record) -> list[str]:
    """When alarms were set and cleared, the last ALARMS_SHOWN of those that are on record."""
    begun: dict[str, tuple[int, str]] = {}
    rows: list[str] = []
    for event in record.events:
        if event.kind == ALARM_SET:
            begun[event.actor] = (event.t_ns, event.reason)
        elif event.kind == ALARM_CLEARED:
            since_ns, reason = begun.pop(event.actor, (-1, ""))
            end = clock_time(record.wall_at(event.t_ns))[:8]
            if since_ns < 0:
                rows.append(f"until {end}  {called(event.actor)}")
                continue
            start = clock_time(record.wall_at(since_ns))[:8]
            lasted = duration(event.t_ns - since_ns)
            rows.append(f"{start} to {end} ({lasted})  {called(event.actor)}: {reason}")
    for actor, (since_ns, reason) in begun.items():
        start = clock_time(record.wall_at(since_ns))[:8]
        rows.append(f"since {start}  {called(actor)}: {reason}")
    return [
        f" {'alarms' if index == 0 else '':<12} {row}"
        for index, row in enumerate(rows[-ALARMS_SHOWN:])
    ]
