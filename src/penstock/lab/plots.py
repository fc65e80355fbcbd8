"""The lab's plots: the trade-off, bars per strategy, rate lines over time. Needs matplotlib.

    tradeoff-PLACE     one panel a workload: confirm p99 against memory; area is throughput
    bars-PLACE         one panel a measure, strategies side by side, one group a workload
    lines-WORKLOAD     sender and receiver rates and memory over time, for workloads with events
Each as PNG and SVG. Source of the lines: seed S2, whose log shows sending and receiving rates
around a memory alarm.
"""

from collections.abc import Callable, Sequence
from math import log2, log10
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.base.errors import OperatorError
from penstock.lab.result import Result
from penstock.lab.score import Verdict
from penstock.lab.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PALETTE: Final = {
    "none": "#9e9e9e",
    "rabbitmq-3.5": "#f4a261",
    "rabbitmq-4": "#e76f51",
    "syndicate": "#8e6bbf",
    "penstock": "#1d6fa5",
    "adaptive": "#2a9d5c",
}
STATIC_COLOR: Final = "#8ba6b8"
LINES_SHOWN: Final = ("none", "rabbitmq-4", "penstock", "adaptive")
SMOOTH_BINS: Final = 5
MIB: Final = 1024 * 1024


def use_matplotlib() -> None:
    """To draw into files. Raises: OperatorError where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise OperatorError(
            "no plots, because matplotlib is not installed: pip install matplotlib"
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"font.size": 9, "svg.fonttype": "none"})


def write_plots(
    folder: Path,
    workloads: Sequence[Workload],
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
) -> list[Path]:
    """Draw everything there is; paths of the files. Raises: OperatorError without matplotlib."""
    use_matplotlib()
    written: list[Path] = []
    for where in dict.fromkeys(one.where for one in results):
        some = [one for one in results if one.where == where]
        names = list(dict.fromkeys(one.workload for one in some))
        scores = {one.workload: one.scores for one in verdicts if one.where == where}
        written += save(folder / f"tradeoff-{where}", tradeoff(names, some, where))
        written += save(folder / f"bars-{where}", bars(names, some, scores, where))
        for workload in workloads:
            mine = [one for one in some if one.workload == workload.name]
            if workload.events and mine:
                written += save(
                    folder / f"lines-{workload.name}-{where}", lines(workload, mine, where)
                )
    return written


def save(path: Path, figure: "Figure") -> list[Path]:
    """As PNG and SVG."""
    found = []
    for kind in ("png", "svg"):
        target = path.with_name(f"{path.name}.{kind}")
        figure.savefig(target, dpi=120)
        found.append(target)
    return found


def color_of(profile: str) -> str:
    return PALETTE.get(profile, STATIC_COLOR)


def new_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tradeoff(names: Sequence[str], results: Sequence[Result], where: str) -> "Figure":
    """Down and left is better, and large is better; hollow: memory was still rising."""
    figure, panels = tradeoff_panels(len(names), 4, (3.6, 3.2), 0.6)
    for name, panel in zip(names, panels, strict=True):
        some = [one for one in results if one.workload == name]
        highest = max(one.throughput_per_s for one in some) or 1.0
        for one in some:
            color = color_of(one.profile)
            panel.scatter(
                max(one.confirm.p99_ms, 0.05),
                one.memory_bytes_max / MIB,
                s=20 + 130 * one.throughput_per_s / highest,
                facecolors="none" if one.is_growing else color,
                edgecolors=color if one.is_growing else "#333333",
                linewidths=1.4 if one.is_growing else 0.4,
                zorder=3 if one.profile in PALETTE else 2,
            )
        name_points(panel, some)
        panel.set_title(name)
        log_axes(panel, 0.2)
    figure.suptitle(
        f"Trade-off ({where}): down and left is better, larger is more throughput, "
        "hollow: memory still rising"
    )
    return figure


def tradeoff_panels(
    count: int, columns_max: int, each: tuple[float, float], above: float
) -> "tuple[Figure, list[Axes]]":
    """Latency against memory, so many times. each: width and height of one; above: for titles."""
    columns = min(columns_max, count)
    rows = -(-count // columns)
    figure = new_figure(each[0] * columns, each[1] * rows + above)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[count:]:
        panel.axis("off")
    figure.supxlabel("confirm latency, p99 in ms")
    figure.supylabel("peak memory in MiB")
    return figure, panels[:count]


def log_axes(panel: "Axes", margin: float) -> None:
    """Both logarithmic, with a grid, after everything is drawn. margin: at top and bottom."""
    panel.set(xscale="log", yscale="log")
    panel.margins(x=0.35, y=margin)
    panel.grid(alpha=0.25)
    for axis in (panel.xaxis, panel.yaxis):
        plain_ticks(axis)


def plain_ticks(axis: "Axis") -> None:
    """Few round numbers on a logarithmic axis, written as numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = log10(high / low)
    if decades > 2:
        axis.set_major_locator(LogLocator(10, numticks=8))
    elif decades > 0.7:
        axis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0), numticks=8))
    else:
        axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def name_points(panel: "Axes", some: Sequence[Result]) -> None:
    """The names of profiles, the number of static windows; one name for those that coincide."""
    taken: dict[tuple[int, int], list[str]] = {}
    places: dict[tuple[int, int], tuple[float, float]] = {}
    for one in some:
        x, y = max(one.confirm.p99_ms, 0.05), one.memory_bytes_max / MIB
        spot = (round(6 * log2(x)), round(6 * log2(max(y, 1e-3))))
        taken.setdefault(spot, []).append(one.profile.removeprefix("static-"))
        places.setdefault(spot, (x, y))
    for spot, names in taken.items():
        panel.annotate(
            ", ".join(names), places[spot], xytext=(4, 4), textcoords="offset points", fontsize=6.5
        )


