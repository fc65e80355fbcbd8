"""One point of a sweep: everything that one run depends on, as plain values.

A run is a pure function of its point, so the point is also the key under which its row is found
again: whoever has the row need not run it. `model` is part of the key, because rows of another
version, or of a workload that was changed since, answer another question.
"""

from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Final

import penstock
from penstock.lab.model import INTERPRETED, LOOPBACK
from penstock.lab.workload import Workload

EVENTS: Final = "events"
FLUID: Final = "fluid"
ENGINES: Final = (EVENTS, FLUID)
Key = tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """engine: EVENTS (the real broker on a virtual clock) or FLUID; workload: of the lab, or a
    chain; connections: publishers of a chain, 0 for a workload of the lab; load: factor on the
    rate of everybody who is not innocent; profile: of flow control; credit: window in messages on
    both hops of a publish as INITIAL/MORE_AFTER, "" for the profile's own; depth_bytes: depth mark
    of queues, 0 for the workload's own; memory_high_bytes: memory mark on what the broker holds,
    0 for far away; seconds: of the measured stretch; seed: what is random in the programs; model:
    see `model_of`."""

    engine: str
    workload: str
    connections: int
    load: float
    profile: str
    credit: str
    depth_bytes: int
    memory_high_bytes: int
    seconds: float
    seed: int
    model: str = ""

    def key(self) -> Key:
        """The same for two points that have the same row."""
        return tuple(asdict(self).values())

    def setting(self) -> Key:
        """What a person chooses: the key without the seed and without what is run."""
        return (self.profile, self.credit, self.depth_bytes, self.memory_high_bytes)

    def situation(self) -> Key:
        """What the setting has to cope with."""
        return (self.engine, self.workload, self.connections, self.load, self.seconds)


COLUMNS: Final = tuple(one.name for one in fields(Point))


def model_of(workload: Workload) -> str:
    """Names the version of everything a row follows from besides its point."""
    text = repr((INTERPRETED, LOOPBACK, workload))
    return f"{penstock.__version__}-{blake2b(text.encode(), digest_size=4).hexdigest()}"
