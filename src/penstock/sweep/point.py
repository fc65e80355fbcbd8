"""One point of a sweep as plain values, and its row of results: fixed columns with fixed types.

A run is a pure function of its point, so the point is the key under which its row is stored, and a
point with a row is not run again. `model` is part of the key, because rows of another version, or
of a workload that was changed since, answer another question. No column says how long a run took or
when it was, so two machines write the same bytes.
"""

from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Final

import penstock
from penstock.lab.model import INTERPRETED, LOOPBACK
from penstock.lab.result import Result
from penstock.lab.workload import Workload

Key = tuple[str | int | float, ...]
TEXT: Final = "string"
WHOLE: Final = "int64"
REAL: Final = "double"
TRUTH: Final = "bool"
Value = str | int | float | bool | None
Row = dict[str, Value]

SCHEMA: Final[dict[str, str]] = {
    "engine": TEXT,
    "workload": TEXT,
    "connections": WHOLE,
    "load": REAL,
    "profile": TEXT,
    "credit": TEXT,
    "depth_bytes": WHOLE,
    "memory_high_bytes": WHOLE,
    "seconds": REAL,
    "seed": WHOLE,
    "model": TEXT,
    "throughput_per_s": REAL,
    "bytes_per_s": REAL,
    "innocent_per_s": REAL,
    "innocent_share": REAL,
    "confirm_p50_ms": REAL,
    "confirm_p99_ms": REAL,
    "confirm_p999_ms": REAL,
    "delivery_p50_ms": REAL,
    "delivery_p99_ms": REAL,
    "delivery_p999_ms": REAL,
    "memory_bytes_max": WHOLE,
    "is_growing": TRUTH,
    "fairness": REAL,
    "alarm_s": REAL,
    "recovery_s": REAL,
    "error": TEXT,
}
"""By name: its type, in the words that both Spark and Arrow understand."""


@dataclass(frozen=True, slots=True)
class Point:
    """engine: EVENTS (the real broker on a virtual clock) or FLUID; workload: of the lab, or a
    chain; connections: publishers of a chain, 0 for a workload of the lab; load: factor on the
    rate of the guilty publishers; profile: of flow control; credit: window in messages on
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


def row_of(point: Point, result: Result) -> Row:
    """What `result`, the run of `point`, has shown."""
    row: Row = {**asdict(point)}
    for name in SCHEMA:
        if name not in row and hasattr(result, name):
            row[name] = getattr(result, name)
    for kind in ("confirm", "delivery"):
        latency = getattr(result, kind)
        for name in ("p50_ms", "p99_ms", "p999_ms"):
            row[f"{kind}_{name}"] = getattr(latency, name)
    row["error"] = ""
    return {name: row[name] for name in SCHEMA}


def failed_row(point: Point, error: str) -> Row:
    """`point` could not be run: no figures, and the reason."""
    row: Row = dict.fromkeys(SCHEMA)
    row.update(asdict(point))
    row["error"] = error
    return row


def key_of(row: Row) -> Key:
    """The key of the point whose row this is."""
    values = [row[name] for name in COLUMNS]
    return tuple(value for value in values if value is not None)


def point_of(row: Row) -> Point:
    """The point whose row this is. Raises: AssertionError on a row with gaps in its key."""
    key = key_of(row)
    assert len(key) == len(COLUMNS), "a row names its whole point"
    return Point(*key)  # type: ignore[arg-type]  # the schema has the types of the fields
