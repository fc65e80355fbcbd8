"""A virtual clock that ticks a little whenever it is looked at, and jumps when nothing is ready.

The small ticks let every reading differ from the one before, as on a real machine: two parts that
read the clock in the wrong order are found out, and turns take time.
"""

from penstock.base.clock import Clock

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
