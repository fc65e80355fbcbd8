"""`penstock replay FILE`: asks a saved flight record what a running broker would have answered."""

import shutil
import sys
from pathlib import Path
from typing import Final

import click

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns
from penstock.cli.asking import FORM, print_json
from penstock.cli.numbers import WINDOW
from penstock.explain.asking import Question, ask_why
from penstock.explain.kinds import WHY_KINDS
from penstock.explain.naming import Names
from penstock.explain.render import event_line
from penstock.explain.summary import summary, whole_windows
from penstock.telemetry.record_file import FlightRecord, decode_packed

NS_PER_S: Final = 1_000_000_000


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("what", type=click.Choice(("summary", "why", "events")), default="summary")
@click.argument("kind", type=click.Choice(WHY_KINDS), default="publish")
@click.argument("name", default="")
@click.option(
    "--window", default=10.0, show_default=True, type=WINDOW, help="Look at this many seconds."
)
@click.option("--ago", default="0s", show_default=True, help="End so long before the record's end.")
@FORM
def replay(file: Path, what: str, kind: str, name: str, window: float, ago: str, form: str) -> None:
    """Look at a flight record offline: a summary, `why KIND NAME`, or its `events`.

    Exit status of why: 0 fine, 2 nobody of that name, 3 throttled.
    """
    record = read_record(file)
    if what == "why":
        ago_s = parse_duration_ns(ago) / NS_PER_S
        answer = ask_why(record.history, Question(kind, name, window, ago_s))
        if form == "json":
            print_json(answer.explanation)
        else:
            click.echo(answer.text)
        sys.exit(answer.exit_status)
    if what == "events":
        names = Names(whole_windows(record))
        for event in record.events:
            if form == "json":
                print_json(event.plain())
            else:
                click.echo(event_line(event, record.wall_at(event.t_ns), names))
        return
    if form == "json":
        head = record.header
        plain = {key: getattr(head, key) for key in head.__slots__}
        plain["events"] = len(record.events)
        print_json(plain)
        return
    click.echo(f"{file}\n{summary(record, shutil.get_terminal_size((100, 24)).columns)}")


def read_record(path: Path) -> FlightRecord:
    """The record in this file. Raises: OperatorError naming the file and what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}") from error
    try:
        return decode_packed(data)
    except OperatorError as error:
        raise OperatorError(f"{path}: {error}") from error
