"""How far the fluid model is from the events: its error band, measured where both have run.

    error = fluid / events - 1, of throughput, p99 of confirms and of deliveries, peak memory
What nobody can tell apart counts as equal: latencies below 2 ms, memory below 64 KiB, as in the
lab.
The band is what eight of ten comparisons lie in; the worst one is told as well, with its point.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.lab.measure import percentile
from penstock.lab.score import LATENCY_FLOOR_MS, MEMORY_FLOOR_BYTES
from penstock.sweep.point import EVENTS, FLUID, Key
from penstock.sweep.row import Row, key_of

MEASURES: Final = {
    "throughput_per_s": ("throughput", 1.0),
    "confirm_p50_ms": ("confirm p50", LATENCY_FLOOR_MS),
    "confirm_p99_ms": ("confirm p99", LATENCY_FLOOR_MS),
    "delivery_p99_ms": ("delivery p99", LATENCY_FLOOR_MS),
    "memory_bytes_max": ("peak memory", float(MEMORY_FLOOR_BYTES)),
}
"""By column: for people, and below which two values count as equal."""
_SCALE: Final = 1_000_000
_LOW: Final = 0.1
_HIGH: Final = 0.9


@dataclass(frozen=True, slots=True)
class Band:
    """Of one measure over `pairs` points: errors as shares, 0.1 for 10 % too high; `worst_at`: the
    row of the events where it was worst."""

    name: str
    pairs: int
    low: float
    median: float
    high: float
    worst: float
    worst_at: Row

    def text(self) -> str:
        """One line."""
        at = self.worst_at
        size = f" {at['connections']} connections" if at["connections"] else ""
        credit = f" {at['credit']}" if at["credit"] else ""
        return (
            f"{self.name:13} {self.low:+7.1%} .. {self.high:+7.1%}   median {self.median:+7.1%}   "
            f"worst {self.worst:+7.1%} ({at['workload']}{size} load {at['load']:g} "
            f"{at['profile']}{credit})"
        )


def bands(rows: Iterable[Row]) -> list[Band]:
    """One for each measure, over all points with rows of both engines; [] when there are none."""
    by_engine: dict[str, dict[Key, Row]] = {EVENTS: {}, FLUID: {}}
    for row in rows:
        if not row["error"]:
            by_engine[str(row["engine"])][key_of(row)[1:]] = row
    events, fluid = by_engine[EVENTS], by_engine[FLUID]
    pairs = [(row, fluid[key]) for key, row in events.items() if key in fluid]
    return [_band(column, pairs) for column in MEASURES] if pairs else []


def _band(column: str, pairs: Sequence[tuple[Row, Row]]) -> Band:
    name, floor = MEASURES[column]
    found = [(_error(seen[column], said[column], floor), seen) for seen, said in pairs]
    scaled = sorted(round(error * _SCALE) for error, _ in found)
    low, median, high = (percentile(scaled, share) / _SCALE for share in (_LOW, 0.5, _HIGH))
    worst, worst_at = max(found, key=lambda pair: abs(pair[0]))
    return Band(name, len(pairs), low, median, high, worst, worst_at)


def _error(seen: object, said: object, floor: float) -> float:
    assert isinstance(seen, int | float) and isinstance(said, int | float)
    return max(float(said), floor) / max(float(seen), floor) - 1
