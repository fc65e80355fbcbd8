"""What changed between two runs of bench/run.py beyond their noise.

    python bench/compare.py before.json after.json               every target in both, every row
    python bench/compare.py before.json after.json --only a16,pp50 --target penstock-compiled
    python bench/compare.py before.json after.json --fail        exit code 1 if something is worse

Both files are of `bench/run.py --out`, on one machine. An hour on it is not like another, so rates
and processor times are not compared as they are: each run is divided by the relay's run of the same
repeat (bench/limit.c), which the same hour has slowed as well. A file without the relay, or a row
that it does not play, is compared as it is, and the line says so.

Of each figure the logarithms of the repeats are compared by a studentized bootstrap: RESAMPLES
times as many repeats as there are, drawn with replacement from each side, the difference of the
means in units of its own error; the quantiles of these make the interval (--level, 99 %). A change
is told when the interval leaves out 0 and the change is at least --least (2 %). Fewer than
REPEATS_MIN repeats a side are too few for that, and are shown without a word about noise, as are
the figures that are measured once (memory, start).
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import LIMIT
from bench.workloads import CEILINGS, WORKLOADS

RESAMPLES: Final = 2_000
REPEATS_MIN: Final = 5
SEED: Final = 1
PACED: Final = frozenset(one.name for one in WORKLOADS if one.is_paced)
# What is compared of a run, and which of it a slow hour moves together with the relay.
BY_RELAY: Final = ("rate", "cpu_us")
UNITS: Final = {
    "rate": "messages/s",
    "cpu_us": "processor time a message",
    "p99_us": "p99 of deliveries",
    "rss_max_mb": "memory",
}
SMALLER_IS_BETTER: Final = CEILINGS | {
    "rss_max_mb",
    "cpu_us_per_connection",
    "rss_mb",
    "fill_cpu_us",
    "drain_cpu_us",
}
BETTER: Final = "better"
WORSE: Final = "WORSE"
SAME: Final = "within noise"
FEW: Final = "too few repeats"
ONCE: Final = "measured once"

Runs = Mapping[str, list[float]]


class NotComparableError(Exception):
    """Two files cannot be compared; the text says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one row. ratio: after by before, low and high its interval (all 1.0 = as it
    was; without repeats low and high are the ratio); by_relay: divided by the relay's runs."""

    row: str
    target: str
    figure: str
    ratio: float
    low: float
    high: float
    verdict: str
    by_relay: bool = False

    def text(self) -> str:
        """One line of the report."""
        around = f" ({percent(self.low)} to {percent(self.high)})" if self.low < self.high else ""
        base = ", by the relay" if self.by_relay else ""
        name = UNITS.get(self.figure, self.figure)
        return f"{self.row:<9} {self.target:<18} {name}{base}: {percent(self.ratio)}{around}"


def percent(ratio: float) -> str:
    """1.05 as `+5.0 %`."""
    return f"{100 * (ratio - 1):+.1f} %"


