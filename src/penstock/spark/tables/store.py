"""Where tables lie: Delta tables where `deltalake` is installed, else plain Parquet.

Every table has a number, its *batch*: how much of the input it knows. A Delta table changes
together with its batch and with its marks (which batches of each query are in it) in one commit, as
application transactions, so work that was cut short is done again and nothing is done twice. Plain
Parquet keeps no such record: each run begins with empty tables and makes all of them anew.
"""

import importlib.util
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.base.errors import OperatorError
from penstock.spark.tables.files import WrittenFile, span_of, without

LAYERS: Final = ("bronze", "silver", "gold")
BATCH: Final = "penstock-batch"
TIDY_EVERY: Final = 64
"""Versions of a table after which its small files become large ones."""

KEPT_HOURS: Final = 1
"""How long files that no version needs any more are kept for readers that may still read them."""
EVENTS: Final = "bronze/events"


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

    def exchange(
        self,
        name: str,
        parts: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        column: str,
        from_: int,
    ) -> None:
        """Put files that lie in the table's directory in the place of the rows whose `column` is at
        least `from_`. Files with other rows only stay as they are, and of one that has both the
        others are written again, group of rows by group of rows."""
        added = [part for part in parts if part.rows]
        gone: list[str] = []
        for path, low, high in self.spans(name, column):
            if high >= from_:
                gone.append(path)
                if low < from_:
                    kept = without(self.place(name) / path, batch, column, from_)
                    added += [kept] if kept.rows else []
        self.swap(name, gone, added, schema, batch, column)

    def spans(self, name: str, column: str) -> list[tuple[str, int, int]]:
        """Of each file of the table its path below it, and the lowest and highest of `column`."""
        raise NotImplementedError

    def swap(
        self,
        name: str,
        gone: Iterable[str],
        added: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        column: str,
    ) -> None:
        """Files for others, in one commit with the batch. column: as of `exchange`."""
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
        self._write(name, [], parts, schema, "", self._commit(batch, marks))

    def spans(self, name: str, column: str) -> list[tuple[str, int, int]]:
        table = self._table(name)
        found: list[tuple[str, int, int]] = []
        # Of a table without files not even the columns are there.
        for row in (
            [] if table is None else pa.table(table.get_add_actions(flatten=True)).to_pylist()
        ):
            low, high = row.get(f"min.{column}"), row.get(f"max.{column}")
            path = unquote(row["path"])
            if low is None or high is None:
                low, high = span_of(self.place(name) / path, column)
            found.append((path, low, high))
        return found

    def swap(
        self,
        name: str,
        gone: Iterable[str],
        added: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        column: str,
    ) -> None:
        self._write(name, gone, added, schema, column, self._commit(batch, {}))

    def _write(
        self,
        name: str,
        gone: Iterable[str],
        added: Iterable[WrittenFile],
        schema: pa.Schema,
        column: str,
        properties: Any,
    ) -> None:
        from deltalake.transaction import AddAction, RemoveAction

        table = self._table(name)
        if table is None:
            table = self._delta.DeltaTable.create(str(self.place(name)), schema=schema)
        now_ms = time.time_ns() // 1_000_000
        actions = [
            *(RemoveAction(path, True, now_ms) for path in gone),
            *(
                AddAction(part.path, part.bytes, {}, now_ms, True, _statistics(part, column))
                for part in added
            ),
        ]
        with self._one_writer(name):
            table.create_write_transaction(
                actions, "append", table.schema(), commit_properties=properties
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

    def spans(self, name: str, column: str) -> list[tuple[str, int, int]]:
        paths = [Path(file) for file in self._files.get(name, [])]
        return [(path.name, *span_of(path, column)) for path in paths]

    def swap(
        self,
        name: str,
        gone: Iterable[str],
        added: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        column: str,
    ) -> None:
        left = set(self._files.get(name, [])) | {str(self.place(name) / one.path) for one in added}
        left -= {str(self.place(name) / path) for path in gone}
        # Readers go by the directory, and tasks that were done twice have left files there.
        for path in self.place(name).glob("part-*.parquet"):
            if str(path) not in left:
                path.unlink()
        self._files[name] = sorted(left)
        self._batches[name] = batch

    def files(self, name: str) -> list[str]:
        return self._files.get(name, [])


class FoundParquet(TableStore):
    """Directories of Parquet files that another program has written; for reading."""

    def files(self, name: str) -> list[str]:
        return sorted(str(path) for path in self.place(name).glob("part-*.parquet"))


def _statistics(part: WrittenFile, column: str) -> str:
    found: dict[str, object] = {"numRecords": part.rows}
    if column:
        found |= {"minValues": {column: part.low}, "maxValues": {column: part.high}}
    return json.dumps(found)
