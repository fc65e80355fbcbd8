"""Reads gold tables back from where they lie, without Spark: they are small by construction."""

from collections.abc import Iterator
from typing import Final, TypeVar

import pyarrow.parquet as pq

from penstock.spark.schema.names import client_names
from penstock.spark.schema.rows import (
    AlarmRow,
    BlameRow,
    CdfRow,
    DepthRow,
    EdgeRow,
    HeldRow,
    IntegrityRow,
    KindRow,
    LatencyRow,
    StateRow,
    Tables,
    ThroughputRow,
)
from penstock.spark.tables.store import TableStore

EVENTS: Final = "bronze/events"
Row = TypeVar("Row", bound=tuple[object, ...])


def load_tables(store: TableStore) -> Tables:
    """Everything the report is made of; a table that is not there is empty."""
    return Tables(
        _rows(store, "gold/who_blocked_whom", EdgeRow),
        _rows(store, "gold/root_cause", BlameRow),
        _rows(store, "gold/held_time", HeldRow),
        _rows(store, "gold/time_in_state", StateRow),
        _rows(store, "gold/latency", LatencyRow),
        _rows(store, "gold/throughput", ThroughputRow),
        _integrity(store),
        _rows(store, "gold/queue_depth", DepthRow),
        _rows(store, "gold/event_kinds", KindRow),
        _rows(store, "gold/stage_cdf", CdfRow),
        _rows(store, "silver/alarm_interval", AlarmRow),
    )


def load_names(store: TableStore) -> dict[str, str]:
    """What clients call themselves, by address."""
    return client_names(one for file in store.files(EVENTS) for one in _came_up(file))


def _came_up(file: str) -> Iterator[tuple[str, str]]:
    """Who did, and what he called himself."""
    rows = pq.read_table(file, columns=["actor", "reason"], filters=[("kind", "=", "actor_up")])
    return zip(rows["actor"].to_pylist(), rows["reason"].to_pylist(), strict=True)


def _rows(store: TableStore, name: str, row_type: type[Row]) -> tuple[Row, ...]:
    table = store.read(name)
    if table is None:
        return ()
    return tuple(sorted(row_type(**fields) for fields in table.to_pylist()))


def _integrity(store: TableStore) -> tuple[IntegrityRow, ...]:
    """One row a queue, over all buckets."""
    table = store.read("gold/integrity")
    sums: dict[str, list[int]] = {}
    for fields in [] if table is None else table.to_pylist():
        total = sums.setdefault(fields["queue"], [0] * (len(IntegrityRow._fields) - 1))
        for index, name in enumerate(IntegrityRow._fields[1:]):
            total[index] += fields[name]
    return tuple(IntegrityRow(queue, *total) for queue, total in sorted(sums.items()))
