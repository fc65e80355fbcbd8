"""What a subject's stays come to: one cause for each root and label, and the chain to the first."""

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from penstock.explain.blame import Stay, Step
from penstock.explain.explanation import ChainStep, RootCause
from penstock.explain.root_causes import name_cause
from penstock.explain.window_index import WindowIndex, paced
from penstock.telemetry.actor_window import ActorWindow

STEP_STAYS: Final = 8
"""Stays that are given a name in one step."""
PARKED: Final = "parked"
"""Reason of a connection whose publishes a channel has parked: its own credit was repaid."""
LIMIT: Final = "limit"
"""In labels: what bounds a queue, in words: `max-length 5 (policy 'short')`."""
DEPTH_LIMIT: Final = "depth_limit"
"""In labels: the depth mark of a queue of which something was said."""
_LABELS: Final = {"full": (LIMIT, "full at "), "depth": (DEPTH_LIMIT, "")}
"""By reason of a hold: the label that names its bound, and what stands before it."""


def causes_of(stays: list[Stay], windows: WindowIndex) -> Generator[float, None, list[RootCause]]:
    """One cause for each (root, label), largest first; its path is that of its largest stay. In
    steps of STEP_STAYS."""
    total_ns = sum(stay.ns for stay in stays)
    merged: dict[tuple[str, str], RootCause] = {}
    for stay in paced(stays, STEP_STAYS):
        if stay is None:
            yield 0.0
            continue
        reason, detail = name_cause(stay, windows)
        key = (stay.root, reason)
        known = merged.get(key)
        if known is None:
            path = (*(step.who for step in stay.path), stay.path[-1].peer)
            if path[-1] == path[-2]:
                path = path[:-1]
            known = RootCause(stay.root, reason, with_limit(detail, stay, windows), 0, 0.0, path)
        ns = known.ns + stay.ns
        merged[key] = RootCause(known.root, reason, known.detail, ns, ns / total_ns, known.path)
    return sorted(merged.values(), key=lambda cause: (-cause.ns, cause.root, cause.reason))


def chain_to(
    cause: RootCause, stays: Iterable[Stay], windows: WindowIndex
) -> Generator[float, None, tuple[ChainStep, ...]]:
    """The links of the largest stay that ended at the cause's root under its label. In steps."""
    for stay in paced(stays, STEP_STAYS):
        if stay is None:
            yield 0.0
        elif stay.root == cause.root and name_cause(stay, windows)[0] == cause.reason:
            return tuple(
                ChainStep(s.who, s.peer, s.reason, s.ns, _used_credit(s, windows))
                for s in stay.path
            )
    return ()


def _used_credit(step: Step, windows: Mapping[str, ActorWindow]) -> str:
    if step.reason == PARKED:
        return ""
    numbers, peer = windows[step.who].numbers, step.peer
    initial = numbers.get(f"credit_initial:{peer}", numbers.get("credit_initial", 0.0))
    now = numbers.get(f"credit_now:{peer}", numbers.get("credit_now"))
    if initial <= 0 or now is None:
        return ""
    return f"{initial - now:.0f} of {initial:.0f} used"


def with_limit(detail: str, stay: Stay, windows: Mapping[str, ActorWindow]) -> str:
    """`detail` of a cause, and the limit of the queue where it was a full or deep one that held."""
    queue = windows.get(stay.path[-1].who)
    label, before = _LABELS.get(stay.path[-1].reason.partition(":")[0], ("", ""))
    if queue is None or label not in queue.labels:
        return detail
    said = before + queue.labels[label]
    return f"{detail}; {said}" if detail else said
