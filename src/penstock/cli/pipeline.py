"""`penstock pipeline`: flow events of a broker to tables, and tables to a report."""

import signal
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.base.errors import OperatorError
from penstock.base.printable import printable
from penstock.base.quantities import parse_duration_ns
from penstock.cli.numbers import NumberRange
from penstock.cli.progress import Bar
from penstock.spark.input.pipeline_input import FileInput, PipelineInput, as_inputs
from penstock.spark.input.stream_input import StreamInput, is_address
from penstock.spark.job.backlog import Seen
from penstock.spark.job.pipeline import open_updater, spark_java
from penstock.spark.job.pipeline import report as make_report
from penstock.spark.report.promises import MARKS
from penstock.spark.report.summary import Summary
from penstock.spark.schema.formats import require_input

if TYPE_CHECKING:
    from penstock.spark.tables.upkeep import Done

DAY_NS: Final = 86_400_000_000_000
RECOMMENDATIONS_SHOWN: Final = 5
NS_PER_S: Final = 1_000_000_000
_PATH: Final = click.Path(path_type=Path)
_TABLES: Final = click.option(
    "--tables", required=True, type=_PATH, help="Directory of the tables."
)
_DRY_RUN: Final = click.option(
    "--dry-run", "is_dry", is_flag=True, help="Only say what would be done."
)


class Age(click.ParamType[int]):
    """A duration as nanoseconds, a day at least: tables are kept by whole days."""

    name = "age"

    def convert(self, value: Any, param: object, ctx: object) -> int:
        """Raises: OperatorError."""
        age_ns = parse_duration_ns(str(value))
        if age_ns < DAY_NS:
            raise OperatorError(f"{value} is less than 1d, and tables are kept by whole days")
        return age_ns


_AGE: Final = Age()


@click.group()
def pipeline() -> None:
    """What held whom, from the event files of `penstock serve --events DIR`, or live from the
    stream of `penstock serve --event-stream`."""


@pipeline.command()
@click.option(
    "--input",
    "places",
    required=True,
    multiple=True,
    help="Directory of event files, or amqp://USER:PASSWORD@HOST:PORT/VHOST of a broker that "
    "was started with --event-stream; again for each broker more.",
)
@_TABLES
@click.option("--master", default="", help="Where Spark runs: local[*], or the URL of a cluster.")
@click.option("--follow", "is_following", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--every",
    default=10.0,
    show_default=True,
    type=NumberRange(0.5, 3600.0),
    help="Seconds between two rounds of --follow.",
)
@click.option(
    "--bucket",
    default=1.0,
    show_default=True,
    type=NumberRange(0.1, 3600.0),
    help="Seconds that times are summed over.",
)
@click.option("--keep", type=_AGE, help="Of the tables, while it runs: 30d. See `expire`.")
@click.option("--keep-bronze", type=_AGE, help="Of events and traces, if it is another: 7d.")
def run(
    places: tuple[str, ...], tables: Path, master: str, is_following: bool, every: float,
    bucket: float, keep: int | None, keep_bronze: int | None,
) -> None:  # fmt: skip
    """Bring the tables up to the inputs: only what is new is worked on, nothing counts twice."""
    inputs = as_inputs([_input(place) for place in places])
    # Spark's JVM ends with this process, but only if the session is closed on the way out.
    signal.signal(signal.SIGTERM, _stop)
    java = spark_java()
    click.echo(f"start    Spark on Java {java.version} ({java.source}); it takes some seconds")
    width_ns = round(bucket * NS_PER_S)
    try:
        with (
            nullcontext() if is_following else Bar("events", "starting Spark") as bar,
            open_updater(inputs, tables, java, width_ns, master) as updater,
        ):
            updater.keep(keep, keep if keep_bronze is None else keep_bronze)
            if bar is None:
                click.echo(f"follow   every {every:g} s until Ctrl-C; a line when something came")
                updater.follow(every, _say)
                return

            def seen(now: Seen) -> None:
                bar.show(now.share, now.events, note=now.step)

            source = updater.update(seen).source
    except KeyboardInterrupt:
        click.echo("stopped; the tables are whole, and the next run goes on from here", err=True)
        return
    click.echo(f"engine   {source.engine_note}")
    click.echo(
        f"tables   {tables}: {source.event_count:,} events, {source.trace_count:,} trace lines, "
        f"{source.events_missing:,} events missing, {source.unreadable_lines:,} lines unreadable"
    )
    click.echo(f"next     penstock pipeline report --tables {tables} --output REPORT_DIR")


