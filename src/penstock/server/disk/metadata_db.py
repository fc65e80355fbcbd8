"""The durable topology in SQLite: one file, one transaction a job, every format ever written read.

    metadata.sqlite   application_id 0x504E5354 ("PNST"), user_version: the format, 1..FORMAT
    WAL, synchronous=FULL: a transaction that has been committed survives a power cut

Queue ids are never used again (AUTOINCREMENT), because records of a deleted queue may lie in the
message log for a while. The connection is made on the loop's thread at the start, and then belongs
to the disk's thread until the end.

Every row carries a checksum of its fields, so that a flipped bit is no other binding: a row that
does not fit is named, and nothing is read until it is taken out.

A format that was released never changes: another step is added, and a file written by the old one
goes to tests/fixtures. `arguments`: an AMQP table or empty; `identity`: see routing/canonical.
"""

import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Final, TypeVar

import msgspec

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

UNFIT: Final = -2
APPLICATION_ID: Final = 0x504E5354
FORMAT: Final = 2

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

_SECOND: Final = tuple(
    f"ALTER TABLE {one} ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1"
    for one in ("vhosts", "users", "exchanges", "queues", "bindings", "parameters")
)

MIGRATIONS: Final = {0: _FIRST, 1: _SECOND}
"""From a format to the next. All that are needed are one transaction, at whose end rows get their
checksums."""


