"""Stamps messages, and counts messages, bytes and latencies: one `Tally` a second, one for the run.

Latencies go into a histogram of logarithmic buckets. Every power of two is cut into SUB equal
buckets, so a bucket is never wider than its lower edge / SUB. Values below SUB are exact.

    relative error of any percentile   <= 1 / SUB = 1.6 %
    buckets                            <= (OCTAVES + 1) * SUB, allocated when first used

No value is lost: values above the top are counted in the last bucket, and `lowest` and `highest`
are exact.
"""

import struct
from typing import Final

STAMP: Final = struct.Struct(">QI")
STAMP_BYTES: Final = STAMP.size
HELD_US_MAX: Final = 0xFFFFFFFF
OLDEST_NS: Final = 3_600_000_000_000
"""A message older than an hour, or from the future, was not stamped by this clock."""
SUB_BITS: Final = 6
SUB: Final = 1 << SUB_BITS
# 2**45 ns is 9.7 hours, longer than any latency worth telling apart.
OCTAVES: Final = 45 - SUB_BITS
BUCKETS_MAX: Final = (OCTAVES + 1) * SUB


def write_stamp(intended_ns: int, now_ns: int) -> bytes:
    """The stamp of a message meant for `intended_ns` and published at `now_ns`, not earlier."""
    held_us = (now_ns - intended_ns) // 1000
    return STAMP.pack(intended_ns, held_us if held_us < HELD_US_MAX else HELD_US_MAX)


def read_stamp(raw: bytes, at: int, now_ns: int, oldest_ns: int) -> tuple[int, int] | None:
    """Latency from the intended moment and from publishing, both nanoseconds, 0...

    raw, at: where the body starts. None when there is no stamp there of this machine's clock, or
    one older than `oldest_ns`: another program's message, or one of an earlier run.
    """
    if at + STAMP_BYTES > len(raw):
        return None
    intended_ns, held_us = STAMP.unpack_from(raw, at)
    whole_ns = now_ns - intended_ns
    if not 0 <= whole_ns <= oldest_ns:
        return None
    sent_ns = whole_ns - held_us * 1000
    return whole_ns, sent_ns if sent_ns > 0 else 0


class Histogram:
    """Counts of non-negative whole numbers; the unit is the caller's (here: nanoseconds)."""

    __slots__ = ("_counts", "count", "highest", "lowest", "total")

    def __init__(self) -> None:
        self._counts: list[int] = []
        self.count = 0
        self.total = 0
        self.lowest = 0
        self.highest = 0

    def record(self, value: int, times: int = 1) -> None:
        """Count `value` (0.., larger than 2**45 counts as that) `times` times (1..)."""
        assert value >= 0, "a duration is never negative"
        assert times >= 1, "counting nothing would move the extremes"
        index = bucket_of(value)
        counts = self._counts
        if index >= len(counts):
            counts.extend([0] * (index + 1 - len(counts)))
        counts[index] += times
        if self.count == 0 or value < self.lowest:
            self.lowest = value
        if value > self.highest:
            self.highest = value
        self.count += times
        self.total += value * times

    def add(self, other: "Histogram") -> None:
        """Count everything `other` has counted, as if it had been recorded here."""
        if other.count == 0:
            return
        counts = self._counts
        if len(other._counts) > len(counts):
            counts.extend([0] * (len(other._counts) - len(counts)))
        for index, times in enumerate(other._counts):
            counts[index] += times
        self.lowest = min(self.lowest, other.lowest) if self.count else other.lowest
        self.highest = max(self.highest, other.highest)
        self.count += other.count
        self.total += other.total

    def clear(self) -> None:
        """Forget everything; the buckets stay allocated."""
        self._counts = [0] * len(self._counts)
        self.count = 0
        self.total = 0
        self.lowest = 0
        self.highest = 0

    def percentile(self, share: float) -> int:
        """The smallest bucket edge with at least `share` (0..1) of the values at or below it.

        0 when nothing was counted. Never outside lowest..highest, at most 1/SUB above the truth.
        """
        assert 0.0 <= share <= 1.0, "a share lies between nothing and all"
        if self.count == 0:
            return 0
        wanted = max(1, -int(-share * self.count // 1))
        seen = 0
        for index, times in enumerate(self._counts):
            seen += times
            if seen >= wanted:
                return min(max(upper_edge(index), self.lowest), self.highest)
        raise AssertionError("cannot happen because the buckets sum up to `count`")

    def mean(self) -> float:
        """The exact mean, 0.0 when nothing was counted."""
        return self.total / self.count if self.count else 0.0


def bucket_of(value: int) -> int:
    """The index of the bucket that holds `value`, 0..BUCKETS_MAX-1."""
    if value < SUB:
        return value
    octave = value.bit_length() - SUB_BITS - 1
    index = (octave << SUB_BITS) + (value >> octave)
    return index if index < BUCKETS_MAX else BUCKETS_MAX - 1


def upper_edge(index: int) -> int:
    """The largest value that belongs into bucket `index`."""
    if index < SUB:
        return index
    octave = (index >> SUB_BITS) - 1
    return (((index & (SUB - 1)) + SUB + 1) << octave) - 1


COUNTS: Final = (
    "sent", "sent_bytes", "confirmed", "nacked", "returned", "received", "received_bytes",
    "redelivered", "foreign",
)  # fmt: skip


class Tally:
    """Messages, bytes of bodies and latencies (nanoseconds) of some stretch of time.

    foreign: received, but stamped by another run or not at all; their latency is unknown.
    """

    __slots__ = (*COUNTS, "confirm_latency", "intended_latency", "sent_latency")

    def __init__(self) -> None:
        self.sent = 0
        self.sent_bytes = 0
        self.confirmed = 0
        self.nacked = 0
        self.returned = 0
        self.received = 0
        self.received_bytes = 0
        self.redelivered = 0
        self.foreign = 0
        self.intended_latency = Histogram()
        self.sent_latency = Histogram()
        self.confirm_latency = Histogram()

    def add(self, other: "Tally") -> None:
        """Count everything `other` has counted."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.intended_latency.add(other.intended_latency)
        self.sent_latency.add(other.sent_latency)
        self.confirm_latency.add(other.confirm_latency)

    def clear(self) -> None:
        """Forget everything; histograms keep their buckets."""
        for name in COUNTS:
            setattr(self, name, 0)
        self.intended_latency.clear()
        self.sent_latency.clear()
        self.confirm_latency.clear()
