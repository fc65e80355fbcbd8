"""Whether `penstock whatif` foretells what really happens: record, foretell, change, compare.

    python bench/outside/whatif_truth.py                  # 5 loads, 20 changes, about 15 minutes
    python bench/outside/whatif_truth.py --keep DIR       # records and truths stay there
    python bench/outside/whatif_truth.py --again DIR      # foretell anew from what was kept
    python bench/outside/whatif_truth.py --seed 7         # loads of the same kinds, other numbers
    python bench/outside/whatif_truth.py --smoke          # one load, one change: does it run?

Each load runs on a broker of its own and is recorded. Each of its changes is then really made, and
what the clients see is compared with what `penstock whatif` says of the record. Truth comes from
own sockets: acknowledgements counted by consumers, depths by passive declares, latencies by
publishers; the share of time in which publishers were held is the broker's own.

    figures     in, out, held, held time of each queue, confirm p50 and p99: is truth in the band?
    directions  of confirm p99, where one is stated: did it rise, fall, or stay?

A figure of which the forecast says that it is unsure does not count, but how many there are does.
A truth on the edge of a band counts as inside when it is within EDGE of it. What the machine and
the clients take is measured in the same time by a witness, a publisher to a broker that has nothing
else to do: a latency that differs by no more than its p99 does not differ.

Exit code 1: it failed or, with --strict, a goal was missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.brokers import Broker, penstock_target  # noqa: E402
from bench.outside.whatif_loads import (  # noqa: E402
    AT_START,
    LOADS,
    Load,
    QueueTruth,
    Scene,
    Truth,
    varied,
)
from penstock.base.errors import OperatorError  # noqa: E402
from penstock.base.quantities import parse_bytes  # noqa: E402
from penstock.cli.whatif_run import current_bytes  # noqa: E402
from penstock.server.control.control_client import control_path  # noqa: E402
from penstock.telemetry.record_file import decode_packed  # noqa: E402
from penstock.whatif.observe import observe  # noqa: E402

BAND_GOAL: Final = 0.90
TREND_GOAL: Final = 0.95
SURE_GOAL: Final = 0.50
"""Of the figures: who is unsure of everything is never wrong, and of no use."""
SAME: Final = 1.25
"""Times: a p99 that changed less has stayed. So has one that changed by less than SAME_MS."""
SAME_MS: Final = 5.0
FLOOR: Final[dict[str, float]] = {
    "in": 5.0, "out": 5.0, "held": 10.0, "held time": 0.02,
    "confirm p50, ms": 3.0, "confirm p99, ms": 5.0,
}  # fmt: skip
"""Differences below which two values are the same: what chance and the clients' own loop do."""
EDGE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Cell:
    """One load and one change. record: file name; held_time: by queue, of the broker's record."""

    load: str
    change: str
    record: str
    before: Truth
    after: Truth
    held_time: dict[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One foretold figure and what it was. is_sure: as the forecast says."""

    queue: str
    measure: str
    low: float
    high: float
    truth: float
    is_sure: bool
    noise: float = 0.0

    def is_inside(self) -> bool:
        """Whether truth is in the band, or so close that nobody could tell."""
        slack = max(FLOOR[self.measure], EDGE * abs(self.truth)) + self.noise
        return self.low - slack <= self.truth <= self.high + slack


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one cell. stated: rises, falls, same or unsure; was: how p99 really went."""

    load: str
    change: str
    figures: tuple[Figure, ...]
    stated: str
    before_ms: float
    after_ms: float
    noise_ms: float = 0.0

    def is_right(self) -> bool:
        """Whether what was stated of p99 is what happened."""
        rise = self.after_ms - self.before_ms
        ratio = max(self.after_ms, 0.1) / max(self.before_ms, 0.1)
        is_same = abs(rise) <= SAME_MS + self.noise_ms or 1 / SAME <= ratio <= SAME
        return {"rises": rise > 0, "falls": rise < 0, "same": is_same}[self.stated]


def record_load(
    load: Load, changes: Sequence[str], seconds: float, settle_s: float, python: str, keep: Path,
    witness: Broker,
) -> list[Cell]:  # fmt: skip
    """Run a load, record it, then make each change; the records lie in `keep`."""
    name = f"{load.name.replace(' ', '-')}.pflow"
    cells = []
    scene = Scene(load, python, witness)
    try:
        scene.loop.run(settle_s)
        before = scene.measure(seconds)
        (keep / name).write_bytes(current_bytes(control_path(scene.broker.port), seconds))
        for change in changes:
            if not is_at_start(change):
                scene.apply(change)
                cells.append(look(load, change, name, scene, before, seconds, settle_s))
                scene.revert(change)
                scene.loop.run(settle_s)
    finally:
        scene.close()
    for change in changes:
        if is_at_start(change):
            other = Scene(load, python, witness, options_of(load, change))
            try:
                cells.append(look(load, change, name, other, before, seconds, settle_s))
            finally:
                other.close()
    return cells


def look(
    load: Load, change: str, record: str, scene: Scene, before: Truth, seconds: float,
    settle_s: float,
) -> Cell:  # fmt: skip
    """What the clients of a changed scene see, when it has settled."""
    scene.loop.run(settle_s)
    after = scene.measure(seconds)
    record_now = decode_packed(current_bytes(control_path(scene.broker.port), seconds))
    seen = observe(record_now.history, seconds)
    held = {one.name: one.blocked_share for one in seen.queues}
    return Cell(load.name, change, record, before, after, held)


def is_at_start(change: str) -> bool:
    return any(word.partition("=")[0] in AT_START for word in change.split())


def options_of(load: Load, change: str) -> tuple[str, ...]:
    """The broker's options with a change that it takes at its start."""
    wanted = {"queue_depth": str(load.depth_bytes)}
    wanted |= dict(word.split("=", 1) for word in change.split())
    options = ["--queue-depth", str(parse_bytes(wanted["queue_depth"]))]
    if "profile" in wanted:
        options += ["--profile", wanted["profile"]]
    return tuple(options)


def foretell(file: Path, change: str, seconds: float) -> dict[str, Any]:
    """What `penstock whatif` says. Raises: RuntimeError with what it said when it failed."""
    words = ["whatif", "--file", str(file), "--last", f"{seconds:.0f}s", "--format", "json"]
    ran = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *words, *change.split()],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"whatif {change}: {ran.stderr[-600:]}")
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def judged(cell: Cell, said: dict[str, Any]) -> Verdict:
    """A forecast beside its truth."""
    figures = []
    stated = "unsure"
    noise_ms = max(cell.before.noise_ms, cell.after.noise_ms)
    for one in said["predictions"]:
        truth = truth_of(cell, one["queue"].removeprefix("queue:/"), one["measure"])
        if one["measure"] == "confirm p99, ms":
            stated = one.get("trend") or trend_of(one["before"], one["after"])
        if truth is not None:
            figures.append(
                Figure(
                    one["queue"], one["measure"], one["low"], one["high"], truth,
                    bool(one.get("is_sure", True)), noise_ms if "ms" in one["measure"] else 0.0,
                )
            )  # fmt: skip
    return Verdict(
        cell.load,
        cell.change,
        tuple(figures),
        stated,
        cell.before.p99_ms,
        cell.after.p99_ms,
        noise_ms,
    )


