"""Sets explanations and events as text for a terminal: verdict, chain, victims, what to try."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from penstock.explain.answers import wait_lines, waits_long
from penstock.explain.explanation import THROTTLED, ActorShare, Explanation, RootCause
from penstock.explain.naming import Names
from penstock.telemetry import events as kinds
from penstock.telemetry.events import KIND_NAMES, CountSample, Event, TimeSample
from penstock.telemetry.words import (
    amount,
    blamed,
    called,
    duration,
    kind_of,
    percent,
    waits_for,
    was_held,
)

CAUSES_SHOWN: Final = 4
"""Causes named beside the first; the rest are summed up."""


_AT_ROOT: Final = {
    "cpu": "works without a break",
    "consumer": "waits for consumers",
    "lag": "is too far behind",
    "disk": "waits for the disk",
    "replica": "waits for other nodes of the cluster",
    "mirror": "waits for mirrors",
    "room": "waits for room on the disk",
    "socket": "waits for its peer to read",
    "stuck": "does not take its messages",
    "slow": "takes its messages slowly",
    "letters": "go nowhere",
    "delay": "is full of messages that are not due",
    "credit": "has little to do, its credit is too small",
    "debt": "has too much outstanding",
    "rate": "is reached",
    "flow": "is paused by channel.flow",
    "waiting": "waits",
    "circle": "closes a circle",
    "others": "held it a little each",
}
_WORDS: Final = {
    kinds.ACTOR_UP: "is up",
    kinds.ACTOR_DOWN: "is gone",
    kinds.ALARM_CLEARED: "is over",
    kinds.HOP_STUCK: "has made no progress",
    kinds.UNPARKED: "goes on with the publish that was parked",
}


def render(explanation: Explanation) -> str:
    """The whole answer as lines of text, without a line end after the last.

    Plain characters only, so that it reads the same in a terminal, a log and an issue.
    """
    if explanation.state != THROTTLED:
        return plain("\n".join([_label(explanation, explanation.text), *_at_ease(explanation)]))
    lines = [_headline(explanation), ""]
    lines += _because(explanation)
    others = _others(explanation.causes[1:])
    if others:
        lines.append(f" other     {others}")
    after = _around(explanation)
    if after:
        lines += ["", *after]
    if explanation.notes:
        lines += ["", *_notes(explanation)]
    if explanation.suggestions:
        lines.append("")
        lines += [f" try       {suggestion}" for suggestion in explanation.suggestions]
    return plain("\n".join(lines))


def plain(text: str) -> str:
    """`text` without anything that is not printable but line ends: names come from strangers, and
    none of them may move the cursor of a terminal."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def _at_ease(explanation: Explanation) -> list[str]:
    """What else is to be said of who is not throttled: its waits, notes, and what would help."""
    lines: list[str] = []
    waits = explanation.waits
    if waits_long(waits):
        details = wait_lines(waits, explanation.own_share)
        lines += ["", *details] if details else []
    after = _around(explanation) if explanation.behind is not None else []
    lines += ["", *after] if after else []
    lines += _notes(explanation)
    if explanation.suggestions:
        lines.append("")
        lines += [f" try       {suggestion}" for suggestion in explanation.suggestions]
    return lines


def _notes(explanation: Explanation) -> list[str]:
    return [f" note      {note}" for note in explanation.notes]


def _label(explanation: Explanation, text: str) -> str:
    return f"{text}\n ({explanation.about})" if explanation.about else text


def _headline(explanation: Explanation) -> str:
    about = f" ({explanation.about})" if explanation.about else ""
    held = explanation.subject, explanation.blocked_ns, explanation.parked_ns
    facts = duration(explanation.blocked_ns)
    if explanation.stops > 0:
        stops = "1 stop" if explanation.stops == 1 else f"{explanation.stops} stops"
        facts += f"; {stops}, longest {duration(explanation.longest_ns)}"
    if explanation.held_ns is not None:
        facts += f"; held now for {duration(explanation.held_ns)}"
    return (
        f"{called(explanation.subject)}{about} {was_held(*held)} "
        f"{percent(explanation.blocked_share)} of the last {explanation.window_s:g} s  ({facts})"
    )


def _because(explanation: Explanation) -> list[str]:
    """One line per link, in columns, one for the root, and its numbers in words below that."""
    links = [link for link in explanation.chain if link.who != link.waits_for]
    rows = [(called(link.who), waits_for(link.reason), called(link.waits_for)) for link in links]
    tails = [f"{duration(link.ns):>7}   {link.detail}".rstrip() for link in links]
    who, verb, whom = (max((len(row[i]) for row in rows), default=0) for i in range(3))
    if explanation.causes:
        who = max(who, len(called(explanation.causes[0].root)))
    lines = [
        f" because   {row[0]:<{who}}   {row[1]:<{verb}}   {row[2]:<{whom}}   {tail}"
        for row, tail in zip(rows, tails, strict=True)
    ]
    if explanation.causes:
        first = explanation.causes[0]
        share = percent(first.share)
        lines.append(
            f" because   {called(first.root):<{who}}   {_at_root(first)}   ◀ root cause, {share} "
            f"of the blocked time ({duration(first.ns)})"
        )
        if first.detail:
            lines.append(f"{'':<{11 + who}}   {first.detail}")
    return lines


def _at_root(cause: RootCause) -> str:
    if cause.reason.startswith("alarm:"):
        return "is set"
    if cause.reason == "consumer" and kind_of(cause.root) in ("consumer", "consumers"):
        if cause.detail.startswith("no consumer"):
            return "are missing"
        if cause.detail.startswith("it is paused"):
            return "are given nothing"
        if " give back " in cause.detail:
            return "give it back"
        if ", the next delivery" in cause.detail and "; 1 in flight" in cause.detail:
            return "acks each message before it has the next"
        return "acks too slowly" if kind_of(cause.root) == "consumer" else "ack too slowly"
    return _AT_ROOT.get(cause.reason, f"holds it back ({cause.reason})")


def _others(causes: Sequence[RootCause]) -> str:
    shown = [
        f"{blamed(cause.root, cause.reason)} {duration(cause.ns)} ({percent(cause.share)})"
        for cause in causes[:CAUSES_SHOWN]
    ]
    rest = causes[CAUSES_SHOWN:]
    if rest:
        ns, share = sum(c.ns for c in rest), sum(c.share for c in rest)
        shown.append(f"{len(rest)} more {duration(ns)} ({percent(share)})")
    return " · ".join(shown)


def _around(explanation: Explanation) -> list[str]:
    """Who else suffers, who does not, and who put the load there."""
    lines: list[str] = []
    if explanation.victims:
        more = f" and {explanation.victims_more} more" if explanation.victims_more else ""
        word = "same cause hits" if explanation.behind is None else "it holds"
        lines.append(f" {word:<17} {_parts(explanation.victims)}{more}")
    if explanation.unaffected:
        plural = "" if explanation.unaffected == 1 else "s"
        lines.append(f" not affected      {explanation.unaffected} connection{plural}")
    if explanation.shared:
        lines.append(f" suffers with it   {_parts(explanation.shared)}   (same socket, not held)")
    if explanation.owners:
        rest = 1.0 - sum(part.share for part in explanation.owners)
        others = f", others {percent(rest)}" if rest >= 0.005 else ""
        lines.append(
            f" who loads {called(explanation.loaded)}   {_parts(explanation.owners)}{others}"
            f"   ({explanation.owned})"
        )
    return lines


def _parts(parts: Sequence[ActorShare]) -> str:
    return ", ".join(f"{called(part.name)} {percent(part.share)}" for part in parts)


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