@pipeline.command()
@_TABLES
@_DRY_RUN
def compact(tables: Path, is_dry: bool) -> None:
    """Put small files of a day together, and remove from the disk what no version of a table has
    needed for an hour. A run that follows may go on meanwhile."""
    # Optional: an installation without the extra has a broker all the same.
    from penstock.spark.tables import upkeep

    store = upkeep.tables_to_keep(tables, "compact")
    _tell("compact", upkeep.compact(store, is_dry), is_dry)
    _tell("vacuum", upkeep.vacuum(store, is_dry), is_dry)


@pipeline.command()
@_TABLES
@click.option(
    "--older-than", required=True, type=_AGE, help="Age of what goes, in whole days: 30d, 720h."
)
@click.option("--bronze", type=_AGE, help="Age of events and traces that go, if it is another.")
@_DRY_RUN
def expire(tables: Path, older_than: int, bronze: int | None, is_dry: bool) -> None:
    """Remove what is older than that, day by day (UTC), but what is still open: holds and alarms of
    brokers that are there. A run that follows may go on meanwhile."""
    # Optional, as above.
    from penstock.spark.tables import upkeep

    store = upkeep.tables_to_keep(tables, "expire")
    ages = (older_than, older_than if bronze is None else bronze)
    _tell("expire", upkeep.expire(store, *ages, time.time_ns(), is_dry), is_dry)
    _tell("vacuum", upkeep.vacuum(store, is_dry), is_dry)


def _tell(what: str, done: Iterable["Done"], is_dry: bool) -> None:
    """A line a table."""
    count = 0
    for one in done:
        count += 1
        days = f", {one.days[0]} to {one.days[-1]}" if one.days else ""
        rows = f", {one.rows:,} rows" if one.rows else ""
        would = "would " if is_dry else ""
        size = f"{one.bytes / 1e6:,.1f} MB"
        click.echo(f"{would}{what:8} {one.table}: {one.files:,} files, {size}{rows}{days}")
    if not count:
        click.echo(f"{what:8} nothing to do")


@pipeline.command()
@_TABLES
@click.option("--output", required=True, type=_PATH, help="Directory for index.html.")
@click.option(
    "--export",
    type=click.Choice(("csv", "parquet")),
    help="Write the gold tables there as well.",
)
def report(tables: Path, output: Path, export: str | None) -> None:
    """One page with charts and advice; its summary here. Exit status: 1 for a broken promise."""
    summary = make_report(tables, output, export or "")
    show(summary)
    click.echo(f"report   {output / 'index.html'}")
    sys.exit(0 if summary.is_kept else 1)


def show(summary: Summary) -> None:
    """The summary, for a terminal."""
    for promise in summary.promises:
        _say(f" {MARKS[promise.state]} {promise.name}: {promise.detail}")
    for sentence in summary.sentences:
        _say(f" · {sentence}")
    for number, one in enumerate(summary.recommendations[:RECOMMENDATIONS_SHOWN], 1):
        _say(f" {number}) {one.share:4.0%} {one.rule}: {one.scope}")
        _say(f"         {one.evidence}")
        _say(f"       → {one.advice}")


def _say(line: str) -> None:
    """With names in it that clients have given."""
    click.echo(printable(line))


def _input(place: str) -> PipelineInput:
    """Raises: OperatorError when there is nothing to read."""
    if is_address(place):
        stream = StreamInput(place)
        stream.check()
        click.echo(f"input    {stream}")
        return stream
    require_input(Path(place))
    return FileInput(Path(place))


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
