"""The lab's results as tables for people: one per workload, and its verdict below."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from penstock.lab.result import LIVE, Result
from penstock.lab.score import Verdict
from penstock.lab.workload import Workload

PLACES = {"sim": "simulated", "live": "live"}
COLUMNS = (
    "strategy", "msg/s", "innocent", "confirm p50", "p99", "p99.9", "delivery p99", "innocent p99",
    "memory", "fair", "recovered", "score",
)  # fmt: skip


def show(
    console: Console,
    workload: Workload,
    results: Sequence[Result],
    verdict: Verdict,
) -> None:
    """Print one workload in one place."""
    where = PLACES[verdict.where]
    console.print(f"[bold]{workload.name}[/] ({where}): {workload.title}", highlight=False)
    columns = (*COLUMNS, "RSS") if verdict.where == LIVE else COLUMNS
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
    for one in sorted(results, key=lambda one: -verdict.scores[one.profile]):
        style = "bold green" if one.profile == verdict.winner else None
        cells = row(one, verdict)
        table.add_row(*(cells if verdict.where == LIVE else cells[:-1]), style=style)
    console.print(table)
    console.print(f"  {verdict.text()}\n", highlight=False, soft_wrap=True)


def row(one: Result, verdict: Verdict) -> list[str]:
    """The cells of one result, in the order of COLUMNS, and the resident memory."""
    harm = "-" if one.innocent_share is None else f"{one.innocent_share * 100:.0f} %"
    innocent = "-" if one.innocent_share is None else ms(one.innocent.p99_ms)
    score = verdict.scores[one.profile]
    return [
        one.profile,
        f"{one.throughput_per_s:.0f}",
        harm,
        ms(one.confirm.p50_ms),
        ms(one.confirm.p99_ms),
        ms(one.confirm.p999_ms),
        ms(one.delivery.p99_ms),
        innocent,
        size(one.memory_bytes_max) + ("↑" if one.is_growing else " "),
        f"{one.fairness:.2f}",
        recovered(one),
        f"{score:.3f}" if score > 0 else "-",
        size(one.rss_bytes),
    ]


def recovered(one: Result) -> str:
    if not one.is_disturbed:
        return "-"
    return "never" if one.recovery_s is None else f"{one.recovery_s:.2f} s"


def ms(value: float) -> str:
    """Milliseconds with as many digits as mean something."""
    if value >= 99.5:
        return f"{value:.0f} ms"
    return f"{value:.1f} ms" if value >= 0.995 else f"{value:.2f} ms"


def size(value: int) -> str:
    """KiB or MiB."""
    if value < 1024 * 1024:
        return f"{value / 1024:.0f} KiB"
    return f"{value / (1024 * 1024):.1f} MiB"


LEGEND = """\
innocent   rate of the traffic that has nothing to do with what is slow, relative to running alone
memory     most bytes held in queues, mailboxes and outputs; ↑ still rising at the end: no score
fair       Jain's index over the publishers; 1 is fair
score      (throughput × confirm p99 × memory)^(1/3), each relative to the best; 1 is best in all
mean       geometric, of the scores; who has none in one of the workloads has no mean"""
