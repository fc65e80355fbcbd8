"""What `penstock flow edges|accounts|alarms|set` print for people."""

from penstock.broker.admin.answers import (
    AccountRow,
    Accounts,
    AlarmRow,
    Alarms,
    Changes,
    QueueCauses,
    SettingRows,
)
from penstock.broker.admin.flow_edges import EdgeRow, Edges
from penstock.cli.tables import Cell, Column, console, more, say, show, table
from penstock.telemetry.words import amount, duration, percent, size

RED = "bold red"
FAINT = "dim"


def show_edges(answer: Edges) -> None:
    screen = console()
    total = answer.total
    if not answer.edges:
        nothing = f"{total} hops, none of them blocked" if total else "no hops: nobody publishes"
        say(screen, nothing)
        return
    columns = (
        Column("SENDER", is_name=True),
        Column("RECEIVER", is_name=True),
        Column("STATE"),
        Column("LEFT", is_number=True),
        Column("LEFT BYTES", is_number=True),
        Column("IN FLIGHT", is_number=True),
        Column("KEPT", is_number=True),
        Column("STOPS", is_number=True),
        Column("HELD", is_number=True),
        Column("BECAUSE", is_name=True),
    )
    show(screen, table(columns, [_edge(row) for row in answer.edges]))
    say(screen, f"{total} hops, {answer.blocked} blocked")
    cut = more(answer.matching - len(answer.edges), "hops")
    if cut:
        say(screen, cut, FAINT)


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
    columns = [
        Column("ACCOUNT", is_name=True),
        Column("DEBT", is_number=True),
        Column("DEBT BYTES", is_number=True),
        Column("LIMIT", is_number=True),
        Column("STORED", is_number=True),
        Column("STORED BYTES", is_number=True),
        Column("STATE"),
    ]
    cells = [_account(row) for row in rows]
    if any(row.kept_messages for row in rows):
        # Few have reader groups, and the table is wide.
        kept = [Column("KEPT", is_number=True), Column("KEPT BYTES", is_number=True)]
        columns[-1:-1] = kept
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [amount(row.kept_messages), size(row.kept_bytes)]
    show(screen, table(columns, cells))
    cut = more(answer.connections_more, "connections")
    if cut:
        say(screen, cut, FAINT)


def _account(row: AccountRow) -> list[Cell | str]:
    state = Cell("")
    if row.is_held or row.held_by:
        others = [peer for peer in row.held_by if peer != row.name]
        by = f" by {', '.join(others)}" if others else ""
        state = Cell(f"held {duration(row.held_for_ns)}{by}", RED)
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
    columns = (
        Column("CAUSED BY", is_name=True),
        Column("SHARE", is_number=True),
        Column("MESSAGES", is_number=True),
        Column("BYTES", is_number=True),
        Column("ON THE WAY", is_number=True),
        Column("READY", is_number=True),
        Column("UNANSWERED", is_number=True),
        Column("KEPT", is_number=True),
    )
    about = "about " if answer.is_estimate else ""
    cells: list[list[Cell | str]] = [
        [
            row.account,
            percent(row.share),
            about + amount(row.messages),
            about + size(row.bytes),
            *(amount(count) for count in (row.waiting, row.ready, row.unanswered, row.kept)),
        ]
        for row in answer.rows
    ]
    show(screen, table(columns, cells, answer.queue))
    cut = more(answer.more, "accounts")
    if cut:
        say(screen, cut, FAINT)


def show_alarms(answer: Alarms) -> None:
    screen = console()
    columns = (
        Column("ALARM"),
        Column("NODE", is_name=True),
        Column("STATE"),
        Column("LEVEL", is_number=True),
        Column("LIMIT", is_number=True),
        Column("CLEARS AT", is_number=True),
        Column("STOPS", is_number=True),
        Column("MODE"),
        Column("ACTION"),
    )
    show(screen, table(columns, [_alarm(row) for row in answer.alarms]))
    for row in answer.alarms:
        if row.stopped:
            rest = f" and {len(row.stopped) - 10} more" if len(row.stopped) > 10 else ""
            say(screen, f"{row.resource} stops {', '.join(row.stopped[:10])}{rest}")


def _alarm(row: AlarmRow) -> list[Cell | str]:
    is_memory = row.resource == "memory"
    state = Cell("clear", "green")
    if row.is_set:
        state = Cell(f"set {duration(row.set_for_ns)}", RED)
    return [
        row.resource,
        row.node,
        state,
        f"{_level(row.now_bytes)} {'used' if is_memory else 'free'}",
        f"{'above' if is_memory else 'below'} {_level(row.limit_bytes)}",
        _level(row.clear_bytes),
        amount(len(row.stopped)),
        row.mode,
        row.action,
    ]


def _level(bytes_: int | None) -> str:
    return "unknown" if bytes_ is None else size(bytes_)


def show_settings(answer: SettingRows) -> None:
    screen = console()
    columns = (
        Column("SETTING", is_name=True),
        Column("VALUE", is_name=True),
        Column("WRITTEN AS", is_prose=True),
        Column("MEANING", is_prose=True),
    )
    cells: list[list[Cell | str]] = []
    for row in answer.settings:
        value = Cell(row.value)
        left_ns = round(row.reverts_in_s * 1e9)
        if left_ns > 0:
            value = Cell(f"{row.value} (for {duration(left_ns)} more)", "yellow")
        cells.append([row.key, value, row.unit, row.meaning])
    show(screen, table(columns, cells))
    say(screen, "change:  penstock flow set KEY=VALUE [KEY=VALUE ...] [--for 10m]", FAINT)


def show_changes(answer: Changes) -> None:
    screen = console()
    for row in answer.changes:
        left_ns = round(row.reverts_in_s * 1e9)
        lasting = f"   (back in {duration(left_ns)})" if left_ns else ""
        say(screen, f"{row.key}   {row.before} -> {row.after}{lasting}")
