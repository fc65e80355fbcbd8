"""Whom a root holds: the connections whose blocked time ends at it, and what it was doing then."""

from collections.abc import Generator
from typing import Final

from penstock.explain.blame import following, going_upstream
from penstock.explain.explanation import THROTTLED_SHARE, ActorShare, RootCause
from penstock.explain.root_causes import connection_of, name_cause
from penstock.explain.window_index import Least, WindowIndex, paced
from penstock.telemetry.actor_window import ActorWindow

FOLLOWED_MAX: Final = 50
ROOT_KINDS: Final = frozenset({"store", "queue", "consumer", "alarm"})
"""Kinds of actors that can be asked about, are not held by a gate, and hold others."""


def held_by(
    subject: str, root: str, windows: WindowIndex
) -> Generator[float, None, list[ActorShare]]:
    """Connections other than that of `subject` that `root` held for at least 1 % of their window,
    worst first. In steps.

    Bound: the FOLLOWED_MAX most blocked ones are followed.
    """
    own = connection_of(subject)
    reached = yield from going_upstream(root, windows)
    held: Least[ActorWindow] = Least(FOLLOWED_MAX)
    for actor in paced(reached):
        one = None if actor is None else windows.get(actor)
        if actor is None:
            yield 0.0
        elif one is not None and one.kind == "conn" and one.actor != own and one.window_ns > 0:
            held.offer((-one.blocked_ns, one.actor), one)
    found: list[ActorShare] = []
    for window in held.rows():
        stays = yield from following(window.actor, windows)
        yield 0.0
        ns = sum(stay.ns for stay in stays if stay.root == root)
        share = min(1.0, ns / window.window_ns)
        if share >= 0.01:
            found.append(ActorShare(window.actor, share))
    found.sort(key=lambda part: (-part.share, part.name))
    return found


def cause_at(
    root: str, victims: list[ActorShare], windows: WindowIndex
) -> Generator[float, None, RootCause | None]:
    """What `root` does to the one it holds most; None if it holds nobody for THROTTLED_SHARE of
    the time. victims: of `held_by`. In steps."""
    if windows[root].kind not in ROOT_KINDS or not victims:
        return None
    if victims[0].share < THROTTLED_SHARE:
        return None
    every = yield from following(victims[0].name, windows)
    stays = [stay for stay in every if stay.root == root]
    reason, detail = name_cause(stays[0], windows)
    ns = sum(stay.ns for stay in stays)
    path = (*(step.who for step in stays[0].path), root)
    return RootCause(root, reason, detail, ns, 1.0, path)
