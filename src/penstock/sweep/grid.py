"""The grid of a sweep: every combination of what was asked for, in the order of the axes.

A chain of more than EVENTS_MAX connections is more than the event simulator's one processor can
serve, so it is run by the fluid model only; workloads that the fluid model cannot express are run
by the events only. Seeds come last, so that a sweep which is stopped has whole settings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_window
from penstock.flow.credit import Window
from penstock.flow.profile import profile_named
from penstock.lab.workload import WORKLOADS, Workload
from penstock.sweep.choices import DEFAULT_CONNECTIONS, EVENTS, FLUID
from penstock.sweep.load import CHAINS, FAN_IN, chain, workload_of
from penstock.sweep.point import Point, model_of

EVENTS_MAX: Final = 100
CONNECTIONS_MAX: Final = 1_000_000
POINTS_MAX: Final = 1_000_000


def can_be_fluid(workload: Workload, profile: str) -> bool:
    """One queue for each publisher, nothing forwarded, nothing that happens in between, no memory
    mark, no disk; windows that do not move. Raises: OperatorError for an unknown profile."""
    rules = profile_named(profile)
    return (
        rules.strategy_name in ("credit", "none")
        and not workload.events
        and not workload.memory_high_bytes
        and workload.disk is None
        and all(not one.forward_to for one in workload.consumers)
        and all(
            len(one.targets) == 1 and not one.targets[0].exchange for one in workload.publishers
        )
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """Every axis with at least one value; see Point for what they mean. connections: for chains;
    seconds: 0 for the length of the workload's own quick run."""

    workloads: Sequence[str]
    profiles: Sequence[str]
    engines: Sequence[str] = (EVENTS,)
    connections: Sequence[int] = (DEFAULT_CONNECTIONS,)
    loads: Sequence[float] = (1.0,)
    credits: Sequence[str] = ("",)
    depths_bytes: Sequence[int] = (0,)
    memory_highs_bytes: Sequence[int] = (0,)
    seeds: Sequence[int] = (1,)
    seconds: float = 0.0


def points_of(grid: Grid) -> list[Point]:
    """All points of `grid` that an engine can run, each once. Raises: OperatorError for values that
    are none, and for a grid without points or with more than POINTS_MAX."""
    check(grid)
    models = {name: model_of(_base(name)) for name in grid.workloads}
    found = []
    for engine, name, load in product(grid.engines, grid.workloads, grid.loads):
        seconds = grid.seconds or _base(name).quick_seconds
        for connections in grid.connections if name in CHAINS else (0,):
            for values in _settings(grid):
                point = Point(engine, name, connections, load, *values, seconds, 0, models[name])
                if _can_run(point):
                    found += [replace(point, seed=seed) for seed in grid.seeds]
                if len(found) > POINTS_MAX:
                    raise OperatorError(
                        f"sweep: more than {POINTS_MAX} points; leave out values of an axis"
                    )
    if not found:
        raise OperatorError(
            f"sweep: no engine of {', '.join(grid.engines)} can run {', '.join(grid.workloads)} "
            f"with these settings: the events take chains up to {EVENTS_MAX} connections, the "
            "fluid model credit profiles, chains, and workloads without fan-out, forwarding, "
            "events, memory marks and disks"
        )
    return list(dict.fromkeys(found))


def check(grid: Grid) -> None:
    """Raises: OperatorError naming the first value that is none."""
    for name in grid.workloads:
        if name not in CHAINS and name not in WORKLOADS:
            names = (*WORKLOADS, *CHAINS)
            raise OperatorError(f"workload '{name}' is unknown; one of: {', '.join(names)}")
    for name in grid.profiles:
        profile_named(name)
    for text in grid.credits:
        if text:
            Window(*parse_window(text), "messages")
    for count in grid.connections:
        if not FAN_IN <= count <= CONNECTIONS_MAX:
            raise OperatorError(
                f"sweep: {count} connections; a chain has {FAN_IN}..{CONNECTIONS_MAX}"
            )
    for load in grid.loads:
        if not 0 < load <= 100:
            raise OperatorError(f"sweep: a load of {load:g}; it is a factor above 0, up to 100")


def _settings(grid: Grid) -> Iterator[tuple[str, str, int, int]]:
    """A window makes no sense for a profile without credit: it has one point without."""
    for profile, credit, depth_bytes, memory_bytes in product(
        grid.profiles, grid.credits, grid.depths_bytes, grid.memory_highs_bytes
    ):
        has_credit = profile_named(profile).has_credit()
        yield profile, credit if has_credit else "", depth_bytes, memory_bytes


def _can_run(point: Point) -> bool:
    if point.engine == FLUID:
        # What is asked does not depend on how many there are, and a million take a while.
        few = replace(point, connections=min(point.connections, FAN_IN))
        return can_be_fluid(workload_of(few), few.profile)
    return point.connections <= EVENTS_MAX


def _base(name: str) -> Workload:
    return chain(name, FAN_IN, 1.0, 0) if name in CHAINS else WORKLOADS[name]
