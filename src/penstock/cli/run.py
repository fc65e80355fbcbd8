"""`penstock run`: the whole job once; the work is in penstock.demo."""

import sys
from pathlib import Path
from typing import Any

import click

from penstock.cli.numbers import NumberRange
from penstock.demo.greeting import first_line


@click.command()
@click.option("--port", default=0, show_default=True, help="Port of the broker, 0 for a free one.")
@click.option(
    "--duration",
    "duration_scale",
    default=1.0,
    show_default=True,
    type=NumberRange(0.1, 10.0),
    help="Factor on the length of every phase.",
)
@click.option("--keep-events", is_flag=True, help="Keep event and trace files beside the report.")
@click.option(
    "--report",
    "report_dir",
    default="penstock-report",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Directory of the report.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of the message bodies.")
def run(**options: Any) -> None:
    """Start a broker, drive it with real clients, analyse with Spark, write a report.

    Without Spark, or a Java, the clients' messages are checked all the same; there is no report.

    Exit status: 0 every promise was kept, 1 one was broken, 2 it could not run.
    """
    click.echo(first_line())
    # Imported here: it takes a second, and the line above is to be there at once.
    from penstock.demo.main import RunOptions
    from penstock.demo.main import run as run_demo

    sys.exit(run_demo(RunOptions(**options)))
