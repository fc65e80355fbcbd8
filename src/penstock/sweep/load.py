"""What the programs of a point do: a workload of the lab or a chain, with its own values."""

from dataclasses import replace

from penstock.base.errors import OperatorError
from penstock.lab.workload import Publishers, Workload
from penstock.lab.workloads import WORKLOADS
from penstock.sweep.chain import CHAINS, chain
from penstock.sweep.point import Point


def workload_of(point: Point) -> Workload:
    """What the programs of `point` do. Raises: OperatorError for a workload there is not."""
    if point.workload in CHAINS:
        found = chain(point.workload, point.connections, point.load, point.seed)
    elif point.workload in WORKLOADS:
        found = WORKLOADS[point.workload]
        found = replace(
            found, publishers=tuple(_loaded(one, point.load) for one in found.publishers)
        )
    else:
        names = (*WORKLOADS, *CHAINS)
        raise OperatorError(f"workload '{point.workload}' is unknown; one of: {', '.join(names)}")
    return replace(
        found,
        seconds=point.seconds,
        depth_bytes=point.depth_bytes or found.depth_bytes,
        memory_high_bytes=point.memory_high_bytes,
    )


def _loaded(one: Publishers, load: float) -> Publishers:
    """It at `load` times its rate; innocent traffic is the same under every load."""
    if any(target.is_innocent for target in one.targets):
        return one
    return replace(one, rate_per_s=one.rate_per_s * load)
