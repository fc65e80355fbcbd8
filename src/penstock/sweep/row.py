"""The rows of a sweep: a fixed list of columns with fixed types, whoever has run them.

No column says how long a run took or when it was: a row is a function of its point alone, so two
machines write the same bytes.
"""

from dataclasses import asdict
from typing import Final

from penstock.lab.result import Result
from penstock.sweep.point import COLUMNS, Key, Point

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
