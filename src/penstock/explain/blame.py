"""Follows blocked time downstream until it reaches actors that are not held: the roots.

The wait-for graph of a window has an edge for each (actor, peer) with the nanoseconds attributed
to it. From the subject, its blocked time flows along its edges. Of the nanoseconds that reach an
actor, as many flow on as that actor was blocked itself, split as its own blocked time is
attributed; the rest stays, and the actor is their root. So blame is conserved:
    sum of all stays = blocked time of the subject, to the nanosecond.
That an actor was blocked in the very moments it held another one is taken for granted, since
deferring grants is what an actor does while it is held. A circle ends where it closes; an actor
that holds itself (its own backlog is over the mark, say) is a root.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.steps import whole
from penstock.explain.window_index import WindowIndex, indexed, paced
from penstock.telemetry.actor_window import ActorWindow

FORWARDS: Final = "forwards"
"""Reason of a consumer that waits for its own publishes; see explain/graph_extension."""

PATH_ACTORS_MAX: Final = 16
"""Actors on one path; at the bound the last one is the root."""

STEP_PATHS: Final = 32
"""Paths followed in one step."""

SMALLEST_SHARE: Final = 200
"""Less than one part in so many of the subject's blocked time is not followed any further."""


@dataclass(frozen=True, slots=True)
class Step:
    """`who` was held by `peer` for `reason`; `ns` of the subject's blocked time went this way."""

    who: str
    peer: str
    reason: str
    ns: int


@dataclass(frozen=True, slots=True)
class Stay:
    """`ns` of the subject's blocked time ended at `root`, having come along `path`.

    is_circle: `root` is on the path already, so no actor in the circle can go on by itself.
    """

    root: str
    ns: int
    path: tuple[Step, ...]
    is_circle: bool


def follow(subject: str, windows: Mapping[str, ActorWindow]) -> list[Stay]:
    """Where the subject's blocked time came from, largest first; empty if it was not blocked.

    Bound: SMALLEST_SHARE paths that go on at each of PATH_ACTORS_MAX steps.
    """
    return whole(following(subject, windows))


def following(
    subject: str, windows: Mapping[str, ActorWindow]
) -> Generator[float, None, list[Stay]]:
    """The same in steps of STEP_PATHS."""
    window = windows.get(subject)
    if window is None:
        return []
    smallest_ns = max(1, window.blocked_ns // SMALLEST_SHARE)
    stays: list[Stay] = []
    open_paths = _onward(window, window.blocked_ns, ())
    count = 0
    while open_paths:
        count += 1
        if count % STEP_PATHS == 0:
            yield 0.0
        path = open_paths.pop()
        actor, ns = path[-1].peer, path[-1].ns
        is_own = path[-1].who == actor
        is_circle = not is_own and any(step.who == actor for step in path)
        passed_ns = 0
        if not (is_own or is_circle) and len(path) < PATH_ACTORS_MAX and ns >= smallest_ns:
            held = windows.get(actor)
            if held is not None:
                onward = _onward(held, min(ns, held.blocked_ns), path)
                passed_ns = sum(longer[-1].ns for longer in onward)
                open_paths += onward
        if ns > passed_ns:
            rest_ns = ns - passed_ns
            if path[-1].reason == FORWARDS and not is_circle:
                # For the rest the consumer did not wait for its own publishes: it was slow itself.
                actor = path[-1].who
                path = (*path[:-1], Step(actor, actor, "prefetch", rest_ns))
            stays.append(Stay(actor, rest_ns, path, is_circle))
    stays.sort(key=lambda stay: (-stay.ns, stay.root))
    return stays


def upstream(root: str, windows: Mapping[str, ActorWindow]) -> set[str]:
    """The actors whose blocked time may lead to `root`: those upstream of it, without it."""
    return whole(going_upstream(root, indexed(windows)))


def going_upstream(root: str, index: WindowIndex) -> Generator[float, None, set[str]]:
    """The same in steps."""
    found: set[str] = set()
    ahead = [root]
    looked_at = 0
    while ahead:
        looked_at += 1
        if looked_at % STEP_PATHS == 0:
            yield 0.0
        for actor in paced(index.held_by.get(ahead.pop(), ())):
            if actor is None:
                yield 0.0
            elif actor not in found:
                found.add(actor)
                ahead.append(actor)
    found.discard(root)
    return found


def split(total: int, weights: Iterable[int]) -> list[int]:
    """`total` in whole parts as the weights, all >= 0, have it; the parts sum to it exactly.

    Nothing if the weights sum to nothing.
    """
    shares = list(weights)
    whole = sum(shares)
    parts: list[int] = []
    if whole == 0:
        return parts
    weight_so_far = given = 0
    for weight in shares:
        weight_so_far += weight
        due = total * weight_so_far // whole
        parts.append(due - given)
        given = due
    return parts


def _onward(window: ActorWindow, ns: int, path: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """`path` prolonged by each of the actor's blocks, `ns` nanoseconds split over them.

    A block without a peer is the actor's own doing.
    """
    parts = split(ns, (block.ns for block in window.blocks))
    return [
        (*path, Step(window.actor, block.peer or window.actor, block.reason, part))
        for block, part in zip(window.blocks, parts, strict=len(parts) > 0)
        if part > 0
    ]
