"""The lab's results: tables for people, one per workload with its verdict below, and files.

results.json has everything, results.csv one line a run; both name the machine and the versions.
"""

import csv
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

import penstock
from penstock.broker.queue import queue_actor
from penstock.lab.result import LIVE, Result
from penstock.lab.score import Verdict, overall
from penstock.lab.workload import Workload

CSV_COLUMNS = (
    "workload", "profile", "where", "seed", "seconds", "throughput_per_s", "bytes_per_s",
    "innocent_per_s", "innocent_share", "innocent_slowdown", "confirm_p50_ms", "confirm_p99_ms",
    "confirm_p999_ms", "delivery_p50_ms", "delivery_p99_ms", "delivery_p999_ms", "innocent_p50_ms",
    "innocent_p99_ms", "innocent_p999_ms", "memory_bytes_max", "is_growing", "rss_bytes",
    "fairness", "recovery_s", "alarm_s", "score",
)  # fmt: skip


def about(took_s: float) -> dict[str, object]:
    """took_s: seconds the whole lab took."""
    is_compiled = not queue_actor.__file__.endswith(".py")
    return {
        "penstock": penstock.__version__,
        "build": "compiled" if is_compiled else "interpreted",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "processor": _processor(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def document(
    results: Sequence[Result], verdicts: Sequence[Verdict], about: dict[str, object]
) -> dict[str, object]:
    """Everything, ready for JSON. about: machine, versions, options."""
    return {
        "about": about,
        "results": [asdict(one) for one in results],
        "verdicts": [
            {**asdict(one), "is_agreed": one.is_agreed(), "text": one.text()} for one in verdicts
        ],
        "overall": [asdict(one) for one in overall(verdicts)],
    }


def write_files(
    folder: Path,
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    about: dict[str, object],
) -> list[Path]:
    """Write both into `folder`, which is made if needed; their paths. Raises: OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = folder / "results.json"
    text = json.dumps(document(results, verdicts, about), indent=1)
    everything.write_text(text + "\n", encoding="utf-8")
    lines = folder / "results.csv"
    scores = {(one.workload, one.where): one.scores for one in verdicts}
    with lines.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS)
        writer.writeheader()
        for one in results:
            writer.writerow(_line(one, scores[(one.workload, one.where)][one.profile]))
    return [everything, lines]


def _line(one: Result, score: float) -> dict[str, object]:
    values = asdict(one)
    line: dict[str, object] = {name: values[name] for name in CSV_COLUMNS if name in values}
    for kind in ("confirm", "delivery", "innocent"):
        for name, value in values[kind].items():
            line[f"{kind}_{name}"] = value
    line["score"] = score
    return line


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
    table = new_table(columns, 1)
    for one in sorted(results, key=lambda one: -verdict.scores[one.profile]):
        style = "bold green" if one.profile == verdict.winner else None
        cells = row(one, verdict)
        table.add_row(*(cells if verdict.where == LIVE else cells[:-1]), style=style)
    console.print(table)
    console.print(f"  {verdict.text()}\n", highlight=False, soft_wrap=True)


def new_table(names: Sequence[str], left: int = 2) -> Table:
    """A table without rules. left: so many of its columns are text, the others figures."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, name in enumerate(names):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    return table


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
