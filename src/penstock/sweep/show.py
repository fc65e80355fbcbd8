"""The results of a sweep as text: a table a situation, what holds over all, the error band."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from penstock.base.quantities import show_bytes
from penstock.lab.table import ms, size
from penstock.sweep.compare import Band
from penstock.sweep.front import Ratios, Summary
from penstock.sweep.point import Key

COLUMNS = ("", "setting", "msg/s", "confirm p99", "memory", "innocent", "spread")
LEGEND = """\
●          on the Pareto front: no other setting has more throughput, a shorter p99 and less memory
memory     most bytes held in queues, mailboxes and outputs; ↑ still rising at the end: on no front
spread     half the distance between the seeds' extremes, of the measure that differs most"""


def show_all(
    console: Console, found: Sequence[Summary], overall: Sequence[Ratios], bands: Sequence[Band]
) -> None:
    """Everything there is to say."""
    for situation in dict.fromkeys(one.situation for one in found):
        show_situation(console, [one for one in found if one.situation == situation])
    if overall:
        console.print(
            f"[bold]over all {overall[0].situations} situations[/], relative to the best in each "
            "(geometric means)"
        )
        table = _table(("", "setting", "msg/s", "confirm p99", "memory"))
        for ratio in overall:
            table.add_row(
                "●" if ratio.is_front else "",
                setting_text(ratio.setting),
                f"{ratio.throughput:.2f} x",
                f"{ratio.p99:.2f} x",
                f"{ratio.memory:.2f} x",
                style="bold green" if ratio.is_front else None,
            )
        console.print(table)
        console.print()
    if bands:
        console.print(
            f"[bold]fluid model against events[/] at {bands[0].pairs} points in common: eight of "
            "ten within"
        )
        for band in bands:
            console.print(f"  {band.text()}", soft_wrap=True)
        console.print()
    if found:
        console.print(LEGEND, soft_wrap=True)


def show_situation(console: Console, found: Sequence[Summary]) -> None:
    """One table, who is on the front first."""
    console.print(f"[bold]{situation_text(found[0].situation)}[/]")
    table = _table(COLUMNS)
    for one in sorted(found, key=lambda one: (not one.is_front, one.is_growing, one.p99_ms)):
        cells = [
            "●" if one.is_front else "",
            setting_text(one.setting),
            f"{one.throughput_per_s:.0f}",
            ms(one.p99_ms),
            size(round(one.memory_bytes)) + ("↑" if one.is_growing else " "),
            "-" if one.innocent_share is None else f"{one.innocent_share * 100:.0f} %",
            f"± {one.spread * 100:.0f} %" if one.runs > 1 else "-",
        ]
        if one.failed:
            cells[2:] = [f"failed in {one.failed} of {one.runs} runs", "", "", "", ""]
        table.add_row(*cells, style="bold green" if one.is_front else None)
    console.print(table)
    console.print()


def setting_text(setting: Key) -> str:
    """Profile, and what is not its own."""
    profile, credit, depth_bytes, memory_bytes = setting
    parts = [str(profile)]
    if credit:
        parts.append(f"credit {credit}")
    if depth_bytes:
        parts.append(f"depth {show_bytes(int(depth_bytes))}")
    if memory_bytes:
        parts.append(f"memory mark {show_bytes(int(memory_bytes))}")
    return ", ".join(parts)


def situation_text(situation: Key) -> str:
    """What was run."""
    engine, workload, connections, load, seconds = situation
    many = f", {int(connections):,} connections" if connections else ""
    return f"{workload}{many}, load {float(load):g} ({engine}, {float(seconds):g} s)"


def _table(names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, name in enumerate(names):
        table.add_column(name, justify="left" if index < 2 else "right", no_wrap=True)
    return table
