"""The chart of what came into queues against what consumers were done with: publishers against B/T.

From samples of queues alone, so it is there for every broker. The counters are those of one life of
the broker; where they fall another life has begun, and the line is broken.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock.spark.report.charts import BLUE, GREEN, INK, RED, bands, svg, thousands
from penstock.spark.schema.formats import EVENT_STREAM, RunDescription
from penstock.spark.schema.rows import DepthRow, Tables

PANELS_MAX: Final = 3
SPAN_MIN_NS: Final = 5_000_000_000
SPANS_MAX: Final = 40


class Pace(NamedTuple):
    """Messages a second from start_ns to end_ns: what came in, and what was done with."""

    start_ns: int
    end_ns: int
    published: float
    acked: float


def paces(rows: Sequence[DepthRow]) -> list[Pace]:
    """Of the samples of one queue in order of time: SPANS_MAX spans, of five seconds at least.

    A consumer that works in batches acknowledges all of one at once, so shorter ones say nothing.
    """
    if len(rows) < 2:
        return []
    span_ns = max(SPAN_MIN_NS, (rows[-1].t_ns - rows[0].t_ns) // SPANS_MAX)
    found: list[Pace] = []
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
            found.append(Pace(before.t_ns, row.t_ns, published / seconds, acked / seconds))
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


def _lines(panel: Axes, found: Sequence[Pace], start_ns: int) -> None:
    stretches: list[list[Pace]] = []
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
