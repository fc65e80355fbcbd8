"""When messages are due: message n at start + n / rate, whatever became of the ones before.

A publisher that was held finds everything due that it missed; nothing is forgiven, so a latency
counted from these moments holds the time spent waiting (no coordinated omission).
"""

from typing import Final

ANY: Final = 1 << 30
# Rates are kept in millionths of a message a second, so that all arithmetic is exact.
_MICRO: Final = 1_000_000
_NS_TIMES_MICRO: Final = 1_000_000_000 * _MICRO


class Pace:
    """The timetable of one publisher. rate_per_s: messages a second, 0 for as fast as possible.

    For every rate: `due(next_ns()) >= 1` and `due(next_ns() - 1) <= 0` as long as none is missed.
    """

    __slots__ = ("_rate", "_start_ns", "_taken")

    def __init__(self, rate_per_s: float, start_ns: int) -> None:
        self._rate = round(rate_per_s * _MICRO)
        self._start_ns = start_ns
        self._taken = 0

    def due(self, now_ns: int) -> int:
        """Messages due at `now_ns` and not taken yet, 0..ANY."""
        if self._rate == 0:
            return ANY
        passed = (now_ns - self._start_ns) * self._rate // _NS_TIMES_MICRO
        return max(0, passed + 1 - self._taken)

    def take(self, now_ns: int) -> int:
        """The moment the next message was meant for, never later than `now_ns`."""
        if self._rate == 0:
            return now_ns
        meant_ns = self.next_ns()
        self._taken += 1
        return meant_ns if meant_ns < now_ns else now_ns

    def next_ns(self) -> int:
        """When the next message is due; the start when there is no rate."""
        if self._rate == 0:
            return self._start_ns
        return self._start_ns - (-self._taken * _NS_TIMES_MICRO // self._rate)
