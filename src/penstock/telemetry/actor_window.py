"""What one actor did during a window: the exact difference of two of its snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.telemetry.row import as_dict
from penstock.telemetry.snapshots import (
    NO_TIME,
    OTHERS,
    ActorSnapshot,
    BlockedTotals,
    Times,
    per_second,
)

COUNTER_NAMES: Final = frozenset(
    {
        "published",
        "routed",
        "delivered",
        "acked",
        "confirmed",
        "redelivered",
        "returned",
        "expired",
        "bytes_in",
        "bytes_out",
        "syncs",
        "sync_ns",
        "held_ns",
        "answer_ns",
        "given_ns",
        "given_count",
        "both_ns",
    }
)
"""The names in ActorSnapshot.numbers that are cumulative; all others are values of the moment."""


SYNCS: Final = "syncs"
SYNC_NS: Final = "sync_ns"
"""Of a store: syncs of its files that have ended, and nanoseconds all of them took."""

BOTH_NS: Final = "both_ns"
"""Of a connection or channel: nanoseconds in which it was held, and publishes of it were parked."""

SENT: Final = "sent:"
"""Prefix of the messages an account has handed to an actor, cumulative too."""

DEBT: Final = "debt:"
"""Prefix, in ActorSnapshot.numbers, of the messages an account has outstanding at the actor."""

FULL_NS: Final = "full_ns"
"""In numbers of a store: how long its batch has waited for room; absent while none does."""

LEASE: Final = "lease"
"""In labels of a consumer that is a lease: what its group is called, `spark query orders`."""

STORED: Final = "stored:"
"""Prefix of the bytes of an account that rest in a queue which is over its depth mark."""

OWED: Final = "owed:"
"""Prefix of the bytes of an account that wait for the socket of a connection."""

DROPPED: Final = "dropped:"
"""Prefix of the messages a queue has given up, by reason, cumulative too; so are LOST ones."""

LOST: Final = "dead_letter_dropped:"
"""Prefix of its dead letters that went nowhere, by reason."""

PARKED: Final = "parked:"
"""Prefix of the publishes a channel or connection keeps aside, by queue that takes none of them."""

PARKED_BYTES: Final = "parked_bytes:"
"""The same in bytes; in rates of a window by how much they grew in a second, below 0 if they fell.
"""

PARKED_DISK: Final = "parked_disk:"
"""Of these bytes those on the disk."""

PARKED_FAULT: Final = "parked_fault"
"""In labels: why the disk takes nothing that is parked."""

REFUSED_BY: Final = "refused_by"
"""In labels: the alarm for which publishes of a connection are answered basic.nack."""

PARKED_NS: Final = "parked_ns:"
"""How long some of them have waited, nanoseconds, by queue."""

PARKED_ROOM: Final = "parked_room"
PARKED_MAX: Final = "parked_max"
"""Bytes for which a connection has room beside what is parked, and for which it would at most."""

MAILBOX: Final = "mailbox"
"""Messages that were handed to a queue and that it has not taken."""

WAITED: Final = "wait:"
"""Prefix of what a client waited for: `wait:ANSWER:ns`, `:count`, `:flying`, and each stage's
nanoseconds, cumulative too."""

WAIT_MOST: Final = "wait_most:"
"""Prefix of the most publishes that were unanswered at once, by answer; of a window: in any of its
rounds."""

_COUNTED: Final = (SENT, DROPPED, LOST, WAITED, PARKED_BYTES)

BACKLOG_BYTES: Final = "backlog_bytes"
"""Of dead letters: what waits in the backlog, and counts as the queue's."""

BACKLOG_MOST: Final = "backlog_most"
"""In numbers of a window: the most of it in any of its rounds."""

MAIL_SHARE: Final = "mail_share"
"""In numbers of a window: share, 0..1, of its rounds in which there was a MAILBOX."""


