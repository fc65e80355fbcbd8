"""The charts of the report, as SVG text that is put straight into the page.

Each function draws one chart and returns "" when there is nothing to draw. Text stays text, so the
page's own font is used and the file stays small. Time runs in seconds from `start_ns`.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from penstock.spark.blame.blame import actor_kind, held_kinds, of_whom
from penstock.spark.report.summary import cause_shares
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import THROUGHPUT_BUCKET_NS, LatencyRow, Tables, whole_time

INK: Final = "#22303c"
FAINT: Final = "#8896a3"
GRID: Final = "#e4e9ee"
BLUE: Final = "#2f6fb0"
GREEN: Final = "#2a9d76"
ORANGE: Final = "#e08a1e"
RED: Final = "#c8413b"
VIOLET: Final = "#7b5ea7"
CAUSE_COLOURS: Final = (RED, ORANGE, VIOLET, BLUE, GREEN, FAINT)
STATE_COLOURS: Final = ("#dfe6ec", GREEN, RED, "#e9b949")
BANDS: Final = ("#f3f6f9", "#ffffff")
ROWS_MAX: Final = 14
SHARE_SHOWN_MIN: Final = 0.005
WIDTH_INCHES: Final = 9.6

_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "penstock",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def start_of(tables: Tables, run: RunDescription) -> int:
    """The moment the charts call 0: the first phase, or the first thing that was seen."""
    if run.phases:
        return run.phases[0].start_ns
    starts = [row.bucket_ns for row in tables.throughput]
    starts += [row.bucket_ns for row in tables.held_time]
    starts += [row.t_ns for row in tables.queue_depth]
    return min(starts, default=0)


def throughput(tables: Tables, run: RunDescription, start_ns: int) -> str:
    """Published and delivered messages a second above, waiting messages below."""
    if not tables.throughput:
        return ""
    per_second = 1e9 / THROUGHPUT_BUCKET_NS
    rates: dict[int, list[float]] = {}
    for row in tables.throughput:
        sums = rates.setdefault(row.bucket_ns, [0.0, 0.0])
        sums[0] += row.published * per_second
        sums[1] += row.delivered * per_second
    buckets = range(min(rates), max(rates) + 1, THROUGHPUT_BUCKET_NS)
    times = [(bucket - start_ns) / 1e9 for bucket in buckets]
    series = [rates.get(bucket, [0.0, 0.0]) for bucket in buckets]

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        bands(upper, run, start_ns, with_names=True)
        bands(lower, run, start_ns, with_names=False)
        upper.plot(times, [pair[0] for pair in series], color=BLUE, lw=1.6, label="published")
        upper.plot(times, [pair[1] for pair in series], color=GREEN, lw=1.6, label="delivered")
        upper.set_ylabel("messages / s")
        upper.set_ylim(0, max(1.0, *(max(pair) for pair in series)) * 1.25)
        upper.yaxis.set_major_formatter(thousands())
        upper.legend(loc="upper right", ncols=2)
        _depths(lower, tables, start_ns)
        lower.set_ylabel("messages in queue")
        lower.set_xlabel("seconds")
        lower.yaxis.set_major_formatter(thousands())

    return svg(4.8, draw)


def latency(tables: Tables, run: RunDescription) -> str:
    """Median to 99th percentile per phase: one panel a queue, both measures."""
    rows = [row for row in tables.latency if row.phase]
    if not rows:
        return ""
    queues = sorted({row.queue for row in rows})
    order = [phase.name for phase in run.phases]
    phases = sorted(
        {row.phase for row in rows},
        key=lambda name: order.index(name) if name in order else len(order),
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(queues), sharey=True, squeeze=False)[0]
        for panel, queue in zip(panels, queues, strict=True):
            _latency_panel(panel, [row for row in rows if row.queue == queue], phases)
            panel.set_title(queue, loc="left", fontsize=10, fontweight="bold", color=INK)
        panels[0].set_ylabel("latency")
        panels[-1].legend(loc="upper left", bbox_to_anchor=(0.0, 1.0))

    return svg(3.4, draw)


def causes(tables: Tables, run: RunDescription, start_ns: int, bucket_ns: int) -> str:
    """How many of those who were held were so on average in each bucket, by root cause."""
    shares = cause_shares(tables)
    if not shares:
        return ""
    kinds = held_kinds(tables.root_cause)
    names = [
        share.cause for share in shares[: len(CAUSE_COLOURS)] if share.share >= SHARE_SHOWN_MIN
    ]
    buckets, values = _by_bucket(
        tables,
        bucket_ns,
        [
            (row.bucket_ns, row.cause, row.blamed_ns)
            for row in tables.root_cause
            if actor_kind(row.victim) in kinds
        ],
    )
    heights = [[values.get((bucket, name), 0) / bucket_ns for bucket in buckets] for name in names]

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        bands(panel, run, start_ns, with_names=True)
        bottoms = [0.0] * len(buckets)
        for name, height, colour in zip(names, heights, CAUSE_COLOURS, strict=False):
            panel.bar(
                [(bucket - start_ns) / 1e9 for bucket in buckets],
                height,
                bucket_ns / 1e9,
                bottoms,
                align="edge",
                color=colour,
                label=name,
                linewidth=0,
            )
            bottoms = [low + more for low, more in zip(bottoms, height, strict=True)]
        panel.set_ylabel(f"{of_whom(kinds)} held".replace(" and ", " + "))
        panel.set_xlabel("seconds")
        panel.set_ylim(0, max([1.0, *bottoms]) * 1.25)
        panel.legend(loc="upper right", ncols=len(names))

    return svg(2.9, draw)


def heat_strip(tables: Tables, run: RunDescription, start_ns: int, bucket_ns: int) -> str:
    """One row for each edge, one cell for each bucket; the colour is the share of time held."""
    totals: dict[str, int] = {}
    cells: list[tuple[int, str, int]] = []
    for row in tables.who_blocked_whom:
        name = f"{short(row.actor)} ← {short(row.peer)}"
        totals[name] = totals.get(name, 0) + row.blocked_ns
        cells.append((row.bucket_ns, name, row.blocked_ns))
    if not totals:
        return ""
    names = sorted(totals, key=lambda name: (-totals[name], name))[:ROWS_MAX]
    buckets, values = _by_bucket(tables, bucket_ns, cells)
    grid = [
        [min(1.0, values.get((bucket, name), 0) / bucket_ns) for bucket in buckets]
        for name in names
    ]
    borders = [(bucket - start_ns) / 1e9 for bucket in (*buckets, buckets[-1] + bucket_ns)]

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        colours = LinearSegmentedColormap.from_list("held", ["#f3f6f9", "#f4c27a", RED])
        mesh = panel.pcolormesh(
            borders,
            list(range(len(names) + 1)),
            grid,
            cmap=colours,
            vmin=0,
            vmax=1,
            edgecolors="white",
            linewidth=0.4,
        )
        panel.set_yticks([row + 0.5 for row in range(len(names))], names, color=INK, fontsize=9)
        panel.invert_yaxis()
        panel.grid(visible=False)
        panel.tick_params(length=0)
        panel.set_xlabel("seconds")
        if run.phases:
            panel.set_xlim(0, (run.phases[-1].end_ns - start_ns) / 1e9)
        for phase in run.phases[1:]:
            panel.axvline((phase.start_ns - start_ns) / 1e9, color=FAINT, lw=0.8, ls=":")
        bar = figure.colorbar(mesh, ax=panel, pad=0.01, fraction=0.025)
        bar.set_ticks([0, 0.5, 1], labels=["0 %", "50 %", "100 %"])
        bar.outline.set_visible(False)

    return svg(1.0 + 0.27 * len(names), draw)


def time_in_state(tables: Tables) -> str:
    """One bar an actor: idle, busy, blocked, waiting."""
    rows = [row for row in whole_time(tables.time_in_state) if row.wall_ns > 0]
    rows.sort(
        key=lambda row: (-(row.blocked_ns + row.busy_ns + row.waiting_ns) / row.wall_ns, row.actor)
    )
    rows = rows[:ROWS_MAX]
    if not rows:
        return ""

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        lefts = [0.0] * len(rows)
        for index, name in enumerate(("idle", "busy", "blocked", "waiting")):
            widths = [
                (row.idle_ns, row.busy_ns, row.blocked_ns, row.waiting_ns)[index]
                / row.wall_ns
                * 100
                for row in rows
            ]
            panel.barh(
                range(len(rows)),
                widths,
                0.72,
                lefts,
                color=STATE_COLOURS[index],
                label=name,
            )
            lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
        panel.set_yticks(
            range(len(rows)), [short(row.actor) for row in rows], color=INK, fontsize=9
        )
        panel.invert_yaxis()
        panel.grid(visible=False)
        panel.tick_params(length=0)
        panel.set_xlim(0, 100)
        panel.set_xlabel("% of wall time")
        panel.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)

    return svg(1.1 + 0.27 * len(rows), draw)


def short(actor: str) -> str:
    """A name that fits beside a chart."""
    name = actor
    if actor_kind(actor) == "consumer" and "@" in actor:
        tag, _, connection = actor.removeprefix("consumer:").partition("@")
        name = f"consumer {tag[:8]} {connection.removeprefix('conn:')}"
    return name if len(name) <= 34 else name[:16] + "…" + name[-17:]


def milliseconds(value: float) -> str:
    """A duration in ms or s with about two digits that matter; `value` in ms."""
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"


def _latency_panel(panel: Axes, rows: Sequence[LatencyRow], phases: Sequence[str]) -> None:
    panel.set_yscale("log")
    for measure, shift, colour in (("confirm", -0.16, BLUE), ("delivery", 0.16, GREEN)):
        found = [row for row in rows if row.measure == measure]
        places = [phases.index(row.phase) + shift for row in found]
        panel.vlines(
            places,
            [row.p50_ns / 1e6 for row in found],
            [row.p99_ns / 1e6 for row in found],
            color=colour,
            lw=5,
            alpha=0.30,
        )
        panel.plot(
            places,
            [row.p50_ns / 1e6 for row in found],
            "o",
            color=colour,
            ms=5,
            label=f"{measure}: median to p99",
        )
        panel.plot(places, [row.p99_ns / 1e6 for row in found], "_", color=colour, ms=9, mew=2)
    panel.set_xticks(range(len(phases)), [name.replace(" ", "\n") for name in phases], fontsize=9)
    panel.set_xlim(-0.6, len(phases) - 0.4)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: milliseconds(value)))
    panel.minorticks_off()
    panel.margins(y=0.25)


def _depths(panel: Axes, tables: Tables, start_ns: int) -> None:
    # A client such as Celery makes queues of its own; the run is about those that were traced.
    traced = {row.queue for row in tables.throughput}
    queues = sorted(
        {row.queue for row in tables.queue_depth if row.queue.rpartition("/")[2] in traced}
    )
    peaks = {
        queue: max(row.ready + row.unacked for row in tables.queue_depth if row.queue == queue)
        for queue in queues
    }
    shown = sorted(queues, key=lambda queue: (-peaks[queue], queue))[:4]
    for queue, colour in zip(shown, (ORANGE, VIOLET, BLUE, GREEN), strict=False):
        rows = [row for row in tables.queue_depth if row.queue == queue]
        panel.plot(
            [(row.t_ns - start_ns) / 1e9 for row in rows],
            [row.ready + row.unacked for row in rows],
            color=colour,
            lw=1.4,
            label=queue,
        )
    panel.set_ylim(0, max([10, *peaks.values()]) * 1.35)
    if shown:
        panel.legend(loc="upper left", ncols=len(shown))
    else:
        panel.text(
            0.5, 0.5, "no queue samples", transform=panel.transAxes, ha="center", color=FAINT
        )


def bands(panel: Axes, run: RunDescription, start_ns: int, *, with_names: bool) -> None:
    for index, phase in enumerate(run.phases):
        left, right = (phase.start_ns - start_ns) / 1e9, (phase.end_ns - start_ns) / 1e9
        panel.axvspan(left, right, color=BANDS[index % 2], zorder=-2, lw=0)
        if with_names:
            panel.text(
                (left + right) / 2,
                1.02,
                phase.name,
                ha="center",
                va="bottom",
                fontsize=9,
                color=FAINT,
                transform=panel.get_xaxis_transform(),
            )
    if run.phases:
        panel.set_xlim(0, (run.phases[-1].end_ns - start_ns) / 1e9)


def _by_bucket(
    tables: Tables,
    bucket_ns: int,
    cells: Sequence[tuple[int, str, int]],
) -> tuple[list[int], dict[tuple[int, str], int]]:
    """Sums by (bucket, name), and all buckets of the whole run, so that charts share their axis."""
    known = [row.bucket_ns - row.bucket_ns % bucket_ns for row in tables.throughput]
    known += [bucket for bucket, _, _ in cells]
    values: dict[tuple[int, str], int] = {}
    for bucket, name, value in cells:
        values[bucket, name] = values.get((bucket, name), 0) + value
    return list(range(min(known), max(known) + 1, bucket_ns)), values


def thousands() -> FuncFormatter:
    return FuncFormatter(lambda value, _: f"{value:,.0f}")


def svg(height_inches: float, draw: Callable[[Figure], None]) -> str:
    with rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
