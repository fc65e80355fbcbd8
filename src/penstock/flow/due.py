"""Timers: callbacks by due time on one line, with one alarm clock for all of them.

    next_ns = the earliest due time on the line, or NEVER
Whoever owns the clock (the node, the simulator) is told when `next_ns` moves forward and calls
`fire` then; being late is allowed, being early does nothing. A timer stands on the line once.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import mypyc_attr

NEVER: Final = -1
"""In place of a due time: nothing is waiting."""

STALE_MAX: Final = 64
"""Entries of timers that were moved or taken off before the heap is made anew, beside as many as
there are items."""


class Timer:
    """Calls `callback` with the time at which it fires; it is off the line then and may be put on
    again. due_ns: monotonic, NEVER while it is not on a line."""

    __slots__ = ("callback", "due_ns", "ticket")

    def __init__(self, callback: Callable[[int], None]) -> None:
        self.callback = callback
        self.due_ns: int = NEVER
        self.ticket: int = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Waker:
    """Whoever calls `fire`. Nominal base; this one never does (tests call it themselves)."""

    __slots__ = ()

    def wake_at(self, due_ns: int) -> None:
        """`fire` is wanted at `due_ns`, earlier than what was asked for before."""


class DueLine:
    """Timers by due time; those of one instant in the order they were put on.

    Bound: one entry for each timer and STALE_MAX besides; timers are bounded by their owners."""

    __slots__ = ("_count", "_heap", "_on_line", "waker")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._on_line: int = 0
        self._count: int = 0
        self.waker = Waker()

    def __len__(self) -> int:
        return self._on_line

    def next_ns(self) -> int:
        """When `fire` has something to do, or NEVER."""
        heap = self._heap
        while heap and heap[0][2].ticket != heap[0][1]:
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def put(self, timer: Timer, due_ns: int) -> None:
        """`timer` is due at `due_ns`, whatever it was before."""
        earliest = self.next_ns()
        if timer.due_ns == NEVER:
            self._on_line += 1
        self._count += 1
        timer.due_ns = due_ns
        timer.ticket = self._count
        heappush(self._heap, (due_ns, self._count, timer))
        if len(self._heap) > 2 * self._on_line + STALE_MAX:
            self._heap = [entry for entry in self._heap if entry[2].ticket == entry[1]]
            heapify(self._heap)
        if earliest == NEVER or due_ns < earliest:
            self.waker.wake_at(due_ns)

    def take_off(self, timer: Timer) -> None:
        """`timer` is not due any more; nothing if it was not."""
        if timer.due_ns != NEVER:
            self._on_line -= 1
            timer.due_ns = NEVER
            timer.ticket = 0

    def fire(self, now_ns: int) -> None:
        """Let everything fall due whose time is `now_ns` or earlier, once each; then the waker
        is told of what comes next."""
        last = self._count
        while True:
            due_ns = self.next_ns()
            if due_ns == NEVER or due_ns > now_ns:
                break
            entry = self._heap[0]
            if entry[1] > last:
                # It was put on again by what fell due in this very call.
                break
            heappop(self._heap)
            timer = entry[2]
            self.take_off(timer)
            timer.callback(now_ns)
        due_ns = self.next_ns()
        if due_ns != NEVER:
            self.waker.wake_at(due_ns)
