"""Says of a queue whose messages are leased who has them: that is where its publishers wait."""

from collections.abc import Mapping
from typing import Final

from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import amount, duration, size

LEASE: Final = "lease"
"""In labels of a consumer that is a lease: what its group is called, `spark query orders`."""
LEASE_BYTES: Final = "lease_bytes"
LEASE_NS: Final = "lease_ns"
"""In numbers of such a consumer: what it holds, and for how long the first of it."""


def lease_detail(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> str:
    """Who leases messages of the queue that `window` is about, most first; "" for nobody. window:
    of a queue, of its consumers together, or of one of them."""
    return "; ".join(_one(each) for each in _leases(window, windows))


def about_leases(window: ActorWindow | None, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """What would let the one who leases most of a queue's messages take more; () for nobody."""
    found = [] if window is None else _leases(window, windows)
    if not found:
        return ()
    who = found[0].labels[LEASE]
    return (
        f"give {who} more to do at once (maxOffsetsPerTrigger), or a faster sink",
        f"let another consumer take messages beside {who}",
    )


def _leases(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> list[ActorWindow]:
    """The consumers that are leases, of the queue that `window` is about, largest first."""
    if LEASE in window.labels:
        return [window]
    queue = window.labels.get("queue", window.actor)
    found = [
        one for one in windows.values() if LEASE in one.labels and one.labels.get("queue") == queue
    ]
    return sorted(found, key=lambda one: (-one.numbers.get("unacked", 0.0), one.actor))


def _one(window: ActorWindow) -> str:
    numbers = window.numbers
    count = numbers.get("unacked", 0.0)
    held = f"{amount(count)} message{'' if count == 1 else 's'}"
    bytes_ = size(numbers.get(LEASE_BYTES, 0.0))
    since = duration(round(numbers.get(LEASE_NS, 0.0)))
    return f"{window.labels[LEASE]} holds {held}, {bytes_}, for {since}"
