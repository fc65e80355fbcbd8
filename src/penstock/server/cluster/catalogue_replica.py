"""Rows of the catalogue on their way from a leader's database to those of its followers.

A row travels with its number, so that databases are the same row by row, and doing it again changes
nothing: a kept row takes the place of whatever has its number or its key. A row that goes takes
along what the leader's took along.
"""

import sqlite3
from collections.abc import Callable
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Final, ParamSpec

import msgspec

from penstock.broker.vhost.catalogue_rows import CatalogueChange, Row
from penstock.replication.operations import (
    ROW_GONE,
    ROW_KEPT,
    EntryWriter,
    Operation,
    OperationFault,
)
from penstock.server.cluster.recorder import Recorder
from penstock.server.disk.metadata_db import (
    FULL_CODES,
    TABLES,
    CatalogueTable,
    MetadataDb,
    checksum_of,
    gone_with,
)

P = ParamSpec("P")

KINDS: Final = {table.name: kind for kind, table in TABLES.items()}
SEQUENCE: Final = "sqlite_sequence"
"""As a table: the highest number that was ever given to a queue, as that of its only row."""


class RecordedDb(MetadataDb):
    """A leader's database: what was committed is recorded."""

    def __init__(self, path: Path, recorder: Recorder) -> None:
        self.recorder = recorder
        super().__init__(path)

    def apply(self, first: int, changes: tuple[CatalogueChange, ...]) -> None:
        self.recorder.check()
        super().apply(first, changes)
        for change in changes:
            row = change.row
            table = TABLES[type(row)]
            data = msgspec.msgpack.encode([getattr(row, name) for name in table.fields])
            if not change.is_kept:
                self.recorder.add(ROW_GONE, table.name, 0, data)
                continue
            number = self._number_of(table, row)
            # One that is not there was taken away by a later change, which says so.
            if number is not None:
                self.recorder.add(ROW_KEPT, table.name, number, data)

    def _number_of(self, table: CatalogueTable, row: Row) -> int | None:
        try:
            found = self.db.execute(table.find, [getattr(row, name) for name in table.key])
            first = found.fetchone()
        except sqlite3.Error as error:
            raise OSError(EIO, f"{self.path}: {error}") from error
        return None if first is None else int(first[0])


class CatalogueReplica:
    """A follower's database. Changes are one transaction until `commit`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = MetadataDb(path)

    def apply(self, one: Operation) -> None:
        """ROW_KEPT or ROW_GONE. Raises: OSError; OperationFault for no such row."""
        if one.path == SEQUENCE:
            self._do(self._set_sequence, one.number)
            return
        kind = KINDS.get(one.path)
        if kind is None:
            raise OperationFault(f"a row of {one.path!r}, and the catalogue has no such table")
        table = TABLES[kind]
        row = _row_of(one, kind, table)
        if one.kind == ROW_KEPT:
            self._do(self._keep, table, one.number, row)
        else:
            self._do(self._forget, table, row)

    def _keep(self, table: CatalogueTable, number: int, row: Row) -> None:
        values = [getattr(row, name) for name in table.fields]
        named = zip(table.fields, values, strict=True)
        kept = [value for name, value in named if name != "queue_id"]
        self._db.db.execute(table.put, [number, *kept, checksum_of(table.name, values)])

    def _forget(self, table: CatalogueTable, row: Row) -> None:
        for statement, values in gone_with(row):
            self._db.db.execute(statement, values)
        self._db.db.execute(table.delete, [getattr(row, name) for name in table.key])

    def _set_sequence(self, number: int) -> None:
        self._db.db.execute("DELETE FROM sqlite_sequence WHERE name = 'queues'")
        if number > 0:
            row = ("queues", number)
            self._db.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", row)

    def clear(self) -> None:
        """Every row goes. Raises: OSError."""
        for table in TABLES.values():
            self._do(self._db.db.execute, f"DELETE FROM {table.name}")

    def _do(self, work: Callable[P, object], *values: P.args, **named: P.kwargs) -> None:
        try:
            if not self._db.db.in_transaction:
                self._db.db.execute("BEGIN IMMEDIATE")
            work(*values, **named)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def commit(self) -> None:
        """What was applied is safe. Raises: OSError."""
        try:
            if self._db.db.in_transaction:
                self._db.db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _fault(self, error: sqlite3.Error) -> OSError:
        is_full = getattr(error, "sqlite_errorname", "") in FULL_CODES
        return OSError(ENOSPC if is_full else EIO, f"{self.path}: {error}")

    def close(self) -> None:
        """What was not committed is not kept."""
        self._db.close()


def _row_of(one: Operation, kind: type[Row], table: CatalogueTable) -> Row:
    try:
        values = msgspec.msgpack.decode(one.data, type=list[object])
        named = dict(zip(table.fields, values, strict=True))
        # What was read from a database has 0 and 1 for no and yes.
        return msgspec.convert(named, kind, strict=False)
    except ValueError as error:
        raise OperationFault(f"a row of {one.path} cannot be read: {error}") from error


def copy_rows(path: Path) -> list[bytes]:
    """Everything in the database `path`, of which another process is the owner: entries.

    Raises: OSError."""
    entries: list[bytes] = []
    writer = EntryWriter()
    try:
        # As a URI of its own making: the folders may have any name.
        uri = f"{path.absolute().as_uri()}?mode=ro"
        db = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            db.execute("PRAGMA busy_timeout = 5000")
            db.execute("BEGIN")
            for table in TABLES.values():
                for row in db.execute(table.select):
                    data = msgspec.msgpack.encode(list(row[2:]))
                    if not writer.has_room(len(data)):
                        entries.append(b"".join(writer.take()))
                    writer.add(ROW_KEPT, table.name, int(row[0]), data)
            found = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
            writer.add(ROW_KEPT, SEQUENCE, 0 if found is None else int(found[0]))
        finally:
            db.close()
    except sqlite3.Error as error:
        raise OSError(EIO, f"{path}: {error}") from error
    entries.append(b"".join(writer.take()))
    return entries
