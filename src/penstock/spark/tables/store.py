"""Where tables lie: Delta tables where `deltalake` is installed, else plain Parquet.

Every table has a number, its *batch*: how much of the input it knows. A Delta table changes
together with its batch and with its marks (which batches of each query are in it) in one commit, as
application transactions, so work that was cut short is done again and nothing is done twice. Plain
Parquet keeps no such record: each run begins with empty tables and makes all of them anew.

`load_tables` reads gold tables back without Spark, and `write_parquet` exports them.
"""

import importlib.util
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.base.errors import OperatorError
from penstock.spark.schema.arrow_columns import schema_of
from penstock.spark.schema.rows import (
    ROW_TYPES,
    AlarmInterval,
    BlameRow,
    IntegrityRow,
    Tables,
    client_names,
)

LAYERS: Final = ("bronze", "silver", "gold")
GOLD: Final = tuple(name for name in Tables._fields if name not in ("integrity", "alarms"))
"""Tables that are read back as they lie in the layer of that name."""
BATCH: Final = "penstock-batch"
TIDY_EVERY: Final = 64
"""Versions of a table after which its small files become large ones."""

KEPT_HOURS: Final = 1
"""How long files that no version needs any more are kept for readers that may still read them."""
EVENTS: Final = "bronze/events"


class WrittenFile(NamedTuple):
    """A file a task has written. path: below the table; rows: in it."""

    path: str
    bytes: int
    rows: int


class TableStore:
    """All tables of one directory. Nominal base."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def batch(self, name: str) -> int:
        """What the table knows, 0.. ; -1 while there is none."""
        raise NotImplementedError

    def mark(self, name: str, key: str) -> int:
        """The last batch of the query called `key` that is in the table, -1 for none."""
        raise NotImplementedError

    def append(
        self,
        name: str,
        parts: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        marks: Mapping[str, int],
    ) -> None:
        """Add files that lie in the table's directory already, and remember `marks`."""
        raise NotImplementedError

    def replace(
        self, name: str, rows: pa.Table, batch: int, column: str = "", from_: int = 0
    ) -> None:
        """Put `rows` in the place of those whose `column` is at least `from_`, or of all."""
        raise NotImplementedError

    def files(self, name: str) -> list[str]:
        """The files of the table as it is now, none while there is no table or nothing in it."""
        raise NotImplementedError

    def columns(self, name: str) -> pa.Schema:
        """The columns of a table that is there, also of one without rows."""
        return pq.read_schema(self.files(name)[0])

    def place(self, name: str) -> Path:
        """The table's directory."""
        return self.directory / name

    def read(self, name: str) -> pa.Table | None:
        """The whole table, None when there is nothing in it. For small ones."""
        files = self.files(name)
        return pa.concat_tables([pq.read_table(file) for file in files]) if files else None


def open_store(directory: Path) -> TableStore:
    """The tables of `directory` to be written, which need not be there yet.

    Raises: OperatorError when they are Delta tables and `deltalake` is not installed."""
    if importlib.util.find_spec("deltalake") is not None:
        return DeltaStore(directory)
    _refuse_delta(directory)
    return ParquetStore(directory)


def existing_store(directory: Path) -> TableStore:
    """The tables of `directory` to be read. Raises: OperatorError as `open_store`."""
    if _has_delta(directory) and importlib.util.find_spec("deltalake") is not None:
        return DeltaStore(directory)
    _refuse_delta(directory)
    return FoundParquet(directory)


def _has_delta(directory: Path) -> bool:
    return any(directory.glob("*/*/_delta_log"))


def _refuse_delta(directory: Path) -> None:
    if _has_delta(directory):
        raise OperatorError(
            f"{directory} holds Delta tables; install deltalake to go on with them, or choose "
            "another --tables directory"
        )


