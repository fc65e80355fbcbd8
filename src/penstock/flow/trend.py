"""When a mark will be reached if things go on as they did: the slope of the last minute."""

from typing import Final

WINDOW_NS: Final = 60_000_000_000
KNOWN_NS: Final = 20_000_000_000
"""A shorter stretch says nothing yet."""


class Trend:
    """Samples of one value, in order of time; those older than WINDOW_NS are forgotten."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, int]] = []

    def add(self, now_ns: int, value: int) -> None:
        """One sample; at most one a second is kept, so that the list stays short."""
        samples = self._samples
        if samples and now_ns - samples[-1][0] < 900_000_000:
            return
        samples.append((now_ns, value))
        while now_ns - samples[0][0] > WINDOW_NS:
            samples.pop(0)

    def per_second(self) -> float:
        """How fast it rises, 0.0 while that is not known."""
        if not self._samples:
            return 0.0
        (first_ns, first), (last_ns, last) = self._samples[0], self._samples[-1]
        if last_ns - first_ns < KNOWN_NS:
            return 0.0
        return (last - first) * 1e9 / (last_ns - first_ns)

    def seconds_until(self, mark: int) -> float:
        """Until the value is `mark`; -1.0 if it is not on its way there."""
        slope = self.per_second()
        if slope <= 0 or self._samples[-1][1] > mark:
            return -1.0
        return (mark - self._samples[-1][1]) / slope
