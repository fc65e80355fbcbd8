"""One self-contained HTML page: verdict, promises, charts, tables. No script, no other file."""

import importlib.util
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

import penstock
from penstock.spark.blame.blame import blamed, held_kinds, of_whom
from penstock.spark.report.promises import MARKS
from penstock.spark.report.recommend import head_of_line
from penstock.spark.report.summary import Summary, moved
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import IntegrityRow, Tables, whole_counts

STYLE: Final = """
:root { --ink:#22303c; --faint:#6b7a88; --line:#e4e9ee; --paper:#fff; --ground:#f3f6f9;
  --kept:#2a9d76; --broken:#c8413b; --unknown:#8896a3; }
* { box-sizing:border-box }
body { margin:0; background:var(--ground); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif }
main { max-width:1040px; margin:0 auto; padding:32px 20px 48px }
header { margin-bottom:20px }
.brand { color:var(--faint); letter-spacing:.14em; text-transform:uppercase; font-size:12px }
h1 { font-size:28px; margin:2px 0 4px; display:flex; gap:14px; align-items:center;
  flex-wrap:wrap }
h2 { font-size:17px; margin:0 0 6px }
.note, footer { color:var(--faint); font-size:13px; margin:0 0 8px }
.badge { font-size:13px; font-weight:600; color:#fff; padding:3px 12px; border-radius:99px }
.badge.kept { background:var(--kept) } .badge.broken { background:var(--broken) }
.badge.unknown { background:var(--unknown) }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px }
.tile, .card { background:var(--paper); border:1px solid var(--line); border-radius:10px }
.tile { padding:14px 16px } .tile b { display:block; font-size:24px; line-height:1.2 }
.tile span { color:var(--faint); font-size:13px }
.card { padding:18px 20px; margin-top:16px }
.promises { list-style:none; margin:0; padding:0 }
.promises li { display:grid; grid-template-columns:26px 1fr 1fr; gap:8px; padding:6px 0;
  border-top:1px solid var(--line) }
.promises li:first-child { border-top:0 }
.promises i { font-style:normal; font-weight:700 } .promises b { font-weight:600 }
.promises span { color:var(--faint) }
.kept i { color:var(--kept) } .broken i { color:var(--broken) } .unknown i { color:var(--unknown) }
.broken b { color:var(--broken) }
.words { margin:0; padding-left:20px } .words li { margin:3px 0; overflow-wrap:anywhere }
.advice { margin:0; padding-left:20px } .advice li { margin:8px 0; overflow-wrap:anywhere }
.advice .share { color:var(--broken); font-weight:600 } .advice small { color:var(--faint) }
.chart svg { width:100%; height:auto; display:block }
.chart svg text { font-family:inherit !important }
.scroll { overflow-x:auto }
table { border-collapse:collapse; width:100%; font-size:13px;
  font-variant-numeric:tabular-nums }
th { text-align:left; color:var(--faint); font-weight:600; white-space:nowrap }
th, td { padding:5px 14px 5px 0; border-bottom:1px solid var(--line); vertical-align:top }
td:first-child { font-weight:600 }
tbody tr:last-child td { border-bottom:0 }
code { background:var(--ground); border-radius:4px; padding:1px 5px; font-size:12px }
footer { margin-top:22px }
@media print { body { background:#fff } .card, .tile { break-inside:avoid } }
"""
ROWS_SHOWN_MAX: Final = 12
SHOWN_MIN_NS: Final = 10_000_000
_NO_CHARTS: Final = (
    '<p class="note">Charts need matplotlib: <code>pip install "penstock[spark]"</code></p>'
)


def write_report(
    path: Path,
    tables: Tables,
    run: RunDescription,
    summary: Summary,
    bucket_ns: int,
) -> None:
    """Write the page. Raises: OSError."""
    path.write_text(render(tables, run, summary, bucket_ns), encoding="utf-8")


def render(tables: Tables, run: RunDescription, summary: Summary, bucket_ns: int) -> str:
    """The whole page as text."""
    parts = [
        _head(summary, run),
        _tiles(tables, summary),
        _promises(summary),
        _sentences(summary),
        _recommendations(summary),
        *_charts(tables, run, bucket_ns),
        _blame_table(tables),
        _head_of_line_table(tables, bucket_ns),
        _latency_table(tables, run),
        _integrity_table(tables),
        _events_table(tables),
        _foot(summary),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Penstock {_title(run).lower()}</title><style>{STYLE}</style></head>\n"
        "<body><main>\n" + "\n".join(part for part in parts if part) + "\n</main></body></html>\n"
    )


