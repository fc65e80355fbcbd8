"""Writes Delta tables without jars: `writeStream.format("deltatable")`, every batch once.

Tasks write Parquet files beside the table; the driver adds all files of a batch with one commit of
the table's log, which also says that this app has committed this batch (an application
transaction). A batch that is run again finds that and adds nothing. Files of tasks that died stay
behind, are part of no version, and go with the table's vacuum.

Not handled: object stores (tasks write to a directory that all of them see), partition columns,
column mapping, constraints and NOT NULL, which are refused; changed schemas, `df.write`.
"""

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.tables.files import check_names, log_file

CONSTRAINT: Final = "delta.constraints."
WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""As what a column is read from files that have the narrower type."""


@dataclass
class DeltaFile(WriterCommitMessage):
    """What a task has written. name: of its file, "" for no rows; app: whose it is."""

    name: str
    size_bytes: int
    rows: int
    app: str


@plainly
class DeltaWriter(DataSourceStreamArrowWriter):
    """Of one batch. path: of the table."""

    def __init__(self, path: str, app_id: str, schema: StructType) -> None:
        self._path = path
        self._app_id = app_id
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write one partition into a file of its own. Raises: OSError, OperatorError."""
        app = self._app_id or _query_id()
        name = f"part-{uuid.uuid4().hex}.parquet"
        place = Path(self._path)
        rows = 0
        writer: pq.ParquetWriter | None = None
        for batch in iterator:
            if batch.num_rows == 0:
                continue
            if writer is None:
                place.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(place / name, batch.schema, compression="zstd")
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is None:
            return DeltaFile("", 0, 0, app)
        writer.close()
        _sync(place / name)
        # The name of a new file is in its directory, which has to be on the disk as well.
        _sync(place)
        return DeltaFile(name, (place / name).stat().st_size, rows, app)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Add the batch to the table, unless it is there. Raises: OperatorError; deltalake's own
        faults, and then the query's next start runs the batch again."""
        parts = [one for one in messages if isinstance(one, DeltaFile)]
        if not parts:
            return
        add_batch(self._path, self._schema, parts, parts[0].app, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks have written, unless the table has it after all."""
        parts = [one for one in messages if isinstance(one, DeltaFile)]
        if not parts:
            return
        table = opened(self._path)
        if table is None or last_of(table, parts[0].app) < batchId:
            _remove(self._path, parts)


def columns_of(table: deltalake.DeltaTable) -> list[StructField]:
    """Names and types as Spark has them."""
    return StructType.fromJson(json.loads(table.schema().to_json())).fields


def check_kind(path: str, table: deltalake.DeltaTable) -> None:
    """Raises: OperatorError for a table of another program that wants more of its writers than
    files beside each other: readers would find null in columns, or rows that it forbids."""
    about = table.metadata()
    check_names(path, about.configuration)
    wanted = {
        "partition columns": about.partition_columns,
        "constraints": [name for name in about.configuration if name.startswith(CONSTRAINT)],
        "columns that are NOT NULL": [one.name for one in columns_of(table) if not one.nullable],
    }
    for what, names in wanted.items():
        if names:
            raise OperatorError(
                f"the Delta table {path} has {what} ({', '.join(names)}), which this sink does not "
                "serve; take another path"
            )


def opened(path: str) -> deltalake.DeltaTable | None:
    """The table as it is now, None while there is none. It costs a look at all of its log, which a
    batch can afford once."""
    try:
        return deltalake.DeltaTable(path)
    except TableNotFoundError:
        return None


def last_of(table: deltalake.DeltaTable, app: str) -> int:
    """The last batch that `app` has committed, -1 for none."""
    last = table.transaction_version(app)
    return -1 if last is None else last


def add_batch(
    path: str, schema: StructType, parts: list[DeltaFile], app: str, batch_id: int
) -> bool:
    """One commit of the table: `parts`, and that `app` has committed `batch_id`; False when it had
    before. Raises: OperatorError when the table has other columns, or they are of other types."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    table = opened(path)
    if table is None:
        columns = pa.schema([field.with_nullable(True) for field in arrow])
        table = deltalake.DeltaTable.create(path, schema=columns, mode="ignore")
        _sync_log(path, 0)
    check_kind(path, table)
    there = columns_of(table)
    if [one.name for one in there] != arrow.names:
        raise OperatorError(
            f"the Delta table {path} has the columns {', '.join(one.name for one in there)}, and "
            f"the query writes {', '.join(arrow.names)}; select them in that order, or take "
            "another path"
        )
    for one, other in zip(there, from_arrow_schema(arrow, prefer_timestamp_ntz=True), strict=True):
        known, given = one.dataType.simpleString(), other.dataType.simpleString()
        # Of a file with another type readers can make nothing, and of the table nothing any more.
        if known != given and known not in WIDER.get(given, ()):
            raise OperatorError(
                f"column {one.name} of the Delta table {path} is {known}, and the query writes "
                f"{given}; use cast, or take another path"
            )
    if last_of(table, app) >= batch_id:
        # By a driver that may have died before its commit was on the disk.
        _sync_log(path, _version_of(path, table.version(), app))
        _remove(path, parts)
        return False
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            part.name, part.size_bytes, {}, now_ms, True, json.dumps({"numRecords": part.rows})
        )
        for part in parts
        if part.name
    ]
    done = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(app, batch_id)])
    before = table.version()
    table.create_write_transaction(actions, "append", table.schema(), commit_properties=done)
    _sync_log(path, before + 1)
    return True


def _query_id() -> str:
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise OperatorError("Spark does not say which query this is; give option appId")
    return str(found)


def _remove(path: str, parts: list[DeltaFile]) -> None:
    for part in parts:
        if part.name:
            (Path(path) / part.name).unlink(missing_ok=True)


def _version_of(path: str, newest: int, app: str) -> int:
    """The last version that `app` has committed, or the first that is left of the log. What was
    there before it, `app` has synced with it."""
    for version in range(newest, 0, -1):
        file = log_file(Path(path), version)
        if not file.exists():
            return version + 1
        actions = map(json.loads, file.read_bytes().splitlines())
        if any(one.get("txn", {}).get("appId") == app for one in actions):
            return version
    return 0


def _sync_log(path: str, version: int) -> None:
    """Before Spark notes that a batch is done, the table's log has to have it for good: its files
    from `version` on, and their names.

    deltalake renames or links a file into the log and syncs neither it nor the directory: a loss of
    power would leave a batch that Spark does not run again, and that the table has not.
    """
    file = log_file(Path(path), version)
    log = file.parent
    while file.exists():
        _sync(file)
        version += 1
        file = log_file(Path(path), version)
    for place in (log, Path(path), Path(path).parent):
        _sync(place)


def _sync(place: Path) -> None:
    """The table's log may only name what is on the disk. place: a file or a directory."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
