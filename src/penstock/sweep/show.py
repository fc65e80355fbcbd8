"""The results of a sweep as text: a table a situation, what holds over all, the error band.

The error band says how far the fluid model is from the events, measured where both have run:

    error = fluid / events - 1, of throughput, p99 of confirms and of deliveries, peak memory
Latencies below 2 ms and memory below 64 KiB count as equal, as in the lab. The band is what eight
of ten comparisons lie in; the worst one is named as well, with its point.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from penstock.base.quantities import show_bytes
from penstock.lab.result import percentile
from penstock.lab.score import LATENCY_FLOOR_MS, MEMORY_FLOOR_BYTES
from penstock.lab.table import ms, new_table, size
from penstock.sweep.choices import EVENTS, FLUID
from penstock.sweep.front import Ratios, SettingSummary
from penstock.sweep.point import Key, Row, key_of

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
COLUMNS = ("", "setting", "msg/s", "confirm p99", "memory", "innocent", "spread")
LEGEND = """\
●          on the Pareto front: no other setting has more throughput, a shorter p99 and less memory
memory     most bytes held in queues, mailboxes and outputs; ↑ still rising at the end: on no front
spread     half the distance between the seeds' extremes, of the measure that differs most"""


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


def show_all(
    console: Console,
    found: Sequence[SettingSummary],
    overall: Sequence[Ratios],
    bands: Sequence[Band],
) -> None:
    """Everything there is to say."""
    for situation in dict.fromkeys(one.situation for one in found):
        show_situation(console, [one for one in found if one.situation == situation])
    if overall:
        console.print(
            f"[bold]over all {overall[0].situations} situations[/], relative to the best in each "
            "(geometric means)"
        )
        table = new_table(("", "setting", "msg/s", "confirm p99", "memory"))
        for ratio in overall:
            table.add_row(
                "●" if ratio.is_front else "",
                setting_text(ratio.setting),
                f"{ratio.throughput:.2f} x",
                f"{ratio.p99:.2f} x",
                f"{ratio.memory:.2f} x",
                style="bold green" if ratio.is_front else None,
            )
        console.print(table)
        console.print()
    if bands:
        console.print(
            f"[bold]fluid model against events[/] at {bands[0].pairs} points in common: eight of "
            "ten within"
        )
        for band in bands:
            console.print(f"  {band.text()}", soft_wrap=True)
        console.print()
    if found:
        console.print(LEGEND, soft_wrap=True)


def show_situation(console: Console, found: Sequence[SettingSummary]) -> None:
    """One table, who is on the front first."""
    console.print(f"[bold]{situation_text(found[0].situation)}[/]")
    table = new_table(COLUMNS)
    for one in sorted(found, key=lambda one: (not one.is_front, one.is_growing, one.p99_ms)):
        cells = [
            "●" if one.is_front else "",
            setting_text(one.setting),
            f"{one.throughput_per_s:.0f}",
            ms(one.p99_ms),
            size(round(one.memory_bytes)) + ("↑" if one.is_growing else " "),
            "-" if one.innocent_share is None else f"{one.innocent_share * 100:.0f} %",
            f"± {one.spread * 100:.0f} %" if one.runs > 1 else "-",
        ]
        if one.failed:
            cells[2:] = [f"failed in {one.failed} of {one.runs} runs", "", "", "", ""]
        table.add_row(*cells, style="bold green" if one.is_front else None)
    console.print(table)
    console.print()


def setting_text(setting: Key) -> str:
    """Profile, and what is not its own."""
    profile, credit, depth_bytes, memory_bytes = setting
    parts = [str(profile)]
    if credit:
        parts.append(f"credit {credit}")
    if depth_bytes:
        parts.append(f"depth {show_bytes(int(depth_bytes))}")
    if memory_bytes:
        parts.append(f"memory mark {show_bytes(int(memory_bytes))}")
    return ", ".join(parts)


def situation_text(situation: Key) -> str:
    """What was run."""
    engine, workload, connections, load, seconds = situation
    many = f", {int(connections):,} connections" if connections else ""
    return f"{workload}{many}, load {float(load):g} ({engine}, {float(seconds):g} s)"
