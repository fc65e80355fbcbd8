"""Events per second over a window, from cumulative counts."""

from collections import deque
from typing import Final

NS_PER_S: Final = 1_000_000_000


def per_second(count: float, elapsed_ns: int) -> float:
    """`count` events in `elapsed_ns` nanoseconds, as events per second; 0.0 if no time passed."""
    if elapsed_ns <= 0:
        return 0.0
    return count * NS_PER_S / elapsed_ns


class RateHistory:
    """The last `points_max` readings of one cumulative counter, 2..; the oldest is dropped.

    A counter that went back belongs to a new life of its owner: what came before is forgotten.
    """

    __slots__ = ("_points",)

    def __init__(self, points_max: int) -> None:
        assert points_max >= 2, "a rate needs two readings"
        self._points: deque[tuple[int, int]] = deque(maxlen=points_max)

    def push(self, now_ns: int, total: int) -> None:
        """The counter stood at `total` at `now_ns`. A second reading at one instant replaces the
        first. Raises: AssertionError when time went back."""
        points = self._points
        if points:
            last_ns, last_total = points[-1]
            assert now_ns >= last_ns, "time never goes back"
            if total < last_total:
                points.clear()
            elif now_ns == last_ns:
                points.pop()
        points.append((now_ns, total))

    def over(self, window_ns: int) -> float:
        """Events per second between the newest reading and the newest one at least `window_ns`
        older; the oldest kept stands in for a window longer than the history. 0.0 without two."""
        if len(self._points) < 2:
            return 0.0
        newest_ns, newest_total = self._points[-1]
        base_ns, base_total = self._points[0]
        for at_ns, total in self._points:
            if newest_ns - at_ns < window_ns:
                break
            base_ns, base_total = at_ns, total
        return per_second(newest_total - base_total, newest_ns - base_ns)
