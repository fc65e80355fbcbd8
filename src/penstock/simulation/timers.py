"""What is to happen later, by the virtual clock; the world jumps there when nothing is ready."""

from collections.abc import Callable
from heapq import heappop, heappush

from penstock.simulation.clock import VirtualClock


class Timers:
    """Deeds by time; deeds of one instant run in the order they were asked for."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, delay_ns: int, deed: Callable[[], None]) -> None:
        """Do `deed` when `delay_ns` have passed."""
        self._count += 1
        heappush(self._heap, (self.clock.now_ns + delay_ns, self._count, deed))

    def is_due(self) -> bool:
        """Whether the next deed's time has come."""
        return len(self._heap) > 0 and self._heap[0][0] <= self.clock.now_ns

    def run_next(self) -> None:
        """Jump to the next deed, unless it is late already, and do it."""
        at_ns, _, deed = heappop(self._heap)
        self.clock.jump(at_ns)
        deed()
