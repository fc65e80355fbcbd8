"""Remarks beside an answer: what a queue dropped, a channel that mixes queues, publishes that wait;
whose work loads a cause, and which channels suffer for their neighbours.

A channel parks publishes for a queue that takes none, by queue, while its connection's lot has
room; those for other queues pass. The publish that finds no room stalls the channel, whichever
queue the next ones are for: then a program that publishes to two queues over one channel loses the
running one with the other, and no gate of the running queue says so.
Source: docs/strategies.md, parking; scenario 26.

A publisher that keeps fewer publishes unconfirmed than there is room for on the way is never
blocked: no gate of its own closes, and it waits by its own choice for confirms. The publishes lie
in the mailbox of a stopped queue, or in that of the publisher's channel, which has no credit left.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from penstock.explain.explanation import (
    OUTSTANDING,
    SENT_EVER,
    SENT_NOW,
    STORED_NOW,
    THROTTLED_SHARE,
    ActorShare,
    RootCause,
)
from penstock.explain.root_causes import connection_of
from penstock.explain.window_index import WindowIndex, indexed, paced
from penstock.telemetry.actor_window import (
    DEBT,
    DROPPED,
    LOST,
    PARKED,
    PARKED_BYTES,
    PARKED_DISK,
    PARKED_FAULT,
    PARKED_MAX,
    PARKED_NS,
    PARKED_ROOM,
    REFUSED_BY,
    SENT,
    STORED,
    ActorWindow,
)
from penstock.telemetry.words import amount, called, duration, name_of, rate, size

OWNERS_SHOWN: Final = 5
SHARED_SHOWN: Final = 5


def loads(
    cause: RootCause, windows: Mapping[str, ActorWindow]
) -> tuple[str, tuple[ActorShare, ...], str]:
    """Whose messages load the actor nearest to the root that keeps such books: (that actor, the
    largest parts, what they are parts of); ("", (), "") if no actor does.

    Looked for in this order: what rests there now, where that is the load (a queue over its depth
    mark); work outstanding there; what came in during the window; what came in ever. An account
    stands for all its connection's channels, and a copy made by a fan-out counts where it went.
    """
    for actor in reversed(cause.path):
        window = windows.get(actor)
        if window is None:
            continue
        for owned, counts in (
            (STORED_NOW, _with_prefix(window.numbers, STORED)),
            (OUTSTANDING, _with_prefix(window.numbers, DEBT)),
            (SENT_NOW, _with_prefix(window.rates, SENT)),
            (SENT_EVER, _with_prefix(window.numbers, SENT)),
        ):
            total = sum(counts.values())
            if total > 0:
                parts = [ActorShare(name, count / total) for name, count in counts.items()]
                parts.sort(key=lambda part: (-part.share, part.name))
                return actor, tuple(parts[:OWNERS_SHOWN]), owned
    return "", (), ""


def sharing(subject: str, windows: Mapping[str, ActorWindow]) -> tuple[ActorShare, ...]:
    """Channels of the connection `subject` that publish, were hardly held themselves, and lost time
    because the socket they share was not read; with the share of the window, largest first."""
    connection = windows.get(subject)
    if connection is None or connection.kind != "conn" or connection.window_ns <= 0:
        return ()
    stopped = [block for block in connection.blocks if block not in connection.parked]
    holders = {block.peer for block in stopped if block.peer.startswith("chan:")}
    ns = sum(block.ns for block in stopped if block.peer in holders)
    share = min(1.0, ns / connection.window_ns)
    if share < THROTTLED_SHARE:
        return ()
    found = []
    for actor in indexed(windows).channels.get(subject, ()):
        window = windows[actor]
        if actor in holders or window.blocked_share() >= THROTTLED_SHARE:
            continue
        if window.numbers.get("published", 0.0) > 0:
            found.append(ActorShare(actor, share))
    found.sort(key=lambda part: (-part.share, part.name))
    return tuple(found[:SHARED_SHOWN])


def consumers_on(connection: str, windows: Mapping[str, ActorWindow]) -> list[str]:
    """The consumers that came over `connection`."""
    return sorted(indexed(windows).on_connection.get(connection, ()))


def _with_prefix(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {
        key.removeprefix(prefix): value
        for key, value in values.items()
        if key.startswith(prefix) and value > 0
    }


CONFIRMS: Final = "confirms"
"""In labels: of a channel that confirms publishes."""

PARKED_SHOWN: Final = 3
FULL_SHARE: Final = 0.02
"""Room below this share is none: what comes is larger, or uses it up at once."""

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
    """What a queue does that no block says, or what a connection or channel keeps aside, in
    sentences without a subject."""
    if window.kind in ("conn", "chan"):
        alarm = window.labels.get(REFUSED_BY, "")
        if alarm == "" or window.rates.get("published", 0.0) == 0:
            return _parked_notes(window)
        why = f"{called(alarm)} is set, and alarm.action is nack"
        return (f"has its publishes refused with basic.nack: {why}", *_parked_notes(window))
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


def _parked_notes(window: ActorWindow) -> tuple[str, ...]:
    """For whom publishes are parked, since when, and when there will be no more room at the pace of
    this window; the largest parts first."""
    parts = sorted(_with_prefix(window.numbers, PARKED_BYTES).items(), key=lambda one: -one[1])
    found = []
    for queue, bytes_ in parts[:PARKED_SHOWN]:
        count = window.numbers.get(PARKED + queue, 0.0)
        age = duration(round(window.numbers.get(PARKED_NS + queue, 0.0)))
        what = "publish" if count == 1 else "publishes"
        on_disk = window.numbers.get(PARKED_DISK + queue, 0.0)
        where = f"{size(bytes_ - on_disk)} in memory, {size(on_disk)} on disk"
        text = where if on_disk > 0 else size(bytes_)
        found.append(f"has {amount(count)} {what} ({text}) parked for {called(queue)} since {age}")
    if not found:
        return ()
    room = window.numbers.get(PARKED_ROOM, 0.0)
    grown = sum(window.rates.get(PARKED_BYTES + queue, 0.0) for queue, _ in parts)
    if room <= FULL_SHARE * window.numbers.get(PARKED_MAX, 0.0):
        found[-1] += "; there is no room for more"
    elif grown > 0:
        found[-1] += f"; full in {duration(round(room / grown * 1e9))} at this pace"
    if PARKED_FAULT in window.labels:
        fault = window.labels[PARKED_FAULT]
        found.append(f"parks in memory only, because the disk takes nothing: {fault}")
    return tuple(found)


def mixture_on(cause: RootCause, windows: Mapping[str, ActorWindow]) -> Mixture | None:
    """The channel on the way to `cause` whose other queues wait with the one that holds it."""
    for actor in cause.path:
        window = windows.get(actor)
        if window is None or window.kind != "chan" or _goes_on(window):
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


def _goes_on(channel: ActorWindow) -> bool:
    """Whether publishes of it were parked, and others went past them."""
    stalled_ns = channel.blocked_ns - channel.parked_ns()
    return len(channel.parked) > 0 and stalled_ns < THROTTLED_SHARE * channel.window_ns


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
        f"that {_names(found.holders)} does not take, and for which there is no place, all wait"
    )


def unmix(found: Mixture) -> str:
    """What its owner can do."""
    text = f"publish to {_names(found.holders)} over a channel, better a connection, of its own"
    most = found.channel.numbers.get(PARKED_MAX, 0.0)
    if most <= 0:
        return text
    confirms = "" if CONFIRMS in found.channel.labels else " (confirm.select)"
    return f"{text}, or keep fewer than {size(most)} unconfirmed{confirms}, or raise parked_bytes"


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


class Waiting(NamedTuple):
    """So many `publishes` wait `at` the queue or channel with this id, which has most of them."""

    publishes: float
    at: str


def longest_stopped(windows: WindowIndex) -> ActorWindow | None:
    """The queue that was stopped longest, for STOPPED_SHARE of the window or more, although it may
    take something again just now: a consumer that works in batches stops its queue in between."""
    return windows.get(windows.longest)


def waiting(publisher: ActorWindow, windows: WindowIndex) -> Generator[float, None, Waiting | None]:
    """What a connection or channel has handed to a stopped queue, or a connection to a stopped
    channel of its own; None if nothing. In steps."""
    if publisher.kind not in ("conn", "chan") or not windows.stopped:
        return None
    connection = connection_of(publisher.actor)
    parked = (key[len(PARKED) :] for key in publisher.numbers if key.startswith(PARKED))
    most: Waiting | None = None
    # It has something nowhere else.
    for actor in paced(
        chain(windows.debts.get(connection, ()), parked, windows.channels.get(connection, ()))
    ):
        if actor is None:
            yield 0.0
        elif actor in windows.stopped:
            one = Waiting(_handed(publisher, windows[actor]), actor)
            most = one if most is None else max(most, one)
    return most if most is not None and most.publishes > 0 else None


def about_waiting(
    publisher: ActorWindow, found: Waiting, windows: Mapping[str, ActorWindow]
) -> str:
    """The beginning of a sentence, which goes on with what stops the queue."""
    channels = [publisher.actor]
    if publisher.kind == "conn":
        channels = indexed(windows).channels.get(publisher.actor, [])
    confirms = any(CONFIRMS in windows[actor].labels for actor in channels)
    wait = "publish waits" if found.publishes == 1 else "publishes wait"
    how = " unconfirmed" if confirms else ""
    who = called(publisher.actor)
    return f"{who} is not blocked, but {amount(found.publishes)} {wait}{how} at {called(found.at)}"


def _handed(publisher: ActorWindow, place: ActorWindow) -> float:
    """Of a channel, what its connection has there, and not more than the channel's own credit has
    gone: a stopped queue withholds some of it for what it took, so that alone says too much."""
    if place.kind == "chan":
        if publisher.kind == "chan" or connection_of(place.actor) != publisher.actor:
            return 0.0
        return min(publisher.numbers.get("debt_messages", 0.0), _used(publisher, place))
    handed = place.numbers.get(DEBT + connection_of(publisher.actor), 0.0)
    parked = publisher.numbers.get(PARKED + place.actor, 0.0)
    return parked + (handed if publisher.kind == "conn" else min(handed, _used(publisher, place)))


def _used(sender: ActorWindow, receiver: ActorWindow) -> float:
    """Credit of `sender` for `receiver` that is gone, messages."""
    initial = sender.numbers.get(f"credit_initial:{receiver.actor}", 0.0)
    return initial - sender.numbers.get(f"credit_now:{receiver.actor}", initial)
