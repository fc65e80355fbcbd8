"""The history that answers are made from: every second of the last minute, every tenth of the ten
minutes before that.

A round goes into the fine history, and every COARSE_EVERY-th into the coarse one too; snapshots are
frozen, so both hold the same objects. A window is answered by the fine history as long as it
reaches back far enough, since that is the one whose ends fit best.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.limits import HISTORY_CHANGES, WINDOW_SNAPSHOTS
from penstock.base.steps import whole
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.course import Course
from penstock.telemetry.snapshots import NS_PER_S, ActorSnapshot
from penstock.telemetry.window import WindowHistory

COARSE_EVERY: Final = 10
"""Rounds to one of the coarse history: with one a second it reaches back ten minutes."""


@dataclass(frozen=True, slots=True)
class FlightWindow:
    """Every actor during one window. end_ns: monotonic, the round it ends at; span_s: how long it
    really is, the asked length to the nearest round, or what there is. No actor before a round.
    The dict is of whoever asked, who may change it."""

    windows: dict[str, ActorWindow]
    end_ns: int
    span_s: float


class Finder:
    """The windows of actors by id, each made when it is asked for: a page of a listing asks for a
    hundred of ten thousand. All are of the same seconds."""

    __slots__ = ("_end_ns", "_history", "_start_ns")

    def __init__(self, history: WindowHistory, start_ns: int, end_ns: int) -> None:
        self._history = history
        self._start_ns = start_ns
        self._end_ns = end_ns

    def get(self, actor: str) -> ActorWindow | None:
        """None for an actor that was in no round yet."""
        return self._history.one(actor, self._start_ns, self._end_ns)


class FlightHistory:
    """The rounds of one broker. fine, coarse: for keeping and reading, not for taking."""

    __slots__ = ("_is_coarse", "_round_count", "coarse", "fine")

    def __init__(
        self,
        snapshots_max: int = WINDOW_SNAPSHOTS.default,
        changes_max: int = HISTORY_CHANGES.default,
    ) -> None:
        self.fine = WindowHistory(snapshots_max, changes_max)
        self.coarse = WindowHistory(snapshots_max, changes_max)
        self._round_count = 0
        self._is_coarse = False

    def push(self, now_ns: int, snapshots: Mapping[str, ActorSnapshot]) -> None:
        """A whole round at once. Raises: AssertionError unless time went forward."""
        self.begin(now_ns)
        for snapshot in snapshots.values():
            self.take(snapshot)
        self.end()

    def begin(self, now_ns: int) -> None:
        """A round begins. Raises: AssertionError unless time went forward."""
        self._is_coarse = self._round_count % COARSE_EVERY == 0
        self._round_count += 1
        self.fine.begin(now_ns)
        if self._is_coarse:
            self.coarse.begin(now_ns)

    def take(self, snapshot: ActorSnapshot) -> None:
        """One actor of the round that has begun."""
        self.fine.take(snapshot)
        if self._is_coarse:
            self.coarse.take(snapshot)

    def end(self) -> None:
        """The round is complete."""
        for _ in self.ending():
            pass

    def ending(self) -> Iterator[None]:
        """The same in steps; see WindowHistory.ending."""
        yield from self.fine.ending()
        if self._is_coarse:
            yield from self.coarse.ending()

    def oldest_ns(self) -> int | None:
        """How far back anything is known; None before the first round."""
        fine, coarse = self.fine.oldest_ns(), self.coarse.oldest_ns()
        return fine if coarse is None or fine is None else min(fine, coarse)

    def newest_ns(self, until_ns: int | None = None) -> int | None:
        """Start of the newest round not after `until_ns`; None when there is none."""
        found = self.fine.newest_ns(until_ns)
        return self.coarse.newest_ns(until_ns) if found is None else found

    def over(self, window_s: float, until_ns: int | None = None) -> Mapping[str, ActorWindow]:
        """As WindowHistory.over, of the history that reaches back far enough."""
        return self.look(window_s, until_ns).windows

    def look(self, window_s: float, until_ns: int | None = None) -> "FlightWindow":
        """What `over` gives, and which seconds those are."""
        return whole(self.looking(window_s, until_ns))

    def looking(
        self, window_s: float, until_ns: int | None = None
    ) -> Generator[float, None, "FlightWindow"]:
        """The same in steps; see WindowHistory.looking."""
        history = self._reaching(window_s, until_ns)
        end_ns = history.newest_ns(until_ns)
        if end_ns is None:
            return FlightWindow({}, 0, 0.0)
        start_ns = history.newest_ns(end_ns - round(window_s * NS_PER_S))
        if start_ns is None:
            start_ns = history.rounds()[0]
        # A round may end on the way, and the window is to end here.
        windows = yield from history.looking(window_s, end_ns)
        return FlightWindow(windows, end_ns, (end_ns - start_ns) / NS_PER_S)

    def finding(self, window_s: float) -> "Finder":
        """Looks actors up one by one, over the last `window_s` seconds until the newest round."""
        history = self._reaching(window_s, None)
        end_ns = history.newest_ns() or 0
        start_ns = history.newest_ns(end_ns - round(window_s * NS_PER_S))
        if start_ns is None:
            start_ns = history.oldest_ns() or 0
        return Finder(history, start_ns, end_ns)

    def course(self, actor: str, name: str) -> Course:
        """As WindowHistory.course: every second of the last minute, and what the coarse history
        knows of the time before that."""
        fine, coarse = self.fine.course(actor, name), self.coarse.course(actor, name)
        if not fine.points or fine.from_zero:
            return fine
        first_ns = fine.points[0][0]
        earlier = [point for point in coarse.points if point[0] < first_ns]
        return Course(earlier + fine.points, coarse.from_zero) if earlier else fine

    def copy(self) -> "FlightHistory":
        """The complete rounds as they stand, for a record that is written later."""
        twin = FlightHistory()
        twin.fine = self.fine.copy()
        twin.coarse = self.coarse.copy()
        return twin

    def _reaching(self, window_s: float, until_ns: int | None) -> WindowHistory:
        newest_ns = self.fine.newest_ns(until_ns)
        oldest_ns = self.fine.oldest_ns()
        if newest_ns is None or oldest_ns is None:
            return self.coarse
        if newest_ns - oldest_ns >= round(window_s * NS_PER_S):
            return self.fine
        before_ns = self.coarse.oldest_ns()
        if before_ns is None or before_ns >= oldest_ns:
            return self.fine
        # What is newest may be up to ten rounds older there, so a window must need it.
        return self.coarse
