"""Runs one point: workload and settings from its values, then its engine, then a row.

Common random numbers: phases and sizes of every publisher follow from the seed and its number
alone, so two settings with one seed meet exactly the same programs, and what differs between
their rows is the setting.
"""

from dataclasses import replace
from functools import lru_cache

from penstock.base.config import Config
from penstock.lab.peers import PeerFailed
from penstock.lab.result import Result
from penstock.lab.run import config_of, simulate, simulate_alone
from penstock.lab.workload import Workload
from penstock.simulation.machine.faults import LawBroken
from penstock.sweep.choices import EVENTS
from penstock.sweep.load import workload_of
from penstock.sweep.point import Point, Row, failed_row, row_of


def run_point(point: Point) -> Row:
    """The row of `point`; one with an `error` when the run broke a law or a program failed, so that
    one bad point does not end a sweep. Raises: OperatorError for settings that are none."""
    if point.engine != EVENTS:
        # Imported only here, because it needs numpy and the events do not.
        from penstock.sweep.fluid_run import run_fluid

        return row_of(point, run_fluid(point))
    workload = workload_of(point)
    try:
        return row_of(point, simulate_point(point, workload))
    except (LawBroken, PeerFailed) as error:
        return failed_row(point, f"{type(error).__name__}: {error}")


def simulate_point(point: Point, workload: Workload) -> Result:
    """The real broker on a virtual clock. Raises: LawBroken, PeerFailed, OperatorError."""
    return simulate(
        workload,
        point.profile,
        point.seed,
        _alone(replace(workload.alone(), depth_bytes=0, memory_high_bytes=0), point.seed),
        config=broker_config(point, workload),
        has_own_chance=True,
    )


def broker_config(point: Point, workload: Workload) -> Config:
    """The settings of the broker of `point`. Without room to park, because it is windows that are
    compared, and the fluid model has no lot."""
    return replace(
        config_of(workload, point.profile),
        credit_connection_channel=point.credit,
        credit_channel_queue=point.credit,
        parked_bytes=1,
    )


@lru_cache(maxsize=32)
def _alone(workload: Workload, seed: int) -> Result | None:
    """The same for all settings of a workload, so a process needs it once."""
    return simulate_alone(workload, seed)
