"""Where tables lie: Delta tables where `deltalake` is installed, else plain Parquet.

Every table has a number, its *batch*: how much of the input it knows. A Delta table changes
together with its batch and with its marks (which batches of each query are in it) in one commit, as
application transactions, so work that was cut short is done again and nothing is done twice. Plain
Parquet keeps no such record: each run begins with empty tables and makes all of them anew.

Tables with times are partitioned by `date`, the day in UTC. Every change is planned from one
version of the table and is refused by any other, so that compaction, expiry and a run that follows
may work side by side: whoever was overtaken plans again.
"""

import importlib.util
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import OperatorError
from penstock.spark.tables.files import (
    DATE,
    WrittenFile,
    check_place,
    day_of,
    log_file,
    span_of,
    without,
    write_days,
)

LAYERS: Final = ("bronze", "silver", "gold")
BATCH: Final = "penstock-batch"
FLOOR: Final = "penstock-floor"
TRIES: Final = 20
"""How often a change may be overtaken before it is given up."""

EVENTS: Final = "bronze/events"
UNDATED: Final = frozenset({"gold/latency", "gold/stage_cdf", "silver/last_seen"})
"""Tables that are of everything that is kept, and exchanged as a whole."""

CONFIGURATION: Final = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.checkpointInterval": "50",
}
"""A run that follows makes a version a batch: whoever opens a table looks at all that the log
keeps, and of versions whose files are gone nobody needs it."""

KNOWN_VERSIONS: Final = 50
"""A table that was opened takes in so many more before it is opened again, because it remembers
where each is written."""

Plan = Callable[[Sequence[WrittenFile]], tuple[Iterable[str], Iterable[WrittenFile]]]
"""From the files of a table as it is to the paths that go and the files that come."""


class Change(NamedTuple):
    """What a commit is besides its files. marks: application transactions; column: of times or
    other numbers, by which rows are exchanged, "" for none; is_same: the rows stay as they are."""

    marks: Mapping[str, int]
    column: str = ""
    is_same: bool = False


Cut = Callable[[Path, str, int, str, int], WrittenFile]
"""Writes the rows of a file anew, as files.without."""
CUT_HERE_BYTES: Final = 8_388_608
"""Rows of smaller files are written again where the store is."""


