"""From rows to answers: one summary for each setting in each situation, and who is not beaten.

    better    more throughput, a shorter p99 of confirms, less memory
    a beats b when it is at least as good in all three and better in one by more than NOISE
    front     the settings that no other beats
A setting whose memory was still rising in any of its runs is on no front: what it needs is only a
matter of how long one waits. Figures are means over the seeds; `spread` is half the distance of the
highest from the lowest, relative to the mean, of the measure that moves most.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean
from typing import Final

from penstock.lab.score import LATENCY_FLOOR_MS, MEMORY_FLOOR_BYTES
from penstock.sweep.point import Key, Row, point_of

NOISE: Final = 0.01


@dataclass(frozen=True, slots=True)
class SettingSummary:
    """situation, setting: see Point; runs: seeds that were run; failed: of them without figures;
    spread: 0 with one seed; is_front: none in the same situation beats it. innocent_share: None
    where there is no innocent traffic."""

    situation: Key
    setting: Key
    runs: int
    failed: int
    throughput_per_s: float
    p99_ms: float
    memory_bytes: float
    innocent_share: float | None
    is_growing: bool
    spread: float
    is_front: bool = False


@dataclass(frozen=True, slots=True)
class Ratios:
    """One setting over several situations: geometric means of throughput, latency and memory,
    each relative to the best there; 1 is the best in all. Latencies below 2 ms and memory below
    64 KiB count as that, as in the lab."""

    setting: Key
    situations: int
    throughput: float
    p99: float
    memory: float
    is_front: bool


def summaries(rows: Iterable[Row]) -> list[SettingSummary]:
    """One for each setting in each situation, in the order in which they come."""
    groups: dict[tuple[Key, Key], list[Row]] = {}
    for row in rows:
        point = point_of(row)
        groups.setdefault((point.situation(), point.setting()), []).append(row)
    found = [_summary(key, some) for key, some in groups.items()]
    marked = []
    for one in found:
        rivals = [other for other in found if other.situation == one.situation]
        marked.append(_marked(one, rivals))
    return marked


def ratios(found: Sequence[SettingSummary]) -> list[Ratios]:
    """Of the settings that were run and stayed bounded in every situation; [] with one situation.
    Best throughput first."""
    situations = list(dict.fromkeys(one.situation for one in found))
    if len(situations) < 2:
        return []
    good = [one for one in found if _has_place(one)]
    best = {
        name: (
            max((one.throughput_per_s for one in good if one.situation == name), default=1.0),
            min((_p99(one) for one in good if one.situation == name), default=1.0),
            min((_memory(one) for one in good if one.situation == name), default=1.0),
        )
        for name in situations
    }
    bare = []
    for setting in dict.fromkeys(one.setting for one in good):
        mine = [one for one in good if one.setting == setting]
        if len(mine) == len(situations):
            bare.append(
                (
                    setting,
                    geometric_mean([m.throughput_per_s / best[m.situation][0] for m in mine]),
                    geometric_mean([_p99(m) / best[m.situation][1] for m in mine]),
                    geometric_mean([_memory(m) / best[m.situation][2] for m in mine]),
                )
            )
    figures = [one[1:] for one in bare]
    return sorted(
        (
            Ratios(name, len(situations), t, p, m, not any(beats(o, (t, p, m)) for o in figures))
            for name, t, p, m in bare
        ),
        key=lambda one: -one.throughput,
    )


def beats(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Throughput, latency, memory of both: whether `one` beats `other`."""
    gains = (
        one[0] / other[0] if other[0] > 0 else (2.0 if one[0] > 0 else 1.0),
        other[1] / one[1],
        other[2] / one[2],
    )
    return all(gain >= 1 for gain in gains) and any(gain > 1 + NOISE for gain in gains)


def _marked(one: SettingSummary, rivals: Sequence[SettingSummary]) -> SettingSummary:
    if not _has_place(one):
        return one
    mine = _figures(one)
    is_front = not any(beats(_figures(other), mine) for other in rivals if _has_place(other))
    return replace(one, is_front=is_front)


def _has_place(one: SettingSummary) -> bool:
    return not one.is_growing and one.failed == 0 and one.throughput_per_s > 0


def _figures(one: SettingSummary) -> tuple[float, float, float]:
    return one.throughput_per_s, _p99(one), _memory(one)


def _p99(one: SettingSummary) -> float:
    return max(one.p99_ms, LATENCY_FLOOR_MS)


def _memory(one: SettingSummary) -> float:
    return max(one.memory_bytes, float(MEMORY_FLOOR_BYTES))


def _summary(key: tuple[Key, Key], rows: Sequence[Row]) -> SettingSummary:
    good = [row for row in rows if not row["error"]]
    names = ("throughput_per_s", "confirm_p99_ms", "memory_bytes_max")
    throughputs, p99s, memories = (_numbers(good, name) for name in names)
    shares = _numbers(good, "innocent_share")
    return SettingSummary(
        key[0],
        key[1],
        len(rows),
        len(rows) - len(good),
        _mean(throughputs),
        _mean(p99s),
        _mean(memories),
        _mean(shares) if shares else None,
        any(row["is_growing"] for row in good),
        max(_spread(values) for values in (throughputs, p99s, memories)),
    )


def _numbers(rows: Sequence[Row], name: str) -> list[float]:
    found = (row[name] for row in rows)
    return [float(value) for value in found if isinstance(value, int | float)]


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _spread(values: Sequence[float]) -> float:
    mean = _mean(values)
    return (max(values) - min(values)) / 2 / mean if mean > 0 else 0.0


MEASURES: Final[tuple[tuple[str, Callable[[SettingSummary], float]], ...]] = (
    ("throughput, msg/s", lambda one: one.throughput_per_s),
    ("confirm p99, ms", lambda one: one.p99_ms),
    ("peak memory, MiB", lambda one: one.memory_bytes / (1 << 20)),
)
"""For plots and tables: a title and how to read it."""
