"""One self-contained HTML page: where and when, verdict, promises, causes with advice, charts.

No script, no other file. Every word that is not ours goes through the template, which escapes it.
"""

import platform
import re
import time
from collections.abc import Sequence
from typing import Any, Final

import penstock
from penstock.spark.blame.blame import blamed, held_kinds, of_whom
from penstock.spark.report import names, paces, plots, scales
from penstock.spark.report.promises import MARKS, moved
from penstock.spark.report.recommend import Recommendation, advice_for
from penstock.spark.report.summary import Summary
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import Tables, whole_counts, without_lone_node

ROWS_SHOWN_MAX: Final = 12
BROKERS_SHOWN_MAX: Final = 5
ROOTS_SHOWN_MAX: Final = 4
CAUSES_MAX: Final = 20
SENTENCES_MAX: Final = 30
TEXT_MAX: Final = 800
WALL_MIN_NS: Final = 946_684_800_000_000_000
SHOWN_MIN_NS: Final = 10_000_000


def render(tables: Tables, run: RunDescription, summary: Summary, bucket_ns: int) -> str:
    """The whole page as text."""
    tables = without_lone_node(tables)
    axis = scales.TimeAxis(tables, run, bucket_ns)
    verdict, state = summary.verdict()
    latencies, latency_ticks = plots.latencies(tables, run)
    named = {one.cause for one in summary.causes}
    page = _templates().get_template("page.html")
    text: str = page.render(
        # Only `penstock run` has phases; any other broker's events are no run.
        title="Run report" if run.phases else "Flow report",
        verdict=verdict,
        state=state,
        source=summary.source,
        where=_where(axis, run, summary, bucket_ns),
        tiles=_tiles(tables, summary),
        promises=[(one, MARKS[one.state]) for one in summary.promises],
        sentences=summary.sentences[:SENTENCES_MAX],
        causes=_causes(summary),
        others=[one for one in summary.recommendations if one.rule not in named],
        held_who=summary.held_who,
        throughput=plots.throughput(axis, tables),
        rates=plots.rates(axis, tables, bucket_ns),
        depths=plots.depths(axis, tables),
        cause_plots=plots.causes(axis, tables, summary.causes, bucket_ns),
        stages=plots.stages(tables),
        latencies=latencies,
        latency_ticks=latency_ticks,
        held_rows=plots.held_rows(axis, tables, bucket_ns),
        axis=axis,
        states=plots.states(tables),
        messages=_messages(tables),
        chains=_chains(tables),
        kinds=whole_counts(tables.event_kinds),
        legend=plots.legend,
        anchor=anchor,
        told={one.cause for one in summary.causes[:CAUSES_MAX]},
        shown=names.shown,
        is_traced=summary.source.trace_count > 0,
        who=of_whom(held_kinds(tables.root_cause)),
    )
    return text


def anchor(cause: str) -> str:
    """The name of the place on the page where this cause is told, with what helps."""
    return "cause-" + re.sub(r"[^a-z0-9]+", "-", cause.lower())


def _templates() -> Any:
    # Comes with the extra for Spark; commands have to be there without it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("penstock.spark.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters["clean"] = lambda text: names.cut(names.clean(str(text)), TEXT_MAX)
    found.filters["percent"] = lambda share: f"{share:.0%}"
    found.filters["duration"] = scales.duration
    return found


def _where(
    axis: scales.TimeAxis, run: RunDescription, summary: Summary, bucket_ns: int
) -> list[tuple[str, str]]:
    """When, where, with what."""
    found: list[tuple[str, str]] = []
    length = scales.elapsed(axis.span_ns / scales.SECOND_NS)
    # Times below those of this century are monotonic ones, of a broker that said what they mean.
    offset_ns = run.brokers[-1].wall_ns - run.brokers[-1].mono_ns if run.brokers else 0
    if axis.start_ns > WALL_MIN_NS:
        offset_ns = 0
    if axis.start_ns + offset_ns > WALL_MIN_NS:
        began, ended = (_wall(t_ns + offset_ns) for t_ns in (axis.start_ns, axis.end_ns))
        found.append(("When", f"{began} to {ended}, {length}"))
    else:
        found.append(("When", f"{length}; no broker has said at which time of the day"))
    for one in run.brokers[-BROKERS_SHOWN_MAX:]:
        facts = ", ".join(f"{name} {value}" for name, value in one.facts.items())
        text = f"Penstock {one.penstock} on {one.node}, boot {one.boot_id}"
        found.append(("Broker", text + (f"; {facts}" if facts else "")))
    found += [(name.capitalize(), value) for name, value in run.facts.items()]
    if run.phases:
        phases = (
            f"{one.name} {scales.duration(one.end_ns - one.start_ns)}"
            for one in run.phases[: scales.PHASES_MAX]
        )
        found.append(("Scenario", " → ".join(phases)))
    source = summary.source
    found.append((
        "Analysis",
        f"Penstock {penstock.__version__}, Python {platform.python_version()}, "
        f"{source.engine_note}; buckets of {bucket_ns / 1e9:g} s",
    ))  # fmt: skip
    found.append(("Input", f"{source.event_count:,} flow events, {source.trace_count:,} lines of "
                           "clients’ traces"))  # fmt: skip
    return found