def _title(run: RunDescription) -> str:
    """Only `penstock run` has phases; any other broker's events are no run."""
    return "Run report" if run.phases else "Flow report"


def _head(summary: Summary, run: RunDescription) -> str:
    verdict, colour = _verdict(summary)
    source = summary.source
    gaps = ""
    if source.events_missing or source.unreadable_lines:
        gaps = (
            f' <span class="badge unknown">telemetry with gaps: {source.events_missing:,} events '
            f"missing, {source.unreadable_lines:,} lines unreadable</span>"
        )
    return (
        '<header><div class="brand">penstock</div>'
        f'<h1>{_title(run)} <span class="badge {colour}">{verdict}</span>{gaps}</h1>'
        f'<p class="note">{escape(source.engine_note)}</p></header>'
    )


def _verdict(summary: Summary) -> tuple[str, str]:
    if not summary.is_kept:
        return "a promise was broken", "broken"
    if any(promise.state == "unknown" for promise in summary.promises):
        return "no promise broken, not all could be checked", "kept"
    return "every promise kept", "kept"


def _tiles(tables: Tables, summary: Summary) -> str:
    top = summary.causes[0] if summary.causes else None
    if summary.source.trace_count:
        counts = (
            (f"{summary.published:,}", "messages published"),
            (f"{summary.lost:,}", "confirmed and lost"),
            (f"{summary.duplicated:,}", "duplicates"),
        )
    else:
        # Only traces of clients follow single messages; the broker's samples count them.
        published, acked = moved(tables)
        alarm_ns = sum(alarm.end_ns - alarm.start_ns for alarm in tables.alarms)
        counts = (
            (f"{published:,}", "messages came into queues"),
            (f"{acked:,}", "were taken by consumers"),
            (f"{alarm_ns / 1e9:.1f} s", "alarms were set"),
        )
    tiles = (
        *counts,
        (f"{summary.held_ns / 1e9:.1f} s", f"{summary.held_who} held"),
        (f"{top.share:.0%}" if top else "–", top.cause if top else "nothing was held"),
    )
    return (
        '<section class="tiles">'
        + "".join(
            f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
            for value, name in tiles
        )
        + "</section>"
    )


def _promises(summary: Summary) -> str:
    rows = "".join(
        f'<li class="{promise.state}"><i>{MARKS[promise.state]}</i>'
        f"<b>{escape(promise.name)}</b><span>{escape(promise.detail)}</span></li>"
        for promise in summary.promises
    )
    return _card("Promises", f'<ul class="promises">{rows}</ul>')


def _sentences(summary: Summary) -> str:
    if not summary.sentences:
        return ""
    rows = "".join(f"<li>{escape(sentence)}</li>" for sentence in summary.sentences)
    return _card("In words", f'<ul class="words">{rows}</ul>')


def _recommendations(summary: Summary) -> str:
    rows = "".join(
        f"<li><b>{escape(one.rule)}</b> <code>{escape(one.scope)}</code> "
        f'<span class="share">{one.share:.0%}</span><br>{escape(one.advice)}'
        f"<br><small>{escape(one.evidence)}</small></li>"
        for one in summary.recommendations
    )
    if not rows:
        return ""
    note = f"What cost most comes first; shares are of the time {summary.held_who} were held."
    return _card("What would help", f'<p class="note">{note}</p><ol class="advice">{rows}</ol>')


