"""The windows of all actors with what answers look up in them: read once, in steps, so that no part
of an answer has to go through all actors again."""

from bisect import insort
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from penstock.base.steps import whole
from penstock.explain.explanation import THROTTLED_SHARE
from penstock.telemetry.actor_window import DEBT, FULL_NS, LEASE, ActorWindow

T = TypeVar("T")
STEP_ACTORS: Final = 64
"""Windows read in one step: some hundred microseconds, interpreted."""
STEP_EMPTIED: Final = 128
"""Entries that are given back in one step."""
STOPPED_SHARE: Final = 0.5
"""A queue that was stopped for less of the window lets no publisher wait for long."""
QUEUE_KINDS: Final = ("queue", "chan")


def paced(rows: Iterable[T], step: int = STEP_ACTORS) -> Generator[T | None, None, None]:
    """Each of `rows`, and None after every `step` of them: the moment to let others work."""
    for index, row in enumerate(rows):
        yield row
        if index % step == step - 1:
            yield None


def emptying(tables: Iterable[Mapping[str, object]]) -> Generator[float, None, None]:
    """Empty these dicts in steps: what 50,000 windows take is given back in 15 ms, which would be
    one step if it were left to the end of an answer."""
    for table in tables:
        while isinstance(table, dict) and table:
            for _ in range(min(STEP_EMPTIED, len(table))):
                table.popitem()
            yield 0.0


