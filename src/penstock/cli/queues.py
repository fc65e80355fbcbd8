"""`penstock queues`: what is in the queues of a running broker, by which rules, and what they gave
up; pausing and resuming one, ending a group that reads one."""

from collections.abc import Sequence
from typing import Final

import click
import msgspec
from rich.console import Console

from penstock.cli.flow import asking, limited
from penstock.cli.queues_streams import (
    STREAM_COLUMNS,
    is_stream,
    policies,
    state_cell,
    stream_cells,
)
from penstock.cli.tables import Cell, Column, console, more, say, show, table
from penstock.server.control.control_client import ask, control_path
from penstock.server.control.questions_queues import SORTS
from penstock.telemetry.words import amount, size

FAINT = "dim"
OPTIONAL: Final = frozenset({"ON DISK", "RULES", "POLICIES", "DROPPED", "DEAD LETTERS", "GROUPS"})
QUEUE_COLUMNS: Final = (
    Column("QUEUE", is_name=True),
    Column("STATE"),
    Column("READY", is_number=True),
    Column("UNACKED", is_number=True),
    Column("BYTES", is_number=True),
    Column("ON DISK", is_number=True),
    Column("CONSUMERS", is_number=True),
    Column("IN/S", is_number=True),
    Column("OUT/S", is_number=True),
    Column("RULES", is_prose=True),
    Column("POLICIES", is_prose=True),
    Column("DROPPED", is_prose=True),
    Column("DEAD LETTERS", is_prose=True),
)


@click.group(invoke_without_command=True)
@click.pass_context
@asking
@limited
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option("--sort", type=click.Choice(SORTS), default=SORTS[0], show_default=True)
def queues(
    context: click.Context, port: int, control: str, form: str, limit: int, vhost: str, sort: str
) -> None:
    """List queues: what is ready and unanswered, rates, rules in force, and what was dropped.

    IN and OUT are messages a second over the last ten seconds; BYTES what ready and unanswered
    messages take in memory; ON DISK those of the ready ones whose bodies are not. DROPPED counts by
    reason since the queue was declared; DEAD LETTERS what of it went to the dead-letter exchange,
    what was lost on the way, and what waits. Streams have a table of their own: SIZE is on the
    disk, in so many SEGMENTS, LAG what the last of its readers has still to be given. Columns that
    nothing would stand in are left out. Exchanges that drop duplicates are named below, with how
    many they dropped.
    """
    if context.invoked_subcommand is not None:
        return
    answer = _ask(port, control, {"do": "list", "vhost": vhost, "sort": sort, "limit": limit})
    if form == "json":
        click.echo(msgspec.json.encode(answer).decode())
    else:
        _show_queues(answer)


@queues.command()
@click.argument("name")
@asking
def pause(name: str, port: int, control: str, form: str) -> None:
    """Give consumers of NAME nothing until it is resumed; publishes are taken as ever."""
    _say_paused(_ask(port, control, {"do": "pause", "name": name}), form)


@queues.command()
@click.argument("name")
@asking
def resume(name: str, port: int, control: str, form: str) -> None:
    """Let the consumers of NAME have its messages again."""
    _say_paused(_ask(port, control, {"do": "resume", "name": name}), form)


@queues.command()
@click.argument("name")
@click.argument("group")
@asking
def release(name: str, group: str, port: int, control: str, form: str) -> None:
    """End the reader group GROUP of NAME, for good.

    What it leases of a queue is ready again, in its old order, and its place is forgotten: a Spark
    query that still runs fails then. What it has not read of a stream waits for it no longer.
    """
    answer = _ask(port, control, {"do": "release", "name": name, "group": group})
    if form == "json":
        click.echo(msgspec.json.encode(answer).decode())
        return
    count = int(str(answer["given_back"]))
    back = f"; {amount(count)} message{'' if count == 1 else 's'} ready again" if count else ""
    say(console(), f"{answer['queue']}: group {answer['group']} has ended{back}")


def _ask(port: int, control: str, question: dict[str, object]) -> dict[str, object]:
    return ask(control or control_path(port), {"op": "queues", **question})


def _say_paused(answer: dict[str, object], form: str) -> None:
    if form == "json":
        click.echo(msgspec.json.encode(answer).decode())
        return
    now = "is paused" if answer["is_paused"] else "is running"
    as_before = "" if answer["is_paused"] != answer["was_paused"] else ", as it was"
    say(console(), f"{answer['queue']} {now}{as_before}")


def _show_queues(answer: dict[str, object]) -> None:
    rows, total = answer["queues"], answer["total"]
    assert isinstance(rows, list) and isinstance(total, int), "the broker answers so"
    screen = console()
    if not rows:
        say(screen, "no queues")
        _say_duplicates(screen, answer)
        return
    plain = [row for row in rows if not is_stream(row)]
    if plain:
        show(screen, table(*columns_used(QUEUE_COLUMNS, [_queue(row) for row in plain])))
    streams = [row for row in rows if is_stream(row)]
    if streams:
        show(screen, table(*columns_used(STREAM_COLUMNS, [stream_cells(row) for row in streams])))
    cut = more(total - len(rows), "queues")
    if cut:
        say(screen, cut, FAINT)
    _say_duplicates(screen, answer)


def _say_duplicates(screen: Console, answer: dict[str, object]) -> None:
    exchanges = answer["exchanges"]
    assert isinstance(exchanges, list), "the broker answers so"
    for row in exchanges:
        say(
            screen,
            f"exchange {row['name']}: {_count(row['duplicates'])} duplicates dropped; it knows "
            f"{_count(row['known'])} of at most {_count(row['known_max'])} values",
        )


def columns_used(
    columns: Sequence[Column], rows: list[list[Cell | str]]
) -> tuple[list[Column], list[list[Cell | str]]]:
    """Without those of OPTIONAL that no row has anything in: a terminal has little room."""
    used = [
        at
        for at, column in enumerate(columns)
        if column.title not in OPTIONAL or any(row[at] != "" for row in rows)
    ]
    return [columns[at] for at in used], [[row[at] for at in used] for row in rows]


def _on_disk(row: dict[str, object]) -> str:
    count = int(str(row.get("paged", 0)))
    return f"{amount(count)} ({size(int(str(row['paged_bytes'])))})" if count > 0 else ""


def _queue(row: dict[str, object]) -> list[Cell | str]:
    rules, drops, letters = row["rules"], row["drops"], row["dead_letters"]
    assert isinstance(rules, dict) and isinstance(drops, dict), "the broker answers so"
    assert isinstance(letters, dict), "the broker answers so"
    return [
        str(row["name"]),
        state_cell(row),
        _count(row["ready"]),
        _count(row["unacked"]),
        size(int(str(row["bytes"]))),
        _on_disk(row),
        str(row["consumers"]),
        amount(float(str(row["in_rate"]))),
        amount(float(str(row["out_rate"]))),
        ", ".join(f"{name} {text or '(default)'}" for name, text in rules.items()),
        policies(row),
        ", ".join(f"{name} {amount(count)}" for name, count in drops.items()),
        ", ".join(f"{name} {amount(count)}" for name, count in letters.items()),
    ]


def _count(value: object) -> str:
    return amount(int(str(value)))
