"""`penstock flow`: what moves, what waits and what may be changed in a running broker."""

import sys
from typing import Final

import click

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns
from penstock.broker.admin.answers import (
    AccountRow,
    Accounts,
    AlarmsAnswer,
    CauseRow,
    Changes,
    QueueCauses,
    SettingRows,
)
from penstock.broker.admin.answers_flow import EDGE_SORTS, TOP_SORTS, EdgeRow, Edges, rank
from penstock.cli.asking import TABLE, Listed, RunningBroker, asking, listing
from penstock.cli.flow_settings import show_alarms, show_changes, show_settings
from penstock.cli.flow_top import TopOptions, run_top
from penstock.cli.numbers import NumberRange
from penstock.cli.tables import FAINT, RED, Cell, columns, console, say, say_more, show, table
from penstock.telemetry.words import amount, duration, percent, size

FLOW: Final[dict[str, object]] = {"op": "flow"}
HELD: Final = 3
"""Exit status of a listing in which something is held."""


@click.group()
def flow() -> None:
    """What moves, what waits, and what may be changed while the broker runs."""


@flow.command()
@listing
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option("--blocked", is_flag=True, help="Only hops over which nothing may be handed now.")
@click.option("--sort", type=click.Choice(EDGE_SORTS), default="blocked", show_default=True)
def edges(broker: RunningBroker, limit: int | None, vhost: str, blocked: bool, sort: str) -> None:
    """List the hops: who hands to whom, what is left of the window, who waits, and since when.

    LEFT is what the sender may still hand over, of its window in messages; IN FLIGHT what the
    receiver has not finished; KEPT is credit it withholds because it is held itself. ROOM is what
    is free of the receiver's depth mark, shown where a queue is near it. HELD is the time the hop
    was closed in all.

    Exit status: 0 nothing is blocked, 3 some hop is.
    """
    request = {"do": "edges", "vhost": vhost, "blocked": blocked, "sort": sort}

    def place(row: EdgeRow) -> tuple[tuple[int, int], str, str]:
        return rank(row, sort), row.sender, row.receiver

    listed = Listed({"edges": EdgeRow}, place)
    answer = broker.show_all(FLOW | request, Edges, show_edges, listed, limit)
    sys.exit(HELD if answer.blocked else 0)


@flow.command()
@listing
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option(
    "--of",
    "of",
    nargs=2,
    metavar="queue NAME",
    default=None,
    help="Who caused what rests in this queue.",
)
def accounts(
    broker: RunningBroker, limit: int | None, vhost: str, of: tuple[str, str] | None
) -> None:
    """Show the ledger: who has how much work outstanding, and whose messages rest in queues.

    DEBT is work under way (mailboxes, bytes that wait for sockets), STORED what rests in queues,
    both of everything this account has caused. Above its limit in debt an account is held.
    KEPT is what lies in streams because reader groups have not passed it yet. PENDING is what
    quorum and mirrored queues were sent and is not safe yet; with too much of it one is held, too.

    Exit status: 0 nobody is held, 3 somebody is.
    """
    if of is not None:
        if of[0] != "queue":
            raise click.UsageError(f"--of {of[0]}: only `--of queue NAME` is known")
        causes = {"do": "accounts", "queue": of[1]}
        listed = Listed({"rows": CauseRow}, lambda row: (-row.bytes, row.account))
        broker.show_all(FLOW | causes, QueueCauses, show_causes, listed, limit)
        return
    request = {"do": "accounts", "vhost": vhost}
    listed = Listed({"accounts": AccountRow})
    answer = broker.show_all(FLOW | request, Accounts, show_accounts, listed, limit)
    is_held = any(row.is_held or row.held_by or row.pending_by for row in answer.accounts)
    sys.exit(HELD if is_held else 0)


@flow.command()
@asking
def alarms(broker: RunningBroker) -> None:
    """Show the memory and disk alarms: levels, limits, and whom they stop.

    Exit status: 0 no alarm is set, 3 one is.
    """
    answer = broker.show(FLOW | {"do": "alarms"}, AlarmsAnswer, show_alarms)
    sys.exit(HELD if any(row.is_set for row in answer.alarms) else 0)


