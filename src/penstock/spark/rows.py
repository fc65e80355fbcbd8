"""The tables of the pipeline, one row type each; Spark and plain Python fill the same ones.

The names of the fields are the names of the Parquet and CSV columns. Times and durations are
nanoseconds; `bucket_ns` is the start of a bucket. Silver tables are facts, gold tables answers.
"""

from typing import Final, NamedTuple


class BlockInterval(NamedTuple):
    """Silver: `actor` was held by `peer` for `reason` in [start_ns, end_ns)."""

    boot_id: str
    actor: str
    peer: str
    reason: str
    start_ns: int
    end_ns: int
    closed_by: str


class EdgeRow(NamedTuple):
    """Gold who_blocked_whom: how long `peer` held `actor` within one bucket."""

    bucket_ns: int
    actor: str
    peer: str
    reason: str
    blocked_ns: int


class BlameRow(NamedTuple):
    """Gold root_cause: what part of the time `victim` was held is charged to `root`."""

    bucket_ns: int
    victim: str
    root: str
    cause: str
    path: str
    blamed_ns: int


class HeldRow(NamedTuple):
    """Gold held_time: how long at least one gate of `actor` was closed within one bucket."""

    bucket_ns: int
    actor: str
    held_ns: int


class StateRow(NamedTuple):
    """Gold time_in_state: where one actor's wall time went between two samples of the run."""

    actor: str
    wall_ns: int
    idle_ns: int
    busy_ns: int
    blocked_ns: int
    waiting_ns: int


class LatencyRow(NamedTuple):
    """Gold latency: exact percentiles of one measure for the messages published in one phase.

    `measure`: "confirm" = published to confirmed; "delivery" = published to first delivered.
    """

    phase: str
    queue: str
    measure: str
    messages: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float


class ThroughputRow(NamedTuple):
    """Gold throughput: messages that reached each stage within one 250 ms bucket."""

    bucket_ns: int
    queue: str
    published: int
    confirmed: int
    delivered: int
    acked: int


class IntegrityRow(NamedTuple):
    """Gold integrity: what became of the messages of one queue.

    `lost`: confirmed but never delivered. `duplicated`: deliveries beyond the first of a message.
    `refused`: nacked or returned. `unanswered`: published, neither confirmed nor refused.
    """

    queue: str
    published: int
    confirmed: int
    refused: int
    unanswered: int
    delivered: int
    lost: int
    duplicated: int


class DepthRow(NamedTuple):
    """Gold queue_depth: one sample of one queue."""

    t_ns: int
    queue: str
    ready: int
    unacked: int
    consumers: int


class KindRow(NamedTuple):
    """Gold event_kinds: how many events of a kind there were and the sum of their amounts."""

    kind: str
    events: int
    amount: int


class Tables(NamedTuple):
    """Everything the summary, the promises and the report are made from."""

    who_blocked_whom: tuple[EdgeRow, ...]
    root_cause: tuple[BlameRow, ...]
    held_time: tuple[HeldRow, ...]
    time_in_state: tuple[StateRow, ...]
    latency: tuple[LatencyRow, ...]
    throughput: tuple[ThroughputRow, ...]
    integrity: tuple[IntegrityRow, ...]
    queue_depth: tuple[DepthRow, ...]
    event_kinds: tuple[KindRow, ...]


MEASURES: Final = ("confirm", "delivery")
PERCENTILES: Final = (0.5, 0.9, 0.99, 0.999, 1.0)
THROUGHPUT_BUCKET_NS: Final = 250_000_000