class TableStore:
    """All tables of one directory. Nominal base. cut: used for files of more than CUT_HERE_BYTES; a
    run has it done by a task, so that its driver's memory does not depend on how large they are."""

    def __init__(self, directory: Path) -> None:
        # Tasks may be in other working directories.
        self.directory = directory.resolve()
        self.cut: Cut = without

    def batch(self, name: str) -> int:
        """What the table knows, 0.. ; -1 while there is none."""
        return self.number(name, BATCH)

    def mark(self, name: str, key: str) -> int:
        """The last batch of the query called `key` that is in the table, -1 for none."""
        return self.number(name, f"input:{key}")

    def number(self, name: str, key: str) -> int:
        """What the table says of `key`, -1 for nothing."""
        raise NotImplementedError

    def kept(self, name: str, from_ns: int, width_ns: int) -> int:
        """The bucket of `from_ns`, but none of which the table does not have everything any more:
        what comes too late for retention changes nothing."""
        gone_ns = self.number(name, FLOOR) + width_ns - 1
        return max(from_ns - from_ns % width_ns, gone_ns - gone_ns % width_ns)

    def append(
        self,
        name: str,
        parts: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int,
        marks: Mapping[str, int],
    ) -> None:
        """Add files that lie in the table's directory already, and remember `marks`."""
        added = list(parts)
        known = {BATCH: batch, **{f"input:{key}": value for key, value in marks.items()}}
        column = "t_ns" if "t_ns" in schema.names else ""
        self.change(name, schema, Change(known, column), lambda live: ([], added))

    def replace(
        self, name: str, rows: pa.Table, batch: int, column: str = "", from_: int = 0
    ) -> None:
        """Put `rows` in the place of those whose `column` is at least `from_`, or of all."""
        place = self.place(name)
        parts = write_days(place, batch, rows, column, is_dated=name not in UNDATED)
        if column:
            self.exchange(name, parts, rows.schema, batch, column, from_)
        else:
            plan: Plan = lambda live: ([file.path for file in live], parts)  # noqa: E731
            self.change(name, rows.schema, Change({BATCH: batch}), plan)

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
        new = [part for part in parts if part.rows]
        cut: dict[str, WrittenFile] = {}

        def plan(live: Sequence[WrittenFile]) -> tuple[list[str], list[WrittenFile]]:
            gone = [file for file in live if file.high >= from_]
            for file in gone:
                if file.low < from_ and file.path not in cut:
                    write = self.cut if file.bytes > CUT_HERE_BYTES else without
                    cut[file.path] = write(self.place(name), file.path, batch, column, from_)
            kept = [cut[file.path] for file in gone if file.path in cut]
            return [file.path for file in gone], [*new, *(file for file in kept if file.rows)]

        self.change(name, schema, Change({BATCH: batch}, column), plan)

    def change(self, name: str, schema: pa.Schema, change: Change, plan: Plan) -> None:
        """One commit: files for others. schema: of a table that is not there yet, without `date`.
        Raises: OperatorError when another run has changed the table meanwhile."""
        raise NotImplementedError

    def live(self, name: str, column: str = "") -> list[WrittenFile]:
        """The files of the table as it is now, with the lowest and highest of `column`."""
        raise NotImplementedError

    def files(self, name: str) -> list[str]:
        """The same as places, none while there is no table or nothing in it."""
        return sorted(str(self.place(name) / file.path) for file in self.live(name))

    def columns(self, name: str) -> pa.Schema:
        """The columns of a table that is there, also of one without rows."""
        return pq.read_schema(self.files(name)[0])

    def place(self, name: str) -> Path:
        """The table's directory."""
        return self.directory / name

    def read(self, name: str) -> pa.Table | None:
        """The whole table, None when there is nothing in it. For small ones."""
        return read_files(self.files(name))

    def names(self) -> list[str]:
        """The tables that are there, `layer/name`."""
        found = [path for layer in LAYERS for path in sorted(self.directory.glob(f"{layer}/*"))]
        return [f"{path.parent.name}/{path.name}" for path in found if path.is_dir()]


def read_files(files: Sequence[str]) -> pa.Table | None:
    """Their rows together, None for no files."""
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
        check_place(directory, "--tables directory")
        # Optional: an installation with plain Parquet does not have it.
        import deltalake
        import deltalake.exceptions

        self._delta = deltalake
        self._known: dict[str, tuple[Any, int]] = {}

    def table(self, name: str) -> Any:
        """The newest version of it, None while there is none. A batch asks some seventy times, and
        a table that is known takes a look at what came since, not at its whole log."""
        table, first = self._known.pop(name, (None, 0))
        if table is not None and table.version() < first + KNOWN_VERSIONS:
            with suppress(self._delta.exceptions.DeltaError):
                table.update_incremental()
                if log_file(self.place(name), table.version()).exists():
                    self._known[name] = table, first
                    return table
        try:
            table = self._delta.DeltaTable(str(self.place(name)))
        except self._delta.exceptions.TableNotFoundError:
            return None
        self._known[name] = table, table.version()
        return table

    def number(self, name: str, key: str) -> int:
        table = self.table(name)
        return -1 if table is None else _said(table, key)

    def live(self, name: str, column: str = "") -> list[WrittenFile]:
        table = self.table(name)
        return [] if table is None else self._live(name, table, column)

    def _live(self, name: str, table: Any, column: str) -> list[WrittenFile]:
        found: list[WrittenFile] = []
        # Of a table without files not even the columns are there.
        for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            path = unquote(row["path"])
            low, high = row.get(f"min.{column}"), row.get(f"max.{column}")
            if column and (low is None or high is None):
                low, high = span_of(self.place(name) / path, column)
            file = WrittenFile(path, row["size_bytes"], row["num_records"], low or 0, high or 0)
            found.append(file)
        return found

    def change(self, name: str, schema: pa.Schema, change: Change, plan: Plan) -> None:
        kind = self._delta
        is_dated = name not in UNDATED
        days = [DATE] if is_dated else []
        before: list[int] | None = None
        for _ in range(TRIES):
            table = self.table(name)
            if table is None:
                table = kind.DeltaTable.create(
                    str(self.place(name)),
                    schema=pa.schema([pa.field(DATE, pa.date32()), *schema]) if days else schema,
                    mode="ignore",
                    partition_by=days,
                    configuration=CONFIGURATION,
                )
            said = [_said(table, key) for key in change.marks]
            if before is not None and said != before:
                break
            before = said
            gone, added = plan(self._live(name, table, change.column))
            try:
                table.create_write_transaction(
                    _actions(gone, added, change),
                    "append",
                    table.schema(),
                    partition_by=days,
                    commit_properties=kind.CommitProperties(
                        app_transactions=[
                            kind.Transaction(key, value) for key, value in change.marks.items()
                        ],
                        # A commit on top of another version would be made of files that are gone.
                        max_commit_retries=0,
                    ),
                )
            except kind.exceptions.CommitFailedError:
                continue
            except kind.exceptions.DeltaError as fault:
                raise OperatorError(f"{self.place(name)} cannot be written: {fault}") from fault
            return
        raise OperatorError(
            f"{self.place(name)} is changed by another `penstock pipeline run` on these tables; "
            "let it, or stop it and run this again"
        )

    def columns(self, name: str) -> pa.Schema:
        found = pa.schema(self.table(name).schema().to_arrow())
        return pa.schema([field for field in found if field.name != DATE])


