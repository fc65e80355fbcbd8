"""Follows a Delta table that grows: every row that was added, once, in the order of its versions.

A batch is a range of versions, and the table's log names the files that each of them has added, so
a range is the same rows as often as it is read. What a compaction rewrites adds no rows and is
passed over; a version that removes rows fails the query, because what was read cannot be taken
back. The table may be made later than the query is started. A table that was made anew has another
identity, which stands in every offset, and fails the query.

Looking for more costs a look for two file names; the table itself is opened where there is more.

Not handled: partition columns, column mapping and deletion vectors, which are refused; object
stores; files that vacuum has removed before they were read fail the query.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.tables.files import LOG, check_names, log_file

FILES_MOST: Final = 1000
TASK_BYTES: Final = 32 << 20
"""Files go to one task until it has this much: small ones are not worth a task each."""
NO_VERSION: Final = -1


@dataclass
class DeltaPartition(InputPartition):
    """Files that one task reads, by their names in the table's directory."""

    files: tuple[str, ...]


@plainly
class DeltaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader. path: of the table; files_most: of a batch, but always a whole version.

    _table: the identity of the table that was looked at, "" before; _tail: its last version that
    was seen; _target: the last one that is to be read, None for no end.
    """

    def __init__(self, path: str, schema: StructType, files_most: int) -> None:
        self._path = Path(path)
        self._schema = schema
        self._files_most = files_most
        self._table = ""
        self._tail = NO_VERSION
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Before the first version."""
        return {"table": "", "version": NO_VERSION}

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxFilesPerTrigger."""
        return ReadMaxFiles(self._files_most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The last version of the next batch. Raises: OperatorError."""
        first = int(start["version"])
        if not self._look(start["table"], first):
            return start
        tail = self._tail if self._target is None else min(self._tail, self._target)
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        end, files = first, 0
        while end < tail:
            if most is not None:
                files += len(self._added(end + 1))
                if files > most and end > first:
                    break
            end += 1
        return {"table": self._table, "version": end} if end > first else start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For showing the lag; None as long as there is no table."""
        return {"table": self._table, "version": self._tail} if self._table else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end."""
        self._target = max(_versions(self._path), default=NO_VERSION)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of the versions behind `start`, up to `end`. Raises: OperatorError."""
        self._look(end["table"], int(start["version"]))
        groups: list[list[str]] = []
        room = 0
        for version in range(int(start["version"]) + 1, int(end["version"]) + 1):
            for name, size_bytes in self._added(version):
                if room <= 0:
                    groups.append([])
                    room = TASK_BYTES
                groups[-1].append(name)
                room -= size_bytes
        return [DeltaPartition(tuple(names)) for names in groups]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError for a file that is gone."""
        assert isinstance(partition, DeltaPartition), "partitions come from partitions()"
        arrow = to_arrow_schema(self._schema, timezone="UTC")
        for name in partition.files:
            try:
                file = pq.ParquetFile(self._path / name)
            except FileNotFoundError as fault:
                raise OperatorError(
                    f"{name} of the Delta table {self._path} is gone before it was read: vacuum "
                    "with a longer retention than the query may be away"
                ) from fault
            with file:
                there = [field for field in arrow.names if field in file.schema_arrow.names]
                for batch in file.iter_batches(columns=there):
                    yield conformed(batch, arrow)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the table keeps what was read."""

    def _look(self, known: str, version: int) -> bool:
        """Whether there is a table; it has to be `known`, unless that is "", with all that comes
        behind `version`. Raises: OperatorError."""
        if not self._table:
            if not deltalake.DeltaTable.is_deltatable(str(self._path)):
                if known:
                    raise OperatorError(f"the Delta table {self._path} is gone")
                return False
            self._meet(version)
        is_longer = log_file(self._path, self._tail + 1).exists()
        is_there = known in ("", self._table)
        # A table that grows may have been made anew meanwhile, and so may one that is shorter now.
        if is_there and (is_longer or not log_file(self._path, self._tail).exists()):
            is_there = self._identity() == self._table
        if not is_there:
            raise OperatorError(
                f"the Delta table {self._path} was made anew since this query has read it; start "
                "again with a new checkpointLocation"
            )
        while log_file(self._path, self._tail + 1).exists():
            self._tail += 1
        return True

    def _identity(self) -> str:
        """Of the table that is there now. Raises: OperatorError for none."""
        if not deltalake.DeltaTable.is_deltatable(str(self._path)):
            raise OperatorError(f"the Delta table {self._path} is gone")
        return str(deltalake.DeltaTable(str(self._path)).metadata().id)

    def _meet(self, version: int) -> None:
        table = deltalake.DeltaTable(str(self._path))
        columns = [field.name for field in table.schema().fields]
        missing = [name for name in self._schema.fieldNames() if name not in columns]
        if missing:
            raise OperatorError(
                f"the Delta table {self._path} has no column {', '.join(missing)}; it has "
                f"{', '.join(columns)}"
            )
        if table.metadata().partition_columns:
            raise OperatorError(f"the Delta table {self._path} has partition columns")
        check_names(self._path, table.metadata().configuration)
        earliest = min(_versions(self._path), default=NO_VERSION)
        if earliest > version + 1:
            raise OperatorError(
                f"the log of the Delta table {self._path} begins with version {earliest}, and "
                f"{version + 1} was to be read; start again with a new checkpointLocation"
            )
        self._table = str(table.metadata().id)
        self._tail = max(version, earliest)

    def _added(self, version: int) -> list[tuple[str, int]]:
        """Names and sizes of files that a version has added. Raises: OperatorError."""
        added: list[tuple[str, int]] = []
        # Bytes: text would end a line at characters that values in it may have, as statistics.
        for line in log_file(self._path, version).read_bytes().splitlines():
            action = json.loads(line)
            if "metaData" in action:
                check_names(self._path, action["metaData"]["configuration"])
            if "add" in action and action["add"]["dataChange"]:
                if action["add"].get("deletionVector"):
                    raise OperatorError(
                        f"version {version} of the Delta table {self._path} adds a file of which "
                        "some rows are deleted (deletion vectors); a stream cannot follow that"
                    )
                added.append((unquote(action["add"]["path"]), int(action["add"]["size"])))
            if "remove" in action and action["remove"]["dataChange"]:
                raise OperatorError(
                    f"version {version} of the Delta table {self._path} removes rows; a stream can "
                    "follow tables only that grow"
                )
        return added


def conformed(batch: Any, arrow: Any) -> Any:
    """`batch` with the columns of `arrow`, in its types; null where it lacks one."""
    there = batch.schema.names
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in there
        else pa.nulls(batch.num_rows, field.type)
        for field in arrow
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _versions(path: Path) -> list[int]:
    return [int(one.stem) for one in (path / LOG).glob("*.json") if one.stem.isdecimal()]
