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
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Final

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
        every = self.db.execute
        kept = StoredCatalogue()
        for row in every("SELECT name FROM vhosts ORDER BY id"):
            kept.vhosts.append(VhostRow(*row))
        for row in every("SELECT name, password_hash, hashing, tags FROM users ORDER BY id"):
            kept.users.append(UserRow(*row))
        for vhost, name, kind, is_auto_delete, is_internal, arguments in every(
            "SELECT vhost, name, kind, is_auto_delete, is_internal, arguments "
            "FROM exchanges ORDER BY id"
        ):
            kept.exchanges.append(
                ExchangeRow(vhost, name, kind, is_auto_delete == 1, is_internal == 1, arguments)
            )
        for queue_id, vhost, name, is_auto_delete, arguments in every(
            "SELECT id, vhost, name, is_auto_delete, arguments FROM queues ORDER BY id"
        ):
            kept.queues.append(StoredQueue(queue_id, vhost, name, is_auto_delete == 1, arguments))
        for vhost, source, is_to_exchange, *rest in every(
            "SELECT vhost, source, is_to_exchange, destination, routing_key, identity, arguments "
            "FROM bindings ORDER BY id"
        ):
            kept.bindings.append(BindingRow(vhost, source, is_to_exchange == 1, *rest))
        for row in every("SELECT vhost, component, name, value FROM parameters ORDER BY id"):
            kept.parameters.append(ParameterRow(*row))
        found = every("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
        kept.queue_id_max = 0 if found is None else int(found[0])
        return kept

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
        for statement, values in _statements(change):
            self.db.execute(statement, values)

    def close(self) -> None:
        """After the disk's thread has ended: the log is folded into the file."""
        self.db.close()


Statement = tuple[str, tuple[object, ...]]


def _statements(change: CatalogueChange) -> Iterable[Statement]:
    return _puts(change.row) if change.is_kept else _drops(change.row)


def _puts(row: Row) -> Iterable[Statement]:
    if isinstance(row, StoredQueue):
        yield (
            "INSERT INTO queues (id, vhost, name, is_auto_delete, arguments) VALUES (?,?,?,?,?)",
            (row.queue_id, row.vhost, row.name, row.is_auto_delete, row.arguments),
        )
    elif isinstance(row, ExchangeRow):
        yield (
            "INSERT INTO exchanges (vhost, name, kind, is_auto_delete, is_internal, arguments) "
            "VALUES (?,?,?,?,?,?)",
            (row.vhost, row.name, row.kind, row.is_auto_delete, row.is_internal, row.arguments),
        )
    elif isinstance(row, BindingRow):
        yield (
            "INSERT INTO bindings (vhost, source, is_to_exchange, destination, routing_key, "
            "identity, arguments) VALUES (?,?,?,?,?,?,?)",
            (*_binding_key(row), row.arguments),
        )
    elif isinstance(row, ParameterRow):
        yield (
            "INSERT INTO parameters (vhost, component, name, value) VALUES (?,?,?,?) "
            "ON CONFLICT (vhost, component, name) DO UPDATE SET value = excluded.value",
            (row.vhost, row.component, row.name, row.value),
        )
    elif isinstance(row, UserRow):
        yield (
            "INSERT INTO users (name, password_hash, hashing, tags) VALUES (?,?,?,?) "
            "ON CONFLICT (name) DO UPDATE SET password_hash = excluded.password_hash, "
            "hashing = excluded.hashing, tags = excluded.tags",
            (row.name, row.password_hash, row.hashing, row.tags),
        )
    else:
        yield "INSERT OR IGNORE INTO vhosts (name) VALUES (?)", (row.name,)


def _drops(row: Row) -> Iterable[Statement]:
    if isinstance(row, StoredQueue):
        yield (
            "DELETE FROM bindings WHERE vhost = ? AND is_to_exchange = 0 AND destination = ?",
            (row.vhost, row.name),
        )
        yield (
            "DELETE FROM parameters WHERE component = ? AND name GLOB ?",
            (LEASE, f"{row.queue_id}/*"),
        )
        yield "DELETE FROM queues WHERE id = ?", (row.queue_id,)
    elif isinstance(row, ExchangeRow):
        yield "DELETE FROM bindings WHERE vhost = ? AND source = ?", (row.vhost, row.name)
        yield (
            "DELETE FROM bindings WHERE vhost = ? AND is_to_exchange = 1 AND destination = ?",
            (row.vhost, row.name),
        )
        yield "DELETE FROM exchanges WHERE vhost = ? AND name = ?", (row.vhost, row.name)
    elif isinstance(row, BindingRow):
        yield (
            "DELETE FROM bindings WHERE vhost = ? AND source = ? AND is_to_exchange = ? "
            "AND destination = ? AND routing_key = ? AND identity = ?",
            _binding_key(row),
        )
    elif isinstance(row, ParameterRow):
        yield (
            "DELETE FROM parameters WHERE vhost = ? AND component = ? AND name = ?",
            (row.vhost, row.component, row.name),
        )
    elif isinstance(row, UserRow):
        yield "DELETE FROM users WHERE name = ?", (row.name,)
    else:
        yield "DELETE FROM vhosts WHERE name = ?", (row.name,)


def _binding_key(row: BindingRow) -> tuple[object, ...]:
    return (
        row.vhost,
        row.source,
        row.is_to_exchange,
        row.destination,
        row.routing_key,
        row.identity,
    )
