"""What is worth a line beside an answer: what a queue gave up, and a channel that mixes queues.

A channel keeps one publish aside for a queue that takes none; the next one that finds no place
stalls it, for whichever queue it is. So who publishes to two queues in turn over one channel loses
the running one with the other, and no gate of the running one says so.
Source: docs/strategies.md, parking; scenario 26.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.explain.explanation import Cause
from penstock.telemetry.actor_window import DROPPED, LOST, SENT, ActorWindow
from penstock.telemetry.words import amount, called, name_of, rate, size

CONFIRMS: Final = "confirms"
"""In labels: of a channel that confirms publishes."""

PARKS: Final = "parks"
"""In labels: of a channel that keeps a publish aside for a queue that takes none."""

OTHERS_SHOWN: Final = 3
_CREDIT: Final = "credit_initial:"
_GIVEN_UP: Final = {
    "expired": "expired",
    "maxlen": "over its limit",
    "rejected": "rejected by consumers",
    "delivery_limit": "delivered too often",
    "superseded": "replaced by newer ones",
    "duplicate": "duplicates",
    "refused": "refused to publishers",
}


@dataclass(frozen=True, slots=True)
class Mixture:
    """channel: publishes to several queues; holders: those that hold it; others: the rest, which
    wait with them."""

    channel: ActorWindow
    holders: tuple[str, ...]
    others: tuple[str, ...]


def notes_on(window: ActorWindow) -> tuple[str, ...]:
    """What a queue does that no block says, in sentences without a subject."""
    if window.kind != "queue":
        return ()
    found = []
    name = name_of(window.actor)
    if "damaged" in window.labels:
        found.append(
            f"is damaged: {window.labels['damaged']} of its messages cannot be read; consumers are "
            f"given the others after penstock queues resume {name}"
        )
    elif "paused" in window.labels:
        found.append(f"is paused: consumers are given nothing (penstock queues resume {name})")
    paged = window.numbers.get("paged", 0.0)
    if paged > 0:
        waits = ", for which its consumers wait now" if "reading" in window.labels else ""
        text = size(window.numbers.get("paged_bytes", 0.0))
        found.append(f"has {amount(paged)} messages ({text}) on the disk{waits}")
    given_up = _counted(window, DROPPED, _GIVEN_UP)
    if given_up:
        found.append(f"gave up messages: {given_up}")
    lost = _counted(window, LOST, {})
    if lost:
        found.append(f"lost dead letters: {lost}")
    return tuple(found)


def mixture_on(cause: Cause, windows: Mapping[str, ActorWindow]) -> Mixture | None:
    """The channel on the way to `cause` whose other queues wait with the one that holds it."""
    for actor in cause.path:
        window = windows.get(actor)
        if window is None or window.kind != "chan":
            continue
        queues = sorted(
            key.removeprefix(_CREDIT)
            for key in window.numbers
            if key.startswith(_CREDIT) and key.removeprefix(_CREDIT).startswith("queue:")
        )
        held_by = {block.peer for block in window.blocks if block.ns > 0}
        holders = tuple(queue for queue in queues if queue in held_by)
        others = tuple(
            queue
            for queue in queues
            if queue not in held_by and not _is_fan_out(window, holders, queue, windows)
        )
        if holders and others:
            return Mixture(window, holders, others)
    return None


def _is_fan_out(
    channel: ActorWindow, holders: tuple[str, ...], other: str, windows: Mapping[str, ActorWindow]
) -> bool:
    """Whether the same publishes go to `other` as to the `holders`: no channel could part those. As
    many have come to both together, then, as there were publishes, and half as many again."""
    connection = f"conn:{name_of(channel.actor).rpartition('/')[0]}"
    if connection not in windows:
        return False
    publishes = windows[connection].numbers.get("routed", 0.0)
    to_other = _sent(connection, other, windows)
    return any(to_other + _sent(connection, one, windows) > 1.5 * publishes for one in holders)


def _sent(connection: str, queue: str, windows: Mapping[str, ActorWindow]) -> float:
    window = windows.get(queue)
    return 0.0 if window is None else window.numbers.get(SENT + connection, 0.0)


def about_mixture(found: Mixture) -> str:
    """What it does, as a sentence."""
    return (
        f"{called(found.channel.actor)} publishes to {_names(found.others)} too: behind a publish "
        f"that {_names(found.holders)} does not take, and the next one without a place, all wait"
    )


def unmix(found: Mixture) -> str:
    """What its owner can do."""
    text = f"publish to {_names(found.holders)} over a channel, better a connection, of its own"
    if PARKS not in found.channel.labels:
        return text
    least = min(found.channel.numbers[_CREDIT + queue] for queue in found.holders)
    confirms = "" if CONFIRMS in found.channel.labels else " (confirm.select)"
    return f"{text}, or keep fewer than {amount(least)} publishes unconfirmed{confirms}"


def _names(queues: tuple[str, ...]) -> str:
    shown = ", ".join(called(queue) for queue in queues[:OTHERS_SHOWN])
    more = len(queues) - OTHERS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _counted(window: ActorWindow, prefix: str, words: Mapping[str, str]) -> str:
    """`4.1/s expired (90 in all), 12 over its limit`: counts since the queue was declared, and the
    rate of those that happened in this time, which come first."""
    found = []
    for key, count in window.numbers.items():
        if not key.startswith(prefix) or count == 0:
            continue
        reason = key.removeprefix(prefix)
        said = words.get(reason, reason)
        now = window.rates.get(key, 0.0)
        text = f"{amount(count)} {said}"
        if now > 0:
            text = f"{rate(now)} {said} ({amount(count)} in all)"
        found.append((-now, -count, text))
    return ", ".join(text for _, _, text in sorted(found))