@flow.command("set")
@asking
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--for", "lasting", default="", help="Take it back after 30s, 10m, 90m ...")
def set_(broker: RunningBroker, changes: tuple[str, ...], lasting: str) -> None:
    """List the settings, or change some of them at once: all that are given, or none.

    A change is recorded and logged, and lasts until the broker stops or --for is over.

    Exit status: 0 done, 2 refused; nothing has changed then.
    """
    if not changes:
        if lasting:
            raise click.UsageError("--for needs something to set: KEY=VALUE")
        broker.show(FLOW | {"do": "settings"}, SettingRows, show_settings)
        return
    if lasting and parse_duration_ns(lasting) == 0:
        raise OperatorError(f"--for {lasting} is no time; leave it out for a change that stays")
    wanted: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if equals == "" or key == "" or value == "":
            raise OperatorError(f"'{change}' is not KEY=VALUE; `penstock flow set` lists the keys")
        if key in wanted:
            raise OperatorError(f"setting '{key}' is given twice; give each key once")
        wanted[key] = value
    request = {"do": "set", "changes": wanted, "for": lasting}
    broker.show(FLOW | request, Changes, show_changes)


@flow.command()
@asking
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--interval",
    default=1.0,
    show_default=True,
    type=NumberRange(0.1, 60),
    help="Seconds between two frames.",
)
@click.option(
    "--window",
    default=10.0,
    show_default=True,
    type=NumberRange(0, 60, min_open=True),
    help="Rates and shares of so many s.",
)
@click.option("--sort", type=click.Choice(TOP_SORTS), default="blocked", show_default=True)
@click.option(
    "--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="Rows a table."
)
def top(
    broker: RunningBroker,
    once: bool,
    interval: float,
    window: float,
    sort: str,
    limit: int,
) -> None:
    """Watch publishers, queues and consumers: rates, shares of blocked time, causes.

    Keys: s sort, f freeze, arrows and space scroll, q quit. With --once, --format json, or away
    from a terminal it prints one frame.
    """
    request = FLOW | {"do": "top", "window_s": window, "sort": sort, "limit": limit}
    if broker.form != TABLE:
        broker.print(broker.ask(request))
        return
    run_top(TopOptions(broker, request, interval, once))


EDGE_COLUMNS: Final = columns(
    "SENDER:name RECEIVER:name STATE LEFT:number:7 LEFT_BYTES:number:1 IN_FLIGHT:number:5 "
    "KEPT:number:2 STOPS:number:3 HELD:number:4 BECAUSE:name"
)
FREE_COLUMNS: Final = columns("FREE:number:1")
ROOM_COLUMNS: Final = columns("ROOM:number:6")
NEAR_PARTS: Final = 2
"""A queue is near its depth mark when no more than this part of it is free."""
EDGE_PARKED_COLUMNS: Final = columns("PARKED:number:6")
ACCOUNT_COLUMNS: Final = columns(
    "ACCOUNT:name DEBT:number DEBT_BYTES:number:6 LIMIT:number:7 STORED:number "
    "STORED_BYTES:number:5 STATE:prose"
)
PARKED_COLUMNS: Final = columns("PARKED:number:4 PARKED_BYTES:number:3")
PARKED_DISK_COLUMNS: Final = columns("ON_DISK:number:2")
UNFINISHED_COLUMNS: Final = columns("UNFINISHED:number:2")
PENDING_COLUMNS: Final = columns("PENDING:number:3")
KEPT_COLUMNS: Final = columns("KEPT:number:4 KEPT_BYTES:number:1")
PAGED_COLUMNS: Final = columns("PAGED:number:4 PAGED_BYTES:number:1")
CAUSE_COLUMNS: Final = columns(
    "CAUSED_BY:name SHARE:number MESSAGES:number BYTES:number:6 ON_THE_WAY:number:1 "
    "READY:number:5 PAGED:number:3 UNCOMMITTED:number:2 UNANSWERED:number:4 KEPT:number:2"
)


def show_edges(answer: Edges) -> None:
    screen = console()
    total = answer.total
    if not answer.edges:
        nothing = f"{total} hops, none of them blocked" if total else "no hops: no client publishes"
        say(screen, nothing)
        return
    shown = list(EDGE_COLUMNS)
    cells = [_edge(row) for row in answer.edges]
    if any(row.free_messages for row in answer.edges):
        shown[-1:-1] = FREE_COLUMNS
        for row, line in zip(answer.edges, cells, strict=True):
            line[-1:-1] = [amount(row.free_messages) if row.free_messages else ""]
    if any(_is_near(row) for row in answer.edges):
        shown[-1:-1] = ROOM_COLUMNS
        for row, line in zip(answer.edges, cells, strict=True):
            line[-1:-1] = [_room(row)]
    if any(row.parked_messages for row in answer.edges):
        shown[-1:-1] = EDGE_PARKED_COLUMNS
        for row, line in zip(answer.edges, cells, strict=True):
            line[-1:-1] = [_parked(row)]
    show(screen, table(shown, cells))
    say(screen, f"{total} hops, {answer.blocked} blocked")
    say_more(screen, len(answer.edges), answer.matching, "hops")


def _is_near(row: EdgeRow) -> bool:
    """Whether most of the receiver's depth mark is used."""
    return row.depth_bytes > 0 and row.room_bytes * NEAR_PARTS <= row.depth_bytes


