"""Who is near a cause: whose work loads it, and which channels suffer for their neighbours."""

from collections.abc import Mapping
from typing import Final

from penstock.explain.explanation import (
    OUTSTANDING,
    SENT_EVER,
    SENT_NOW,
    STORED_NOW,
    THROTTLED_SHARE,
    ActorShare,
    RootCause,
)
from penstock.explain.root_causes import DEBT
from penstock.telemetry.actor_window import SENT, STORED, ActorWindow
from penstock.telemetry.words import kind_of, name_of

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
    prefix = f"chan:{name_of(subject)}/"
    holders = {block.peer for block in connection.blocks if block.peer.startswith("chan:")}
    found = []
    for actor, window in windows.items():
        if not actor.startswith(prefix) or actor in holders:
            continue
        if window.numbers.get("published", 0.0) > 0 and window.blocked_share() < THROTTLED_SHARE:
            ns = sum(block.ns for block in connection.blocks if block.peer in holders)
            share = min(1.0, ns / connection.window_ns)
            if share >= THROTTLED_SHARE:
                found.append(ActorShare(actor, share))
    found.sort(key=lambda part: (-part.share, part.name))
    return tuple(found[:SHARED_SHOWN])


def consumers_on(connection: str, windows: Mapping[str, ActorWindow]) -> list[str]:
    """The consumers that came over `connection`."""
    end = f"@{connection}"
    return sorted(
        actor for actor in windows if kind_of(actor) == "consumer" and actor.endswith(end)
    )


def _with_prefix(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {
        key.removeprefix(prefix): value
        for key, value in values.items()
        if key.startswith(prefix) and value > 0
    }
