"""`penstock queues`: what is in the queues of a running broker, by which rules, and what they gave
up; making and emptying them, looking into them, pausing, ending a group that reads one."""

from collections.abc import Callable, Sequence
from typing import Final

import click

from penstock.broker.admin.answers import (
    QUEUE_SORTS,
    GroupEnded,
    Paused,
    QueueListing,
    QueueRow,
    ReaderListing,
    ReaderRow,
)
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.messages import get, move, peek, publish
from penstock.cli.objects import (
    ARGUMENTS,
    OF_VHOST,
    WHERE,
    YES,
    arguments_of,
    find,
    new_place,
    place_of,
    show_row,
)
from penstock.cli.prompts import confirmed
from penstock.cli.tables import (
    RED,
    YELLOW,
    Cell,
    Column,
    Screen,
    columns,
    console,
    say,
    say_more,
    show,
    table,
)
from penstock.telemetry.words import amount, duration, size

ORDERS: Final[dict[str, Callable[[QueueRow], tuple[float, str]]]] = {
    "ready": lambda row: (-row.messages_ready, row.name),
    "bytes": lambda row: (-row.bytes, row.name),
    "rate": lambda row: (-row.in_rate, row.name),
}
STYLES: Final = {"full": RED, "deep": RED, "damaged": RED, "paused": YELLOW}
"""Of states, red where a queue takes nothing."""
OPTIONAL: Final = frozenset(
    {"UNCOMMITTED", "ON DISK", "RULES", "POLICIES", "DROPPED", "DEAD LETTERS", "GROUPS"}
)
QUEUE_COLUMNS: Final = columns(
    "QUEUE:name STATE READY:number UNACKED:number UNCOMMITTED:number:3 BYTES:number:6 "
    "ON_DISK:number:3 CONSUMERS:number:9 IN/S:number:8 OUT/S:number:8 RULES:prose:1 "
    "POLICIES:prose:2 DROPPED:prose:5 DEAD_LETTERS:prose:4"
)
STREAM_COLUMNS: Final = columns(
    "STREAM:name STATE OFFSETS:number SEGMENTS:number:3 SIZE:number CONSUMERS:number:6 LAG:number "
    "IN/S:number:8 OUT/S:number:7 RULES:prose:1 GROUPS:prose:4 POLICIES:prose:2"
)
READER_COLUMNS: Final = columns(
    "READER:name QUEUE:name KIND::1 LAG:number BYTES:number:2 BEHIND:number IN/S:number:4 "
    "OUT/S:number:5 HELD:number:3 STATE"
)
_COLUMNS_OF_THEIR_OWN: Final = frozenset({"queue-type", "offsets", "segments", "lag", "groups"})


@click.group(invoke_without_command=True)
@click.pass_context
@listing
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option("--sort", type=click.Choice(QUEUE_SORTS), default=QUEUE_SORTS[0], show_default=True)
def queues(
    context: click.Context, broker: RunningBroker, limit: int | None, vhost: str, sort: str
) -> None:
    """List queues: what is ready and unanswered, rates, rules in force, and what was dropped.

    IN and OUT are messages a second over the last ten seconds; UNCOMMITTED what a quorum queue has
    taken and gives out when it is safe; BYTES what these, ready and unanswered messages take in
    memory; ON DISK those of the ready ones whose bodies are not. DROPPED counts by
    reason since the queue was declared; DEAD LETTERS what of it went to the dead-letter exchange,
    what was lost on the way, and what waits. Streams have a table of their own: SIZE is on the
    disk, in so many SEGMENTS, LAG what the last of its readers has still to be given. Columns that
    nothing would stand in are left out. Exchanges that drop duplicates are named below, with how
    many they dropped.
    """
    if context.invoked_subcommand is None:
        _list(broker, limit, vhost, sort)


SORTED: Final = click.option(
    "--sort", type=click.Choice(QUEUE_SORTS), default=QUEUE_SORTS[0], show_default=True
)


@queues.command("list")
@OF_VHOST
@SORTED
@listing
def list_(broker: RunningBroker, limit: int | None, vhost: str, sort: str) -> None:
    """The same."""
    _list(broker, limit, vhost, sort)


def _list(broker: RunningBroker, limit: int | None, vhost: str, sort: str) -> None:
    request: dict[str, object] = {"op": "queues", "do": "list", "vhost": vhost, "sort": sort}
    listed = Listed({"queues": QueueRow}, ORDERS.get(sort))
    broker.show_all(request, QueueListing, _show_queues, listed, limit)


