"""The durable topology in SQLite: one file, one transaction a job, every format ever written read.

    metadata.sqlite   application_id 0x504E5354 ("PNST"), user_version: the format, 1..FORMAT
    WAL, synchronous=FULL: a transaction that has been committed survives a power cut

Queue ids are never used again (AUTOINCREMENT), because records of a deleted queue may lie in the
message log for a while. The connection is made on the loop's thread at the start, and then belongs
to the disk's thread until the end.

A format that was released never changes: another step is added, and a file written by the old one
goes to tests/fixtures. `arguments`: an AMQP table or empty; `identity`: see routing/canonical.
"""

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import fields
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Final, TypeVar

from penstock.base.errors import OperatorError
from penstock.broker.lease.lease_rows import COMPONENT as LEASE
from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    CatalogueChange,
    ExchangeRow,
    ParameterRow,
    Row,
    StoredCatalogue,
    StoredQueue,
    UserRow,
    VhostRow,
)
from penstock.server.disk.whole_file import sync_directory

AnyRow = TypeVar("AnyRow", VhostRow, UserRow, ExchangeRow, StoredQueue, BindingRow, ParameterRow)

APPLICATION_ID: Final = 0x504E5354
FORMAT: Final = 1

_FIRST: Final = (
    "CREATE TABLE vhosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "password_hash TEXT NOT NULL, hashing TEXT NOT NULL, tags TEXT NOT NULL)",
    "CREATE TABLE exchanges (id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, name TEXT NOT NULL, "
    "kind TEXT NOT NULL, is_auto_delete INTEGER NOT NULL, is_internal INTEGER NOT NULL, "
    "arguments BLOB NOT NULL, UNIQUE (vhost, name))",
    "CREATE TABLE queues (id INTEGER PRIMARY KEY AUTOINCREMENT, vhost TEXT NOT NULL, "
    "name TEXT NOT NULL, is_auto_delete INTEGER NOT NULL, arguments BLOB NOT NULL, "
    "UNIQUE (vhost, name))",
    "CREATE TABLE bindings (id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, source TEXT NOT NULL, "
    "is_to_exchange INTEGER NOT NULL, destination TEXT NOT NULL, routing_key TEXT NOT NULL, "
    "identity BLOB NOT NULL, arguments BLOB NOT NULL, "
    "UNIQUE (vhost, source, is_to_exchange, destination, routing_key, identity))",
    "CREATE INDEX bindings_to ON bindings (vhost, is_to_exchange, destination)",
    "CREATE TABLE parameters (id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, "
    "component TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
    "UNIQUE (vhost, component, name))",
)

MIGRATIONS: Final = {0: _FIRST}
"""From a format to the next: statements of one transaction."""


BUSY_MS: Final = 5000
"""How long a commit waits for somebody who looks into the file with another program."""
WAL_BYTES_MAX: Final = 16_777_216
FULL_CODES: Final = ("SQLITE_FULL", "SQLITE_IOERR_DISKFULL")
MEND: Final = (
    "restore the whole data directory from a copy; or, to go on without its messages, move this "
    "file and the directory `vhosts` away, start, and bring the queues back with "
    "`penstock definitions import`"
)