# --- the interval ---------------------------------------------------------------------------------


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Their mean, and the square of its standard error. (`statistics` is exact, and slow.)"""
    count = len(values)
    mean = sum(values) / count
    squares = sum((value - mean) ** 2 for value in values)
    return mean, squares / (count - 1) / count


def interval(
    before: Sequence[float], after: Sequence[float], level: float, seed: int = SEED
) -> tuple[float, float, float]:
    """By how much `after` differs from `before`: the difference of the means, and where it lies
    with probability `level` (0..1), by a studentized bootstrap. Two values or more a side."""
    chance = random.Random(seed)
    (first, first_error), (second, second_error) = mean_and_error(before), mean_and_error(after)
    found, error = second - first, math.sqrt(first_error + second_error)
    if error == 0.0:
        return found, found, found
    drawn: list[float] = []
    for _ in range(RESAMPLES):
        one, one_error = mean_and_error(chance.choices(before, k=len(before)))
        other, other_error = mean_and_error(chance.choices(after, k=len(after)))
        spread = math.sqrt(one_error + other_error)
        # The same value drawn every time says nothing of the spread.
        if spread > 0.0:
            drawn.append((other - one - found) / spread)
    drawn.sort()
    tail = (1.0 - level) / 2
    low = drawn[min(len(drawn) - 1, int((1.0 - tail) * len(drawn)))]
    high = drawn[int(tail * len(drawn))]
    return found, found - low * error, found - high * error


def judge(figure: str, ratio: float, low: float, high: float, least: float) -> str:
    """One word for a change whose interval is low..high."""
    if low <= 1.0 <= high or abs(ratio - 1.0) < least:
        return SAME
    is_less = ratio < 1.0
    return BETTER if is_less == (figure in SMALLER_IS_BETTER) else WORSE


def change_of(
    row: str,
    target: str,
    figure: str,
    sides: tuple[Sequence[float], Sequence[float]],
    level: float,
    least: float,
    by_relay: bool,
) -> Change | None:
    """Compare one figure; None where a side has nothing above 0."""
    logs = [[math.log(value) for value in side if value > 0] for side in sides]
    if not logs[0] or not logs[1]:
        return None
    ratio = math.exp(sum(logs[1]) / len(logs[1]) - sum(logs[0]) / len(logs[0]))
    if min(len(side) for side in logs) < REPEATS_MIN:
        return Change(row, target, figure, ratio, ratio, ratio, FEW, by_relay)
    _, low, high = (math.exp(value) for value in interval(logs[0], logs[1], level))
    return Change(
        row, target, figure, ratio, low, high, judge(figure, ratio, low, high, least), by_relay
    )


# --- the files ------------------------------------------------------------------------------------


def runs_of(row: Mapping[str, object], target: str) -> Runs:
    """The figures of every repeat of one target, by name; NaN where that repeat failed."""
    entry = row.get(target)
    runs = entry.get("runs") if isinstance(entry, dict) else None
    if not isinstance(runs, list):
        return {}
    nothing: dict[str, Any] = dict.fromkeys(("rate", "cpu_us", "rss_max_mb"), math.nan)
    nothing["latency_us"] = [math.nan, math.nan]
    found: list[dict[str, Any]] = [run if isinstance(run, dict) else nothing for run in runs]
    return {
        **{name: [float(run[name]) for run in found] for name in ("rate", "cpu_us", "rss_max_mb")},
        "p99_us": [float(run["latency_us"][1]) for run in found],
    }


def divided(ours: Sequence[float], relay: Sequence[float]) -> list[float]:
    """Ours by the relay's, repeat by repeat, those left out that failed or took no time at all."""
    pairs = zip(ours, relay, strict=False)
    return [our / their for our, their in pairs if our > 0 and their > 0]


def compare_rows(
    row: str,
    before: Mapping[str, object],
    after: Mapping[str, object],
    targets: Sequence[str],
    level: float,
    least: float,
) -> list[Change]:
    """One throughput row."""
    relays = (runs_of(before, LIMIT), runs_of(after, LIMIT))
    found: list[Change] = []
    for target in targets:
        sides = (runs_of(before, target), runs_of(after, target))
        if not all(sides):
            continue
        # A set rate is no result, and the latency of a flood is that of a queue.
        figures = ("p99_us" if row in PACED else "rate", "cpu_us", "rss_max_mb")
        for figure in figures:
            by_relay = figure in BY_RELAY and all(relays) and target != LIMIT
            values = [
                divided(side[figure], relay[figure])
                if by_relay
                else [one for one in side[figure] if one > 0]
                for side, relay in zip(sides, relays, strict=True)
            ]
            change = change_of(row, target, figure, (values[0], values[1]), level, least, by_relay)
            if change is not None:
                found.append(change)
    return found


def compare_once(
    row: str, before: Mapping[str, object], after: Mapping[str, object], targets: Sequence[str]
) -> list[Change]:
    """A row whose figures are measured once: memory, overload, drain."""
    found: list[Change] = []
    for target in targets:
        entries = [side.get(target) for side in (before, after)]
        values = [entry.get("values") if isinstance(entry, dict) else None for entry in entries]
        if not isinstance(values[0], dict) or not isinstance(values[1], dict):
            continue
        for figure in values[0]:
            one, other = values[0][figure], values[1].get(figure, 0)
            if one > 0 and other > 0:
                ratio = other / one
                found.append(Change(row, target, figure, ratio, ratio, ratio, ONCE))
    return found