class DeltaStore(TableStore):
    """Delta tables, written without a JVM."""

    def __init__(self, directory: Path) -> None:
        """Raises: OperatorError when `deltalake` cannot work in `directory`."""
        super().__init__(directory)
        if "%" in str(directory.resolve()):
            raise OperatorError(
                f"{directory} has a % in its path, which Delta tables are not found behind; choose "
                "another --tables directory"
            )
        # Optional: an installation with plain Parquet does not have it.
        import deltalake
        import deltalake.exceptions

        self._delta = deltalake

    def _table(self, name: str) -> Any:
        place = str(self.place(name))
        kind = self._delta.DeltaTable
        return kind(place) if kind.is_deltatable(place) else None

    def _commit(self, batch: int, marks: Mapping[str, int]) -> Any:
        found = {BATCH: batch, **{f"input:{key}": value for key, value in marks.items()}}
        return self._delta.CommitProperties(
            app_transactions=[self._delta.Transaction(key, value) for key, value in found.items()]
        )

    def batch(self, name: str) -> int:
        table = self._table(name)
        known = None if table is None else table.transaction_version(BATCH)
        return -1 if known is None else int(known)

    def mark(self, name: str, key: str) -> int:
        table = self._table(name)
        known = None if table is None else table.transaction_version(f"input:{key}")
        return -1 if known is None else int(known)

    def append(
        self,
        name: str,
        parts: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        marks: Mapping[str, int],
    ) -> None:
        from deltalake.transaction import AddAction

        table = self._table(name)
        if table is None:
            table = self._delta.DeltaTable.create(str(self.place(name)), schema=schema)
        now_ms = time.time_ns() // 1_000_000
        actions = [
            AddAction(
                part.path, part.bytes, {}, now_ms, True, json.dumps({"numRecords": part.rows})
            )
            for part in parts
        ]
        with self._one_writer(name):
            table.create_write_transaction(
                actions, "append", table.schema(), commit_properties=self._commit(batch, marks)
            )
            self._tidy(name)

    def replace(
        self, name: str, rows: pa.Table, batch: int, column: str = "", from_: int = 0
    ) -> None:
        has_table = self._table(name) is not None
        with self._one_writer(name):
            self._delta.write_deltalake(
                str(self.place(name)),
                rows,
                mode="overwrite",
                predicate=f"{column} >= {from_}" if has_table and column else None,
                commit_properties=self._commit(batch, {}),
            )
            self._tidy(name)

    def files(self, name: str) -> list[str]:
        table = self._table(name)
        # They come as the paths of URLs.
        return [] if table is None else sorted(unquote(uri) for uri in table.file_uris())

    def columns(self, name: str) -> pa.Schema:
        return pa.schema(self._table(name).schema().to_arrow())

    @contextmanager
    def _one_writer(self, name: str) -> Iterator[None]:
        """Two writers of one table cannot both be right: the later one is refused."""
        try:
            yield
        except self._delta.exceptions.DeltaError as fault:
            raise OperatorError(
                f"{self.place(name)} cannot be written: {fault}; if another `penstock pipeline "
                "run` works on these tables, let it, or stop it and run this again"
            ) from fault

    def _tidy(self, name: str) -> None:
        table = self._table(name)
        if table.version() % TIDY_EVERY == TIDY_EVERY - 1:
            table.optimize.compact()
            table.create_checkpoint()
            table.vacuum(
                retention_hours=KEPT_HOURS, enforce_retention_duration=False, dry_run=False
            )


class ParquetStore(TableStore):
    """Directories of Parquet files, as old as this object: what was there before is removed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._batches: dict[str, int] = {}
        self._marks: dict[tuple[str, str], int] = {}
        self._files: dict[str, list[str]] = {}
        for layer in LAYERS:
            for path in directory.glob(f"{layer}/*/part-*.parquet"):
                path.unlink()

    def batch(self, name: str) -> int:
        return self._batches.get(name, -1)

    def mark(self, name: str, key: str) -> int:
        return self._marks.get((name, key), -1)

    def append(
        self,
        name: str,
        parts: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        marks: Mapping[str, int],
    ) -> None:
        found = self._files.setdefault(name, [])
        found += [str(self.place(name) / part.path) for part in parts]
        self._batches[name] = batch
        self._marks.update({(name, key): value for key, value in marks.items()})

    def replace(
        self, name: str, rows: pa.Table, batch: int, column: str = "", from_: int = 0
    ) -> None:
        known = self.read(name)
        if column and known is not None:
            rows = pa.concat_tables([known.filter(pc.field(column) < from_), rows])
        place = self.place(name)
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"part-{batch}.parquet"
        pq.write_table(rows, path, compression="zstd")
        for file in self._files.get(name, []):
            if file != str(path):
                Path(file).unlink()
        self._files[name] = [str(path)]
        self._batches[name] = batch

    def files(self, name: str) -> list[str]:
        return self._files.get(name, [])


class FoundParquet(TableStore):
    """Directories of Parquet files that another program has written; for reading."""

    def files(self, name: str) -> list[str]:
        return sorted(str(path) for path in self.place(name).glob("part-*.parquet"))


def load_tables(store: TableStore) -> Tables:
    """Everything the report is made of; a table that is not there is empty."""
    found: dict[str, Any] = {name: _rows(store, f"gold/{name}", ROW_TYPES[name]) for name in GOLD}
    alarms = _rows(store, "silver/alarm_interval", AlarmInterval)
    return Tables(**found, integrity=_integrity(store), alarms=alarms)


def load_blame(store: TableStore, since_ns: int) -> list[BlameRow]:
    """The root causes of the buckets from `since_ns` on."""
    wanted = pc.field("bucket_ns") >= since_ns
    parts = [pq.read_table(file, filters=wanted) for file in store.files("gold/root_cause")]
    return sorted(BlameRow(**fields) for part in parts for fields in part.to_pylist())


def newest(store: TableStore, name: str, column: str) -> int:
    """The highest of a column of numbers, 0 without rows; from what files say of themselves."""
    found = [0]
    for file in store.files(name):
        about = pq.read_metadata(file)
        at = about.schema.names.index(column)
        groups = (about.row_group(number) for number in range(about.num_row_groups))
        found += [group.column(at).statistics.max for group in groups if group.num_rows]
    return max(found)


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


def load_names(store: TableStore) -> dict[str, str]:
    """What clients call themselves, by address."""
    return client_names(one for file in store.files(EVENTS) for one in _came_up(file))


def _came_up(file: str) -> Iterator[tuple[str, str]]:
    """Who did, and what he called himself."""
    rows = pq.read_table(file, columns=["actor", "reason"], filters=[("kind", "=", "actor_up")])
    return zip(rows["actor"].to_pylist(), rows["reason"].to_pylist(), strict=True)


def _rows(store: TableStore, name: str, row_type: Any) -> tuple[Any, ...]:
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
        schema = schema_of(ROW_TYPES[name])
        found = pa.Table.from_pylist([row._asdict() for row in rows], schema=schema)
        pq.write_table(found, directory / f"{name}.parquet", compression="zstd")
