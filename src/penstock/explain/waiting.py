"""Publishers that nobody holds and whose publishes wait all the same, where something is stopped.

Who keeps fewer publishes unconfirmed than there is room for on the way is never blocked: no gate of
its own closes, and it waits by its own choice for confirms. They lie in the mailbox of a queue that
is stopped, or in that of the publisher's own channel, which has no credit left for the queue.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.explain.notes import CONFIRMS
from penstock.explain.roots import DEBT, connection_of
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import amount, called, name_of

STOPPED_SHARE: Final = 0.5
"""A queue that was stopped for less of the window lets nobody wait for long."""


class Waiting(NamedTuple):
    """So many `publishes` wait `at` the queue or channel with this id, which has most of them."""

    publishes: float
    at: str


def stopped_places(windows: Mapping[str, ActorWindow]) -> list[ActorWindow]:
    """Queues and channels that take nothing now, and did not for STOPPED_SHARE of the window."""
    return [
        window
        for window in windows.values()
        if window.kind in ("queue", "chan")
        and window.since_ns is not None
        and window.blocked_share() >= STOPPED_SHARE
    ]


def longest_stopped(windows: Mapping[str, ActorWindow]) -> ActorWindow | None:
    """The queue that was stopped longest, for STOPPED_SHARE of the window or more, although it may
    take something again just now: a consumer that works in batches stops its queue in between."""
    stopped = [
        (window.blocked_share(), window.actor)
        for window in windows.values()
        if window.kind == "queue" and window.blocked_share() >= STOPPED_SHARE
    ]
    return windows[max(stopped)[1]] if stopped else None


def waiting(publisher: ActorWindow, stopped: Iterable[ActorWindow]) -> Waiting | None:
    """What a connection or channel has handed to a stopped queue, or a connection to a stopped
    channel of its own; None if nothing."""
    if publisher.kind not in ("conn", "chan"):
        return None
    most = max((Waiting(_handed(publisher, place), place.actor) for place in stopped), default=None)
    return most if most is not None and most.publishes > 0 else None


def about_waiting(
    publisher: ActorWindow, found: Waiting, windows: Mapping[str, ActorWindow]
) -> str:
    """The beginning of a sentence, which goes on with what stops the queue."""
    channels = f"chan:{name_of(connection_of(publisher.actor))}/"
    confirms = any(
        CONFIRMS in window.labels
        for actor, window in windows.items()
        if actor.startswith(channels) and publisher.actor in (actor, connection_of(actor))
    )
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
    return handed if publisher.kind == "conn" else min(handed, _used(publisher, place))


def _used(sender: ActorWindow, receiver: ActorWindow) -> float:
    """Credit of `sender` for `receiver` that is gone, messages."""
    initial = sender.numbers.get(f"credit_initial:{receiver.actor}", 0.0)
    return initial - sender.numbers.get(f"credit_now:{receiver.actor}", initial)