def _said(table: Any, key: str) -> int:
    known = table.transaction_version(key)
    return -1 if known is None else int(known)


def _actions(gone: Iterable[str], added: Iterable[WrittenFile], change: Change) -> list[Any]:
    from deltalake.transaction import AddAction, RemoveAction

    now_ms, is_other = time.time_ns() // 1_000_000, not change.is_same
    actions: list[Any] = [RemoveAction(path, is_other, now_ms) for path in gone]
    for part in added:
        day = day_of(part.path)
        about: dict[str, object] = {"numRecords": part.rows}
        if change.column and part.low <= part.high:
            bounds = {"minValues": part.low, "maxValues": part.high}
            about |= {key: {change.column: value} for key, value in bounds.items()}
        values = {DATE: day} if day else {}
        actions.append(
            AddAction(part.path, part.bytes, values, now_ms, is_other, json.dumps(about))
        )
    return actions


class ParquetStore(TableStore):
    """Directories of Parquet files, as old as this object: what was there before is removed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._numbers: dict[tuple[str, str], int] = {}
        self._files: dict[str, list[str]] = {}
        for layer in LAYERS:
            for path in directory.glob(f"{layer}/*/**/part-*.parquet"):
                path.unlink()

    def number(self, name: str, key: str) -> int:
        return self._numbers.get((name, key), -1)

    def live(self, name: str, column: str = "") -> list[WrittenFile]:
        return [_found(self.place(name), path, column) for path in self._files.get(name, [])]

    def change(self, name: str, schema: pa.Schema, change: Change, plan: Plan) -> None:
        place = self.place(name)
        gone, added = plan(self.live(name, change.column))
        left = {*self._files.get(name, []), *(part.path for part in added)} - set(gone)
        # Readers go by the directory, and tasks that were done twice have left files there.
        for path in place.glob("**/part-*.parquet"):
            if str(path.relative_to(place)) not in left:
                path.unlink()
        self._files[name] = sorted(left)
        self._numbers.update({(name, key): value for key, value in change.marks.items()})


class FoundParquet(TableStore):
    """Directories of Parquet files that another program has written; for reading."""

    def number(self, name: str, key: str) -> int:
        return -1

    def live(self, name: str, column: str = "") -> list[WrittenFile]:
        place = self.place(name)
        paths = sorted(place.glob("**/part-*.parquet"))
        return [_found(place, str(path.relative_to(place)), column) for path in paths]


def _found(place: Path, path: str, column: str) -> WrittenFile:
    low, high = span_of(place / path, column) if column else (0, 0)
    return WrittenFile(path, (place / path).stat().st_size, 0, low, high)
