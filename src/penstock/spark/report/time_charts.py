"""Charts over time: what came into queues and what left them, depths with alarms, times of stages.

The rates are taken from samples of queues alone, so they exist for every broker. The counters are
those of one life of the broker; where they fall another life has begun, and the line is broken.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator

from penstock.spark.report.charts import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    RED,
    VIOLET,
    bands,
    milliseconds,
    svg,
    thousands,
)
from penstock.spark.schema.formats import EVENT_STREAM, RunDescription
from penstock.spark.schema.rows import CdfRow, DepthRow, Tables

PANELS_MAX: Final = 3
SPAN_MIN_NS: Final = 5_000_000_000
SPANS_MAX: Final = 40
STAGES_MAX: Final = 6
QUEUES_MAX: Final = 5
SAMPLES_MIN: Final = 10
LOWEST_MS: Final = 0.001
_COLOURS: Final = (BLUE, GREEN, ORANGE, VIOLET, RED, FAINT)


class MessageRates(NamedTuple):
    """Messages a second from start_ns to end_ns: what came in, and what was done with."""

    start_ns: int
    end_ns: int
    published: float
    acked: float


def paces(rows: Sequence[DepthRow]) -> list[MessageRates]:
    """Of the samples of one queue in order of time: SPANS_MAX spans, of five seconds at least.

    A consumer that works in batches acknowledges all of one at once, so shorter ones say nothing.
    """
    if len(rows) < 2:
        return []
    span_ns = max(SPAN_MIN_NS, (rows[-1].t_ns - rows[0].t_ns) // SPANS_MAX)
    found: list[MessageRates] = []
    before = rows[0]
    for number, row in enumerate(rows[1:], 1):
        is_reset = row.published < before.published or row.acked < before.acked
        wall_ns = row.t_ns - before.t_ns
        is_last = number == len(rows) - 1
        if is_reset or wall_ns <= 0:
            before = row
        elif wall_ns >= span_ns or (is_last and wall_ns >= span_ns // 2):
            seconds = wall_ns / 1e9
            published, acked = row.published - before.published, row.acked - before.acked
            found.append(MessageRates(before.t_ns, row.t_ns, published / seconds, acked / seconds))
            before = row
    return found


def shown_queues(tables: Tables) -> list[str]:
    """Those that were stopped longest, then those that most came into."""
    held: dict[str, int] = {}
    for one in tables.held_time:
        name = one.actor.removeprefix("queue:")
        held[name] = held.get(name, 0) + one.held_ns
    most: dict[str, int] = {}
    for row in tables.queue_depth:
        if not row.queue.endswith(f"/{EVENT_STREAM}"):
            most[row.queue] = max(most.get(row.queue, 0), row.published)
    busy = [name for name in most if most[name]]
    return sorted(busy, key=lambda name: (-held.get(name, 0), -most[name], name))[:PANELS_MAX]


def rates(tables: Tables, run: RunDescription, start_ns: int, bucket_ns: int) -> str:
    """A panel a queue; red bars for the part of each bucket in which it was stopped."""
    series = {
        name: paces(sorted(row for row in tables.queue_depth if row.queue == name))
        for name in shown_queues(tables)
    }
    series = {name: found for name, found in series.items() if found}
    if not series:
        return ""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(series), 1, sharex=True, squeeze=False)[:, 0]
        for number, (panel, (name, found)) in enumerate(zip(panels, series.items(), strict=True)):
            bands(panel, run, start_ns, with_names=number == 0)
            _stopped(panel, tables, name, start_ns, bucket_ns)
            _lines(panel, found, start_ns)
            panel.text(
                0.008, 0.94, name, va="top", fontweight="bold", color=INK, transform=panel.transAxes
            )
            panel.yaxis.set_major_formatter(thousands())
            panel.set_ylabel("messages / s")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
        panels[-1].set_xlabel("seconds")

    return svg(0.7 + 1.5 * len(series), draw)


def _lines(panel: Axes, found: Sequence[MessageRates], start_ns: int) -> None:
    stretches: list[list[MessageRates]] = []
    for one in found:
        if stretches and stretches[-1][-1].end_ns == one.start_ns:
            stretches[-1].append(one)
        else:
            stretches.append([one])
    for number, stretch in enumerate(stretches):
        edges = [(one.start_ns - start_ns) / 1e9 for one in stretch]
        edges.append((stretch[-1].end_ns - start_ns) / 1e9)
        for values, colour, width, label in (
            ([one.published for one in stretch], BLUE, 2.2, "published"),
            ([one.acked for one in stretch], GREEN, 1.3, "taken by consumers (B/T)"),
        ):
            panel.stairs(
                values,
                edges,
                baseline=None,
                color=colour,
                lw=width,
                label=label if number == 0 else None,
            )
    highest = max(max(one.published, one.acked) for one in found)
    panel.set_ylim(0, max(1.0, highest) * 1.3)


def _stopped(panel: Axes, tables: Tables, name: str, start_ns: int, bucket_ns: int) -> None:
    held = [
        ((row.bucket_ns - start_ns) / 1e9, min(1.0, row.held_ns / bucket_ns))
        for row in tables.held_time
        if row.actor == f"queue:{name}" and row.held_ns > 0
    ]
    panel.bar(
        [left for left, _ in held],
        [share for _, share in held],
        bucket_ns / 1e9,
        align="edge",
        color=RED,
        alpha=0.16,
        lw=0,
        zorder=-1,
        transform=panel.get_xaxis_transform(),
        label="queue stopped",
    )


def stage_cdf(tables: Tables) -> str:
    """One curve a stage; the stages of messages first, then the holds that happened most."""
    stages: dict[str, list[CdfRow]] = {}
    for row in tables.stage_cdf:
        if row.samples >= SAMPLES_MIN:
            stages.setdefault(row.stage, []).append(row)
    order = sorted(stages, key=lambda name: ("←" in name, -stages[name][0].samples, name))
    if not order:
        return ""

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        panel.set_xscale("log")
        for name, colour in zip(order[:STAGES_MAX], _COLOURS, strict=False):
            rows = sorted(stages[name], key=lambda row: row.rank)
            panel.plot(
                [max(row.value_ns / 1e6, LOWEST_MS) for row in rows],
                [row.rank * 100 for row in rows],
                color=colour,
                lw=1.6,
                label=f"{name} ({rows[0].samples:,})",
            )
        panel.set_ylim(0, 101)
        panel.set_ylabel("% took at most")
        panel.xaxis.set_major_locator(time_ticks(*panel.get_xlim()))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: milliseconds(value)))
        panel.minorticks_off()
        panel.legend(loc="lower right")

    return svg(3.4, draw)


def time_ticks(low: float, high: float) -> Locator:
    """Where a logarithmic axis of `low` to `high` > `low` has its numbers: at powers of ten,
    which less than two decades may have one of, or none, so those have more."""
    if high / low < 10:
        return MaxNLocator(nbins=6)
    return LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,))


def queue_depth(tables: Tables, run: RunDescription, start_ns: int) -> str:
    """The deepest queues; a line for what is ready, dotted for what of it is on the disk only,
    a shade on top for what is unacknowledged."""
    queues: dict[str, list[DepthRow]] = {}
    for row in tables.queue_depth:
        # What the broker says of itself is kept on purpose, and would be the deepest one.
        if not row.queue.endswith(f"/{EVENT_STREAM}"):
            queues.setdefault(row.queue, []).append(row)
    peaks = {name: max(row.ready + row.unacked for row in rows) for name, rows in queues.items()}
    shown = sorted((name for name in peaks if peaks[name]), key=lambda name: (-peaks[name], name))
    if not shown:
        return ""

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        bands(panel, run, start_ns, with_names=True)
        for alarm in tables.alarms:
            panel.axvspan(
                (alarm.start_ns - start_ns) / 1e9,
                (alarm.end_ns - start_ns) / 1e9,
                color=RED,
                alpha=0.14,
                lw=0,
                zorder=-1,
            )
        for name, colour in zip(shown[:QUEUES_MAX], _COLOURS, strict=False):
            rows = queues[name]
            times = [(row.t_ns - start_ns) / 1e9 for row in rows]
            ready = [row.ready for row in rows]
            whole = [row.ready + row.unacked for row in rows]
            panel.plot(times, ready, color=colour, lw=1.5, label=name)
            panel.fill_between(times, ready, whole, color=colour, alpha=0.18, lw=0)
            if any(row.paged for row in rows):
                on_disk = [row.paged for row in rows]
                panel.plot(times, on_disk, color=colour, lw=1.2, ls=":", label=f"{name} on disk")
        panel.set_ylim(0, peaks[shown[0]] * 1.3)
        panel.set_ylabel("messages")
        panel.set_xlabel("seconds")
        panel.yaxis.set_major_formatter(thousands())
        panel.legend(loc="upper left", ncols=min(3, len(shown)))

    return svg(3.0, draw)
