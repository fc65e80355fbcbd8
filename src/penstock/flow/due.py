"""Work that waits for a moment and for nobody: one line by due time, and one alarm clock for it.

    next_ns = the earliest due time on the line, or NEVER
Whoever owns the clock (the node, the simulator) is told when `next_ns` moves forward and calls
`fire` then; being late is allowed, being early does nothing. An item stands on the line once.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import mypyc_attr

NEVER: Final = -1
"""In place of a due time: nothing is waiting."""

STALE_MAX: Final = 64
"""Entries of items that were moved or taken off before the heap is made anew, beside as many as
there are items."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Due:
    """Something with a due time. `due_ns`: monotonic, NEVER while it is not on a line."""

    __slots__ = ("due_ns", "ticket")

    def __init__(self) -> None:
        self.due_ns: int = NEVER
        self.ticket: int = 0

    def fall_due(self, now_ns: int) -> None:
        """Its time has come; it is off the line already and may be put on again."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Waker:
    """Whoever calls `fire`. Nominal base; this one never does (tests call it themselves)."""

    __slots__ = ()

    def wake_at(self, due_ns: int) -> None:
        """`fire` is wanted at `due_ns`, earlier than what was asked for before."""


class DueLine:
    """Items by due time; those of one instant in the order they were put on.

    Bound: one entry for each item and STALE_MAX besides; items are bounded by their owners."""

    __slots__ = ("_count", "_heap", "_items", "waker")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Due]] = []
        self._items: int = 0
        self._count: int = 0
        self.waker = Waker()

    def __len__(self) -> int:
        return self._items

    def next_ns(self) -> int:
        """When `fire` has something to do, or NEVER."""
        heap = self._heap
        while heap and heap[0][2].ticket != heap[0][1]:
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def put(self, item: Due, due_ns: int) -> None:
        """`item` is due at `due_ns`, whatever it was before."""
        earliest = self.next_ns()
        if item.due_ns == NEVER:
            self._items += 1
        self._count += 1
        item.due_ns = due_ns
        item.ticket = self._count
        heappush(self._heap, (due_ns, self._count, item))
        if len(self._heap) > 2 * self._items + STALE_MAX:
            self._heap = [entry for entry in self._heap if entry[2].ticket == entry[1]]
            heapify(self._heap)
        if earliest == NEVER or due_ns < earliest:
            self.waker.wake_at(due_ns)

    def take_off(self, item: Due) -> None:
        """`item` is not due any more; nothing if it was not."""
        if item.due_ns != NEVER:
            self._items -= 1
            item.due_ns = NEVER
            item.ticket = 0

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
            item = entry[2]
            self.take_off(item)
            item.fall_due(now_ns)
        due_ns = self.next_ns()
        if due_ns != NEVER:
            self.waker.wake_at(due_ns)