def _charts(tables: Tables, run: RunDescription, bucket_ns: int) -> list[str]:
    if importlib.util.find_spec("matplotlib") is None:
        return [_card("Charts", _NO_CHARTS)]
    # matplotlib is optional: a report without it still has every number.
    from penstock.spark.report import charts, time_charts

    start_ns = charts.start_of(tables, run)
    who = of_whom(held_kinds(tables.root_cause))
    drawn = (
        (
            "Throughput and backlog",
            "Counted by the clients, in steps of 250 ms.",
            charts.throughput(tables, run, start_ns),
        ),
        (
            "Publishers against consumers",
            "Into the queue, and done with, a second. Where a consumer takes B messages every T "
            "seconds, publishers go at B/T. Red: how much of the time the queue took nothing.",
            time_charts.rates(tables, run, start_ns, bucket_ns),
        ),
        (
            "Latency by phase",
            "Dot: median. Dash: 99th percentile. By the phase of publishing.",
            charts.latency(tables, run),
        ),
        (
            "How long each stage takes",
            "The share of all messages, or of all holds, that took at most so long.",
            time_charts.stage_cdf(tables),
        ),
        (
            "Queue depth and alarms",
            "The deepest queues: ready, unacknowledged on top, dotted on disk. Bands: alarms.",
            time_charts.queue_depth(tables, run, start_ns),
        ),
        (
            f"Why {who} were held",
            f"How many {who} were held, on average, by root cause.",
            charts.causes(tables, run, start_ns, bucket_ns),
        ),
        (
            "Who held whom",
            "Left is held by right. The colour is the share of time.",
            charts.heat_strip(tables, run, start_ns, bucket_ns),
        ),
        (
            "Where time went",
            "Every actor’s wall time; the four parts add up to 100 %.",
            charts.time_in_state(tables),
        ),
    )
    return [
        _card(title, f'<p class="note">{escape(note)}</p><div class="chart">{svg}</div>')
        for title, note, svg in drawn
        if svg
    ]


def _blame_table(tables: Tables) -> str:
    ordered = list(blamed(tables.root_cause, "victim", "cause", "path").items())
    rows = [
        (*key, f"{blamed_ns / 1e9:.2f} s")
        for key, blamed_ns in ordered[:ROWS_SHOWN_MAX]
        if blamed_ns >= SHOWN_MIN_NS
    ]
    note = _left_out(len(ordered) - len(rows))
    return _table("Chains of waiting", ("held", "root cause", "chain", "time"), rows, note)


def _head_of_line_table(tables: Tables, bucket_ns: int) -> str:
    found = head_of_line(tables, bucket_ns)
    rows = [
        (one.connection, one.channel, str(one.others), f"{one.held_ns / 1e9:.2f} s")
        for one in found[:ROWS_SHOWN_MAX]
        if one.held_ns >= SHOWN_MIN_NS
    ]
    heads = ("connection", "stopped for", "channels that waited with it", "time")
    return _table("One channel stops its connection", heads, rows, "")


def _latency_table(tables: Tables, run: RunDescription) -> str:
    order = {phase.name: index for index, phase in enumerate(run.phases)}
    rows = [
        (
            row.phase or "(none)",
            row.queue,
            row.measure,
            f"{row.messages:,}",
            *(f"{value / 1e6:,.2f}" for value in row[4:]),
        )
        for row in sorted(
            tables.latency,
            key=lambda row: (row.queue, order.get(row.phase, len(order)), row.measure),
        )
    ]
    heads = ("phase", "queue", "measure", "messages", "p50 ms", "p90", "p99", "p99.9", "max")
    return _table("Latency", heads, rows, "")


def _integrity_table(tables: Tables) -> str:
    rows = [(row.queue, *(f"{value:,}" for value in row[1:])) for row in tables.integrity]
    heads = (*IntegrityRow._fields[:-1], "duplicates")
    return _table("What became of the messages", heads, rows, "")


def _events_table(tables: Tables) -> str:
    rows = [(kind, f"{count:,}") for kind, count in whole_counts(tables.event_kinds).items()]
    return _table("Flow events", ("kind", "count"), rows, "")


def _table(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    note: str,
) -> str:
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    if not body:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return _card(
        title,
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{note}",
    )


def _left_out(count: int) -> str:
    if count == 0:
        return ""
    return f'<p class="note">{count} more, shorter, in the table <code>gold/root_cause</code>.</p>'


def _card(title: str, body: str) -> str:
    return f'<section class="card"><h2>{escape(title)}</h2>{body}</section>'


def _foot(summary: Summary) -> str:
    source = summary.source
    return (
        f"<footer>penstock {escape(penstock.__version__)} · {source.event_count:,} flow events, "
        f"{source.trace_count:,} trace lines · "
        "times are CLOCK_MONOTONIC of this machine</footer>"
    )
