"""Charts of stages and queues: distributions of times, and depths with the alarms behind them."""

from typing import Final

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator

from penstock.spark.report.charts import (
    BLUE,
    FAINT,
    GREEN,
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

STAGES_MAX: Final = 6
QUEUES_MAX: Final = 5
SAMPLES_MIN: Final = 10
LOWEST_MS: Final = 0.001
_COLOURS: Final = (BLUE, GREEN, ORANGE, VIOLET, RED, FAINT)


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
