"""A mark on a resource: when an alarm is set, and when it may end again.

    ceiling (memory)   set  <=>  used > limit         ends below  0.9 * limit
    floor   (disk)     set  <=>  free < limit         ends above  limit / 0.9
Between the two marks nothing changes, so a value that swings inside the band sets at most one alarm
(property 13, scenario 74). RabbitMQ has no band: its alarm ends as soon as the limit is met again
(flow-semantics 10.2, 10.3); `has_band` False does the same.

When to look at a disk again: room = free - limit, next look = room / (the fastest a disk is filled)
/ 2. When a mark will be reached if things go on as they did: the slope of the last minute.
Source: flow-semantics 10.3, scenario 75.
"""

import re
from collections import deque
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.quantities import BYTES_MAX, parse_bytes, parse_share

WINDOW_NS: Final = 60_000_000_000
KNOWN_NS: Final = 20_000_000_000
"""A shorter stretch says nothing yet."""
LEAST_NS: Final = 600_000_000_000


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


class Least:
    """The smallest value of the last LEAST_NS, a sample a second at most.

    Of what a process uses beside what it holds that is the broker itself: what was used once and
    is kept free has been none of it at some moment, unless it is longer ago."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def add(self, now_ns: int, value: int) -> int:
        """One sample; the smallest now."""
        samples = self._samples
        while samples and samples[-1][1] >= value:
            samples.pop()
        samples.append((now_ns, value))
        while now_ns - samples[0][0] > LEAST_NS:
            samples.popleft()
        return samples[0][1]


PACE_NS: Final = 5_000_000_000


class Pace:
    """How fast a count grows, over the last five to ten seconds, or since the first sample."""

    def __init__(self) -> None:
        self._before = (-1, 0)
        self._last = (-1, 0)

    def per_second(self, now_ns: int, count: int) -> float:
        """One more sample; the pace, 0.0 while there is none."""
        if self._last[0] < 0:
            self._before = self._last = (now_ns, count)
        elif now_ns - self._last[0] >= PACE_NS:
            self._before, self._last = self._last, (now_ns, count)
        since_ns, since = self._before
        return (count - since) * 1e9 / (now_ns - since_ns) if now_ns > since_ns else 0.0


POLL_MS_MIN: Final = 100
POLL_MS_MAX: Final = 10_000
FILL_BYTES_PER_MS: Final = 250_000
"""The speed that is assumed: 250 MB/s."""


def next_look_ms(free_bytes: int, limit_bytes: int, is_alarmed: bool) -> int:
    """Milliseconds until the next look, POLL_MS_MIN..POLL_MS_MAX; the longest while the alarm is
    set, because then nothing is published that could fill it."""
    if is_alarmed:
        return POLL_MS_MAX
    room_ms = 2 * (free_bytes - limit_bytes) // FILL_BYTES_PER_MS
    return max(POLL_MS_MIN, min(POLL_MS_MAX, room_ms))


BAND: Final = (9, 10)
"""The end of an alarm as a fraction of its limit. Integers, because a mark is an exact number."""
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A limit on what is used, in bytes. A limit of 0 is always passed (scenario 64)."""

    limit_bytes: int
    has_band: bool

    @property
    def clear_bytes(self) -> int:
        """An alarm that is set ends below this; without a band at the limit itself."""
        return self.limit_bytes * BAND[0] // BAND[1] if self.has_band else self.limit_bytes

    def is_set(self, was_set: bool, used_bytes: int) -> bool:
        """Whether the alarm is set at `used_bytes`, after it was or was not."""
        if self.limit_bytes == 0 or used_bytes > self.limit_bytes:
            return True
        if not self.has_band:
            return False
        return was_set and used_bytes >= self.clear_bytes


@dataclass(frozen=True, slots=True)
class Floor:
    """A limit on what is free, in bytes. A limit of 0 is never passed: the check is off."""

    limit_bytes: int
    has_band: bool

    @property
    def clear_bytes(self) -> int:
        """An alarm that is set ends above this; without a band at the limit itself."""
        if not self.has_band:
            return self.limit_bytes
        return -(-self.limit_bytes * BAND[1] // BAND[0])

    def is_set(self, was_set: bool, free_bytes: int) -> bool:
        """Whether the alarm is set at `free_bytes`, after it was or was not."""
        if self.limit_bytes == 0:
            return False
        if free_bytes < self.limit_bytes:
            return True
        if not self.has_band:
            return False
        return was_set and free_bytes <= self.clear_bytes


def parse_ceiling(text: str, total_bytes: int) -> int:
    """`40%` or `0.4` of `total_bytes`, or a size: `1.5GB`, `0`. Raises: OperatorError."""
    stripped = text.strip()
    if _is_share(stripped):
        return int(parse_share(stripped) * total_bytes)
    try:
        return parse_bytes(stripped)
    except OperatorError as error:
        raise OperatorError(
            f"'{text}' is no memory mark; write a share of memory (40% or 0.4) or a size (1.5GB, "
            f"512MiB): {error}"
        ) from error


def parse_floor(text: str, total_bytes: int) -> int:
    """A size, or `mem:1.0` for that many times `total_bytes` of memory. Raises: OperatorError."""
    stripped = text.strip()
    head, colon, factor = stripped.partition(":")
    how = "write a size (50MB, 1GiB, 2TB) or a factor of memory (mem:1.0)"
    if colon == "" and not _is_share(stripped):
        try:
            return parse_bytes(stripped)
        except OperatorError as error:
            raise OperatorError(f"'{text}' is no disk mark; {how}: {error}") from error
    if head != "mem" or _NUMBER.fullmatch(factor.strip()) is None:
        raise OperatorError(f"'{text}' is no disk mark; {how}")
    times = float(factor)
    if times * total_bytes > BYTES_MAX:
        raise OperatorError(
            f"'{text}' is no disk mark there can be: it is more than {BYTES_MAX} bytes with memory "
            f"of {total_bytes}; {how}"
        )
    return int(times * total_bytes)


def _is_share(text: str) -> bool:
    """A percentage, or a bare fraction as `0.4`; `1.5GB` and `0` are sizes."""
    return text.endswith("%") or ("." in text and _NUMBER.fullmatch(text) is not None)
