"""Dead letters in the way of their own queue: a full one may wait for where they go.

    queue:Q -> dead:Q -> queue:TARGET      Q keeps what has died, because TARGET does not take it

The gate of Q says only that Q is full or too deep, and its consumers would be blamed. But what has
expired stays at the head, where no consumer is given it, while the target has no room; and what was
rejected waits in a backlog, which counts as Q's. The dead letters of a queue are an actor of their
own, whose books say for how long they waited and for whom.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Final

from penstock.explain.window_index import paced
from penstock.telemetry.actor_window import (
    BACKLOG_BYTES,
    BACKLOG_MOST,
    ActorWindow,
    BlockWindow,
)
from penstock.telemetry.words import amount, called, size

KIND: Final = "dead"
WARNED: Final = "warned"
"""In labels: why letters go nowhere, as the log says it."""
EXPIRED: Final = "expired"
LATE: Final = "late"
"""Reasons of dead letters that wait: what expired stays in its queue; a backlog waits."""
LETTERS: Final = "letters"
"""Reason of a queue that waits for its dead letters."""
BACKLOG_SHARE: Final = 0.5
"""A backlog with so much of what a queue holds, or had so much of its mark, is why it is, or was,
too deep."""


def through_letters(windows: dict[str, ActorWindow]) -> Generator[float, None, None]:
    """Give queues that are full for their dead letters' sake a block that says so, in place of the
    one that blames their consumers; the nanoseconds stay. In steps."""
    for letters in paced(windows.values()):
        if letters is None:
            yield 0.0
            continue
        if letters.kind != KIND or letters.blocked_ns == 0:
            continue
        queue = windows.get(letters.labels.get("queue", ""))
        if queue is not None:
            windows[queue.actor] = _redirected(queue, letters)


def _redirected(queue: ActorWindow, letters: ActorWindow) -> ActorWindow:
    by_reason = {EXPIRED: 0, LATE: 0}
    for block in letters.blocks:
        # Whatever else holds them, a rate limit of the target, keeps what has expired as well.
        by_reason[LATE if block.reason == LATE else EXPIRED] += block.ns
    backlog = letters.numbers.get(BACKLOG_BYTES, 0.0)
    held = backlog + queue.numbers.get("bytes", 0.0)
    most, mark = letters.numbers.get(BACKLOG_MOST, 0.0), queue.numbers.get("depth_bytes", 0.0)
    left = {"full": by_reason[EXPIRED], "depth": by_reason[EXPIRED]}
    if 0 < BACKLOG_SHARE * held <= backlog or 0 < BACKLOG_SHARE * mark <= most:
        left["depth"] += by_reason[LATE]
    blocks: list[BlockWindow] = []
    moved = stops = 0
    for block in queue.blocks:
        ns = min(block.ns, max(0, left.get(block.reason, 0) - moved))
        if ns > 0:
            moved += ns
            stops += block.stops
            block = replace(block, ns=block.ns - ns)
        if block.ns > 0:
            blocks.append(block)
    if moved == 0:
        return queue
    blocks.append(BlockWindow(letters.actor, LETTERS, moved, moved, stops))
    blocks.sort(key=lambda block: (-block.ns, block.peer, block.reason))
    return replace(queue, blocks=tuple(blocks))


def letters_detail(window: ActorWindow) -> str:
    """Why the dead letters of a queue go nowhere, in words."""
    count = window.numbers.get("unacked", 0.0) + window.numbers.get("ready", 0.0)
    waiting = f"{amount(count)} dead letters wait"
    warned = window.labels.get(WARNED, "")
    return f"{warned}; {waiting}" if warned else waiting


def letters_note(queue: ActorWindow, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """A sentence without a subject for a queue whose dead letters wait now."""
    if queue.kind != "queue":
        return ()
    letters = windows.get(f"{KIND}:{queue.actor.partition(':')[2]}")
    if letters is None or letters.since_ns is None or letters.blocked_ns == 0:
        return ()
    late = letters.numbers.get("ready", 0.0)
    what = "has dead letters that wait"
    if late > 0:
        what = f"has {amount(late)} dead letters"
        what += f" ({size(letters.numbers.get(BACKLOG_BYTES, 0.0))}) that wait"
    peer = letters.blocks[0].peer
    return (f"{what} for {called(peer)}" if peer else f"{what}: {letters_detail(letters)}",)