@dataclass(frozen=True, slots=True)
class BlockWindow:
    """How one (peer, reason) held one actor during a window. Fields as in BlockTotals."""

    peer: str
    reason: str
    ns: int
    closed_ns: int = 0
    stops: int = 0
    longest_ns: int = 0
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ActorWindow:
    """One actor during a window.

    window_ns: its length for this actor, shorter if it came up meanwhile; equals the sum of
    `times`. blocked_ns, stops, longest_ns, since_ns: the union of its blocks, as BlockedTotals;
    the `ns` of `blocks` sum to blocked_ns, largest first. parked: who kept publishes of it waiting,
    of the same form; parked_since_ns: since when some wait. numbers, labels: as they stood at the
    end. rates: per second, for those of COUNTER_NAMES that are in numbers.
    """

    actor: str
    kind: str
    state: str = ""
    window_ns: int = 0
    times: Times = NO_TIME
    blocked_ns: int = 0
    stops: int = 0
    longest_ns: int = 0
    since_ns: int | None = None
    blocks: tuple[BlockWindow, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    parked: tuple[BlockWindow, ...] = ()
    parked_since_ns: int | None = None

    def parked_ns(self) -> int:
        """Nanoseconds of the window in which publishes of it waited."""
        return sum(block.ns for block in self.parked)

    def blocked_share(self) -> float:
        """Share of the window in which this actor was held, 0..1."""
        if self.window_ns <= 0:
            return 0.0
        return min(1.0, self.blocked_ns / self.window_ns)


def difference(
    old: ActorSnapshot | None, new: ActorSnapshot, later: list[ActorSnapshot]
) -> ActorWindow:
    """`new` minus `old`; `later`: its changes after `old`, for the longest holds among them."""
    if old is None or old.started_ns != new.started_ns:
        old = ActorSnapshot(new.actor, new.kind, started_ns=new.started_ns)
    times = Times(
        new.times.idle_ns - old.times.idle_ns,
        new.times.busy_ns - old.times.busy_ns,
        new.times.blocked_ns - old.times.blocked_ns,
        new.times.waiting_ns - old.times.waiting_ns,
    )
    window_ns = times.total_ns()
    stops = new.blocked.stops - old.blocked.stops
    blocked_ns = new.blocked.blocked_ns - old.blocked.blocked_ns
    longest_ns = 0
    blocks: list[BlockWindow] = []
    if blocked_ns > 0 or stops > 0:
        lives = [one for one in later if one.started_ns == new.started_ns]
        longest_ns = max((s.blocked.longest_ns for s in lives), default=0)
        blocks = _block_differences(
            old.blocked, new.blocked, _longest([one.blocked for one in lives])
        )
    given, before = as_dict(new.numbers), as_dict(old.numbers)
    numbers = given
    if MAILBOX in numbers:
        seen = later or [new]
        full = sum(1 for one in seen if one.numbers.get(MAILBOX, 0.0) > 0)
        numbers = {**numbers, MAIL_SHARE: full / len(seen)}
    if BACKLOG_BYTES in numbers:
        most = max(one.numbers.get(BACKLOG_BYTES, 0.0) for one in later or [new])
        numbers = {**numbers, BACKLOG_MOST: most}
    if any(name.startswith(WAIT_MOST) for name in numbers):
        numbers = {**numbers, **_most(later or [new])}
    rates = {
        name: per_second(value - before.get(name, 0.0), window_ns)
        for name, value in given.items()
        if name in COUNTER_NAMES or name.startswith(_COUNTED)
    }
    return ActorWindow(
        new.actor,
        new.kind,
        new.state,
        window_ns,
        times,
        blocked_ns,
        stops,
        longest_ns,
        new.blocked.since_ns,
        tuple(blocks),
        numbers,
        rates,
        new.labels,
        _parked_differences(old, new, later),
        new.parked.since_ns,
    )


def _parked_differences(
    old: ActorSnapshot, new: ActorSnapshot, later: list[ActorSnapshot]
) -> tuple[BlockWindow, ...]:
    if new.parked.blocked_ns == old.parked.blocked_ns:
        return ()
    longest = _longest([s.parked for s in later if s.started_ns == new.started_ns])
    return tuple(_block_differences(old.parked, new.parked, longest))


def _most(rounds: list[ActorSnapshot]) -> dict[str, float]:
    """The largest WAIT_MOST of several rounds."""
    answer: dict[str, float] = {}
    for one in rounds:
        for name, value in one.numbers.items():
            if name.startswith(WAIT_MOST):
                answer[name] = max(answer.get(name, 0.0), value)
    return answer


def _block_differences(
    old: BlockedTotals, new: BlockedTotals, longest: Mapping[tuple[str, str], int]
) -> list[BlockWindow]:
    """The blocks of a window, largest first; those that held no actor in it are left out.

    A pair of `old` that is gone, or has a later first hold, was folded into OTHERS meanwhile: what
    it had brought along from before the window is taken off again there.
    """
    before = {(b.peer, b.reason): b for b in old.blocks}
    kept = {(b.peer, b.reason, b.first_ns) for b in new.blocks}
    folded = [b for b in old.blocks if (b.peer, b.reason, b.first_ns) not in kept]
    answer: list[BlockWindow] = []
    for block in new.blocks:
        key = (block.peer, block.reason)
        ns, closed_ns, stops = block.ns, block.closed_ns, block.stops
        was = before.get(key)
        parts = [was] if was is not None and was.first_ns == block.first_ns else []
        if key == (OTHERS, OTHERS):
            parts += folded
        for part in parts:
            ns -= part.ns
            closed_ns -= part.closed_ns
            stops -= part.stops
        if ns > 0 or stops > 0:
            answer.append(
                BlockWindow(
                    block.peer,
                    block.reason,
                    ns,
                    closed_ns,
                    stops,
                    longest.get(key, 0),
                    block.since_ns,
                )
            )
    answer.sort(key=lambda b: (-b.ns, b.peer, b.reason))
    return answer


def _longest(lives: list[BlockedTotals]) -> dict[tuple[str, str], int]:
    """The longest hold of each pair in these books of one actor, nanoseconds."""
    answer: dict[tuple[str, str], int] = {}
    for life in lives:
        for block in life.blocks:
            key = (block.peer, block.reason)
            answer[key] = max(answer.get(key, 0), block.longest_ns)
    return answer
