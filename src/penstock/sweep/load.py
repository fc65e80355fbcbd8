"""What the programs of a point do: a workload of the lab or a chain, with its own values.

A chain has publishers in fours, a queue for each four, and a consumer for each queue:

    publisher -> socket -> credit -> channel -> credit -> queue -> consumer
What limits a queue is its consumer (`chain-consumer`) or itself (`chain-queue`), at 500 messages a
second in either case. Demand is 500 a second times the load, in unequal parts: between half and
one and a half times the mean, drawn from the seed. The same draws make the programs of the event
simulator and the arrays of the fluid model, so both answer the same question.
"""

from dataclasses import replace
from typing import Final

from penstock.base.errors import OperatorError
from penstock.lab.workload import (
    WORKLOADS,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
)
from penstock.simulation.machine.dice import Dice
from penstock.sweep.point import Point

CHAIN_CONSUMER: Final = "chain-consumer"
CHAIN_QUEUE: Final = "chain-queue"
CHAINS: Final = (CHAIN_CONSUMER, CHAIN_QUEUE)
FAN_IN: Final = 4
RATE_PER_S: Final = 500.0
PREFETCH: Final = 50
SECONDS: Final = 3.0
"""Of a run, unless told otherwise: a second is too short for windows of hundreds to fill."""
_PARTS: Final = 1 << 20


def rates_of(connections: int, load: float, seed: int) -> list[float]:
    """Messages a second each of `connections` publishers asks for."""
    # Not Dice(seed): phases are drawn from that, and the busiest would begin last.
    dice = Dice(-seed - 1)
    mean = load * RATE_PER_S / FAN_IN
    return [mean * (0.5 + dice.below(_PARTS) / _PARTS) for _ in range(connections)]


def queue_of(name: str, number: int) -> tuple[QueueSpec, ConsumerSpec]:
    """Queue `number` of the chain called `name`, and who consumes from it."""
    is_slow_queue = name == CHAIN_QUEUE
    spec = QueueSpec(f"q{number}", service_us=1e6 / RATE_PER_S if is_slow_queue else 0.0)
    rate = 0.0 if is_slow_queue else RATE_PER_S
    return spec, ConsumerSpec(spec.name, rate_per_s=rate, prefetch=PREFETCH)


def chain(name: str, connections: int, load: float, seed: int) -> Workload:
    """name: one of CHAINS; connections: 1 and more, as many queues as fours in them."""
    rates = rates_of(connections, load, seed)
    pairs = [queue_of(name, number) for number in range(-(-connections // FAN_IN))]
    return Workload(
        name,
        "publishers in fours, each four for a queue of its own",
        queues=tuple(spec for spec, _ in pairs),
        publishers=tuple(
            PublisherSpec(f"p{index}", (Target("", f"q{index // FAN_IN}"),), rate)
            for index, rate in enumerate(rates)
        ),
        consumers=tuple(consumers for _, consumers in pairs),
        quick_seconds=SECONDS,
    )


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


def _loaded(one: PublisherSpec, load: float) -> PublisherSpec:
    """It at `load` times its rate; innocent traffic is the same under every load."""
    if any(target.is_innocent for target in one.targets):
        return one
    return replace(one, rate_per_s=one.rate_per_s * load)
