"""`penstock pipeline`: flow events of a broker to tables, and tables to a report."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import click

from penstock.spark.input.pipeline_input import FileInput, PipelineInput
from penstock.spark.input.stream_input import StreamInput, is_address
from penstock.spark.job.about import read_about, write_csv
from penstock.spark.job.pipeline import (
    PLAIN_ASKED,
    choose_engine,
    follow,
    open_updater,
    stored_tables,
)
from penstock.spark.job.pipeline import (
    report as make_report,
)
from penstock.spark.report.promises import MARKS
from penstock.spark.report.summary import Summary
from penstock.spark.schema.formats import require_input

RECOMMENDATIONS_SHOWN: Final = 5
NS_PER_S: Final = 1_000_000_000
_PATH: Final = click.Path(path_type=Path)


@click.group()
def pipeline() -> None:
    """What held whom, from the event files of `penstock serve --events DIR`, or live from the
    stream of `penstock serve --event-stream`."""


@pipeline.command()
@click.option(
    "--input",
    "place",
    required=True,
    help="Directory of event files, or amqp://USER:PASSWORD@HOST:PORT/VHOST of a broker that "
    "was started with --event-stream.",
)
@click.option("--tables", required=True, type=_PATH, help="Directory of the tables.")
@click.option("--master", default="", help="Where Spark runs: local[*], or the URL of a cluster.")
@click.option("--follow", "is_following", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--every",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0.5, 3600.0),
    help="Seconds between two rounds of --follow.",
)
@click.option(
    "--bucket",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.1, 3600.0),
    help="Seconds that times are summed over.",
)
@click.option("--no-spark", is_flag=True, help="Work in plain Python, in memory.")
def run(
    place: str, tables: Path, master: str, is_following: bool, every: float, bucket: float,
    no_spark: bool,
) -> None:  # fmt: skip
    """Bring the tables up to the input: only what is new is worked on, nothing is counted twice."""
    source_place = _input(place)
    # Spark's JVM ends with this process, but only if the session is closed on the way out.
    signal.signal(signal.SIGTERM, _stop)
    engine = PLAIN_ASKED if no_spark else choose_engine(master)
    if engine.java is None and master:
        click.echo(f"--master is not used: {engine.note}", err=True)
    if engine.java is not None:
        click.echo(f"start    Spark on {engine.note}; it takes some seconds")
    try:
        with open_updater(source_place, tables, engine, round(bucket * NS_PER_S)) as updater:
            if is_following:
                click.echo(f"follow   every {every:g} s until Ctrl-C; a line when something came")
                follow(updater, every, click.echo)
            source = updater.update().source
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
@click.option("--tables", required=True, type=_PATH, help="Directory of the tables.")
@click.option("--output", required=True, type=_PATH, help="Directory for index.html.")
@click.option(
    "--export",
    type=click.Choice(("csv", "parquet")),
    help="Write the gold tables there as well.",
)
def report(tables: Path, output: Path, export: str | None) -> None:
    """One page with charts and advice; its summary here. Exit status: 1 for a broken promise."""
    summary = make_report(tables, output)
    about = read_about(tables)
    assert about is not None, "a report was made of it"
    if export == "csv":
        write_csv(output / "tables", stored_tables(tables, about))
    elif export == "parquet":
        # Optional: an export as CSV does not need it.
        from penstock.spark.tables.loading import write_parquet

        write_parquet(output / "tables", stored_tables(tables, about))
    show(summary)
    click.echo(f"report   {output / 'index.html'}")
    sys.exit(0 if summary.is_kept else 1)


def show(summary: Summary) -> None:
    """The summary, for a terminal."""
    for promise in summary.promises:
        click.echo(f" {MARKS[promise.state]} {promise.name}: {promise.detail}")
    for sentence in summary.sentences:
        click.echo(f" · {sentence}")
    for number, one in enumerate(summary.recommendations[:RECOMMENDATIONS_SHOWN], 1):
        click.echo(f" {number}) {one.share:4.0%} {one.rule}: {one.scope}")
        click.echo(f"         {one.evidence}")
        click.echo(f"       → {one.advice}")


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
