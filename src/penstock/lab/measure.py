"""The figures of a run, from what its peers have seen: pure functions on numbers."""

from collections.abc import Iterable, Sequence
from typing import Final

SMOOTH: Final = 5
RECOVERED: Final = 0.9
GROWTH: Final = 0.1


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest of `ordered` (rising) with at least `share` (0..1) of all at or below it; 0 when
    there are none."""
    if not ordered:
        return 0
    rank = -int(-share * len(ordered) // 1)
    return ordered[min(len(ordered), max(1, rank)) - 1]


def jain(shares: Iterable[float]) -> float:
    """Jain's index of fairness: 1 when all are equal, 1/n when one of n has everything. 1.0 when
    there is nothing to share. Source: Jain, Chiu and Hawe, DEC-TR-301, 1984."""
    values = list(shares)
    squares = sum(value * value for value in values)
    if squares == 0:
        return 1.0
    return sum(values) ** 2 / (len(values) * squares)


def recovery_s(bins: Sequence[int], bin_s: float, begin_s: float, end_s: float) -> float | None:
    """Seconds from `end_s`, the end of a disturbance that began at `begin_s`, until the rate is
    back at 90 % of what it was before, in the mean of `SMOOTH` bins; None when it never is, or
    when there was no rate before. Resolution: one bin."""
    first, last = int(begin_s / bin_s), int(end_s / bin_s)
    before = bins[first // 2 : first]
    usual = sum(before) / len(before) if before else 0.0
    if usual == 0:
        return None
    for at in range(last, len(bins) - SMOOTH + 1):
        if sum(bins[at : at + SMOOTH]) / SMOOTH >= RECOVERED * usual:
            return max(0.0, at * bin_s - end_s)
    return None


def is_growing(bins: Sequence[int], first: int) -> bool:
    """Whether memory was still rising at the end: its highest from bin `first` on is in the last
    fifth, and above everything before by more than GROWTH."""
    measured = bins[first:]
    part = len(measured) // 5
    if part == 0:
        return False
    return max(measured[-part:]) > (1 + GROWTH) * max(measured[:-part])


def fair_shares(demands: Sequence[float], total: float) -> list[float]:
    """Max-min fair parts of `total`: nobody gets more than asked for, and what they leave is shared
    equally by the others."""
    shares = [0.0] * len(demands)
    left = total
    order = sorted(range(len(demands)), key=lambda index: demands[index])
    for done, index in enumerate(order):
        shares[index] = min(demands[index], left / (len(order) - done))
        left -= shares[index]
    return shares


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each, 1 for the smallest; equal ones share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    found = [0.0] * len(values)
    at = 0
    while at < len(order):
        stop = at
        while stop + 1 < len(order) and values[order[stop + 1]] == values[order[at]]:
            stop += 1
        for index in order[at : stop + 1]:
            found[index] = (at + stop) / 2 + 1
        at = stop + 1
    return found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: 1 for the same order, -1 for the reverse; 0.0 when one of them has no order."""
    a, b = ranks(first), ranks(second)
    if not a:
        return 0.0
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    both = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    spread = sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)
    return both / spread**0.5 if spread > 0 else 0.0
