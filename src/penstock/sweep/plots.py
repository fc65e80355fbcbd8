"""The plots of a sweep: response surfaces and the front. Needs matplotlib.

    surface-WORKLOAD-ENGINE   throughput, p99 and memory over the two axes with the most values, a
                              column for each profile; lines where only one axis has several
    front-WORKLOAD-ENGINE     p99 against memory, colour is throughput; ringed: on the Pareto front,
                              triangles: memory was still rising
Each as PNG and SVG. A window of `static-N` is N on the axis of windows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.base.quantities import parse_window
from penstock.flow.profile import STATIC, profile_named
from penstock.lab.plots import MIB, log_axes, new_figure, save, tradeoff_panels, use_matplotlib
from penstock.sweep.front import MEASURES, SettingSummary
from penstock.sweep.show import setting_text, situation_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAP: Final = "viridis"
SMALLEST: Final = 1e-3
LABELS_MAX: Final = 64
"""Cells of a surface up to which each shows its number."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A numeric axis of the grid. read: its value for a summary."""

    title: str
    read: Callable[[SettingSummary], float]


def window_of(one: SettingSummary) -> float:
    """The window in messages it has, 0 for none."""
    profile, credit = str(one.setting[0]), str(one.setting[1])
    if credit:
        return float(parse_window(credit)[0])
    return float(profile_named(profile).credit_initial)


AXES: Final = (
    Axis("window, messages", window_of),
    Axis("depth mark, KiB", lambda one: float(one.setting[2]) / 1024),
    Axis("memory mark, KiB", lambda one: float(one.setting[3]) / 1024),
    Axis("load", lambda one: float(one.situation[3])),
    Axis("connections", lambda one: float(one.situation[2])),
)


def write_plots(folder: Path, found: Sequence[SettingSummary]) -> list[Path]:
    """Draw everything there is; paths of the files. Raises: OperatorError without matplotlib."""
    use_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    groups: dict[tuple[str, str], list[SettingSummary]] = {}
    for one in found:
        if one.failed < one.runs:
            groups.setdefault((str(one.situation[1]), str(one.situation[0])), []).append(one)
    for (workload, engine), some in groups.items():
        surface = surfaces(workload, engine, some)
        if surface is not None:
            written += save(folder / f"surface-{workload}-{engine}", surface)
        written += save(folder / f"front-{workload}-{engine}", fronts(workload, engine, some))
    return written


def surfaces(workload: str, engine: str, some: Sequence[SettingSummary]) -> "Figure | None":
    """None when no axis has two values. Other axes are fixed at their most frequent value."""
    axes = sorted(AXES, key=lambda axis: -len({axis.read(one) for one in some}))
    axes = [axis for axis in axes if len({axis.read(one) for one in some}) > 1]
    if not axes:
        return None
    shown = axes[:2]
    fixed = []
    for axis in axes[2:]:
        values = [axis.read(one) for one in some]
        usual = max(sorted(set(values)), key=values.count)
        some = [one for one in some if axis.read(one) == usual]
        fixed.append(f"{axis.title} {usual:g}")
    families = list(dict.fromkeys(family_of(one) for one in some))
    columns = families if len(shown) == 2 else [""]
    figure = new_figure(1.2 + 3.6 * len(columns), 9)
    panels = figure.subplots(len(MEASURES), len(columns), squeeze=False)
    for row, (title, read) in enumerate(MEASURES):
        for column, family in enumerate(columns):
            panel = panels[row][column]
            mine = [one for one in some if family in ("", family_of(one))]
            if len(shown) == 2:
                values = [read(one) for one in some]
                _surface(panel, mine, shown[0], shown[1], read, (min(values), max(values)), row > 0)
            else:
                _lines(panel, mine, families, shown[0], read, row > 0)
            panel.set_title(title if family == "" else f"{family}: {title}", loc="left", fontsize=8)
    at = f"; {', '.join(fixed)}" if fixed else ""
    figure.suptitle(f"{workload} ({engine}){at}")
    return figure


def family_of(one: SettingSummary) -> str:
    """The profile; all static windows are one family, because they differ on an axis."""
    name = str(one.setting[0])
    return "static" if name.startswith(STATIC) else name


