"""The lab's results as files: results.json with everything, results.csv with one line a run.

Both name the machine and the versions that made them.
"""

import csv
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import penstock
from penstock.broker.queue import queue_actor
from penstock.lab.result import Result
from penstock.lab.score import Verdict, overall

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