BUSY_MS: Final = 5000
"""How long a commit waits for somebody who looks into the file with another program."""
WAL_BYTES_MAX: Final = 16_777_216
FULL_CODES: Final = ("SQLITE_FULL", "SQLITE_IOERR_DISKFULL")
NAMED_MAX: Final = 5
"""Damaged rows that are named one by one; of more, how many there are."""
TAKE_OUT: Final = (
    "restore the whole data directory from a copy; or copy what there is, take these rows out with "
    "`penstock store mend`, which ends queues among them with their messages, start, and bring "
    "them back with `penstock definitions import`"
)
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
            self.db.text_factory = _text
            try:
                self._open(is_new)
            except BaseException:
                self.db.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # What SQLite itself says of a damaged schema may be no UTF-8.
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
        found = [str(row[0]) for row in self.db.execute("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            said = " ".join(" ".join(found).split())
            raise OperatorError(f"{self.path} is damaged ({said}); {MEND}")

    def _migrate(self) -> None:
        version = self._number("PRAGMA user_version")
        if version == FORMAT:
            return
        self.db.execute("BEGIN IMMEDIATE")
        for step in range(version, FORMAT):
            for statement in MIGRATIONS[step]:
                self.db.execute(statement)
        self._sum_all()
        self.db.execute(f"PRAGMA user_version = {FORMAT}")
        self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.db.execute("COMMIT")

    def _sum_all(self) -> None:
        for table in TABLES.values():
            for row in self.db.execute(table.select).fetchall():
                values = (checksum_of(table.name, row[2:]), row[0])
                self.db.execute(f"UPDATE {table.name} SET checksum = ? WHERE id = ?", values)

    def _number(self, statement: str) -> int:
        return int(self.db.execute(statement).fetchone()[0])

    def _fault(self, error: Exception) -> OperatorError:
        if isinstance(error, sqlite3.OperationalError):
            return OperatorError(
                f"cannot use {self.path}: {error}; is the disk full or read-only? another "
                "directory can be chosen with --data"
            )
        return OperatorError(f"{self.path} is damaged ({error}); {MEND}")

    # -- reading ---------------------------------------------------------------------------------

    def read(self) -> StoredCatalogue:
        """Everything that is kept. Raises: OperatorError that names rows which are damaged."""
        kept, damaged = self._look()
        if damaged:
            named = "; ".join(one.words() for one in damaged[:NAMED_MAX])
            more = f"; and {len(damaged) - NAMED_MAX} more" if len(damaged) > NAMED_MAX else ""
            raise OperatorError(
                f"{self.path} is damaged: {len(damaged)} of its rows do not fit their checksums: "
                f"{named}{more}; {TAKE_OUT}"
            )
        return kept

    def damaged(self) -> list["DamagedRow"]:
        """Rows that do not fit their checksums. Raises: OperatorError for other damage."""
        return self._look()[1]

    def copy_to(self, path: Path) -> None:
        """All of it, as it is, in another file. Raises: OSError."""
        path.touch(0o600)
        with closing(sqlite3.connect(path)) as copy:
            self.db.backup(copy)

    def take_out_damaged(self) -> list[str]:
        """Remove what does not fit its checksum; what that was, a line each. Raises:
        OperatorError."""
        damaged = self.damaged()
        try:
            self.db.execute("BEGIN IMMEDIATE")
            for one in damaged:
                self.db.execute(f"DELETE FROM {one.table} WHERE id = ?", (one.row_id,))
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise self._fault(error) from error
        return [one.words() for one in damaged]

    def _look(self) -> tuple[StoredCatalogue, list["DamagedRow"]]:
        try:
            return self._read()
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise OperatorError(f"{self.path} is damaged ({error}); {MEND}") from error

    def _read(self) -> tuple[StoredCatalogue, list["DamagedRow"]]:
        found = self.db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
        damaged: list[DamagedRow] = []
        kept = StoredCatalogue(
            self._rows(VhostRow, damaged),
            self._rows(UserRow, damaged),
            self._rows(ExchangeRow, damaged),
            self._rows(StoredQueue, damaged),
            self._rows(BindingRow, damaged),
            self._rows(ParameterRow, damaged),
            0 if found is None else int(found[0]),
        )
        kept.queue_id_max = max([kept.queue_id_max, *(one.queue_id for one in kept.queues)])
        return kept, damaged

    def _rows(self, kind: type[AnyRow], damaged: list["DamagedRow"]) -> list[AnyRow]:
        table = TABLES[kind]
        rows: list[AnyRow] = []
        for row in self.db.execute(table.select):
            values = dict(zip(table.fields, row[2:], strict=True))
            if checksum_of(table.name, row[2:]) != row[1]:
                key = {name: values[name] for name in table.key if name != "identity"}
                damaged.append(DamagedRow(table.name, int(row[0]), key))
                continue
            rows.append(
                kind(
                    *(
                        value == 1 if name.startswith("is_") else value
                        for name, value in values.items()
                    )
                )
            )
        return rows

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
            kept = [getattr(row, name) for name in table.fields]
            self.db.execute(table.insert, [*kept, checksum_of(table.name, kept)])
            return
        for statement, values in gone_with(row):
            self.db.execute(statement, values)
        self.db.execute(table.delete, [getattr(row, name) for name in table.key])

    def close(self) -> None:
        """After the disk's thread has ended: the log is folded into the file."""
        self.db.close()


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """key: what is left of what it is found by, without the binding's identity."""

    table: str
    row_id: int
    key: dict[str, object]

    def words(self) -> str:
        found = ", ".join(f"{name} {ascii(value)[:80]}" for name, value in self.key.items())
        return f"row {self.row_id} of {self.table} ({found})"


def checksum_of(table: str, values: Sequence[object]) -> int:
    """Of one row: its table and all its fields; UNFIT, which no row has, for what cannot be one."""
    plain = [int(one) if isinstance(one, bool) else one for one in values]
    try:
        return zlib.crc32(msgspec.msgpack.encode([table, plain]))
    except UnicodeEncodeError:
        return UNFIT


def _text(data: bytes) -> str:
    """What is no UTF-8 does not fit its checksum, and can be named."""
    return data.decode("utf-8", "surrogateescape")


class CatalogueTable:
    """How rows of one kind are kept: a column for each field. key: fields that a row which goes is
    found by; is_replaced: a row that comes takes the place of one with its key. put: by number, in
    the place of whatever has that or the key."""

    def __init__(
        self, name: str, kind: type[Row], key: tuple[str, ...], is_replaced: bool = False
    ) -> None:
        self.name = name
        self.key = key
        self.fields = tuple(one.name for one in fields(kind))
        # A queue's number is that of its row, which the database never gives twice.
        named = ["id" if one == "queue_id" else one for one in self.fields]
        columns = ", ".join(named)
        self.select = f"SELECT id, checksum, {columns} FROM {name} ORDER BY id"
        named.append("checksum")
        marks = ", ".join("?" for _ in named)
        self.insert = f"INSERT INTO {name} ({columns}, checksum) VALUES ({marks})"
        if is_replaced:
            others = ", ".join(f"{one} = excluded.{one}" for one in named if one not in key)
            does = f"UPDATE SET {others}" if others else "NOTHING"
            self.insert += f" ON CONFLICT ({', '.join(key)}) DO {does}"
        found = " AND ".join(f"{'id' if one == 'queue_id' else one} = ?" for one in key)
        self.delete = f"DELETE FROM {name} WHERE {found}"
        self.find = f"SELECT id FROM {name} WHERE {found}"
        plain = [one for one in named if one != "id"]
        marks = ", ".join("?" for _ in ("id", *plain))
        self.put = f"INSERT OR REPLACE INTO {name} (id, {', '.join(plain)}) VALUES ({marks})"


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


def gone_with(row: Row) -> Iterable[tuple[str, tuple[object, ...]]]:
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
