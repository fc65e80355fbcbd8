"""The charts of the page. Each is bounded: points of a line, lines of a plot, rows of a chart."""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.spark.blame.blame import counted_once
from penstock.spark.report.names import clean, cut, on_node, one_of_each, shown, shown_queue
from penstock.spark.report.paces import by_queue, paces, shown_queues, unbroken
from penstock.spark.report.scales import (
    SECOND_NS,
    Cell,
    Line,
    LogScale,
    Plot,
    Row,
    Tick,
    TimeAxis,
    area,
    duration,
    height_of,
    steps,
    top_of,
    y_ticks,
)
from penstock.spark.report.summary import CauseShare
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import CdfRow, Tables, whole_time

CELLS_MAX: Final = 80
ROWS_MAX: Final = 14
LATENCIES_MAX: Final = 30
LINES_MAX: Final = 5
STAGES_MAX: Final = 6
STATES: Final = ("idle", "busy", "blocked", "waiting")
SAMPLES_MIN: Final = 10
_CAUSE_TONES: Final = (2, 3, 4, 0, 1, 5)


# -- over time -------------------------------------------------------------------------------------


def throughput(axis: TimeAxis, tables: Tables) -> list[Plot]:
    """Messages a second: as clients have counted them, or else as the broker's samples have."""
    width_ns = axis.width_ns(2 * SECOND_NS)
    sums: dict[int, list[float]] = {}
    for row in tables.throughput:
        one = sums.setdefault((row.bucket_ns - axis.start_ns) // width_ns, [0, 0])
        one[0] += row.published
        one[1] += row.delivered
    names = ("published", "delivered")
    if not tables.throughput:
        names = ("into queues", "done with")
        for rate in (one for rows in by_queue(tables).values() for one in paces(rows, 1)):
            low, high = rate.start_ns - axis.start_ns, rate.end_ns - axis.start_ns
            for at in range(low // width_ns, -(-high // width_ns)):
                there_ns = min(high, (at + 1) * width_ns) - max(low, at * width_ns)
                one = sums.setdefault(at, [0, 0])
                one[0] += rate.published * there_ns / SECOND_NS
                one[1] += rate.acked * there_ns / SECOND_NS
    if not sums:
        return []
    values = [
        [sums.get(at, [0, 0])[which] * SECOND_NS / width_ns for at in range(max(sums) + 1)]
        for which in (0, 1)
    ]
    top = top_of(max(map(max, values)))
    times = [axis.start_ns + at * width_ns for at in range(max(sums) + 2)]
    lines = [
        Line(name, tone, (steps(axis, times, found, top),))
        for tone, (name, found) in enumerate(zip(names, values, strict=True))
    ]
    return [Plot(tuple(lines), axis.ticks(), y_ticks(top), "messages / s", axis.bands())]


def rates(axis: TimeAxis, tables: Tables, bucket_ns: int) -> list[Plot]:
    """A frame a queue: what came in and went, and how much of the time it took nothing."""
    found: list[Plot] = []
    queues = by_queue(tables)
    for node, name in shown_queues(tables):
        series = paces(queues[node, name])
        if not series:
            continue
        top = top_of(max(max(one.published, one.acked) for one in series))
        held: dict[int, float] = {}
        width_ns = axis.width_ns(bucket_ns)
        for row in tables.held_time:
            if (row.node, row.actor) == (node, f"queue:{name}"):
                at = (row.bucket_ns - axis.start_ns) // width_ns
                held[at] = held.get(at, 0) + row.held_ns / width_ns
        stopped = [min(1.0, held.get(at, 0.0)) for at in range(max(held, default=-1) + 1)]
        lines = []
        if any(stopped):
            times = [axis.start_ns + at * width_ns for at in range(len(stopped) + 1)]
            lines.append(Line("stopped", 2, (area(axis, times, stopped, 1.0),), "area"))
        for number, label in ((2, "published"), (3, "taken by consumers")):
            parts = [
                steps(axis, [*(one.start_ns for one in part), part[-1].end_ns],
                       [one[number] for one in part], top)
                for part in unbroken(series)
            ]  # fmt: skip
            lines.append(Line(label, number - 2, tuple(parts)))
        found.append(
            Plot(tuple(lines), axis.ticks(), y_ticks(top), "messages / s", axis.bands(),
                 shown_queue(name, node))
        )  # fmt: skip
    return found


def depths(axis: TimeAxis, tables: Tables) -> list[Plot]:
    """The deepest queues: ready and unacknowledged together, and what of it is on the disk only."""
    queues = by_queue(tables)
    peaks = {name: max(row.ready + row.unacked for row in rows) for name, rows in queues.items()}
    order = sorted((name for name in peaks if peaks[name]), key=lambda name: (-peaks[name], name))
    if not order:
        return []
    top = top_of(peaks[order[0]])
    lines: list[Line] = []
    width_ns = axis.width_ns(SECOND_NS)
    for tone, name in enumerate(order[:LINES_MAX]):
        for kind, values in (
            ("line", [row.ready + row.unacked for row in queues[name]]),
            ("dotted", [row.paged for row in queues[name]]),
        ):
            if kind == "line" or any(values):
                bins: dict[int, int] = {}
                for row, value in zip(queues[name], values, strict=True):
                    at = row.t_ns // width_ns
                    bins[at] = max(value, bins.get(at, 0))
                points = " ".join(
                    f"{axis.at(at * width_ns)},{height_of(value, top)}"
                    for at, value in bins.items()
                )
                label = shown_queue(name[1], name[0]) + (" on disk" if kind == "dotted" else "")
                lines.append(Line(label, tone, (points,), kind))
    return [Plot(tuple(lines), axis.ticks(), y_ticks(top), "messages", axis.bands())]


def causes(
    axis: TimeAxis, tables: Tables, shares: Sequence[CauseShare], bucket_ns: int
) -> list[Plot]:
    """How many were held on average, one cause on top of the other."""
    names = [one.cause for one in shares[:STAGES_MAX]]
    width_ns = axis.width_ns(bucket_ns)
    sums: dict[tuple[int, str], float] = {}
    for row in counted_once(tables.root_cause):
        key = ((row.bucket_ns - axis.start_ns) // width_ns, row.cause)
        sums[key] = sums.get(key, 0) + row.blamed_ns / width_ns
    if not sums:
        return []
    count = max(at for at, _ in sums) + 1
    levels = [[0.0] * count]
    for name in names:
        levels.append([low + sums.get((at, name), 0) for at, low in enumerate(levels[-1])])
    top = top_of(max(levels[-1]))
    times = [axis.start_ns + at * width_ns for at in range(count + 1)]
    # The highest level first: those below it are painted over it.
    lines = [
        Line(name, tone_of(tone), (area(axis, times, levels[tone + 1], top),), "solid")
        for tone, name in reversed(list(enumerate(names)))
    ]
    return [Plot(tuple(lines), axis.ticks(), y_ticks(top), "held at a time", axis.bands())]


def tone_of(number: int) -> int:
    """The colour of the cause that is 0.. among the causes."""
    return _CAUSE_TONES[min(number, len(_CAUSE_TONES) - 1)]


def held_rows(axis: TimeAxis, tables: Tables, bucket_ns: int) -> list[Row]:
    """A row for who is held by whom, the longest first; a cell for a part of the time. Those who
    have one name are one row."""
    width_ns = axis.width_ns(bucket_ns, CELLS_MAX)
    totals: dict[str, dict[int, int]] = {}
    for row in tables.who_blocked_whom:
        bins = totals.setdefault(f"{shown(row.actor)} ← {shown(row.peer, row.node)}", {})
        at = (row.bucket_ns - axis.start_ns) // width_ns
        bins[at] = bins.get(at, 0) + row.blocked_ns
    order = sorted(totals, key=lambda name: (-sum(totals[name].values()), name))[:ROWS_MAX]
    width = round(100 * width_ns / axis.span_ns, 2)
    return [
        Row(
            name,
            "",
            tuple(
                Cell(axis.at(axis.start_ns + at * width_ns), width, round(min(1, ns / width_ns), 2))
                for at, ns in sorted(totals[name].items())
            ),
            duration(sum(totals[name].values())),
        )
        for name in order
    ]


# -- not over time ---------------------------------------------------------------------------------


def stages(tables: Tables) -> list[Plot]:
    """One curve a stage: those of messages first, then the holds that happened most."""
    found: dict[str, list[CdfRow]] = {}
    for row in tables.stage_cdf:
        if row.samples >= SAMPLES_MIN:
            found.setdefault(row.stage + on_node(row.node), []).append(row)
    order = sorted(found, key=lambda name: ("←" in name, -found[name][0].samples, name))
    values = [max(1.0, row.value_ns) for name in order[:STAGES_MAX] for row in found[name]]
    if not values:
        return []
    scale = LogScale(values)
    lines = tuple(
        Line(
            f"{name} ({found[name][0].samples:,})",
            tone,
            (" ".join(
                f"{scale.at(row.value_ns)},{height_of(row.rank, 1.0)}"
                for row in sorted(found[name], key=lambda row: row.rank)
            ),),
        )
        for tone, name in enumerate(order[:STAGES_MAX])
    )  # fmt: skip
    quarters = tuple(Tick(at, f"{at} %") for at in (0, 25, 50, 75, 100))
    return [Plot(lines, scale.ticks(), quarters, "took at most")]


def latencies(tables: Tables, run: RunDescription) -> tuple[list[Row], tuple[Tick, ...]]:
    """From median to 99th percentile, by queue and phase."""
    order = {phase.name: number for number, phase in enumerate(run.phases)}
    rows = sorted(
        tables.latency,
        key=lambda row: (row.queue, row.node, order.get(row.phase, len(order)), row.measure),
    )[:LATENCIES_MAX]
    if not rows:
        return [], ()
    scale = LogScale([max(1.0, value) for row in rows for value in (row.p50_ns, row.p99_ns)])
    found = [
        Row(
            f"{shown_queue(row.queue, row.node)} · {cut(clean(row.phase)) or 'all'} · "
            f"{row.measure}",
            f"{row.messages:,} messages, at most {duration(row.max_ns)}",
            (Cell(low := scale.at(row.p50_ns), max(1.0, round(scale.at(row.p99_ns) - low, 2)),
                  0 if row.measure == "confirm" else 1),),
            f"{duration(row.p50_ns)} – {duration(row.p99_ns)}",
        )
        for row in rows
    ]  # fmt: skip
    return found, scale.ticks()


def states(tables: Tables) -> list[Row]:
    """Idle, busy, blocked, waiting of those actors that were idle least. Those who have one name
    are one row."""
    one = one_of_each()
    named = (row._replace(actor=one(row.actor, row.node)) for row in tables.time_in_state)
    rows = [row for row in whole_time(named) if row.wall_ns > 0]
    rows.sort(key=lambda row: (row.idle_ns / row.wall_ns, row.actor))
    found: list[Row] = []
    for row in rows[:ROWS_MAX]:
        cells, left = [], 0.0
        parts_ns = (row.idle_ns, row.busy_ns, row.blocked_ns, row.waiting_ns)
        for tone, ns in enumerate(parts_ns):
            width = round(100 * ns / row.wall_ns, 2)
            cells.append(Cell(round(left, 2), width, tone))
            left += width
        most_ns = max(parts_ns[1:])
        note = f"{most_ns / row.wall_ns:.0%} {STATES[parts_ns.index(most_ns, 1)]}"
        found.append(
            Row(shown(row.actor, row.node), cut(clean(row.actor), 255), tuple(cells), note)
        )
    return found


def legend(plots: Sequence[Plot]) -> Mapping[str, Line]:
    """Each name once, over all frames of a chart; causes in the order in which they count."""
    found = {line.name: line for plot in plots for line in plot.lines}
    return (
        found
        if any(one.kind != "solid" for one in found.values())
        else dict(reversed(found.items()))
    )
