"""Lines over the last ten minutes, as coordinates of SVG, and steps of colour."""

import time
from dataclasses import dataclass
from typing import Any, Final

from penstock.management.pages.samples import POINTS, STEP_S

WIDTH: Final = 600
HEIGHT: Final = 120
TOP: Final = 8
"""Free above the highest point."""
SPAN_S: Final = POINTS * STEP_S
MOMENT_S: Final = 10
"""Seconds of one moment that can be looked at."""
SPAN_MOMENTS: Final = int(SPAN_S) // MOMENT_S
HEAT: Final = ((4, 0.6), (3, 0.3), (2, 0.05), (1, 0.001))
"""Steps of colour, each from a share on; from the third one it counts as throttled."""
Points = list[tuple[float, dict[str, float]]]


def heat(held: float | None) -> int:
    """How much of the time something was held, as one of five steps: 0 for not at all."""
    for step, mark in HEAT:
        if held is not None and held >= mark:
            return step
    return 0


def lines(points: Points, names: list[str], most: float = 0.0) -> dict[str, Any]:
    """Polylines of `names` over SPAN_S. most: the value at the top, 0 for the highest one."""
    top = most or max((values.get(name, 0.0) for _, values in points for name in names), default=0)
    drawn = [
        " ".join(_point(age_s, values.get(name, 0.0) / (top or 1.0)) for age_s, values in points)
        for name in names
    ]
    now = [points[-1][1].get(name, 0.0) if points else 0.0 for name in names]
    oldest_s = max((age_s for age_s, _ in points), default=0.0)
    return {"lines": drawn, "most": top, "now": now, "oldest_s": oldest_s}


@dataclass(frozen=True, slots=True)
class Moment:
    """MOMENT_S of the last ten minutes. x: its left edge; at: its end, seconds since 1970; held:
    the highest share in it, None where nobody looked."""

    x: int
    at: int
    held: float | None


def moments(points: Points, now_s: float | None = None) -> list[Moment]:
    """The last ten minutes, the oldest moment first. now_s: seconds since 1970, None for now."""
    now = time.time() if now_s is None else now_s
    end = int(now // MOMENT_S + 1) * MOMENT_S
    count = SPAN_MOMENTS
    seen: dict[int, float] = {}
    for age_s, values in points:
        index = count - 1 - int((end - (now - age_s)) // MOMENT_S)
        if 0 <= index < count and "held" in values:
            seen[index] = max(seen.get(index, 0.0), values["held"])
    step = WIDTH // count
    return [
        # The latest one is not over yet.
        Moment(index * step, min(int(now), end - (count - 1 - index) * MOMENT_S), seen.get(index))
        for index in range(count)
    ]


def _point(age_s: float, height: float) -> str:
    x = WIDTH * max(0.0, 1 - age_s / SPAN_S)
    return f"{x:.1f},{HEIGHT - (HEIGHT - TOP) * min(1.0, height):.1f}"
