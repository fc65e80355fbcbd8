"""The columns of the tables that tasks make with arrays; the others follow from expressions."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.spark.schema.formats import STATE_FIELDS

TRIPLE: Final = ("actor", "peer", "reason")
DEPTHS: Final = ("ready", "unacked", "consumers", "paged", "published", "acked")


def _columns(texts: Sequence[str], numbers: Sequence[str]) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in texts] + [
        pa.field(name, pa.int64()) for name in numbers
    ]


def _numbers(*names: str) -> list[pa.Field]:
    return _columns((), names)


BLOCK_INTERVAL: Final = pa.schema(
    _columns(("boot_id", *TRIPLE), ("start_ns", "end_ns")) + _columns(("closed_by",), ())
)
ALARM_INTERVAL: Final = pa.schema(
    [*_columns(("boot_id", "alarm"), ("start_ns", "end_ns")), pa.field("is_open", pa.bool_())]
)
SAMPLE_STEP: Final = pa.schema(
    _columns(("boot_id", "actor", "kind"), ("start_ns", "end_ns", "consumers", *STATE_FIELDS))
)
CONSUMER: Final = pa.schema(_columns(("consumer", "group"), ("since_ns",)))
QUEUE_DEPTH: Final = pa.schema(_numbers("t_ns") + _columns(("queue",), DEPTHS))
EVENT_KINDS: Final = pa.schema(_numbers("bucket_ns") + _columns(("kind",), ("events", "amount")))
COVERAGE: Final = pa.schema(
    _numbers("bucket_ns") + _columns(("boot_id",), ("low", "high", "there"))
)
WHO_BLOCKED_WHOM: Final = pa.schema(_numbers("bucket_ns") + _columns(TRIPLE, ("blocked_ns",)))
HELD_TIME: Final = pa.schema(_numbers("bucket_ns") + _columns(("actor",), ("held_ns",)))
TIME_IN_STATE: Final = pa.schema(
    _numbers("bucket_ns") + _columns(("actor",), ("wall_ns", *STATE_FIELDS))
)
ROOT_CAUSE: Final = pa.schema(
    _numbers("bucket_ns") + _columns(("victim", "root", "cause", "path"), ("blamed_ns",))
)
# As Spark's aggregate gave them to tables that are there already.
HOLD_SKETCH: Final = pa.schema(
    [
        *_numbers("bucket_ns"),
        *_columns(("stage",), ()),
        pa.field("messages", pa.int64(), nullable=False),
        *_numbers("max_ns"),
        pa.field("sketch", pa.binary(), nullable=False),
    ]
)

FACTS: Final = {
    "silver/block_interval": BLOCK_INTERVAL,
    "silver/alarm_interval": ALARM_INTERVAL,
    "silver/sample_step": SAMPLE_STEP,
    "silver/consumer": CONSUMER,
    "gold/queue_depth": QUEUE_DEPTH,
    "gold/event_kinds": EVENT_KINDS,
    "gold/coverage": COVERAGE,
}
"""What a task makes of the events of some actors."""

ANSWERS: Final = {
    "gold/who_blocked_whom": WHO_BLOCKED_WHOM,
    "gold/held_time": HELD_TIME,
    "gold/time_in_state": TIME_IN_STATE,
    "gold/root_cause": ROOT_CAUSE,
    "gold/hold_sketch": HOLD_SKETCH,
}
"""What a task makes of a stretch of time."""