def trend_of(before: float, after: float) -> str:
    """Of a forecast that states no direction: what its two figures say."""
    ratio = max(after, 0.1) / max(before, 0.1)
    if abs(after - before) <= SAME_MS or 1 / SAME <= ratio <= SAME:
        return "same"
    return "rises" if ratio > 1 else "falls"


def truth_of(cell: Cell, queue: str, measure: str) -> float | None:
    """The true value of a foretold figure, None where nothing outside can see it."""
    after = cell.after
    if measure == "confirm p50, ms":
        return after.p50_ms
    if measure == "confirm p99, ms":
        return after.p99_ms
    seen = after.queues.get(queue)
    if seen is None:
        return None
    if measure == "held time":
        return cell.held_time.get(f"queue:/{queue}", 0.0)
    return {"in": seen.in_per_s, "out": seen.out_per_s, "held": seen.held}.get(measure)


def report(verdicts: Sequence[Verdict]) -> bool:
    """Print every figure that was missed and the scores; whether the goals are met."""
    for one in verdicts:
        verdict = "" if one.stated == "unsure" else (": right" if one.is_right() else ": WRONG")
        missed = [figure for figure in one.figures if figure.is_sure and not figure.is_inside()]
        unsure = sum(not figure.is_sure for figure in one.figures)
        print(
            f"{one.load:<11} {one.change:<72} {len(one.figures) - len(missed) - unsure:>2} inside, "
            f"{len(missed)} outside, {unsure} unsure; p99 {one.before_ms:.0f} to "
            f"{one.after_ms:.0f} ms (noise {one.noise_ms:.0f}), said {one.stated}{verdict}"
        )
        for figure in missed:
            print(
                f"    {figure.queue:<14} {figure.measure:<16} {figure.low:.4g} .. "
                f"{figure.high:.4g}, was {figure.truth:.4g}"
            )
    figures = [figure for one in verdicts for figure in one.figures]
    sure = [figure for figure in figures if figure.is_sure]
    inside = sum(figure.is_inside() for figure in sure)
    unsure_inside = sum(figure.is_inside() for figure in figures if not figure.is_sure)
    stated = [one for one in verdicts if one.stated != "unsure"]
    right = sum(one.is_right() for one in stated)
    in_band = inside / max(1, len(sure))
    in_trend = right / max(1, len(stated))
    is_sure = len(sure) / max(1, len(figures))
    print(
        f"\nfigures in their band  {inside} of {len(sure)}: {in_band:.1%} (goal {BAND_GOAL:.0%})"
        f"\nsaid to be unsure      {len(figures) - len(sure)} of {len(figures)}, of these "
        f"{unsure_inside} in their band all the same"
        f"\ndirection of p99       {right} of {len(stated)} right: {in_trend:.1%} (goal "
        f"{TREND_GOAL:.0%}); {len(verdicts) - len(stated)} unsure"
    )
    return in_band >= BAND_GOAL and in_trend >= TREND_GOAL and is_sure >= SURE_GOAL