class Least(Generic[T]):
    """Keeps the `limit` rows with the smallest keys, smallest first; keys differ from one another.
    count: rows offered."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._kept: list[tuple[tuple[float | str, ...], T]] = []

    def offer(self, key: tuple[float | str, ...], row: T) -> None:
        self.count += 1
        kept = self._kept
        if len(kept) == self.limit:
            if not kept or key >= kept[-1][0]:
                return
            kept.pop()
        insort(kept, (key, row), key=lambda pair: pair[0])

    def rows(self) -> list[T]:
        return [row for _, row in self._kept]

    def keys(self) -> list[tuple[float | str, ...]]:
        """Of the same rows."""
        return [key for key, _ in self._kept]


class WindowIndex(Mapping[str, ActorWindow]):
    """Windows by actor id, not to be changed: those of `windows`, which are not copied.

    by_kind: in the order they came; span_ns, busy_ns: the longest window, and the time of all at
    work; debts: by account, the actors at which it has messages outstanding; full: those that wait
    for room on a disk; holds: by peer, how often and for how long in all it held others; held_by:
    by peer, whom it held, the actor itself where it held itself; of_queue: by queue, its consumers,
    with that of all together; leases: by queue; slowest: by queue, how many consumers it has and
    which is held most, of those queues for which that was looked up; on_connection, channels: by
    connection, its consumers and channels; free: connections that were not throttled; queue_bytes:
    in all queues; largest: the queue that has most of them, "" for none; stopped: queues and
    channels that take nothing now, and did not for STOPPED_SHARE of the window; longest: the queue
    that was stopped longest, for STOPPED_SHARE or more, "" for none; most_in_debt: the connection
    with most bytes outstanding.
    """

    def __init__(self, windows: Mapping[str, ActorWindow]) -> None:
        """`put` has to follow for each."""
        self._windows = windows
        self.by_kind: dict[str, list[ActorWindow]] = {}
        self.span_ns = self.busy_ns = 0
        self.debts: dict[str, list[str]] = {}
        self.full: list[ActorWindow] = []
        self.holds: dict[str, tuple[int, int]] = {}
        self.held_by: dict[str, list[str]] = {}
        self.of_queue: dict[str, list[ActorWindow]] = {}
        self.leases: dict[str, list[ActorWindow]] = {}
        self.slowest: dict[str, tuple[int, str]] = {}
        self.on_connection: dict[str, list[str]] = {}
        self.channels: dict[str, list[str]] = {}
        self.free = 0
        self.queue_bytes = 0.0
        self.largest = ""
        self.stopped: set[str] = set()
        self.longest = ""
        self.most_in_debt = ""
        self._debt_sums: dict[str, tuple[float, float, str]] = {}
        self._most = (0.0, "")
        self._longest = (0.0, "")
        self._in_debt = (0.0, "")

    def __getitem__(self, actor: str) -> ActorWindow:
        return self._windows[actor]

    def __contains__(self, actor: object) -> bool:
        return actor in self._windows

    def __iter__(self) -> Iterator[str]:
        return iter(self._windows)

    def __len__(self) -> int:
        return len(self._windows)

    def debt_of(self, account: str) -> tuple[float, float, str]:
        """Messages an account has outstanding, the most at one actor, and which; (0.0, 0.0, "")
        for none."""
        return self._debt_sums.get(account, (0.0, 0.0, ""))

    def of_kind(self, kind: str) -> list[ActorWindow]:
        """The actors of this kind."""
        return self.by_kind.get(kind, [])

    def emptying(self) -> Generator[float, None, None]:
        """Forget everything but the windows, in steps; it is of no use any more."""
        for actors in self.by_kind.values():
            while actors:
                del actors[-STEP_EMPTIED:]
                yield 0.0
        yield from emptying(
            (self.debts, self._debt_sums, self.holds, self.held_by, self.of_queue, self.leases)
        )
        yield from emptying((self.slowest, self.on_connection, self.channels))

    def put(self, actor: str, window: ActorWindow) -> None:
        """Look at one of the actors."""
        kind, numbers = window.kind, window.numbers
        self.by_kind.setdefault(kind, []).append(window)
        self.span_ns = max(self.span_ns, window.window_ns)
        self.busy_ns += window.times.busy_ns
        if FULL_NS in numbers:
            self.full.append(window)
        for key, value in numbers.items():
            if key.startswith(DEBT) and value > 0:
                self._put_debt(key[len(DEBT) :], value, actor)
        for block in window.blocks:
            stops, ns = self.holds.get(block.peer, (0, 0))
            self.holds[block.peer] = stops + block.stops, ns + block.ns
            if block.ns > 0:
                self.held_by.setdefault(block.peer or actor, []).append(actor)
        queue = window.labels.get("queue")
        if queue is not None:
            if kind == "consumer":
                self.of_queue.setdefault(queue, []).append(window)
            if LEASE in window.labels:
                self.leases.setdefault(queue, []).append(window)
        share = window.blocked_share()
        if kind == "queue":
            self._put_queue(window, actor, share)
        elif kind == "conn":
            self.free += share < THROTTLED_SHARE
            debt = numbers.get("debt_bytes", 0.0)
            if debt > 0 and (debt, actor) > self._in_debt:
                self._in_debt, self.most_in_debt = (debt, actor), actor
        if kind in QUEUE_KINDS and window.since_ns is not None and share >= STOPPED_SHARE:
            self.stopped.add(actor)
        if actor.startswith("chan:"):
            connection = f"conn:{actor[5:].rpartition('/')[0]}"
            self.channels.setdefault(connection, []).append(actor)
        elif actor.startswith("consumer:"):
            # A tag or a name may have the mark in it.
            at = actor.find("@conn:")
            while at >= 0:
                self.on_connection.setdefault(actor[at + 1 :], []).append(actor)
                at = actor.find("@conn:", at + 1)

    def _put_debt(self, account: str, messages: float, actor: str) -> None:
        self.debts.setdefault(account, []).append(actor)
        total, most, where = self._debt_sums.get(account, (0.0, 0.0, ""))
        if messages > most or (messages == most and actor < where):
            most, where = messages, actor
        self._debt_sums[account] = total + messages, most, where

    def _put_queue(self, window: ActorWindow, actor: str, share: float) -> None:
        held = window.numbers.get("bytes", 0.0)
        if held > 0:
            self.queue_bytes += held
            if (held, actor) > self._most:
                self._most, self.largest = (held, actor), actor
        if share >= STOPPED_SHARE and (share, actor) > self._longest:
            self._longest, self.longest = (share, actor), actor


def indexing(windows: Mapping[str, ActorWindow]) -> Generator[float, None, WindowIndex]:
    """The index of `windows`, which stay as they are meanwhile, in steps of STEP_ACTORS."""
    if isinstance(windows, WindowIndex):
        return windows
    found = WindowIndex(windows)
    for one in paced(windows.items()):
        if one is None:
            yield 0.0
        else:
            found.put(*one)
    return found


def indexed(windows: Mapping[str, ActorWindow]) -> WindowIndex:
    """The same in one go, where nobody else waits."""
    return whole(indexing(windows))
