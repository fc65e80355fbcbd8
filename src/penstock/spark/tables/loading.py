"""Reads gold tables back without Spark, and exports them as Parquet files; they are small."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.schema.names import client_names
from penstock.spark.schema.rows import (
    ROW_TYPES,
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
_TYPES: Final = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


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


def write_parquet(directory: Path, tables: Tables) -> None:
    """Each table as NAME.parquet. Raises: OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in tables._asdict().items():
        row_type = ROW_TYPES[name]
        hints = get_type_hints(row_type)
        schema = pa.schema([(field, _TYPES[hints[field]]) for field in row_type._fields])
        found = pa.Table.from_pylist([row._asdict() for row in rows], schema=schema)
        pq.write_table(found, directory / f"{name}.parquet", compression="zstd")