@queues.command("show")
@click.argument("name")
@WHERE
@asking
def show_(name: str, vhost: str, broker: RunningBroker) -> None:
    """Everything about the queue NAME, /orders or tenant/orders as listings have it."""
    vhost, bare = place_of(broker, name, vhost)
    missing = f"no queue '{name}'; `penstock queues` lists them"
    show_row(broker, find(broker, "queues", missing, vhost=vhost, name=bare))


@queues.command()
@click.argument("name")
@click.option("--type", "kind", default="", help="classic, quorum or stream.")
@click.option("--durable/--transient", default=True, show_default=True, help="Survives a restart.")
@click.option("--auto-delete", is_flag=True, help="Goes with the last of its consumers.")
@ARGUMENTS
@WHERE
@asking
def declare(
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Make the queue NAME; an equal one that is there already is as good.

    penstock queues declare orders -a x-max-length=100000
    """
    vhost, bare = new_place(broker, name, vhost)
    broker.change(
        {
            "op": "queues",
            "do": "declare",
            "vhost": vhost,
            "name": bare,
            "type": kind,
            "durable": durable,
            "auto_delete": auto_delete,
            "arguments": arguments_of(arguments),
        }
    )


@queues.command()
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only without consumers.")
@click.option("--if-empty", is_flag=True, help="Only without messages.")
@YES
@WHERE
@asking
def delete(
    name: str, if_unused: bool, if_empty: bool, yes: bool, vhost: str, broker: RunningBroker
) -> None:
    """Delete the queue NAME with its messages."""
    vhost, bare = place_of(broker, name, vhost)
    confirmed(f"Delete queue '{bare}' in vhost '{vhost}' with its messages?", yes)
    question = {"op": "queues", "do": "delete", "vhost": vhost, "name": bare}
    broker.change(question | {"if_unused": if_unused, "if_empty": if_empty})


@queues.command()
@click.argument("name")
@YES
@WHERE
@asking
def purge(name: str, yes: bool, vhost: str, broker: RunningBroker) -> None:
    """Throw the ready messages of NAME away; what consumers have stays theirs."""
    vhost, bare = place_of(broker, name, vhost)
    confirmed(f"Throw the messages of queue '{bare}' in vhost '{vhost}' away?", yes)
    broker.change({"op": "queues", "do": "purge", "vhost": vhost, "name": bare})


for command in (get, move, peek, publish):
    queues.add_command(command)


@queues.command()
@click.argument("name")
@asking
def pause(name: str, broker: RunningBroker) -> None:
    """Give consumers of NAME nothing until it is resumed; publishes are taken as ever."""
    broker.show({"op": "queues", "do": "pause", "name": name}, Paused, _say_paused)


@queues.command()
@click.argument("name")
@asking
def resume(name: str, broker: RunningBroker) -> None:
    """Let the consumers of NAME have its messages again."""
    broker.show({"op": "queues", "do": "resume", "name": name}, Paused, _say_paused)


@queues.command()
@click.argument("name")
@click.argument("group")
@asking
def release(name: str, group: str, broker: RunningBroker) -> None:
    """End the reader group GROUP of NAME, for good.

    What it leases of a queue is ready again, in its old order, and its place is forgotten: a Spark
    query that still runs fails then. What it has not read of a stream waits for it no longer.
    """
    request: dict[str, object] = {"op": "queues", "do": "release", "name": name, "group": group}
    broker.show(request, GroupEnded, _say_ended)


@queues.command()
@click.option("--vhost", default="", help="Only this virtual host.")
@listing
def readers(broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """List who leases messages of queues or reads streams as a group: Spark queries, by name.

    LAG and BYTES are what came and is not done with, BEHIND how long the first of it has been
    there. IN/S is what comes into the queue, OUT/S what the reader is done with, over ten seconds.
    HELD is how long publishers were held because of it, since the queue is there; of a leased queue
    because of all of its consumers. Who is furthest behind comes first.
    """
    request: dict[str, object] = {"op": "queues", "do": "readers", "vhost": vhost}
    listed = Listed({"readers": ReaderRow}, _lag)
    broker.show_all(request, ReaderListing, _show_readers, listed, limit)


def _lag(row: ReaderRow) -> tuple[float, float, str, str]:
    return -row.lag_seconds, -row.lag_messages, row.queue, row.group


def _show_readers(answer: ReaderListing) -> None:
    screen = console()
    if not answer.readers:
        say(screen, "no readers that keep their place with the broker")
        return
    show(screen, table(READER_COLUMNS, [_reader(row) for row in answer.readers]))
    say_more(screen, len(answer.readers), answer.total, "readers")


def _reader(row: ReaderRow) -> list[Cell | str]:
    behind = duration(round(row.lag_seconds * 1e9)) if row.lag_messages > 0 else ""
    held = duration(round(row.held_seconds * 1e9)) if row.held_seconds > 0 else ""
    return [
        row.query or f"group {row.group}",
        row.queue,
        row.kind,
        amount(row.lag_messages),
        size(row.lag_bytes),
        f"> {behind}" if row.lag_is_longer and behind else behind,
        amount(row.in_rate),
        amount(row.out_rate),
        held,
        Cell("holds publishers", RED) if row.is_holding else "",
    ]


def _say_ended(answer: GroupEnded) -> None:
    count = answer.given_back
    back = f"; {amount(count)} message{'' if count == 1 else 's'} ready again" if count else ""
    say(console(), f"{answer.queue}: group {answer.group} has ended{back}")


def _say_paused(answer: Paused) -> None:
    now = "is paused" if answer.is_paused else "is running"
    as_before = "" if answer.is_paused != answer.was_paused else ", as it was"
    say(console(), f"{answer.queue} {now}{as_before}")


def _show_queues(answer: QueueListing) -> None:
    rows = answer.queues
    screen = console()
    if not rows:
        say(screen, "no queues")
        _say_duplicates(screen, answer)
        return
    plain = [row for row in rows if not _is_stream(row)]
    if plain:
        show(screen, table(*columns_used(QUEUE_COLUMNS, [_queue(row) for row in plain])))
    streams = [row for row in rows if _is_stream(row)]
    if streams:
        show(screen, table(*columns_used(STREAM_COLUMNS, [stream_cells(row) for row in streams])))
    say_more(screen, len(rows), answer.total, "queues")
    _say_duplicates(screen, answer)


def _say_duplicates(screen: Screen, answer: QueueListing) -> None:
    for row in answer.exchanges:
        say(
            screen,
            f"exchange {row.name}: {amount(row.duplicates)} duplicates dropped; it knows "
            f"{amount(row.known)} of at most {amount(row.known_max)} values",
        )


def columns_used(
    every: Sequence[Column], rows: list[list[Cell | str]]
) -> tuple[list[Column], list[list[Cell | str]]]:
    """Without those of OPTIONAL that no row has anything in: a terminal has little room."""
    used = [
        at
        for at, column in enumerate(every)
        if column.title not in OPTIONAL or any(row[at] != "" for row in rows)
    ]
    return [every[at] for at in used], [[row[at] for at in used] for row in rows]


def _is_stream(row: QueueRow) -> bool:
    """Whether the row is a stream that has its log."""
    return "offsets" in row.rules


def _queue(row: QueueRow) -> list[Cell | str]:
    paged = row.messages_paged_out
    return [
        row.name,
        Cell(row.state, STYLES.get(row.state, "")),
        amount(row.messages_ready),
        amount(row.messages_unacknowledged),
        amount(row.messages_uncommitted) if row.messages_uncommitted > 0 else "",
        size(row.bytes),
        f"{amount(paged)} ({size(row.message_bytes_paged_out)})" if paged > 0 else "",
        str(row.consumers),
        amount(row.in_rate),
        amount(row.out_rate),
        ", ".join(f"{name} {text or '(default)'}" for name, text in row.rules.items()),
        _policies(row),
        ", ".join(f"{name} {amount(count)}" for name, count in row.drops.items()),
        ", ".join(f"{name} {amount(count)}" for name, count in row.dead_letters.items()),
    ]


def stream_cells(row: QueueRow) -> list[Cell | str]:
    """The row of a stream, for STREAM_COLUMNS."""
    rules = row.rules
    segments, _, with_bytes = rules["segments"].partition(" with ")
    return [
        row.name,
        Cell(row.state, STYLES.get(row.state, "")),
        rules["offsets"],
        segments,
        size(int(with_bytes.partition(" ")[0])),
        str(row.consumers),
        rules.get("lag", ""),
        amount(row.in_rate),
        amount(row.out_rate),
        ", ".join(
            f"{name} {size(int(text)) if name == 'max-length-bytes' else text}"
            for name, text in rules.items()
            if name not in _COLUMNS_OF_THEIR_OWN
        ),
        rules.get("groups", ""),
        _policies(row),
    ]


def _policies(row: QueueRow) -> str:
    return ", ".join(name for name in (row.policy, row.operator_policy) if name)
