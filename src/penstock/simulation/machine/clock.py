"""The virtual clock and its timers; the world jumps to the next timer when no actor is ready.

The clock ticks a little at every reading, so that every reading differs from the one before, as on
a real machine: two parts that read the clock in the wrong order are found, and turns take time.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from penstock.base.clock import Clock
from penstock.flow.due import NEVER, DueLine, Waker

WALL_START_NS = 1_700_000_000_000_000_000


class VirtualClock(Clock):
    """Starts at `start_ns`. `tick_ns`: how far one look moves it, 0.. nanoseconds."""

    def __init__(self, tick_ns: int, start_ns: int = 1_000_000_000) -> None:
        self.now_ns = start_ns
        self.tick_ns = tick_ns

    def monotonic_ns(self) -> int:
        self.now_ns += self.tick_ns
        return self.now_ns

    def wall_ns(self) -> int:
        return WALL_START_NS + self.monotonic_ns()

    def jump(self, to_ns: int) -> None:
        """Time passes until `to_ns`, unless it is later already."""
        self.now_ns = max(self.now_ns, to_ns)


class Timers:
    """Actions by time; actions of one instant run in the order they were asked for."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Do `action` when `delay_ns` have passed."""
        self._count += 1
        heappush(self._heap, (self.clock.now_ns + delay_ns, self._count, action))

    def next_ns(self) -> int:
        """When the next action is to be done. Raises: IndexError when there is none."""
        return self._heap[0][0]

    def is_due(self) -> bool:
        """Whether the next action's time has come."""
        return len(self._heap) > 0 and self._heap[0][0] <= self.clock.now_ns

    def run_next(self) -> None:
        """Jump to the next action, unless it is late already, and do it."""
        at_ns, _, action = heappop(self._heap)
        self.clock.jump(at_ns)
        action()


class WorldWaker(Waker):
    """Lets what is due in the broker fall due in virtual time."""

    def __init__(self, timers: Timers, line: DueLine) -> None:
        self.timers = timers
        self.line = line
        self._armed_ns = NEVER

    def wake_at(self, due_ns: int) -> None:
        if self._armed_ns != NEVER and self._armed_ns <= due_ns:
            return
        self._armed_ns = due_ns
        delay_ns = max(0, due_ns - self.timers.clock.now_ns)
        self.timers.after(delay_ns, lambda: self._fire(due_ns))

    def _fire(self, armed_ns: int) -> None:
        if armed_ns == self._armed_ns:
            self._armed_ns = NEVER
            self.line.fire(self.timers.clock.now_ns)
