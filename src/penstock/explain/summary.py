"""What a flight record tells at first sight: what it covers, top causes, alarms, and a timeline.

The timeline shows who was blocked when and by what: a column is a slice of time, a row is an actor.

12:03:00  :10     :20                      a full clock time at the left, then every ten columns
web-7     ───▒▒█▒▒▒▒▒▒▒▒▒▒───   61 %       the mark of the first cause where it was throttled
the memory alarm ───────────▓▓▓▓────       while it was set
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from penstock.explain.blame import follow
from penstock.explain.explanation import THROTTLED_SHARE
from penstock.explain.graph_extension import beyond
from penstock.explain.naming import named
from penstock.explain.render import clock_time, plain
from penstock.explain.root_causes import name_cause
from penstock.explain.window_index import indexed
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.events import ALARM_CLEARED, ALARM_SET
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.record_file import FlightRecord
from penstock.telemetry.snapshots import NS_PER_S
from penstock.telemetry.window import WindowHistory
from penstock.telemetry.words import amount, blamed, called, duration, percent

ROWS_MAX: Final = 12
NAME_WIDTH_MAX: Final = 28
TAIL_WIDTH: Final = 9
MARKS: Final = {
    "disk": "█",
    "consumer": "▒",
    "cpu": "░",
    "alarm": "▓",
    "socket": "s",
    "credit": "c",
    "debt": "d",
    "rate": "r",
    "flow": "f",
    "replica": "n",
    "mirror": "m",
}
OTHER: Final = "o"
FREE: Final = "─"
AWAY: Final = " "
CAUSES_SHOWN: Final = 5
FOLLOWED_MAX: Final = 500
"""Connections whose blocked time is followed, the most blocked ones."""
ALARMS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """One slice of time. end_ns: monotonic; windows: of every actor in it."""

    start_ns: int
    end_ns: int
    windows: Mapping[str, ActorWindow]


def columns(history: FlightHistory, columns_max: int) -> list[TimeSlice]:
    """The slices of the longest history there is, oldest first, at most `columns_max`."""
    part = _longest(history)
    rounds = part.rounds()
    if len(rounds) < 2:
        return []
    step = max(1, -(-(len(rounds) - 1) // max(1, columns_max)))
    ends = rounds[:0:-step][::-1]
    found = []
    for end_ns in ends:
        at = rounds.index(end_ns)
        start_ns = rounds[max(0, at - step)]
        windows = part.over((end_ns - start_ns) / NS_PER_S, end_ns)
        found.append(TimeSlice(start_ns, end_ns, indexed(named(beyond(windows)))))
    return found


def draw(found: Sequence[TimeSlice], wall_ns: int, width: int) -> list[str]:
    """The lanes as lines. wall_ns: of monotonic zero; width: characters in a line."""
    if not found:
        return ["no two rounds were recorded, so there is no timeline"]
    rows = _worst(found)
    alarms = sorted({a for c in found for a, w in c.windows.items() if w.kind == "alarm"})
    if not rows and not alarms:
        return ["no connection or queue was throttled in all this time"]
    shown = [called(actor)[:NAME_WIDTH_MAX] for actor in (*rows, *alarms)]
    left = max(len(name) for name in shown)
    room = max(10, width - left - 2 - TAIL_WIDTH)
    kept = found[-room:]
    lines = [_scale(kept, wall_ns, left)]
    used: set[str] = set()
    for actor, name in zip(rows, shown, strict=False):
        lane = [_mark(actor, column.windows) for column in kept]
        used.update(lane)
        lines.append(f"{name:<{left}}  {''.join(lane)}  {percent(_share(actor, found)):>5}")
    for actor, name in zip(alarms, shown[len(rows) :], strict=True):
        lane = [MARKS["alarm"] if actor in column.windows else FREE for column in kept]
        used.update(lane)
        lines.append(f"{name:<{left}}  {''.join(lane)}")
    legend = [f"{mark} {reason}" for reason, mark in MARKS.items() if mark in used]
    if OTHER in used:
        legend.append(f"{OTHER} other")
    each_s = (kept[-1].end_ns - kept[-1].start_ns) / NS_PER_S
    lines.append(f"{'':<{left}}  {'   '.join(legend)}   (a column is {each_s:.0f} s)")
    return lines


def _longest(history: FlightHistory) -> WindowHistory:
    """The coarse one where it reaches much farther back, else the one with more columns."""
    fine, coarse = history.fine.rounds(), history.coarse.rounds()
    if len(coarse) < 2 or len(fine) < 2:
        return history.fine if len(fine) >= len(coarse) else history.coarse
    is_much_longer = coarse[-1] - coarse[0] > 2 * (fine[-1] - fine[0])
    return history.coarse if is_much_longer else history.fine


def _worst(found: Sequence[TimeSlice]) -> list[str]:
    """Connections and queues that were throttled in any column, most blocked first."""
    blocked: dict[str, int] = {}
    throttled: set[str] = set()
    for column in found:
        for actor, window in column.windows.items():
            if window.kind in ("conn", "queue") and window.blocked_ns > 0:
                blocked[actor] = blocked.get(actor, 0) + window.blocked_ns
                if window.blocked_share() >= THROTTLED_SHARE:
                    throttled.add(actor)
    return sorted(throttled, key=lambda actor: (-blocked[actor], actor))[:ROWS_MAX]


def _mark(actor: str, windows: Mapping[str, ActorWindow]) -> str:
    window = windows.get(actor)
    if window is None:
        return AWAY
    if window.blocked_share() < THROTTLED_SHARE:
        return FREE
    stays = follow(actor, windows)
    reason = name_cause(stays[0], windows)[0].partition(":")[0] if stays else ""
    return MARKS.get(reason, OTHER)


def _share(actor: str, found: Sequence[TimeSlice]) -> float:
    windows = [column.windows[actor] for column in found if actor in column.windows]
    whole_ns = sum(window.window_ns for window in windows)
    return sum(window.blocked_ns for window in windows) / whole_ns if whole_ns > 0 else 0.0


def _scale(kept: Sequence[TimeSlice], wall_ns: int, left: int) -> str:
    """Clock times (UTC) above the columns they begin at, as many as have room."""
    line = ""
    for index, column in enumerate(kept):
        if len(line) <= index and index % 12 == 0:
            line += " " * (index - len(line))
            line += clock_time(wall_ns + column.start_ns)[:8] + " "
    return f"{'UTC':<{left}}  {line.rstrip()}"


def summary(record: FlightRecord, width: int) -> str:
    """The whole page, lines of at most about `width` characters where names allow it."""
    wall_ns = record.header.wall_ns - record.header.mono_ns
    windows = indexed(named(beyond(whole_windows(record))))
    lines = [*_head(record, windows), ""]
    lines += _causes(windows)
    lines += _alarms(record)
    lines += ["", *draw(columns(record.history, width), wall_ns, width)]
    return plain("\n".join(lines))


def whole_windows(record: FlightRecord) -> Mapping[str, ActorWindow]:
    """Every actor over all the time that the record covers, under the broker's own ids."""
    oldest_ns, newest_ns = record.history.oldest_ns(), record.history.newest_ns()
    if oldest_ns is None or newest_ns is None:
        return {}
    return record.history.over((newest_ns - oldest_ns) / NS_PER_S)


def _head(record: FlightRecord, windows: Mapping[str, ActorWindow]) -> list[str]:
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


def _alarms(record: FlightRecord) -> list[str]:
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
