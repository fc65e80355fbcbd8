"""The last seconds of every actor, as differences between periodic rounds of snapshots.

Shares of a window are exact: cumulative nanoseconds at its end minus those at its start, so the
laws of the accounts hold in every window (the states sum to the window, the blocks to the blocked
time). Nothing is sampled or estimated except `longest_ns`, which is exact to one period.

A round may be taken in slices: each actor's snapshot then carries the moment it was taken, which is
not before the round began, unless it has been idle since that moment. An actor's own numbers stay
exact; those of two actors in one window are shifted against each other by at most the time a round
takes.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Final

from penstock.base.limits import HISTORY_CHANGES
from penstock.base.steps import whole
from penstock.telemetry.actor_window import ActorWindow, difference
from penstock.telemetry.course import Course
from penstock.telemetry.snapshots import NOT_TAKEN, NS_PER_S, ActorSnapshot

BEGAN_NS: Final = 10 * NS_PER_S
"""An actor that began so shortly before the first round that is kept grew evenly from 0 to it."""
STEP_CHANGES: Final = 256
"""Actors or changes looked at in one step of `ending`: a fraction of a millisecond."""

STEP_WINDOWS: Final = 32
"""Windows made in one step of `looking`: about half a millisecond."""
TRIES: Final = 3


Change = tuple[int, ActorSnapshot]
"""Start of its round, and how an actor stood then; between two of them it was idle."""


class Trail:
    """What is kept of one actor. at_ns, last: its newest change; older: those before it, oldest
    first; seen_ns: the last round that met it; gone_ns: the first that did not, None while it is
    there. Thousands of idle connections have one change each, and no list of older ones."""

    __slots__ = ("at_ns", "gone_ns", "last", "older", "seen_ns")

    def __init__(self, at_ns: int, last: ActorSnapshot) -> None:
        self.at_ns = at_ns
        self.last = last
        self.older: list[Change] | None = None
        self.seen_ns = at_ns
        self.gone_ns: int | None = None

    def __len__(self) -> int:
        return 1 if self.older is None else len(self.older) + 1

    def changes(self) -> Iterator[Change]:
        """All of them, oldest first."""
        if self.older is not None:
            yield from self.older
        yield self.at_ns, self.last

    def add(self, at_ns: int, snapshot: ActorSnapshot) -> None:
        """Its newest change."""
        if self.older is None:
            self.older = []
        self.older.append((self.at_ns, self.last))
        self.at_ns = at_ns
        self.last = snapshot

    def copy(self, newest_ns: int) -> "Trail | None":
        """A trail of the same frozen snapshots, without the rounds after `newest_ns`; None where
        nothing is left."""
        twin = trail_of([one for one in self.changes() if one[0] <= newest_ns])
        if twin is not None and self.gone_ns is not None and self.gone_ns <= newest_ns:
            twin.gone_ns = self.gone_ns
        return twin

    def trim(self, oldest_ns: int) -> int:
        """Drop what lies before the oldest round; how many changes."""
        older = self.older
        if older is None:
            return 0
        count = len(older)
        if self.at_ns > oldest_ns:
            count = 0
            while count + 1 < len(older) and older[count + 1][0] <= oldest_ns:
                count += 1
        del older[:count]
        if not older:
            self.older = None
        return count


def trail_of(changes: list[Change]) -> Trail | None:
    """One with these, oldest first; None for none."""
    if not changes:
        return None
    trail = Trail(*changes[0])
    for at_ns, snapshot in changes[1:]:
        trail.add(at_ns, snapshot)
    trail.seen_ns = trail.at_ns
    return trail


class WindowHistory:
    """The last `snapshots_max` rounds, 2..; the oldest is dropped.

    With one a second, 61 of them answer for windows of up to 60 s. An actor that has done nothing
    since costs no more with every round: only what changed is kept, so thousands of idle
    connections have one snapshot each and not 61. One that is gone is kept as long as a window may
    still look back at it. changes_max: snapshots of all actors together; above it the oldest
    quarter of the rounds goes, so that windows become shorter before memory becomes larger.
    """

    __slots__ = ("_at_ns", "_changes_max", "_count", "_gone", "_met", "_round_ns", "_trails")

    def __init__(self, snapshots_max: int, changes_max: int = HISTORY_CHANGES.default) -> None:
        assert snapshots_max >= 2, "a window needs a start and an end"
        self._at_ns: deque[int] = deque(maxlen=snapshots_max)
        self._changes_max = changes_max
        self._trails: dict[str, Trail] = {}
        # In the order in which they went, so that the first is the first to be forgotten.
        self._gone: dict[str, Trail] = {}
        self._round_ns = 0
        self._met = 0
        self._count = 0

    # -- taking ----------------------------------------------------------------------------------

    def push(self, now_ns: int, snapshots: Mapping[str, ActorSnapshot]) -> None:
        """A whole round at once: all actors as they stood at `now_ns`, by actor id.

        Raises: AssertionError unless time went forward.
        """
        self.begin(now_ns)
        for snapshot in snapshots.values():
            self.take(snapshot)
        self.end()

    def begin(self, now_ns: int) -> None:
        """A round begins. Raises: AssertionError unless time went forward."""
        if self._at_ns:
            assert now_ns > self._at_ns[-1], "time goes forward between snapshots"
        self._round_ns = now_ns
        self._met = 0

    def take(self, snapshot: ActorSnapshot) -> None:
        """One actor of the round that has begun."""
        trail = self._trails.get(snapshot.actor)
        if trail is None:
            self._trails[snapshot.actor] = Trail(self._round_ns, snapshot)
            self._count += 1
            self._met += 1
            return
        if trail.seen_ns != self._round_ns:
            trail.seen_ns = self._round_ns
            self._met += 1
        if trail.gone_ns is not None:
            trail.gone_ns = None
            del self._gone[snapshot.actor]
        elif trail.last is snapshot or _is_still(trail.last, snapshot):
            return
        if self._at_ns:
            self._count -= trail.trim(self._at_ns[0])
        trail.add(self._round_ns, snapshot)
        self._count += 1

    def end(self) -> None:
        """The round is complete: windows may end at it, and who was not met is gone."""
        for _ in self.ending():
            pass

    def ending(self) -> Iterator[None]:
        """The same in steps of STEP_CHANGES, for whoever may not be held for longer; nothing may be
        taken before the last. Questions in between are answered: at first from the rounds before,
        later as if all were done, because what lies before the oldest round is not looked at."""
        if self._met < len(self._trails) - len(self._gone):
            for index, (actor, trail) in enumerate(list(self._trails.items())):
                if trail.seen_ns != self._round_ns and trail.gone_ns is None:
                    trail.gone_ns = self._round_ns
                    self._gone[actor] = trail
                if index % STEP_CHANGES == STEP_CHANGES - 1:
                    yield None
        self._at_ns.append(self._round_ns)
        yield from self._forgetting()
        while self._count > self._changes_max and len(self._at_ns) > 2:
            yield from self._shrinking()

    def _forgetting(self) -> Iterator[None]:
        oldest_ns = self._at_ns[0]
        dropped = 0
        while self._gone:
            actor, trail = next(iter(self._gone.items()))
            if trail.gone_ns is not None and trail.gone_ns > oldest_ns:
                break
            del self._gone[actor]
            del self._trails[actor]
            self._count -= len(trail)
            dropped += len(trail)
            if dropped >= STEP_CHANGES:
                dropped = 0
                yield None

    def _shrinking(self) -> Iterator[None]:
        """Drop the oldest quarter of the rounds; the two newest stay, or there is no window."""
        for _ in range(max(1, len(self._at_ns) // 4)):
            if len(self._at_ns) > 2:
                self._at_ns.popleft()
        yield from self._forgetting()
        looked_at = 0
        for trail in list(self._trails.values()):
            dropped = trail.trim(self._at_ns[0])
            self._count -= dropped
            looked_at += 1 + dropped
            if looked_at >= STEP_CHANGES:
                looked_at = 0
                yield None

    # -- asking ----------------------------------------------------------------------------------

    def oldest_ns(self) -> int | None:
        """Start of the oldest round kept, None before the first has ended."""
        return self._at_ns[0] if self._at_ns else None

    def newest_ns(self, until_ns: int | None = None) -> int | None:
        """Start of the newest complete round, not after `until_ns`; None when there is none."""
        for at_ns in reversed(self._at_ns):
            if until_ns is None or at_ns <= until_ns:
                return at_ns
        return None

    def over(self, window_s: float, until_ns: int | None = None) -> dict[str, ActorWindow]:
        """Every actor of the newest round (not after `until_ns`) in the `window_s` seconds before.

        The window starts at the newest round that is old enough; where the history is shorter than
        the window, at the oldest one. Empty before the first round. An actor that was not there at
        the start (or was another life of the same name) counts from its own start.
        """
        return whole(self.looking(window_s, until_ns))

    def looking(
        self, window_s: float, until_ns: int | None = None
    ) -> Generator[float, None, dict[str, ActorWindow]]:
        """The same in steps of STEP_WINDOWS. Rounds may end in between: the window is the one that
        was newest at first, and is looked at again, TRIES times at most, if its start has been
        forgotten meanwhile."""
        answer: dict[str, ActorWindow] = {}
        for _ in range(TRIES):
            start_ns, answer = yield from self._windows(window_s, until_ns)
            if not self._at_ns or self._at_ns[0] <= start_ns:
                break
        return answer

    def _windows(
        self, window_s: float, until_ns: int | None
    ) -> Generator[float, None, tuple[int, dict[str, ActorWindow]]]:
        newest_ns = self.newest_ns(until_ns)
        if newest_ns is None:
            return 0, {}
        start_ns = self.newest_ns(newest_ns - round(window_s * NS_PER_S))
        if start_ns is None:
            start_ns = self._at_ns[0]
        # In the very first round nothing came before: whole lives are all there is.
        has_start = newest_ns > self._at_ns[0]
        answer: dict[str, ActorWindow] = {}
        for index, trail in enumerate(list(self._trails.values())):
            if index % STEP_WINDOWS == STEP_WINDOWS - 1:
                yield 0.0
            window = _window_of(trail, start_ns, newest_ns, has_start)
            if window is not None:
                answer[window.actor] = window
        return start_ns, answer

    def one(self, actor: str, start_ns: int, end_ns: int) -> ActorWindow | None:
        """One actor between two rounds, None if it was not there at the end."""
        trail = self._trails.get(actor)
        if trail is None or not self._at_ns:
            return None
        return _window_of(trail, start_ns, end_ns, end_ns > self._at_ns[0])

    def course(self, actor: str, name: str) -> Course:
        """How `name`, one of the numbers of `actor` that only grow, went up in this life of it;
        without points when there is no such actor now. A point for each round that met it."""
        trail = self._trails.get(actor)
        if trail is None or trail.gone_ns is not None or not self._at_ns:
            return Course([])
        started_ns = trail.last.started_ns
        steps = [
            (at_ns, one.numbers.get(name, 0.0))
            for at_ns, one in trail.changes()
            if one.started_ns == started_ns
        ]
        points: list[tuple[int, float]] = []
        at = 0
        for round_ns in self._at_ns:
            while at + 1 < len(steps) and steps[at + 1][0] <= round_ns:
                at += 1
            if steps[at][0] <= round_ns:
                points.append((round_ns, steps[at][1]))
        from_zero = bool(points) and 0 < points[0][0] - started_ns <= BEGAN_NS
        if from_zero:
            points.insert(0, (started_ns, 0.0))
        return Course(points, from_zero)

    # -- keeping ---------------------------------------------------------------------------------

    def rounds(self) -> list[int]:
        """Start of every round kept, oldest first."""
        return list(self._at_ns)

    def trails(self) -> Iterator[tuple[str, Trail]]:
        """What is kept of every actor; not to be changed, and not to be read across a round."""
        return iter(self._trails.items())

    def copy(self) -> "WindowHistory":
        """The complete rounds as they stand; what goes on being taken here does not reach it."""
        twin = WindowHistory(self._at_ns.maxlen or 2, self._changes_max)
        if not self._at_ns:
            return twin
        newest_ns = self._at_ns[-1]
        trails = {}
        for actor, trail in self._trails.items():
            kept = trail.copy(newest_ns)
            if kept is not None:
                trails[actor] = kept
        twin.restore(self.rounds(), trails)
        return twin

    def restore(self, rounds: list[int], trails: dict[str, Trail]) -> None:
        """Stand as a history of these rounds and trails does; what was there before is gone."""
        self._at_ns = deque(rounds, maxlen=self._at_ns.maxlen)
        self._trails = trails
        self._count = sum(len(trail) for trail in trails.values())
        gone = [(actor, trail) for actor, trail in trails.items() if trail.gone_ns is not None]
        self._gone = dict(sorted(gone, key=lambda pair: pair[1].gone_ns or 0))


def _window_of(trail: Trail, start_ns: int, newest_ns: int, has_start: bool) -> ActorWindow | None:
    """One actor between two rounds; has_start: something came before the first."""
    if trail.gone_ns is not None and trail.gone_ns <= newest_ns:
        return None
    base: ActorSnapshot | None = None
    last: ActorSnapshot | None = None
    last_ns = 0
    later: list[ActorSnapshot] = []
    for at_ns, snapshot in trail.changes():
        if at_ns > newest_ns:
            break
        last = snapshot
        if at_ns > start_ns:
            later.append(snapshot)
        elif has_start:
            base = _until(at_ns, snapshot, start_ns)
        last_ns = at_ns
    if last is None:
        return None
    return difference(base, _until(last_ns, last, newest_ns), later)


def _until(at_ns: int, snapshot: ActorSnapshot, now_ns: int) -> ActorSnapshot:
    """`snapshot`, taken in the round that began at `at_ns`, as of `now_ns`: idle since."""
    taken_ns = at_ns if snapshot.taken_ns == NOT_TAKEN else snapshot.taken_ns
    if now_ns <= taken_ns:
        return snapshot
    times = snapshot.times
    return replace(snapshot, times=replace(times, idle_ns=times.idle_ns + now_ns - taken_ns))


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
        and old.parked == new.parked
        and old.numbers == new.numbers
        and old.labels == new.labels
    )
