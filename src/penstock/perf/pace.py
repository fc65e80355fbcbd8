"""When messages are due: message n at start + n / rate, whatever became of the ones before.

A publisher that was held finds everything due that it missed; nothing is forgiven, so a latency
counted from these moments holds the time spent waiting (no coordinated omission).
"""

from typing import Final

ANY: Final = 1 << 30
_NS_PER_S: Final = 1_000_000_000


class Pace:
    """The timetable of one publisher. rate_per_s: messages a second, 0 for as fast as possible."""

    __slots__ = ("_rate", "_start_ns", "_taken")

    def __init__(self, rate_per_s: float, start_ns: int) -> None:
        self._rate = rate_per_s
        self._start_ns = start_ns
        self._taken = 0

    def due(self, now_ns: int) -> int:
        """Messages due at `now_ns` and not taken yet, 0..ANY."""
        if self._rate == 0.0:
            return ANY
        return max(0, int((now_ns - self._start_ns) * self._rate / _NS_PER_S) + 1 - self._taken)

    def take(self, now_ns: int) -> int:
        """The moment the next message was meant for, never later than `now_ns`."""
        if self._rate == 0.0:
            return now_ns
        meant_ns = self.next_ns()
        self._taken += 1
        return meant_ns if meant_ns < now_ns else now_ns

    def next_ns(self) -> int:
        """When the next message is due; the start when there is no rate."""
        if self._rate == 0.0:
            return self._start_ns
        return self._start_ns + int(self._taken * _NS_PER_S / self._rate)
