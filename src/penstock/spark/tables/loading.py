"""Reads gold tables back without Spark, and exports them."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from penstock.base.errors import OperatorError
from penstock.spark.schema.arrow_columns import schema_of
from penstock.spark.schema.rows import (
    INTEGRITY_COUNTS,
    ROW_TYPES,
    AlarmInterval,
    BlameRow,
    IntegrityRow,
    Tables,
    client_names,
)
from penstock.spark.tables.store import EVENTS, TableStore, read_files

GOLD: Final = tuple(name for name in Tables._fields if name not in ("integrity", "alarms"))
"""Tables that are read back as they lie in the layer of that name."""

TOGETHER: Final = ("who_blocked_whom", "held_time", "time_in_state", "root_cause")
"""Those that are checked against each other."""

WAIT_S: Final = 10.0
LOOK_S: Final = 0.1


def load_tables(store: TableStore) -> Tables:
    """Everything the report is made of; a table that is not there is empty. Raises: OperatorError
    when a run was cut short."""
    found: dict[str, Any] = {
        name: _rows(files, ROW_TYPES[name]) for name, files in _of_one_batch(store).items()
    }
    for name in GOLD:
        if name not in found:
            found[name] = _rows(store.files(f"gold/{name}"), ROW_TYPES[name])
    alarms = _rows(store.files("silver/alarm_interval"), AlarmInterval)
    return Tables(**found, integrity=_integrity(store), alarms=alarms)


def _of_one_batch(store: TableStore) -> dict[str, list[str]]:
    """The files of `TOGETHER`, by name, once a run that goes on has changed all of them."""
    end_s = time.monotonic() + WAIT_S
    while True:
        before = [store.batch(f"gold/{name}") for name in TOGETHER]
        files = {name: store.files(f"gold/{name}") for name in TOGETHER}
        after = [store.batch(f"gold/{name}") for name in TOGETHER]
        if before == after and len(set(after)) == 1:
            return files
        if time.monotonic() > end_s:
            raise OperatorError(
                f"the tables in {store.directory} do not know the same: a run was cut short "
                f"while it changed them, or takes more than {WAIT_S:g} s for that; "
                "`penstock pipeline run` with the same --input and --tables finishes it"
            )
        time.sleep(LOOK_S)


def load_blame(store: TableStore, since_ns: int) -> list[BlameRow]:
    """The root causes of the buckets from `since_ns` on."""
    wanted = pc.field("bucket_ns") >= since_ns
    parts = [pq.read_table(file, filters=wanted) for file in store.files("gold/root_cause")]
    return sorted(BlameRow(**fields) for part in parts for fields in part.to_pylist())


def newest(store: TableStore, name: str, column: str) -> int:
    """The highest of a column of numbers, 0 without rows; from what files say of themselves."""
    return max((file.high for file in store.live(name, column)), default=0)


def present(store: TableStore, name: str, column: str) -> int:
    """How many rows have something in `column`; from what files say of themselves."""
    count = 0
    for file in store.files(name):
        about = pq.read_metadata(file)
        at = about.schema.names.index(column)
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            count += group.num_rows - group.column(at).statistics.null_count
    return count


def load_names(store: TableStore) -> dict[str, dict[str, str]]:
    """What clients call themselves, by node and address."""
    return client_names(one for file in store.files(EVENTS) for one in _came_up(file))


def _came_up(file: str) -> Iterator[tuple[str, str, str]]:
    """At which node, who did, and what he called himself."""
    columns = ["node", "actor", "reason"]
    rows = pq.read_table(file, columns=columns, filters=[("kind", "=", "actor_up")])
    return zip(*(rows[name].to_pylist() for name in columns), strict=True)


def _rows(files: Sequence[str], row_type: Any) -> tuple[Any, ...]:
    table = read_files(files)
    if table is None:
        return ()
    return tuple(sorted(row_type(**fields) for fields in table.to_pylist()))


def _integrity(store: TableStore) -> tuple[IntegrityRow, ...]:
    """One row a queue of a node, over all buckets."""
    table = store.read("gold/integrity")
    if table is None:
        return ()
    sums = table.group_by(["queue", "node"]).aggregate([(name, "sum") for name in INTEGRITY_COUNTS])
    sums = sums.select(["queue", *(f"{name}_sum" for name in INTEGRITY_COUNTS), "node"])
    return tuple(sorted(IntegrityRow(*row.values()) for row in sums.to_pylist()))


def export(directory: Path, tables: Tables, form: str) -> None:
    """Each table as NAME.FORM, "csv" or "parquet". Raises: OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in tables._asdict().items():
        schema = schema_of(ROW_TYPES[name])
        found = pa.Table.from_pylist([row._asdict() for row in rows], schema=schema)
        path = directory / f"{name}.{form}"
        if form == "csv":
            pa.csv.write_csv(found, path)
        else:
            pq.write_table(found, path, compression="zstd")
