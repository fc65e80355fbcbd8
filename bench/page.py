"""One page with charts of what bench/run.py has written, and one file with everything.

    python bench/page.py result.json page.html
    python bench/page.py result.json page.html features.json tails.json system-calls.json

Further files are of feature_costs.py, tails.py and system_calls.py, known by these names: they are
shown as tables, and become `parts` of result.json, so that one file holds a whole `make bench`.

Charts: every row's share of the relay's rate and processor time (bench/limit.c) with its goal, and
the multiple of RabbitMQ's; bars are medians of the paired repeats, lines their range. Below them
what was measured, on what machine, under what load. The page needs nothing from anywhere else.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import LIMIT
from bench.report import duration, short
from bench.workloads import WORKLOADS

RABBITMQ: Final = "rabbitmq"
BAR: Final = 14
GAP: Final = 12
LEFT: Final = 90
WIDTH: Final = 640
RIGHT: Final = 60
COLORS: Final = {"rate_ratio": "#1d6fa5", "cpu_ratio": "#e76f51"}
WORDS: Final = {"rate_ratio": "rate", "cpu_ratio": "processor time"}
STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .7em;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "svg{max-width:100%;height:auto}.note{color:#555}"
)


@dataclass(frozen=True, slots=True)
class Bars:
    """One row of a chart. values: by figure, (median, low, high); goal: 0 for none."""

    row: str
    values: Mapping[str, tuple[float, float, float]]
    goal: float = 0.0


def ratios_of(result: Mapping[str, object], target: str, rival: str) -> list[Bars]:
    """Of every row in which `target` was compared with `rival`."""
    goals = {one.name: one.limit_goal for one in WORKLOADS}
    rows = result.get("rows")
    found: list[Bars] = []
    for name, row in rows.items() if isinstance(rows, dict) else ():
        entry = row.get(target) if isinstance(row, dict) else None
        ratios = entry.get("ratios", {}).get(rival) if isinstance(entry, dict) else None
        if not ratios:
            continue
        values = {
            key: (spread["median"], spread["low"], spread["high"])
            for key, spread in ratios.items()
            if key in COLORS
        }
        found.append(Bars(name, values, goals.get(name, 0.0) if rival == LIMIT else 0.0))
    return found


def chart(bars: Sequence[Bars], ticks: Sequence[float], is_log: bool) -> str:
    """Horizontal bars as SVG. ticks: values of the axis, the first and the last are its ends."""
    low, high = ticks[0], ticks[-1]

    def at(value: float) -> float:
        value = min(max(value, low), high)
        share = (
            math.log(value / low) / math.log(high / low) if is_log else (value - low) / (high - low)
        )
        return LEFT + share * WIDTH

    step = 2 * BAR + GAP
    height = len(bars) * step + 30
    parts = [f'<svg viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" role="img" font-size="12">']
    for tick in ticks:
        parts.append(
            f'<line x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="0" y2="{height - 26}" '
            f'stroke="#ccc"/><text x="{at(tick):.1f}" y="{height - 10}" text-anchor="middle">'
            f"{tick:g}</text>"
        )
    for index, one in enumerate(bars):
        top = index * step
        parts.append(f'<text x="0" y="{top + BAR + 4}">{escape(one.row)}</text>')
        for place, (key, (median, least, most)) in enumerate(one.values.items()):
            y = top + place * BAR
            parts.append(
                f'<rect x="{LEFT}" y="{y + 1}" width="{max(at(median) - LEFT, 1):.1f}" '
                f'height="{BAR - 2}" fill="{COLORS[key]}"/>'
                f'<line x1="{at(least):.1f}" x2="{at(most):.1f}" y1="{y + BAR / 2}" '
                f'y2="{y + BAR / 2}" stroke="#000"/>'
                f'<text x="{at(max(median, most)) + 4:.1f}" y="{y + BAR - 3}">{median:.3g}</text>'
            )
        if one.goal:
            parts.append(
                f'<line x1="{at(one.goal):.1f}" x2="{at(one.goal):.1f}" y1="{top}" '
                f'y2="{top + BAR}" stroke="#2a9d5c" stroke-width="3"/>'
            )
    return "".join((*parts, "</svg>"))


def legend(more: str = "") -> str:
    """What the colours mean."""
    marks = (f'<b style="color:{COLORS[key]}">{WORDS[key]}</b>' for key in COLORS)
    return f"<p>{', '.join(marks)}{more}; the black line is the range of the repeats.</p>"


def table(result: Mapping[str, object]) -> str:
    """Medians of every row and target."""
    rows = result.get("rows")
    head = ("row", "broker", "messages/s", "range", "µs/message", "kernel", "p50", "p99", "load")
    lines = [f"<tr>{''.join(f'<th>{word}</th>' for word in head)}</tr>"]
    for name, row in rows.items() if isinstance(rows, dict) else ():
        for target, entry in row.items() if isinstance(row, dict) else ():
            median = entry.get("median") if isinstance(entry, dict) else None
            if not median:
                continue
            runs = [run for run in entry["runs"] if run]
            rates = [run["rate"] for run in runs]
            loads = [run["load_average"] for run in runs]
            cells = (
                escape(name),
                escape(target),
                short(median["rate"]),
                f"{short(min(rates))}-{short(max(rates))}",
                f"{median.get('cpu_us', 0):.3g}",
                f"{median['kernel_share']:.0%}",
                duration(median["p50_us"]),
                duration(median["p99_us"]),
                f"{min(loads):.1f}-{max(loads):.1f}",
            )
            lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def once(result: Mapping[str, object]) -> str:
    """What is measured once: memory, start, floods, backlogs; nothing where none was asked for."""
    rows = result.get("rows")
    lines: list[str] = []
    for name, row in rows.items() if isinstance(rows, dict) else ():
        for target, entry in row.items() if isinstance(row, dict) else ():
            values = entry.get("values") if isinstance(entry, dict) else None
            if values:
                text = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
                lines.append(f"<li>{escape(name)}, {escape(target)}: {escape(text)}</li>")
    return f"<h2>Memory, floods, backlogs</h2><ul>{''.join(lines)}</ul>" if lines else ""


def tabled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts."""
    lines = [f"<tr>{''.join(f'<th>{escape(word)}</th>' for word in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def feature_table(rows: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> str:
    """Of feature_costs.py."""
    cells = [
        (row, feature, *(f"{100 * share:+.1f} %" for share in cost))
        for row, found in rows.items()
        for feature, cost in found["costs"].items()
    ]
    return "<h2>What features cost</h2>" + tabled(("row", "feature", "cost", "from", "to"), cells)


def tail_table(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Of tails.py."""
    names = ("p50_us", "p99_us", "p999_us", "longest_us")
    cells = [
        (row, target, *(duration(tail[name]) for name in names), short(tail["rate"]))
        for row, found in rows.items()
        for target, tail in found.items()
    ]
    head = ("beside", "broker", "p50", "p99", "p99.9", "longest", "load, messages/s")
    return "<h2>A ping-pong beside a load</h2>" + tabled(head, cells)


def call_table(rows: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]) -> str:
    """Of system_calls.py."""
    cells = [
        (
            row,
            target,
            f"{sum(counted['calls'].values()):.2f}",
            f"{counted['wake_ups']:.2f}",
            "  ".join(
                f"{name} {count:.2f}" for name, count in counted["calls"].items() if count >= 0.01
            ),
        )
        for row, found in rows.items()
        for target, counted in found.items()
    ]
    head = ("row", "broker", "calls/message", "wake-ups/message", "which")
    return "<h2>System calls</h2>" + tabled(head, cells)


TABLES: Final[dict[str, Callable[[Any], str]]] = {
    "features": feature_table,
    "tails": tail_table,
    "system-calls": call_table,
}


def page(result: Mapping[str, object]) -> str:
    """The whole page."""
    machine, versions = result.get("machine"), result.get("versions")
    facts = {**machine} if isinstance(machine, dict) else {}
    facts |= versions if isinstance(versions, dict) else {}
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Penstock: how fast</title>",
        f"<style>{STYLE}</style><h1>How fast Penstock is on this machine</h1>",
    ]
    targets = (
        [name for name in versions if name.startswith("penstock")]
        if isinstance(versions, dict)
        else []
    )
    for target in targets:
        shares = ratios_of(result, target, LIMIT)
        if shares:
            parts.append(f"<h2>{escape(target)}: share of the machine's limit</h2>")
            parts.append(legend(", green mark: goal for the rate"))
            parts.append(chart(shares, (0, 0.25, 0.5, 0.75, 1), is_log=False))
        multiples = ratios_of(result, target, RABBITMQ)
        if multiples:
            parts.append(f"<h2>{escape(target)}: multiple of RabbitMQ</h2>{legend()}")
            parts.append(chart(multiples, (0.5, 1, 2, 5, 10, 20, 50, 100), is_log=True))
    parts.append(f"<h2>All rows</h2>{table(result)}{once(result)}")
    more = result.get("parts")
    for name, part in more.items() if isinstance(more, dict) else ():
        parts.append(TABLES[name](part["rows"]))
    parts.append("<h2>Measured on</h2><ul>")
    parts += [f"<li>{escape(str(key))}: {escape(str(value))}</li>" for key, value in facts.items()]
    faults = result.get("faults")
    for fault in faults if isinstance(faults, list) else ():
        parts.append(f"<li><b>fault: {escape(str(fault))}</b></li>")
    return "".join((*parts, "</ul></html>\n"))


def main(words: Sequence[str]) -> int:
    """Write the page; 0 done, 2 when there is nothing to draw."""
    unknown = [word for word in words[2:] if Path(word).stem not in TABLES]
    if len(words) < 2 or unknown:
        print(f"page.py RESULT.json PAGE.html [{'.json] ['.join(TABLES)}.json]", file=sys.stderr)
        return 2
    try:
        result = json.loads(Path(words[0]).read_text(encoding="utf-8"))
        if not isinstance(result, dict) or "rows" not in result:
            raise ValueError(f"{words[0]} is not of `bench/run.py --out`")
        for word in words[2:]:
            part = json.loads(Path(word).read_text(encoding="utf-8"))
            result.setdefault("parts", {})[Path(word).stem] = part
        if len(words) > 2:
            Path(words[0]).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        Path(words[1]).write_text(page(result), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 2
    print(f"written: {words[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
