"""What `penstock sweep` does, apart from its options, so that help need not load it."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_bytes
from penstock.cli.folders import make_folder, told_where
from penstock.cli.interrupts import ended_as_by_hand
from penstock.cli.progress import Bar
from penstock.sweep.choices import BOTH, ENGINES, FLUID
from penstock.sweep.front import ratios, summaries
from penstock.sweep.grid import Grid, points_of
from penstock.sweep.plots import write_plots
from penstock.sweep.point import Point, Row, key_of
from penstock.sweep.run import run_point
from penstock.sweep.show import bands, show_all
from penstock.sweep.tables import RowTable

ROWS_PER_PART: Final = 16
PART_S: Final = 5.0
"""Without Spark rows are kept when there are so many, or after so long: what a kill costs."""
SEEDS_MAX: Final = 1000
DIGITS_MAX: Final = 18
"""Of a number in the table, whose columns have 64 bits."""


def run_sweep(
    workloads: str, profiles: str, credit: str, depth: str, memory_high: str, load: str,
    connections: str, seeds: str, seconds: float | None, engine: str, out: Path, table: str,
    no_spark: bool, master: str, no_plots: bool, dry_run: bool, form: str,
) -> None:  # fmt: skip
    """What the command does; its words are those of the options. Raises: OperatorError."""
    if no_spark and master:
        raise OperatorError("--master is for Spark, and --no-spark says to run without; give one")
    grid = Grid(
        named(workloads, "--workloads"),
        named(profiles, "--profiles"),
        ENGINES if engine == BOTH else (engine,),
        tuple(whole(one, "--connections") for one in named(connections, "--connections")),
        tuple(real(one, "--load") for one in named(load, "--load")),
        parts(credit) or ("",),
        tuple(parse_bytes(one) for one in parts(depth)) or (0,),
        tuple(parse_bytes(one) for one in parts(memory_high)) or (0,),
        seeds_of(seeds),
        seconds or 0.0,
    )
    if FLUID in grid.engines and find_spec("numpy") is None:
        raise OperatorError("the fluid model needs numpy: pip install 'penstock-mq[spark]'")
    points = points_of(grid)
    kept = RowTable(out, table)
    before = {key_of(row) for row in kept.rows()}
    left = [point for point in points if point.key() not in before]
    click.echo(
        f"{len(points)} points, {len(points) - len(left)} of them in {kept.folder} ({kept.kind})",
        err=True,
    )
    if dry_run:
        return
    make_folder(out, "--out")
    # Spark's files are only removed, and its JVM is only ended in order, on the way out.
    with ended_as_by_hand():
        failed = run_all(left, kept, no_spark, master)
    there = {key_of(row): row for row in kept.rows()}
    rows = [there[point.key()] for point in points if point.key() in there] + failed
    finish(rows, out, form, no_plots)
    if failed:
        raise OperatorError(
            f"{len(failed)} points went wrong and are run again next time; the first: "
            f"{failed[0]['error']}"
        )


def run_all(points: Sequence[Point], kept: RowTable, no_spark: bool, master: str = "") -> list[Row]:
    """Run `points` and keep their rows as they come; returns those that went wrong."""
    failed: list[Row] = []
    done = 0
    if not points:
        return failed
    with Bar("points", "starting" if no_spark else "starting Spark") as bar:

        def seen(done: int) -> None:
            bar.show(done / len(points), done, f"{done:,}/{len(points):,}")

        with rounds_of(points, no_spark, master, seen) as rounds:
            seen(0)
            for rows in rounds:
                kept.append(rows)
                failed += [row for row in rows if row["error"]]
                done += len(rows)
                seen(done)
    return failed


@contextmanager
def rounds_of(
    points: Sequence[Point], no_spark: bool, master: str, seen: Callable[[int], None]
) -> Iterator[Iterator[list[Row]]]:
    """The rows of `points`, some at a time. master: of Spark, "" for two cores of this machine;
    seen: told how many are done. Raises: OperatorError when Spark cannot start."""
    if no_spark:
        yield run_here(points, seen)
        return
    if find_spec("pyspark") is None:
        raise OperatorError(
            "PySpark is not installed: pip install 'penstock-mq[spark]', or add --no-spark"
        )
    from penstock.spark.java import find_java
    from penstock.spark.session.session import open_session
    from penstock.spark.sweep import run_in_spark

    with open_session(find_java(), master, has_python_tasks=True) as session:
        yield run_in_spark(session, points, seen)


def run_here(points: Sequence[Point], seen: Callable[[int], None]) -> Iterator[list[Row]]:
    """One point after the other, in this process."""
    rows: list[Row] = []
    since_s = time.monotonic()
    for done, point in enumerate(points):
        seen(done)
        rows.append(run_point(point))
        if len(rows) >= ROWS_PER_PART or time.monotonic() - since_s > PART_S:
            yield rows
            rows, since_s = [], time.monotonic()
    if rows:
        yield rows


def finish(rows: Sequence[Row], out: Path, form: str, no_plots: bool) -> None:
    """Tables, or JSON, and plots of what was asked for."""
    found = summaries(rows)
    if form == "json":
        click.echo(json.dumps({"rows": list(rows)}))
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        show_all(console, found, ratios(found), bands(rows))
    if not no_plots:
        try:
            with told_where(out):
                paths = write_plots(out, found)
        except OperatorError as error:
            click.echo(f"! {error}", err=True)
            return
        names = ", ".join(path.name for path in paths if path.suffix == ".svg")
        click.echo(f"plots: {names} in {out}{os.sep}, and each as .png", err=True)


def parts(text: str) -> tuple[str, ...]:
    """What stands between commas, each once."""
    return tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))


def named(text: str, option: str) -> tuple[str, ...]:
    """The same, one at least. Raises: OperatorError."""
    found = parts(text)
    if not found:
        raise OperatorError(f"{option} names none")
    return found


def whole(text: str, option: str) -> int:
    """A whole number, as large as the table holds. Raises: OperatorError."""
    if not text.isdecimal():
        raise OperatorError(f"{option} '{text}' is not a whole number")
    if len(text) > DIGITS_MAX:
        raise OperatorError(f"{option} '{text[:DIGITS_MAX]}…' is more than there can be")
    return int(text)


def real(text: str, option: str) -> float:
    """A number. Raises: OperatorError."""
    try:
        return float(text)
    except ValueError:
        raise OperatorError(f"{option} '{text}' is not a number") from None


def seeds_of(text: str) -> tuple[int, ...]:
    """`1-5,9` as numbers. Raises: OperatorError for none, or for more than SEEDS_MAX."""
    found: list[int] = []
    for part in named(text, "--seeds"):
        first, dash, last = part.partition("-")
        if dash and not (first and last):
            raise OperatorError(f"--seeds '{part}': write FIRST-LAST, from 0 on")
        low = whole(first, "--seeds")
        high = whole(last, "--seeds") if dash else low
        if not low <= high < low + SEEDS_MAX:
            raise OperatorError(f"--seeds '{part}': write FIRST-LAST, {SEEDS_MAX} at most")
        found += range(low, high + 1)
    return tuple(dict.fromkeys(found))
