"""What `penstock flow edges|accounts|alarms|set` print for people."""

from penstock.broker.admin.flow_edges import EdgeRow
from penstock.cli.tables import Cell, Column, console, more, say, show, table
from penstock.telemetry.words import amount, duration, percent, size

Answer = dict[str, object]
Row = dict[str, object]

RED = "bold red"
FAINT = "dim"


def show_edges(answer: Answer) -> None:
    rows = _rows(answer, "edges")
    screen = console()
    total, blocked = _int(answer, "total"), _int(answer, "blocked")
    if not rows:
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
    show(screen, table(columns, [_edge(EdgeRow(**row)) for row in rows]))  # type: ignore[arg-type]  # the broker answers with these very fields
    say(screen, f"{total} hops, {blocked} blocked")
    cut = more(_int(answer, "matching") - len(rows), "hops")
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


def show_accounts(answer: Answer) -> None:
    rows = _rows(answer, "accounts")
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
    if any(_int(row, "kept_messages") for row in rows):
        # Few have reader groups, and the table is wide.
        kept = [Column("KEPT", is_number=True), Column("KEPT BYTES", is_number=True)]
        columns[-1:-1] = kept
        for row, line in zip(rows, cells, strict=True):
            line[-1:-1] = [amount(_int(row, "kept_messages")), size(_int(row, "kept_bytes"))]
    show(screen, table(columns, cells))
    cut = more(_int(answer, "connections_more"), "connections")
    if cut:
        say(screen, cut, FAINT)


def _account(row: Row) -> list[Cell | str]:
    held_by = row["held_by"]
    assert isinstance(held_by, list), "the broker answers so"
    state = Cell("")
    if row["is_held"] or held_by:
        others = [str(peer) for peer in held_by if peer != row["name"]]
        by = f" by {', '.join(others)}" if others else ""
        state = Cell(f"held {duration(_int(row, 'held_for_ns'))}{by}", RED)
    elif row["is_closed"]:
        state = Cell("gone", FAINT)
    limits = []
    if _int(row, "high_messages"):
        limits.append(amount(_int(row, "high_messages")))
    if _int(row, "high_bytes"):
        limits.append(size(_int(row, "high_bytes")))
    return [
        "  " * _int(row, "depth") + str(row["name"]),
        amount(_int(row, "debt_messages")),
        size(_int(row, "debt_bytes")),
        " or ".join(limits) or "none",
        amount(_int(row, "stored_messages")),
        size(_int(row, "stored_bytes")),
        state,
    ]


def show_causes(answer: Answer) -> None:
    rows = _rows(answer, "rows")
    screen = console()
    queue = str(answer["queue"])
    if not rows:
        say(screen, f"{queue} holds nothing")
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
    about = "about " if answer["is_estimate"] else ""
    cells: list[list[Cell | str]] = [
        [
            str(row["account"]),
            percent(float(str(row["share"]))),
            about + amount(_int(row, "messages")),
            about + size(_int(row, "bytes")),
            *(amount(_int(row, key)) for key in ("waiting", "ready", "unanswered", "kept")),
        ]
        for row in rows
    ]
    show(screen, table(columns, cells, queue))
    cut = more(_int(answer, "more"), "accounts")
    if cut:
        say(screen, cut, FAINT)


def show_alarms(answer: Answer) -> None:
    rows = _rows(answer, "alarms")
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
    show(screen, table(columns, [_alarm(row) for row in rows]))
    for row in rows:
        stopped = row["stopped"]
        assert isinstance(stopped, list), "the broker answers so"
        if stopped:
            names = ", ".join(str(name) for name in stopped[:10])
            rest = f" and {len(stopped) - 10} more" if len(stopped) > 10 else ""
            say(screen, f"{row['resource']} stops {names}{rest}")


def _alarm(row: Row) -> list[Cell | str]:
    is_memory = row["resource"] == "memory"
    state = Cell("clear", "green")
    if row["is_set"]:
        state = Cell(f"set {duration(_int(row, 'set_for_ns'))}", RED)
    stopped = row["stopped"]
    assert isinstance(stopped, list), "the broker answers so"

    def level(key: str) -> str:
        value = row[key]
        return "unknown" if value is None else size(int(str(value)))

    return [
        str(row["resource"]),
        str(row["node"]),
        state,
        f"{level('now_bytes')} {'used' if is_memory else 'free'}",
        f"{'above' if is_memory else 'below'} {level('limit_bytes')}",
        level("clear_bytes"),
        amount(len(stopped)),
        str(row["mode"]),
        str(row["action"]),
    ]


def show_settings(answer: Answer) -> None:
    screen = console()
    columns = (
        Column("SETTING", is_name=True),
        Column("VALUE", is_name=True),
        Column("WRITTEN AS", is_prose=True),
        Column("MEANING", is_prose=True),
    )
    cells: list[list[Cell | str]] = []
    for row in _rows(answer, "settings"):
        value = Cell(str(row["value"]))
        left_ns = round(float(str(row["reverts_in_s"])) * 1e9)
        if left_ns > 0:
            value = Cell(f"{row['value']} (for {duration(left_ns)} more)", "yellow")
        cells.append([str(row["key"]), value, str(row["unit"]), str(row["meaning"])])
    show(screen, table(columns, cells))
    say(screen, "change:  penstock flow set KEY=VALUE [KEY=VALUE ...] [--for 10m]", FAINT)


def show_changes(answer: Answer) -> None:
    screen = console()
    for row in _rows(answer, "changes"):
        left_ns = round(float(str(row["reverts_in_s"])) * 1e9)
        lasting = f"   (back in {duration(left_ns)})" if left_ns else ""
        say(screen, f"{row['key']}   {row['before']} -> {row['after']}{lasting}")


def _rows(answer: Answer, key: str) -> list[Row]:
    rows = answer[key]
    assert isinstance(rows, list), "the broker answers so"
    return rows


def _int(row: Row, key: str) -> int:
    value = row[key]
    assert isinstance(value, int), "the broker answers so"
    return value