def _wall(wall_ns: int) -> str:
    """Local time with its offset."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(wall_ns / 1e9))


def _tiles(tables: Tables, summary: Summary) -> list[tuple[str, str, str]]:
    """Number, what it is of, and where more about it is."""
    if summary.source.trace_count:
        found = [
            (f"{summary.published:,}", "messages published", "messages"),
            (f"{summary.delivered:,}", "delivered", "messages"),
            (f"{summary.lost:,}", "confirmed and lost", "promises"),
            (f"{summary.duplicated:,}", "duplicates", "promises"),
        ]
    else:
        # Only traces of clients follow single messages; the broker's samples count them.
        alarm_ns = sum(alarm.end_ns - alarm.start_ns for alarm in tables.alarms)
        found = [
            (f"{summary.queued_in:,}", "messages came into queues", "messages"),
            (f"{summary.queued_out:,}", "were taken by consumers", "messages"),
            (scales.duration(alarm_ns), "alarms were set", "depths"),
        ]
    found.append((scales.duration(summary.held_ns), f"{summary.held_who} held", "causes"))
    if summary.causes:
        top = summary.causes[0]
        found.append((f"{top.share:.0%}", top.cause, anchor(top.cause)))
    return found


def _causes(summary: Summary) -> list[dict[str, Any]]:
    """The causes that are named on the page, with what helps and whom they came from."""
    found: list[dict[str, Any]] = []
    for tone, one in enumerate(summary.causes[:CAUSES_MAX]):
        roots: Sequence[Recommendation] = [
            root for root in summary.recommendations if root.rule == one.cause
        ]
        found.append({
            "name": one.cause,
            "tone": plots.tone_of(tone),
            "share": one.share,
            "blamed_ns": one.blamed_ns,
            "advice": advice_for(one.cause),
            "roots": roots[:ROOTS_SHOWN_MAX],
            "more": max(0, len(roots) - ROOTS_SHOWN_MAX),
        })  # fmt: skip
    return found


def _messages(tables: Tables) -> list[tuple[str, list[str]]]:
    """A row a queue: what clients have traced, and what the broker has counted."""
    traced = {(row.node, f"/{row.queue}"): row for row in tables.integrity}
    queues = paces.by_queue(tables)
    rows: list[tuple[paces.Queue, list[int | None]]] = []
    for name in sorted({*queues, *traced}):
        one, counted = traced.get(name), moved(queues.get(name, ()))
        said: list[int | None] = [None] * 4
        if one is not None:
            said = [one.published, one.delivered, one.lost, one.duplicated]
        if one is not None or any(counted):
            rows.append((name, [said[0], *counted, *said[1:]]))
    rows.sort(key=lambda row: (row[1][0] is None, -sum(one or 0 for one in row[1]), row[0]))
    shown = [
        (names.shown_queue(name, node), values) for (node, name), values in rows[:ROWS_SHOWN_MAX]
    ]
    rest = [values for _, values in rows[ROWS_SHOWN_MAX:]]
    if rest:
        sums = [sum(one or 0 for one in column) for column in zip(*rest, strict=True)]
        shown.append((f"{len(rest):,} other queues", [*sums]))
    return [
        (name, ["–" if one is None else f"{one:,}" for one in values]) for name, values in shown
    ]


def _chains(tables: Tables) -> list[tuple[list[str], str, str]]:
    """Who waits for whom, because of what, for how long; the longest first."""
    one = names.one_of_each()
    rows = (row._replace(path=one(row.path, row.node)) for row in tables.root_cause)
    ordered = list(blamed(rows, "cause", "path", "node").items())
    return [
        (names.shown_chain(path, node), cause, scales.duration(blamed_ns))
        for (cause, path, node), blamed_ns in ordered[:ROWS_SHOWN_MAX]
        if blamed_ns >= SHOWN_MIN_NS
    ]