class MetadataDb:
    """path: the database file, made if it is not there.

    Raises: OperatorError for a damaged file, one that is not ours, or one of a newer Penstock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.applied = 0
        is_new = not path.exists()
        try:
            self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._open(is_new)
            except BaseException:
                self.db.close()
                raise
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _open(self, is_new: bool) -> None:
        db = self.db
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if is_new:
            os.chmod(self.path, 0o600)
        else:
            self._check()
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        self._migrate()
        if is_new:
            sync_directory(self.path.parent)

    def _check(self) -> None:
        """Nothing is written to a file that is not sound, not ours or too new."""
        application = self._number("PRAGMA application_id")
        version = self._number("PRAGMA user_version")
        tables = self._number("SELECT count(*) FROM sqlite_master")
        is_empty = application == 0 and version == 0 and tables == 0
        if application != APPLICATION_ID and not is_empty:
            raise OperatorError(
                f"{self.path} is a database of another program (application id {application}); "
                "choose another directory with --data"
            )
        if version > FORMAT:
            raise OperatorError(
                f"{self.path} has format {version}, and this Penstock knows formats up to "
                f"{FORMAT}: it was written by a newer one; install that, or choose another "
                "directory with --data"
            )
        found = [str(row[0]) for row in self.db.execute("PRAGMA quick_check(1)")]
        if found != ["ok"]:
            said = " ".join(" ".join(found).split())
            raise OperatorError(f"{self.path} is damaged ({said}); {MEND}")

    def _migrate(self) -> None:
        version = self._number("PRAGMA user_version")
        while version < FORMAT:
            self.db.execute("BEGIN IMMEDIATE")
            for statement in MIGRATIONS[version]:
                self.db.execute(statement)
            version += 1
            self.db.execute(f"PRAGMA user_version = {version}")
            self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self.db.execute("COMMIT")

    def _number(self, statement: str) -> int:
        return int(self.db.execute(statement).fetchone()[0])

    def _fault(self, error: sqlite3.Error) -> OperatorError:
        if isinstance(error, sqlite3.OperationalError):
            return OperatorError(
                f"cannot use {self.path}: {error}; is the disk full or read-only? another "
                "directory can be chosen with --data"
            )
        return OperatorError(f"{self.path} is damaged ({error}); {MEND}")

    # -- reading ---------------------------------------------------------------------------------

    def read(self) -> StoredCatalogue:
        """Everything that is kept. Raises: OperatorError."""
        try:
            return self._read()
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise OperatorError(f"{self.path} is damaged ({error}); {MEND}") from error

    def _read(self) -> StoredCatalogue:
        found = self.db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
        return StoredCatalogue(
            self._rows(VhostRow),
            self._rows(UserRow),
            self._rows(ExchangeRow),
            self._rows(StoredQueue),
            self._rows(BindingRow),
            self._rows(ParameterRow),
            0 if found is None else int(found[0]),
        )

    def _rows(self, kind: type[AnyRow]) -> list[AnyRow]:
        table = TABLES[kind]
        return [
            kind(
                *(
                    value == 1 if name.startswith("is_") else value
                    for name, value in zip(table.fields, row, strict=True)
                )
            )
            for row in self.db.execute(table.select)
        ]

    # -- writing ---------------------------------------------------------------------------------

    def apply(self, first: int, changes: tuple[CatalogueChange, ...]) -> None:
        """Commit `changes`, the first of which has the number `first`. Raises: OSError."""
        if first != self.applied:
            raise OSError(ENOSPC, "a change before this one was not kept yet")
        try:
            self.db.execute("BEGIN IMMEDIATE")
            for change in changes:
                self._apply(change)
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            is_full = error.sqlite_errorname in FULL_CODES
            raise OSError(ENOSPC if is_full else EIO, f"{self.path}: {error}") from error
        self.applied += len(changes)

    def _roll_back(self) -> None:
        # SQLite has done it itself after most errors of the disk.
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def _apply(self, change: CatalogueChange) -> None:
        row = change.row
        table = TABLES[type(row)]
        if change.is_kept:
            self.db.execute(table.insert, [getattr(row, name) for name in table.fields])
            return
        for statement, values in _gone_with(row):
            self.db.execute(statement, values)
        self.db.execute(table.delete, [getattr(row, name) for name in table.key])

    def close(self) -> None:
        """After the disk's thread has ended: the log is folded into the file."""
        self.db.close()


class CatalogueTable:
    """How rows of one kind are kept: a column for each field. key: fields that a row which goes is
    found by; is_replaced: a row that comes takes the place of one with its key."""

    def __init__(
        self, name: str, kind: type[Row], key: tuple[str, ...], is_replaced: bool = False
    ) -> None:
        self.key = key
        self.fields = tuple(one.name for one in fields(kind))
        # A queue's number is that of its row, which the database never gives twice.
        named = ["id" if one == "queue_id" else one for one in self.fields]
        columns = ", ".join(named)
        self.select = f"SELECT {columns} FROM {name} ORDER BY id"
        self.insert = f"INSERT INTO {name} ({columns}) VALUES ({', '.join('?' for _ in named)})"
        if is_replaced:
            others = ", ".join(f"{one} = excluded.{one}" for one in named if one not in key)
            does = f"UPDATE SET {others}" if others else "NOTHING"
            self.insert += f" ON CONFLICT ({', '.join(key)}) DO {does}"
        found = " AND ".join(f"{'id' if one == 'queue_id' else one} = ?" for one in key)
        self.delete = f"DELETE FROM {name} WHERE {found}"


TABLES: Final[dict[type[Row], CatalogueTable]] = {
    VhostRow: CatalogueTable("vhosts", VhostRow, ("name",), is_replaced=True),
    UserRow: CatalogueTable("users", UserRow, ("name",), is_replaced=True),
    ExchangeRow: CatalogueTable("exchanges", ExchangeRow, ("vhost", "name")),
    StoredQueue: CatalogueTable("queues", StoredQueue, ("queue_id",)),
    BindingRow: CatalogueTable(
        "bindings",
        BindingRow,
        ("vhost", "source", "is_to_exchange", "destination", "routing_key", "identity"),
    ),
    ParameterRow: CatalogueTable(
        "parameters", ParameterRow, ("vhost", "component", "name"), is_replaced=True
    ),
}


def _gone_with(row: Row) -> Iterable[tuple[str, tuple[object, ...]]]:
    """What goes with a queue or an exchange."""
    if isinstance(row, StoredQueue | ExchangeRow):
        yield (
            "DELETE FROM bindings WHERE vhost = ? AND is_to_exchange = ? AND destination = ?",
            (row.vhost, isinstance(row, ExchangeRow), row.name),
        )
    if isinstance(row, StoredQueue):
        yield (
            "DELETE FROM parameters WHERE component = ? AND name GLOB ?",
            (LEASE, f"{row.queue_id}/*"),
        )
    elif isinstance(row, ExchangeRow):
        yield "DELETE FROM bindings WHERE vhost = ? AND source = ?", (row.vhost, row.name)
