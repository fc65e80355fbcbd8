"""Of a queue that takes nothing because it is full: which limit that is, and who has set it."""

from collections.abc import Mapping
from typing import Final

from penstock.explain.blame import Stay
from penstock.telemetry.actor_window import ActorWindow

LIMIT: Final = "limit"
"""In labels: what bounds a queue, in words: `max-length 5 (policy 'short')`."""


def with_limit(detail: str, stay: Stay, windows: Mapping[str, ActorWindow]) -> str:
    """`detail` of a cause, and the limit of the queue where it was a full one that held."""
    last = stay.path[-1]
    queue = windows.get(last.who)
    if last.reason.partition(":")[0] != "full" or queue is None or LIMIT not in queue.labels:
        return detail
    said = f"full at {queue.labels[LIMIT]}"
    return f"{detail}; {said}" if detail else said
