"""One recorded event as a line for people: when, who, what."""

from datetime import UTC, datetime
from typing import Final

from penstock.explain.naming import Names
from penstock.explain.render import plain
from penstock.telemetry import events as kinds
from penstock.telemetry.events import KIND_NAMES, CountSample, Event, TimeSample
from penstock.telemetry.words import amount, called, duration, waits_for

_WORDS: Final = {
    kinds.ACTOR_UP: "is up",
    kinds.ACTOR_DOWN: "is gone",
    kinds.ALARM_CLEARED: "is over",
    kinds.HOP_STUCK: "has made no progress",
    kinds.UNPARKED: "goes on with the publish that was parked",
}


def clock_time(wall_ns: int) -> str:
    """`12:04:31.123`, UTC."""
    seconds, rest_ns = divmod(wall_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{rest_ns // 1_000_000:03d}"


def event_line(event: Event, wall_ns: int, names: Names) -> str:
    """The event that happened at `wall_ns` as one line of printable characters."""
    who = called(names.of(event.actor)) if event.actor else ""
    return plain(f"{clock_time(wall_ns)}  {who:<28} {_what(event, names)}").replace("\n", " ")


def _what(event: Event, names: Names) -> str:
    peer = called(names.of(event.peer)) if event.peer else ""
    kind = event.kind
    if kind == kinds.GATE_CLOSED:
        return f"stops: {waits_for(event.reason)} {peer}"
    if kind == kinds.GATE_OPENED:
        return f"goes on after {duration(event.amount)}: {peer} ({event.reason})"
    if kind == kinds.GRANT_DEFERRED:
        return f"keeps credit for {amount(event.amount)} messages back from {peer}"
    if kind == kinds.ALARM_SET:
        return f"is set: {event.reason}"
    if kind in (kinds.ESCAPE, kinds.PARKED):
        word = "forces" if kind == kinds.ESCAPE else "parks"
        count = "1 publish" if event.amount == 1 else f"{amount(event.amount)} publishes"
        return f"{word} {count}" + (f" at {peer}" if peer else "")
    if kind == kinds.DROPPED:
        return f"{amount(event.amount)} events were dropped, because the ring was full"
    if isinstance(event, TimeSample):
        parts = (
            f"{duration(ns)} {state}"
            for state, ns in (
                ("idle", event.idle_ns),
                ("busy", event.busy_ns),
                ("blocked", event.blocked_ns),
                ("waiting", event.waiting_ns),
            )
        )
        return ", ".join(parts)
    if isinstance(event, CountSample):
        return (
            f"{amount(event.ready)} ready, {amount(event.unacked)} unacked, "
            f"{amount(event.published)} published, {amount(event.acked)} acked"
        )
    words = _WORDS.get(kind, KIND_NAMES[kind].replace("_", " "))
    return " ".join(part for part in (words, peer, event.reason) if part)
