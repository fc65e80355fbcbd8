"""Publishers that nobody holds and whose publishes wait all the same, at a queue that is stopped.

Who keeps fewer publishes unconfirmed than the queue's window has room for is never blocked: no gate
of its own closes, and it waits by its own choice for confirms. Only the queue's mailbox says so.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.notes import CONFIRMS
from penstock.telemetry.roots import DEBT, connection_of
from penstock.telemetry.words import amount, called, name_of

STOPPED_SHARE: Final = 0.5
"""A queue that was stopped for less of the window lets nobody wait for long."""


class Waiting(NamedTuple):
    """So many `publishes` wait at the queue with this id, which has most of them."""

    publishes: float
    queue: str


def stopped_queues(windows: Mapping[str, ActorWindow]) -> list[ActorWindow]:
    """Queues that take nothing now, and did not for STOPPED_SHARE of the window."""
    return [
        window
        for window in windows.values()
        if window.kind == "queue"
        and window.since_ns is not None
        and window.blocked_share() >= STOPPED_SHARE
    ]


def waiting(publisher: ActorWindow, stopped: Iterable[ActorWindow]) -> Waiting | None:
    """What a connection or channel has handed to a stopped queue; None if nothing."""
    if publisher.kind not in ("conn", "chan"):
        return None
    most = max((Waiting(_handed(publisher, queue), queue.actor) for queue in stopped), default=None)
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
    return (
        f"{who} is not blocked, but {amount(found.publishes)} {wait}{how} at {called(found.queue)}"
    )


def _handed(publisher: ActorWindow, queue: ActorWindow) -> float:
    """Of a channel, what its connection has there, and not more than the channel's own credit has
    gone: a stopped queue withholds some of it for what it took, so that alone says too much."""
    handed = queue.numbers.get(DEBT + connection_of(publisher.actor), 0.0)
    if publisher.kind == "conn":
        return handed
    initial = publisher.numbers.get(f"credit_initial:{queue.actor}", 0.0)
    return min(handed, initial - publisher.numbers.get(f"credit_now:{queue.actor}", initial))