def kept_cells(folder: Path) -> tuple[float, list[Cell]]:
    """What an earlier run with --keep has left: its seconds and cells."""
    kept = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return float(kept["seconds"]), [
        Cell(
            row["load"], row["change"], row["record"], truth_from(row["before"]),
            truth_from(row["after"]), row["held_time"],
        )
        for row in kept["cells"]
    ]  # fmt: skip


def truth_from(row: dict[str, Any]) -> Truth:
    queues = {name: QueueTruth(**one) for name, one in row["queues"].items()}
    return Truth(
        row["seconds"], queues, row["p50_ms"], row["p99_ms"], row["confirms"], row["noise_ms"]
    )


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    names = [load.name for load in LOADS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(names), help=f"of: {', '.join(names)}")
    parser.add_argument("--python", default="", help="interpreter with Penstock installed")
    parser.add_argument("--seconds", type=int, default=20, help="of each measurement, 2..60")
    parser.add_argument("--settle", type=float, default=8.0, help="seconds before each of them")
    parser.add_argument("--keep", default="", help="folder for records and truths")
    parser.add_argument("--again", default="", help="such a folder: foretell anew, run nothing")
    parser.add_argument("--out", default="", help="JSON file for every figure")
    parser.add_argument("--seed", type=int, default=0, help="0 for the loads as written")
    parser.add_argument("--smoke", action="store_true", help="one load and change, briefly")
    parser.add_argument("--strict", action="store_true", help="a missed goal fails the run")
    options = parser.parse_args(words)
    options.loads = [name for name in options.only.split(",") if name]
    unknown = [name for name in options.loads if name not in names]
    if unknown:
        parser.error(f"unknown load '{unknown[0]}'; one of: {', '.join(names)}")
    if not 2 <= options.seconds <= 60 or options.settle < 0:
        parser.error("--seconds is 2..60, --settle not negative")
    return options


def run(options: argparse.Namespace, keep: Path) -> tuple[float, list[Cell]]:
    """Make the truths."""
    seconds, settle_s = float(options.seconds), float(options.settle)
    loads = [load for load in LOADS if load.name in options.loads]
    if options.smoke:
        seconds, settle_s, loads = 3.0, 1.0, loads[:1]
    if options.seed:
        dice = Random(options.seed)
        loads = [varied(load, dice) for load in loads]
        for load in loads:
            print(load)
    cells: list[Cell] = []
    witness = penstock_target(options.python).start()
    try:
        for load in loads:
            changes = load.changes[:1] if options.smoke else load.changes
            cells += record_load(load, changes, seconds, settle_s, options.python, keep, witness)
    finally:
        witness.stop()
    kept = {"seconds": seconds, "cells": [asdict(one) for one in cells]}
    (keep / "truth.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return seconds, cells


def main(words: Sequence[str]) -> int:
    options = parse_arguments(words)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.again or options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            seconds, cells = kept_cells(folder) if options.again else run(options, folder)
            cells = [one for one in cells if one.load in options.loads]
            verdicts = [
                judged(one, foretell(folder / one.record, one.change, seconds)) for one in cells
            ]
        except (OperatorError, RuntimeError, OSError) as error:
            print(f"whatif_truth: {error}", file=sys.stderr)
            return 1
    is_met = report(verdicts)
    if options.out:
        rows = [asdict(one) for one in verdicts]
        Path(options.out).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if is_met or not options.strict else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
