"""The last seconds of every actor, as differences between periodic snapshots.

Shares of a window are exact: cumulative nanoseconds at its end minus those at its start, so the
laws of the accounts hold in every window (the states sum to the window, the blocks to the blocked
time). Nothing is sampled or estimated except `longest_ns`, which is exact to one period.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.telemetry.rates import NS_PER_S, per_second
from penstock.telemetry.snapshots import (
    NO_TIME,
    OTHERS,
    ActorSnapshot,
    BlockedTotals,
    BlockTotals,
    Times,
)

__all__ = [
    "COUNTER_NAMES",
    "ActorSnapshot",
    "ActorWindow",
    "BlockTotals",
    "BlockWindow",
    "BlockedTotals",
    "Times",
    "WindowHistory",
]

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
    }
)
"""The names in ActorSnapshot.numbers that are cumulative; all others are values of the moment."""


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
    the `ns` of `blocks` sum to blocked_ns, largest first. numbers, labels: as they stood at the
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

    def blocked_share(self) -> float:
        """Share of the window in which somebody held this actor, 0..1."""
        if self.window_ns <= 0:
            return 0.0
        return min(1.0, self.blocked_ns / self.window_ns)


class WindowHistory:
    """The last `snapshots_max` periodic snapshots, 2..; the oldest is dropped.

    With one snapshot a second, 61 of them answer for windows of up to 60 s.
    """

    __slots__ = ("_history",)

    def __init__(self, snapshots_max: int) -> None:
        assert snapshots_max >= 2, "a window needs a start and an end"
        self._history: deque[tuple[int, dict[str, ActorSnapshot]]] = deque(maxlen=snapshots_max)

    def push(self, now_ns: int, snapshots: Mapping[str, ActorSnapshot]) -> None:
        """All actors as they stood at `now_ns`, by actor id.

        Raises: AssertionError unless time went forward.
        """
        if self._history:
            assert now_ns > self._history[-1][0], "time goes forward between snapshots"
        self._history.append((now_ns, dict(snapshots)))

    def over(self, window_s: float) -> dict[str, ActorWindow]:
        """Every actor of the newest snapshot, during the last `window_s` seconds before it.

        The window starts at the newest snapshot that is old enough; where the history is shorter
        than the window, at the oldest one. Empty before the first push. An actor that was not
        there at the start (or was another life of the same name) counts from its own start.
        """
        if not self._history:
            return {}
        newest_ns, newest = self._history[-1]
        oldest_ns = newest_ns - round(window_s * NS_PER_S)
        start = 0
        for index, (at_ns, _) in enumerate(self._history):
            if at_ns <= oldest_ns:
                start = index
        base = self._history[start][1] if len(self._history) > 1 else {}
        later = [self._history[index][1] for index in range(start + 1, len(self._history))]
        return {
            actor: _difference(base.get(actor), snapshot, later)
            for actor, snapshot in newest.items()
        }


def _difference(
    old: ActorSnapshot | None, new: ActorSnapshot, later: list[dict[str, ActorSnapshot]]
) -> ActorWindow:
    """`new` minus `old`; `later`: all snapshots after `old`, for the longest holds among them."""
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
        lives = [s[new.actor] for s in later if new.actor in s]
        lives = [s for s in lives if s.started_ns == new.started_ns]
        longest_ns = max((s.blocked.longest_ns for s in lives), default=0)
        blocks = _block_differences(old.blocked, new.blocked, _longest(lives))
    rates = {
        name: per_second(value - old.numbers.get(name, 0.0), window_ns)
        for name, value in new.numbers.items()
        if name in COUNTER_NAMES
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
        new.numbers,
        rates,
        new.labels,
    )


def _block_differences(
    old: BlockedTotals, new: BlockedTotals, longest: Mapping[tuple[str, str], int]
) -> list[BlockWindow]:
    """The blocks of a window, largest first; those that held nobody in it are left out.

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


def _longest(lives: list[ActorSnapshot]) -> dict[tuple[str, str], int]:
    """The longest hold of each pair in these snapshots of one actor, nanoseconds."""
    answer: dict[tuple[str, str], int] = {}
    for life in lives:
        for block in life.blocked.blocks:
            key = (block.peer, block.reason)
            answer[key] = max(answer.get(key, 0), block.longest_ns)
    return answer