MEASURES: Final[tuple[tuple[str, bool, Callable[[Result], float]], ...]] = (
    ("throughput, msg/s", False, lambda one: one.throughput_per_s),
    ("confirm p99, ms", True, lambda one: max(one.confirm.p99_ms, 0.05)),
    ("peak memory, MiB", True, lambda one: one.memory_bytes_max / MIB),
    (
        "innocent traffic's rate, share of alone",
        False,
        lambda one: 0.0 if one.innocent_share is None else one.innocent_share,
    ),
)


def bars(
    names: Sequence[str],
    results: Sequence[Result],
    scores: dict[str, dict[str, float]],
    where: str,
) -> "Figure":
    """One panel a measure, and one for the score."""
    profiles = list(dict.fromkeys(one.profile for one in results))
    by_key = {(one.workload, one.profile): one for one in results}
    figure = new_figure(max(7.0, 1.7 * len(names) + 2), 11)
    panels = figure.subplots(len(MEASURES) + 1, 1, squeeze=False)
    width = 0.85 / len(profiles)
    for row, panel in enumerate(panels.flat):
        for at, profile in enumerate(profiles):
            values = []
            for name in names:
                one = by_key.get((name, profile))
                if one is None:
                    values.append(0.0)
                elif row < len(MEASURES):
                    values.append(MEASURES[row][2](one))
                else:
                    values.append(scores[name].get(profile, 0.0))
            shade = 0.35 + 0.65 * at / len(profiles) if profile not in PALETTE else 1.0
            panel.bar(
                [index + at * width for index in range(len(names))],
                values,
                width,
                color=color_of(profile),
                alpha=shade,
                label=profile,
            )
        panel.set_xticks([index + 0.42 for index in range(len(names))], names)
        panel.set_title(MEASURES[row][0] if row < len(MEASURES) else "score (0: none)", loc="left")
        if row < len(MEASURES) and MEASURES[row][1]:
            panel.set_yscale("log")
        panel.grid(axis="y", alpha=0.25)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, fontsize=8)
    figure.suptitle(f"Every strategy, every workload ({where})")
    return figure


def lines(workload: Workload, results: Sequence[Result], where: str) -> "Figure":
    """Sending and receiving rates above, memory below, one column a strategy."""
    shown = [one for one in results if one.profile in LINES_SHOWN] or list(results[:4])
    figure = new_figure(3.6 * len(shown) + 0.6, 5)
    panels = figure.subplots(2, len(shown), squeeze=False, sharex=True, sharey="row")
    disturbance = workload.disturbance_s()
    for at, one in enumerate(shown):
        rates, memory = panels[0][at], panels[1][at]
        for name, color in (("sent", "#1d6fa5"), ("received", "#e76f51"), ("innocent", "#2a9d5c")):
            smoothed = smooth([count / one.bin_s for count in one.lines[name]])
            rates.plot(times(len(smoothed), one.bin_s), smoothed, color=color, lw=1.2, label=name)
        held = [value / MIB for value in one.lines["memory"]]
        memory.fill_between(times(len(held), one.bin_s), held, color="#8e6bbf", alpha=0.5)
        for panel in (rates, memory):
            panel.set_xlim(0, workload.warm_up_s + workload.seconds)
            if disturbance is not None:
                panel.axvspan(*disturbance, color="#cccccc", alpha=0.4, lw=0)
            panel.grid(alpha=0.25)
        rates.set_title(one.profile)
        memory.set_xlabel("seconds")
    panels[0][0].set_ylabel("messages/s")
    panels[1][0].set_ylabel("held, MiB")
    panels[0][0].legend(fontsize=7)
    figure.suptitle(f"{workload.name} ({where}); grey: {event_text(workload)}")
    return figure


def event_text(workload: Workload) -> str:
    """What happens between the first event and the last."""
    first = workload.events[0]
    if first.queue:
        return f"queue {first.queue} is stopped"
    return f"watermark at {first.limit_bytes // 1024} KiB"


def times(count: int, bin_s: float) -> list[float]:
    return [(index + 0.5) * bin_s for index in range(count)]


def smooth(values: Sequence[float]) -> list[float]:
    """The mean of SMOOTH_BINS bins up to each."""
    found = []
    for at in range(len(values)):
        some = values[max(0, at + 1 - SMOOTH_BINS) : at + 1]
        found.append(sum(some) / len(some))
    return found