def _room(row: EdgeRow) -> str:
    if row.depth_bytes == 0:
        return ""
    return f"{size(max(0, row.room_bytes))} of {size(row.depth_bytes)}"


def _edge(row: EdgeRow) -> list[Cell | str]:
    state = Cell("open")
    because = ""
    if row.is_blocked:
        state = Cell(f"blocked {duration(row.blocked_for_ns)}", RED)
        because = row.reason if row.by in (row.receiver, "") else f"{row.reason} {row.by}"
    flight = amount(row.in_flight_messages)
    if row.in_flight_bytes:
        flight += f" ({size(row.in_flight_bytes)})"
    kept = row.deferred_messages
    return [
        row.sender,
        row.receiver,
        state,
        _left(row.balance_messages, row.window_messages),
        _left_bytes(row.balance_bytes, row.window_bytes),
        flight,
        amount(kept) if kept else "",
        amount(row.stops) if row.stops else "",
        duration(row.blocked_ns) if row.blocked_ns else "",
        because,
    ]


def _parked(row: EdgeRow) -> str:
    if row.parked_messages == 0:
        return ""
    waits = duration(row.parked_for_ns)
    where = size(row.parked_bytes)
    if row.parked_disk_bytes:
        where += f", {size(row.parked_disk_bytes)} on disk"
    return f"{amount(row.parked_messages)} ({where}) {waits}"


def _left(balance: int, window: int) -> str:
    return f"{amount(balance)}/{amount(window)}" if window else "no limit"


def _left_bytes(balance: int, window: int) -> str:
    if window == 0:
        return "no limit"
    sign = "-" if balance < 0 else ""
    return f"{sign}{size(abs(balance))}/{size(window)}"


def show_accounts(answer: Accounts) -> None:
    rows = answer.accounts
    screen = console()
    shown = list(ACCOUNT_COLUMNS)
    cells = [_account(row) for row in rows]
    if any(row.parked_messages for row in rows):
        shown[-1:-1] = PARKED_COLUMNS
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [amount(row.parked_messages), size(row.parked_bytes)]
    if any(row.parked_disk_bytes for row in rows):
        shown[-1:-1] = PARKED_DISK_COLUMNS
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [size(row.parked_disk_bytes)]
    if any(row.unfinished_bytes for row in rows):
        shown[-1:-1] = UNFINISHED_COLUMNS
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [size(row.unfinished_bytes)]
    if any(row.pending_messages for row in rows):
        shown[-1:-1] = PENDING_COLUMNS
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [amount(row.pending_messages)]
    if any(row.kept_messages for row in rows):
        # Few have reader groups, and the table is wide.
        shown[-1:-1] = KEPT_COLUMNS
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [amount(row.kept_messages), size(row.kept_bytes)]
    if any(row.paged_messages for row in rows):
        shown[-1:-1] = PAGED_COLUMNS
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [amount(row.paged_messages), size(row.paged_bytes)]
    show(screen, table(shown, cells))
    say_more(screen, answer.total - answer.connections_more, answer.total, "connections")


def _account(row: AccountRow) -> list[Cell | str]:
    state = Cell("")
    if row.is_held or row.held_by:
        others = [peer for peer in row.held_by if peer != row.name]
        by = f" by {', '.join(others)}" if others else ""
        state = Cell(f"held {duration(row.held_for_ns)}{by}", RED)
    elif row.pending_by:
        state = Cell(f"held {duration(row.pending_for_ns)} by {', '.join(row.pending_by)}", RED)
    elif row.is_closed:
        state = Cell("gone", FAINT)
    limits = []
    if row.high_messages:
        limits.append(amount(row.high_messages))
    if row.high_bytes:
        limits.append(size(row.high_bytes))
    return [
        "  " * row.depth + row.name,
        amount(row.debt_messages),
        size(row.debt_bytes),
        " or ".join(limits) or "none",
        amount(row.stored_messages),
        size(row.stored_bytes),
        state,
    ]


def show_causes(answer: QueueCauses) -> None:
    screen = console()
    if not answer.rows:
        say(screen, f"{answer.queue} holds nothing")
        return
    about = "about " if answer.is_estimate else ""
    cells: list[list[Cell | str]] = [
        [
            row.account,
            percent(row.share),
            about + amount(row.messages),
            about + size(row.bytes),
            *(
                amount(count)
                for count in (
                    row.waiting,
                    row.ready,
                    row.paged,
                    row.uncommitted,
                    row.unanswered,
                    row.kept,
                )
            ),
        ]
        for row in answer.rows
    ]
    show(screen, table(CAUSE_COLUMNS, cells, answer.queue))
    say_more(screen, len(answer.rows), answer.total, "accounts")