def _surface(
    panel: "Axes",
    some: Sequence[SettingSummary],
    across: Axis,
    up: Axis,
    read: Callable[[SettingSummary], float],
    span: tuple[float, float],
    is_log: bool,
) -> None:
    from matplotlib.colors import LogNorm, Normalize

    xs = sorted({across.read(one) for one in some})
    ys = sorted({up.read(one) for one in some})
    cells = [[float("nan")] * len(xs) for _ in ys]
    rising = []
    for one in some:
        x, y = xs.index(across.read(one)), ys.index(up.read(one))
        cells[y][x] = shown_as(read(one), is_log)
        if one.is_growing:
            rising.append((x, y))
    low = max(span[0], SMALLEST)
    norm = LogNorm(low, max(span[1], low * 1.001)) if is_log else Normalize(0, span[1])
    panel.imshow(cells, origin="lower", aspect="auto", cmap=MAP, norm=norm)
    if len(xs) > 1 and len(ys) > 1 and len({v for row in cells for v in row}) > 2:
        panel.contour(cells, levels=5, colors="white", linewidths=0.5, alpha=0.6)
    if len(xs) * len(ys) <= LABELS_MAX:
        for y, row in enumerate(cells):
            for x, value in enumerate(row):
                mark = "↑" if (x, y) in rising else ""
                panel.text(
                    x, y, f"{number(value)}{mark}", ha="center", va="center", fontsize=6.5,
                    color="white" if norm(value) < 0.6 else "black",
                )  # fmt: skip
    panel.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
    panel.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    panel.set(xlabel=across.title, ylabel=up.title)


def shown_as(value: float, is_log: bool) -> float:
    """It, or the smallest that a logarithmic axis shows."""
    return max(value, SMALLEST) if is_log else value


def number(value: float) -> str:
    """Three digits, or all there are before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _lines(
    panel: "Axes",
    some: Sequence[SettingSummary],
    families: Sequence[str],
    across: Axis,
    read: Callable[[SettingSummary], float],
    is_log: bool,
) -> None:
    for family in families:
        mine = sorted((one for one in some if family_of(one) == family), key=across.read)
        xs = [across.read(one) for one in mine]
        panel.plot(xs, [shown_as(read(one), is_log) for one in mine], "o-", ms=4, label=family)
    panel.set(xlabel=across.title)
    if all(across.read(one) > 0 for one in some):
        panel.set_xscale("log")
    if is_log:
        panel.set_yscale("log")
    panel.grid(alpha=0.25)
    panel.legend(fontsize=7)


def fronts(workload: str, engine: str, some: Sequence[SettingSummary]) -> "Figure":
    """One panel for each situation; down and left is better, bright is more throughput."""
    situations = list(dict.fromkeys(one.situation for one in some))[:12]
    figure, panels = tradeoff_panels(len(situations), 3, (4.4, 3.6), 0.5)
    for situation, panel in zip(situations, panels, strict=True):
        mine = [one for one in some if one.situation == situation]
        fastest = max(one.throughput_per_s for one in mine) or 1.0
        for mark, is_rising in (("o", False), ("^", True)):
            some_of = [one for one in mine if one.is_growing == is_rising]
            drawn = panel.scatter(
                [spot_of(one)[0] for one in some_of], [spot_of(one)[1] for one in some_of],
                c=[one.throughput_per_s for one in some_of], cmap=MAP, s=40, zorder=3,
                vmin=0, vmax=fastest, marker=mark,
                edgecolors=["#d62728" if one.is_front else "#cccccc" for one in some_of],
                linewidths=[1.8 if one.is_front else 0.5 for one in some_of],
            )  # fmt: skip
        for spot, names in front_names(mine).items():
            panel.annotate(names, spot, xytext=(5, 5), textcoords="offset points", fontsize=6.5)
        panel.set_title(situation_text(situation), fontsize=8)
        log_axes(panel, 0.25)
        figure.colorbar(drawn, ax=panel, label="msg/s")
    figure.suptitle(
        f"{workload} ({engine}): down and left is better,\nringed: no setting beats it, ▲ rising",
        fontsize=10,
    )
    return figure


def spot_of(one: SettingSummary) -> tuple[float, float]:
    """Where it lies on the plot of fronts."""
    return max(one.p99_ms, 0.05), max(one.memory_bytes, 1024.0) / MIB


def front_names(some: Sequence[SettingSummary]) -> dict[tuple[float, float], str]:
    """What is written where; those in one place have one line each."""
    found: dict[tuple[float, float], str] = {}
    for one in some:
        if one.is_front:
            spot = spot_of(one)
            name = setting_text(one.setting)
            found[spot] = f"{found[spot]}\n{name}" if spot in found else name
    return found
