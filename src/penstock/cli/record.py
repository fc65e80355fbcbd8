"""`penstock record`: the flight recorder of a running broker: its state, and incident files."""

import time
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns
from penstock.cli.asking import FORM, placed, print_json
from penstock.server.control.control_client import ask
from penstock.server.disk.whole_file import write_whole
from penstock.telemetry.words import amount, duration, size

PATIENCE_S: Final = 120.0
POLL_S: Final = 0.05
NS_PER_S: Final = 1_000_000_000


@click.group()
def record() -> None:
    """The flight recorder: always on, bounded; save what it knows, and ask it later."""


@record.command()
@placed()
@FORM
def status(path: str, form: str) -> None:
    """How much the recorder holds, and what it has lost."""
    answer = ask(path, {"op": "record", "do": "status"})
    if form == "json":
        print_json(answer)
        return
    if answer["is_recording"]:
        click.echo(
            f"events     {amount(_number(answer, 'events_kept'))} of "
            f"{amount(_number(answer, 'events_max'))} kept, the oldest "
            f"{duration(_ns(answer, 'events_s'))} old; "
            f"{amount(_number(answer, 'events_dropped'))} older ones dropped"
        )
    else:
        click.echo("events     not recorded (recorder_events = 0)")
    if not answer["is_accounting"]:
        click.echo("time       not accounted (time_accounting = false): `why` knows nothing")
    click.echo(
        f"history    {duration(_ns(answer, 'history_s'))} of {amount(_number(answer, 'actors'))} "
        f"actors; {amount(_number(answer, 'rounds'))} rounds, "
        f"{amount(_number(answer, 'rounds_skipped'))} skipped, longest slice "
        f"{_number(answer, 'longest_slice_ms'):.1f} ms"
    )
    _show_incidents(answer, "incidents  ")


@record.command("list")
@placed()
@FORM
def list_(path: str, form: str) -> None:
    """Records that were kept by themselves: when an alarm rang, or many were throttled for long."""
    answer = ask(path, {"op": "record", "do": "list"})
    if form == "json":
        print_json(answer["incidents"])
        return
    _show_incidents(answer, "")


@record.command()
@click.option("-o", "--output", default="", help="File to write.  [default: penstock-TIME.pflow]")
@click.option("--last", default="10m", show_default=True, help="How far back, up to 10m.")
@click.option("--incident", default=None, type=int, help="A kept one, by its number in the list.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@placed()
def save(output: str, last: str, incident: int | None, force: bool, path: str) -> None:
    """Write an incident file: events, history, configuration; never a message, never a password.

    With several workers (serve --cores) each writes one, FILE-worker-0.pflow and so on."""
    now = datetime.now(UTC)
    file = Path(output or f"penstock-{now:%Y%m%d-%H%M%S}.pflow")
    _check_free(file, force)
    wish: dict[str, object] = {"op": "record", "do": "save"}
    if incident is None:
        wish["last_s"] = parse_duration_ns(last) / NS_PER_S
    else:
        wish["incident"] = incident
    answer = ask(path, wish)
    records: Any = answer.get("records", [])
    # Of a broker with several workers each has a record of its own.
    files = {_of_worker(file, one["worker"]): int(one["number"]) for one in records}
    for one, number in (files or {file: int(_number(answer, "number"))}).items():
        _check_free(one, force)
        data = fetch(path, number)
        write_private(one, data)
        click.echo(f"{one}: {size(len(data))}; look at it with: penstock replay {one}")


def _check_free(file: Path, force: bool) -> None:
    if file.exists() and not force:
        raise OperatorError(f"{file} is there already; choose another -o, or --force to replace it")


def _of_worker(file: Path, worker: int) -> Path:
    return file.with_name(f"{file.stem}-worker-{worker}{file.suffix}")


def fetch(place: str, number: int) -> bytes:
    """The record of this number, as soon as it is written. Raises: OperatorError."""
    data = b""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        wish: dict[str, object] = {
            "op": "record", "do": "part", "number": number, "offset": len(data)
        }  # fmt: skip
        answer = ask(place, wish)
        if answer["is_ready"]:
            data += b64decode(str(answer["data"]))
            if len(data) >= _number(answer, "bytes"):
                return data
        elif time.monotonic() > end_s:
            raise OperatorError(f"the broker has not written the record in {PATIENCE_S:g} s")
        else:
            time.sleep(POLL_S)


def write_private(path: Path, data: bytes) -> None:
    """Write `path` as a whole or not at all, for its owner alone. Raises: OperatorError."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise OperatorError(
            f"cannot write {path}: {error.strerror or error}; nothing was changed there"
        ) from error


@click.command()
@click.option(
    "--last",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    help="How many of the past to show.",
)
@click.option("--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@placed()
@FORM
def events(last: int, follow: bool, path: str, form: str) -> None:
    """What happened lately: gates, alarms, connections; one line each, times in UTC."""
    try:
        _show_events(path, last, follow, form)
    except KeyboardInterrupt:
        if not follow:
            raise


def _show_events(path: str, last: int, follow: bool, form: str) -> None:
    """An answer has 1,000 of them at most."""
    wish: dict[str, object] = {"op": "events", "last": last}
    left = last
    while True:
        answer = ask(path, wish)
        rows = answer["events"] if form == "json" else answer["lines"]
        assert isinstance(rows, list), "the broker answers with a list"
        for row in rows:
            click.echo(msgspec.json.encode(row).decode() if form == "json" else str(row))
        wish = {"op": "events", "since": answer["next"]}
        left -= len(rows)
        if not follow and (not rows or left <= 0):
            return
        if not rows:
            time.sleep(POLL_S * 5)


record.add_command(events)


def _show_incidents(answer: dict[str, object], title: str) -> None:
    rows = answer["incidents"]
    assert isinstance(rows, list), "the broker answers with a list"
    if not rows:
        click.echo(f"{title}none were kept")
    for row in rows:
        at = datetime.fromtimestamp(int(row["wall_ns"]) // NS_PER_S, UTC)
        held = "being written" if row["bytes"] is None else size(row["bytes"])
        click.echo(
            f"{title}{row['number']}  {at:%Y-%m-%d %H:%M:%S} UTC  {held}  {row['why']}   "
            f"(penstock record save --incident {row['number']})"
        )


def _number(answer: dict[str, object], key: str) -> float:
    value = answer[key]
    assert isinstance(value, int | float), "the broker answers with a number"
    return value


def _ns(answer: dict[str, object], key: str) -> int:
    return round(_number(answer, key) * NS_PER_S)
