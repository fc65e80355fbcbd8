"""The last seconds of every actor, as differences between periodic snapshots.

Shares of a window are exact: cumulative nanoseconds at its end minus those at its start, so the
laws of the accounts hold in every window (the states sum to the window, the blocks to the blocked
time). Nothing is sampled or estimated except `longest_ns`, which is exact to one period.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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

    With one snapshot a second, 61 of them answer for windows of up to 60 s. An actor that has done
    nothing since costs no more with every snapshot: only what changed is kept, so thousands of idle
    connections have one snapshot each and not 61.
    """

    __slots__ = ("_at_ns", "_trails")

    def __init__(self, snapshots_max: int) -> None:
        assert snapshots_max >= 2, "a window needs a start and an end"
        self._at_ns: deque[int] = deque(maxlen=snapshots_max)
        self._trails: dict[str, list[_Change]] = {}

    def push(self, now_ns: int, snapshots: Mapping[str, ActorSnapshot]) -> None:
        """All actors as they stood at `now_ns`, by actor id.

        Raises: AssertionError unless time went forward.
        """
        if self._at_ns:
            assert now_ns > self._at_ns[-1], "time goes forward between snapshots"
        self._at_ns.append(now_ns)
        trails = self._trails
        for actor, snapshot in snapshots.items():
            trail = trails.get(actor)
            if trail is None:
                trails[actor] = [_Change(now_ns, snapshot)]
            elif not _is_still(trail[-1].snapshot, snapshot):
                while len(trail) > 1 and trail[1].at_ns <= self._at_ns[0]:
                    del trail[0]
                trail.append(_Change(now_ns, snapshot))
        if len(trails) > len(snapshots):
            for actor in [actor for actor in trails if actor not in snapshots]:
                del trails[actor]

    def over(self, window_s: float) -> dict[str, ActorWindow]:
        """Every actor of the newest snapshot, during the last `window_s` seconds before it.

        The window starts at the newest snapshot that is old enough; where the history is shorter
        than the window, at the oldest one. Empty before the first push. An actor that was not
        there at the start (or was another life of the same name) counts from its own start.
        """
        if not self._at_ns:
            return {}
        newest_ns = self._at_ns[-1]
        oldest_ns = newest_ns - round(window_s * NS_PER_S)
        start_ns = self._at_ns[0]
        for at_ns in self._at_ns:
            if at_ns <= oldest_ns:
                start_ns = at_ns
        answer: dict[str, ActorWindow] = {}
        for actor, trail in self._trails.items():
            base: ActorSnapshot | None = None
            later: list[ActorSnapshot] = []
            for change in trail:
                if change.at_ns > start_ns:
                    later.append(change.snapshot)
                elif len(self._at_ns) > 1:
                    base = change.until(start_ns)
            answer[actor] = _difference(base, trail[-1].until(newest_ns), later)
        return answer


@dataclass(frozen=True, slots=True)
class _Change:
    """An actor as it stood at `at_ns` and, but for its idle time, until its next change."""

    at_ns: int
    snapshot: ActorSnapshot

    def until(self, now_ns: int) -> ActorSnapshot:
        """The snapshot as of `now_ns`, which is not before `at_ns`."""
        if now_ns == self.at_ns:
            return self.snapshot
        times = self.snapshot.times
        return replace(
            self.snapshot, times=replace(times, idle_ns=times.idle_ns + now_ns - self.at_ns)
        )


def _is_still(old: ActorSnapshot, new: ActorSnapshot) -> bool:
    """Whether `new` says nothing but that the actor of `old` has been idle since."""
    return (
        old.times.busy_ns == new.times.busy_ns
        and old.times.blocked_ns == new.times.blocked_ns
        and old.times.waiting_ns == new.times.waiting_ns
        and old.times.idle_ns < new.times.idle_ns
        and old.started_ns == new.started_ns
        and old.state == new.state
        and old.blocked == new.blocked
        and old.numbers == new.numbers
        and old.labels == new.labels
    )


def _difference(
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
