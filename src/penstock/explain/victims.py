"""Whom a root holds: the connections whose blocked time ends at it, and what it was doing then."""

from collections.abc import Mapping
from typing import Final

from penstock.explain.blame import follow, upstream
from penstock.explain.explanation import THROTTLED_SHARE, ActorShare, RootCause
from penstock.explain.root_causes import connection_of, name_cause
from penstock.telemetry.actor_window import ActorWindow

FOLLOWED_MAX: Final = 50
ROOT_KINDS: Final = frozenset({"store", "queue", "consumer", "alarm"})
"""Kinds of actors that can be asked about, are not held by a gate, and hold others."""


def held_by(subject: str, root: str, windows: Mapping[str, ActorWindow]) -> list[ActorShare]:
    """Connections other than that of `subject` that `root` held for at least 1 % of their window,
    worst first.

    Bound: the FOLLOWED_MAX most blocked ones are followed.
    """
    own = connection_of(subject)
    reached = [windows[actor] for actor in upstream(root, windows) if actor in windows]
    held = [w for w in reached if w.kind == "conn" and w.actor != own and w.window_ns > 0]
    held.sort(key=lambda w: (-w.blocked_ns, w.actor))
    found: list[ActorShare] = []
    for window in held[:FOLLOWED_MAX]:
        ns = sum(stay.ns for stay in follow(window.actor, windows) if stay.root == root)
        share = min(1.0, ns / window.window_ns)
        if share >= 0.01:
            found.append(ActorShare(window.actor, share))
    found.sort(key=lambda part: (-part.share, part.name))
    return found


def cause_at(
    root: str, victims: list[ActorShare], windows: Mapping[str, ActorWindow]
) -> RootCause | None:
    """What `root` does to the one it holds most; None if it holds nobody for THROTTLED_SHARE of
    the time. victims: of `held_by`."""
    if windows[root].kind not in ROOT_KINDS or not victims:
        return None
    if victims[0].share < THROTTLED_SHARE:
        return None
    stays = [stay for stay in follow(victims[0].name, windows) if stay.root == root]
    reason, detail = name_cause(stays[0], windows)
    ns = sum(stay.ns for stay in stays)
    path = (*(step.who for step in stays[0].path), root)
    return RootCause(root, reason, detail, ns, 1.0, path)
