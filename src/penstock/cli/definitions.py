"""`penstock definitions`: users, virtual hosts, rules, exchanges, queues and bindings as JSON."""

import sys
from pathlib import Path

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import CONTROL_REQUEST_BYTES
from penstock.cli.asking import THE_BROKER
from penstock.cli.record import write_private
from penstock.server.control.control_client import ask

PATIENCE_S = 120.0
NOTES_SHOWN = 50


@click.group()
def definitions() -> None:
    """Export or import users, virtual hosts, policies, limits, exchanges, queues and bindings, in
    the JSON form of RabbitMQ's definitions. Messages are not in it."""


@definitions.command()
@click.argument("file", default="-", type=click.Path(path_type=str))
@THE_BROKER
def export(file: str, path: str) -> None:
    """Write the definitions to FILE, or to standard output.

    FILE is replaced as a whole, readable by its owner alone: it holds password hashes.
    """
    answer = _ask(path, {"do": "export"})
    text = msgspec.json.format(msgspec.json.encode(answer["definitions"]), indent=2) + b"\n"
    if file == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    else:
        write_private(Path(file), text)
        click.echo(f"wrote {file}", err=True)
    _say_notes(answer["notes"])


@definitions.command("import")
@click.argument("file", type=click.Path(path_type=str))
@THE_BROKER
@click.option("--vhost", default="", help="Virtual host of rows that name none.")
def import_(file: str, path: str, vhost: str) -> None:
    """Add what FILE says, - for standard input: of RabbitMQ 3.8 to 4.x, or of Penstock.

    Everything is checked first: with one fault in it nothing is changed. What is there already
    stays as it is, and what FILE does not name stays too; users, policies and limits take their new
    values. What Penstock does not have is passed over and named.
    """
    found = _read(file)
    answer = _ask(path, {"do": "import", "definitions": found, "vhost": vhost})
    counts = answer["imported"]
    assert isinstance(counts, dict), "the broker answers so"
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    click.echo(f"imported {said or 'nothing: all of it was there'}")
    _say_notes(answer["notes"])


def _read(file: str) -> dict[str, object]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise OperatorError(f"cannot read {file}: {error.strerror or error}") from error
    if len(data) > CONTROL_REQUEST_BYTES.default - 1024:
        raise OperatorError(
            f"{file} has {len(data)} bytes, and {CONTROL_REQUEST_BYTES.default - 1024} may be sent "
            "at once (control_request_bytes); split it"
        )
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise OperatorError(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise OperatorError(f"{file} holds no JSON object, and definitions are one")
    return found


def _ask(path: str, question: dict[str, object]) -> dict[str, object]:
    return ask(path, {"op": "definitions", **question}, PATIENCE_S)


def _say_notes(notes: object) -> None:
    assert isinstance(notes, list), "the broker answers so"
    for note in notes[:NOTES_SHOWN]:
        click.echo(f" ! {note}", err=True)
    if len(notes) > NOTES_SHOWN:
        click.echo(f" ! and {len(notes) - NOTES_SHOWN} more", err=True)
