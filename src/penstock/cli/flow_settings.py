"""How `penstock flow` shows alarms, settings and changes of settings."""

from typing import Final

from penstock.broker.admin.answers import AlarmRow, AlarmsAnswer, Changes, SettingRows
from penstock.cli.tables import FAINT, RED, YELLOW, Cell, columns, console, say, show, table
from penstock.telemetry.words import amount, duration, size

ALARM_COLUMNS: Final = columns(
    "ALARM NODE:name:1 STATE LEVEL:number LIMIT:number:5 CLEARS_AT:number:4 STOPS:number MODE::2 "
    "ACTION::3"
)
SETTING_COLUMNS: Final = columns("SETTING:name VALUE:name WRITTEN_AS:prose:1 MEANING:prose")


def show_alarms(answer: AlarmsAnswer) -> None:
    screen = console()
    show(screen, table(ALARM_COLUMNS, [_alarm(row) for row in answer.alarms]))
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
    cells: list[list[Cell | str]] = []
    for row in answer.settings:
        value = Cell(row.value)
        left_ns = round(row.reverts_in_s * 1e9)
        if left_ns > 0:
            value = Cell(f"{row.value} (for {duration(left_ns)} more)", "yellow")
        cells.append([row.key, value, row.unit, row.meaning])
    show(screen, table(SETTING_COLUMNS, cells))
    say(screen, "change:  penstock flow set KEY=VALUE [KEY=VALUE ...] [--for 10m]", FAINT)


def show_changes(answer: Changes) -> None:
    screen = console()
    for row in answer.changes:
        left_ns = round(row.reverts_in_s * 1e9)
        lasting = f"   (back in {duration(left_ns)})" if left_ns else ""
        say(screen, f"{row.key}   {row.before} -> {row.after}{lasting}")
    if answer.words:
        say(screen, answer.words, YELLOW)
