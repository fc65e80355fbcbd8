"""Axes and shapes of the page's drawings: everything in percent of a frame.

A drawing is stretched to the width of the page by the browser; its words are HTML beside it, and
its colours are variables of the style sheet. So one page is read at any width, and in the dark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.spark.report.names import clean, cut
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import Tables

POINTS_MAX: Final = 240
PHASES_MAX: Final = 12
ALARMS_MAX: Final = 14
SECOND_NS: Final = 1_000_000_000
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)


class Tick(NamedTuple):
    """A number at an axis. `at`: percent."""

    at: float
    text: str


class Line(NamedTuple):
    """`points`: of SVG, in percent; `tone`: number of its colour; `kind`: line, dotted or area."""

    name: str
    tone: int
    points: tuple[str, ...]
    kind: str = "line"


class Band(NamedTuple):
    """A part of the time. `left`, `width`: percent; `kind`: an odd or even phase, or alarm."""

    name: str
    left: float
    width: float
    kind: str


@dataclass(frozen=True, slots=True)
class Plot:
    """One frame with its axes. `title`: of one of several frames; `unit`: of its upright axis."""

    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    unit: str
    bands: tuple[Band, ...] = ()
    title: str = ""


class Cell(NamedTuple):
    """A part of a row. `left`, `width`: percent; `share`: 0..1, or the number of its colour."""

    left: float
    width: float
    share: float


class Row(NamedTuple):
    """One actor, queue or phase with what is drawn behind its name; `actor`: its whole id."""

    name: str
    actor: str
    cells: tuple[Cell, ...]
    note: str = ""


class TimeAxis:
    """The time of a report: from its first phase, hold or number to its last."""

    def __init__(self, tables: Tables, run: RunDescription, bucket_ns: int) -> None:
        samples = [row.t_ns for row in tables.queue_depth]
        starts = [row.bucket_ns for row in tables.throughput]
        starts += [row.bucket_ns for row in tables.held_time]
        ends = [one.bucket_ns + bucket_ns for one in tables.held_time]
        ends += [*starts, *samples]
        if run.phases:
            ends.append(run.phases[-1].end_ns)
        # Of a run there are samples before it begins.
        starts += [run.phases[0].start_ns] if run.phases else samples
        self.start_ns = min(starts, default=0)
        self.end_ns = max([*ends, self.start_ns + SECOND_NS])
        self.run, self.tables = run, tables

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns

    def at(self, t_ns: float) -> float:
        """A moment in percent."""
        return round(min(100.0, max(0.0, (t_ns - self.start_ns) / self.span_ns * 100)), 2)

    def width_ns(self, least_ns: int, count_max: int = POINTS_MAX) -> int:
        """Of equal parts of the time: whole times `least_ns`, not more than so many of them."""
        return least_ns * max(1, -(-self.span_ns // (least_ns * count_max)))

    def ticks(self) -> tuple[Tick, ...]:
        seconds = self.span_ns / SECOND_NS
        step = next((one for one in _STEPS_S if seconds / one <= 7), math.ceil(seconds / 7))
        count = int(seconds / step)
        return tuple(
            Tick(self.at(self.start_ns + number * step * SECOND_NS), elapsed(number * step))
            for number in range(count + 1)
        )

    def bands(self) -> tuple[Band, ...]:
        found = [
            ("even" if number % 2 else "odd", one.name, one.start_ns, one.end_ns)
            for number, one in enumerate(self.run.phases[:PHASES_MAX])
        ]
        found += [
            ("alarm", one.alarm, one.start_ns, one.end_ns)
            for one in self.tables.alarms[:ALARMS_MAX]
        ]
        return tuple(
            Band(cut(clean(name)), self.at(low), round(self.at(high) - self.at(low), 2), kind)
            for kind, name, low, high in found
        )


class LogScale:
    """Positive numbers of nanoseconds over powers of ten."""

    def __init__(self, values: Sequence[float]) -> None:
        self._low = math.log10(min(values)) - 0.05
        self._high = max(math.log10(max(values)) + 0.05, self._low + 0.5)

    def at(self, value: float) -> float:
        place = (math.log10(max(1.0, value)) - self._low) / (self._high - self._low)
        return round(100 * min(1.0, max(0.0, place)), 2)

    def ticks(self) -> tuple[Tick, ...]:
        """At powers of ten, and between them where there are few."""
        decades = self._high - self._low
        parts = (1,) if decades >= 2.5 else (1, 3) if decades >= 1.2 else (1, 1.5, 2, 3, 5, 7)
        powers = range(math.floor(self._low), math.ceil(self._high) + 1)
        values = [part * 10.0**power for power in powers for part in parts]
        return tuple(
            Tick(self.at(value), duration(value))
            for value in values
            if self._low <= math.log10(value) <= self._high
        )


def elapsed(seconds: float) -> str:
    """A time since the start: `40 s`, `2:30 min`, `3:05 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds // 60:.0f}:{seconds % 60:02.0f} min"
    return f"{seconds // 3600:.0f}:{seconds // 60 % 60:02.0f} h"


def duration(ns: float) -> str:
    """A length of time with about two digits that matter."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= unit:
            value = ns / unit
            return f"{value:.0f} {name}" if value >= 10 else f"{value:.2g} {name}"
    return f"{ns:.0f} ns"


def top_of(value: float) -> float:
    """A round number above `value`, for the upper end of an axis."""
    value = max(value * 1.05, 1.0)
    power = 10.0 ** math.floor(math.log10(value))
    return next(part * power for part in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if part * power >= value)


def y_ticks(top: float) -> tuple[Tick, ...]:
    form = ",.4g" if top < 1000 else ",.0f"
    return tuple(Tick(50 * half, format(top * half / 2, form)) for half in range(3))


def height_of(value: float, top: float) -> float:
    return round(100 - 100 * min(1.0, value / top), 2)


def steps(axis: TimeAxis, times: Sequence[int], values: Sequence[float], top: float) -> str:
    points = [
        f"{axis.at(t_ns)},{height_of(value, top)}"
        for low, high, value in zip(times, times[1:], values, strict=False)
        for t_ns in (low, high)
    ]
    return " ".join(points)


def area(axis: TimeAxis, times: Sequence[int], values: Sequence[float], top: float) -> str:
    return f"{axis.at(times[0])},100 {steps(axis, times, values, top)} {axis.at(times[-1])},100"