def compare(
    before: Mapping[str, object],
    after: Mapping[str, object],
    rows: Sequence[str] = (),
    targets: Sequence[str] = (),
    level: float = 0.99,
    least: float = 0.02,
) -> list[Change]:
    """Every figure that both have. rows, targets: those only; all where empty.

    Raises: NotComparableError.
    """
    first, second = before.get("rows"), after.get("rows")
    if not isinstance(first, dict) or not isinstance(second, dict):
        raise NotComparableError(
            "both files have to be of `bench/run.py --out`, not of a smoke run"
        )
    shared = [row for row in first if row in second and (not rows or row in rows)]
    if not shared:
        raise NotComparableError("the two files have no row in common")
    found: list[Change] = []
    for row in shared:
        one, other = first[row], second[row]
        if not isinstance(one, dict) or not isinstance(other, dict):
            raise NotComparableError(f"row {row} is not of a timed run")
        both = [name for name in one if name in other and isinstance(one[name], dict)]
        chosen = [name for name in both if not targets or name in targets]
        found += compare_rows(row, one, other, chosen, level, least)
        found += compare_once(row, one, other, chosen)
    return found


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """What was not the same about the two runs, apart from the hour and the load."""
    said: list[str] = []
    for part, left_out in (("machine", ("when", "load_average")), ("versions", ())):
        one, other = before.get(part), after.get(part)
        if not isinstance(one, dict) or not isinstance(other, dict):
            continue
        for key in one:
            if key not in left_out and key in other and one[key] != other[key]:
                said.append(f"{key}: {one[key]}, then {other[key]}")
    return said


def report(changes: Sequence[Change], is_everything: bool) -> list[str]:
    """What changed first, then what is not known, and how much stayed as it was."""
    lines: list[str] = []
    for word in (WORSE, BETTER):
        told = [change for change in changes if change.verdict == word]
        lines += [f"{word}: {change.text()}" for change in told]
    for word in (FEW, ONCE):
        lines += [f"{word}: {one.text()}" for one in changes if one.verdict == word]
    same = [change for change in changes if change.verdict == SAME]
    if is_everything:
        lines += [f"{SAME}: {change.text()}" for change in same]
    else:
        lines.append(f"{SAME}: {len(same)} of {len(changes)} figures (--all shows them)")
    return lines


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options; exits 2 when they make no sense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--only", default="", metavar="ROW,...", help="these rows, no others")
    parser.add_argument("--target", default="", metavar="T,...", help="these targets, no others")
    parser.add_argument("--level", type=float, default=0.99, help="of the interval (0.99)")
    parser.add_argument("--least", type=float, default=0.02, help="share worth telling (0.02)")
    parser.add_argument("--all", action="store_true", help="also what is within noise")
    parser.add_argument("--fail", action="store_true", help="exit code 1 if something is worse")
    options = parser.parse_args(words)
    if not 0.5 <= options.level < 1 or options.least < 0:
        parser.error("--level is 0.5 or more and below 1, --least 0 or more")
    return options


def main(words: Sequence[str]) -> int:
    """Compare; 0 done, 1 worse with --fail, 2 when there is nothing to compare."""
    options = parsed(words)
    try:
        files = [
            json.loads(path.read_text(encoding="utf-8")) for path in (options.before, options.after)
        ]
        rows = [row for row in options.only.split(",") if row]
        targets = [target for target in options.target.split(",") if target]
        if not all(isinstance(file, dict) for file in files):
            raise NotComparableError("both files have to be of `bench/run.py --out`")
        changes = compare(files[0], files[1], rows, targets, options.level, options.least)
    except (OSError, ValueError, NotComparableError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    for line in differences(files[0], files[1]):
        print(f"not the same: {line}")
    print("\n".join(report(changes, options.all)))
    return 1 if options.fail and any(change.verdict == WORSE for change in changes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
