"""The scenario of a run: phases, rates and delays, and the file that tells the workers.

    steady          consumers keep up, nothing should be held
    burst           publishers offer several times as much
    slow consumer   the consumers of `orders` take longer for each message; its publishers must be
                    slowed down to their pace, and `mail` must not notice
    drain           no client publishes; everything confirmed must arrive

Rates are offered, not guaranteed, and low enough for two cores that broker and clients share.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

BODY_BYTES: Final = 1024
PUBLISHERS: Final = 2
CONSUMERS: Final = 2
PREFETCH: Final = 20
UNCONFIRMED_MAX: Final = 500
DRAIN_SECONDS_MAX: Final = 30.0
PLAN_FILE: Final = "plan.json"
STATUS_SECONDS: Final = 0.5

QUEUE_ORDERS: Final = "orders"
QUEUE_MAIL: Final = "mail"
QUEUE_TASKS: Final = "tasks"
QUEUES: Final = (QUEUE_ORDERS, QUEUE_MAIL, QUEUE_TASKS)

STEADY: Final = "steady"
BURST: Final = "burst"
SLOW: Final = "slow consumer"
DRAIN: Final = "drain"
SLOW_SPARK: Final = "slow Spark"
SPARK: Final = "Spark again"


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase. Rates are messages a second: `orders_rate` of each publisher, the others in all.
    `delay_ms`: what a consumer of `orders` spends on each message."""

    name: str
    seconds: float
    orders_rate: float
    mail_rate: float
    task_rate: float
    delay_ms: float


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Everything a worker needs to know. `directory`: where it writes its trace file."""

    url: str
    directory: str
    seed: int
    phases: tuple[PhasePlan, ...]

    def write(self, path: Path) -> None:
        """Write as JSON, the inverse of `read`."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> "DemoPlan":
        """Read what `write` wrote. Raises: OSError, ValueError, KeyError, TypeError."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["phases"] = tuple(PhasePlan(**phase) for phase in fields["phases"])
        return DemoPlan(**fields)

    def seconds(self) -> float:
        """Length of all phases in which clients publish."""
        return sum(phase.seconds for phase in self.phases)


def phases(scale: float) -> tuple[PhasePlan, ...]:
    """The publishing phases, `scale` times as long as usual; draining comes on top."""
    return (
        PhasePlan(STEADY, 10.0 * scale, 300.0, 50.0, 10.0, 0.0),
        PhasePlan(BURST, 8.0 * scale, 1200.0, 50.0, 10.0, 0.0),
        PhasePlan(SLOW, 10.0 * scale, 400.0, 50.0, 10.0, 200.0),
    )
