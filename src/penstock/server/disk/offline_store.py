"""The stores of a data directory that no broker uses: checked, measured, compacted.

Nothing is changed but by `compact`, which takes the directory as a broker would.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from penstock.base.errors import OperatorError
from penstock.broker.vhost.catalogue_rows import StoredCatalogue
from penstock.server.disk.data_directory import (
    CLEAN,
    PERSISTENT,
    STREAMS,
    DataDirectory,
    check_layout,
    is_unsynced,
    leave_clean,
    mark_unsynced,
    take_clean,
    vhost_folder,
)
from penstock.server.disk.disk_files import DiskDirectory, ReadOnlyDirectory
from penstock.server.disk.inventory import (
    INVENTORY,
    Inventory,
    VhostFiles,
    missing_segments,
    missing_streams,
    no_folder,
    read_inventory,
    store_files,
    write_inventory,
)
from penstock.server.disk.metadata_db import MetadataDb
from penstock.server.machine.machine import SystemChance, machine_start
from penstock.storage.check.check import check
from penstock.storage.check.check_segment import StoreFacts
from penstock.storage.check.findings import Findings
from penstock.storage.check.offline import StoreStats, compact_all, files_bytes, store_stats
from penstock.storage.check.overlay import OverlayDirectory
from penstock.storage.layout.format import MARKS_QUEUE_ID, OUTBOX_QUEUE_ID
from penstock.storage.log.roster import disown
from penstock.storage.recovery.recovery import Recovered, listed, recover
from penstock.streams.check import check_streams
from penstock.streams.stats import StreamStats, found_stats

HASH_CHARACTERS: Final = 17
"""Of a virtual host's folder: a dash and sixteen digits behind the readable part."""
MARKS_NAME: Final = "(batches committed last)"
"""What stands for their queue, which has no name."""
ID_MAX: Final = (1 << 63) - 1


@dataclass(slots=True)
class OneStore:
    """vhost: its name, or that of its folder where no virtual host has it; names: of its queues, by
    number; is_clean: the last stop was."""

    vhost: str
    path: Path
    names: dict[int, str] = field(default_factory=dict)
    is_known: bool = True

    @property
    def is_clean(self) -> bool:
        return (self.path / CLEAN).exists() or not any((self.path / PERSISTENT).iterdir())

    @property
    def trusts_footers(self) -> bool:
        """See recovery."""
        return self.is_clean or not is_unsynced(self.path)


class OfflineStores:
    """Everything in the data directory `path`. catalogue_fault: why the catalogue cannot be read,
    "" if it can; inventory_fault: the same of what there was at the last clean stop. Raises:
    OperatorError when it is none, or a broker uses it."""

    def __init__(self, path: Path, segment_bytes: int) -> None:
        self.path = path
        self.segment_bytes = segment_bytes
        self.catalogue_fault = ""
        self.inventory_fault = ""
        self._kept: StoredCatalogue | None = None
        try:
            check_layout(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise OperatorError(
                f"{path} is not a data directory of Penstock: it has no VERSION; say which with "
                "--data"
            ) from error
        except OSError as error:
            raise OperatorError(f"cannot read {path}: {error.strerror or error}") from error

    @contextmanager
    def held(self) -> Iterator["OfflineStores"]:
        """No broker starts on the directory until the block ends; nothing is written."""
        try:
            handle = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # A copy of a directory need not have one.
            yield self
            return
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(handle, 256, 0).decode("utf-8", "replace").split()
                who = f"pid {holder[0]}" if holder else "another process"
                raise OperatorError(
                    f"{self.path} is used by {who}, and this needs it for itself: stop that broker "
                    "first; what it has in its store, it shows with `penstock store stats --port N`"
                ) from error
            yield self
        finally:
            os.close(handle)

    # -- what there is ---------------------------------------------------------------------------

    def stores(self) -> list[OneStore]:
        """Of every virtual host that has a folder, by name. Raises: OSError."""
        kept = self.kept()
        queues: dict[str, dict[int, str]] = {}
        for row in kept.queues:
            queues.setdefault(row.vhost, {})[row.queue_id] = row.name
        names = {"/", *(row.name for row in kept.vhosts), *queues}
        by_folder = {vhost_folder(name): name for name in names}
        found: list[OneStore] = []
        folders = self.path / "vhosts"
        for path in sorted(folders.iterdir()) if folders.is_dir() else ():
            if not (path / PERSISTENT).is_dir():
                continue
            name = by_folder.get(path.name) or _guessed(path.name)
            store = OneStore(name or path.name, path, queues.get(name, {}), name != "")
            found.append(store)
        return found

    def kept(self) -> StoredCatalogue:
        """The catalogue, from a copy: to open it would already change its files."""
        if self._kept is None:
            self._kept = self._read_catalogue()
        return self._kept

    def _read_catalogue(self) -> StoredCatalogue:
        original = self.path / "metadata.sqlite"
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            copy = Path(folder) / original.name
            try:
                for suffix in ("", "-wal"):
                    if suffix == "" or Path(f"{original}{suffix}").exists():
                        shutil.copyfile(f"{original}{suffix}", f"{copy}{suffix}")
                database = MetadataDb(copy)
                try:
                    return database.read()
                finally:
                    database.close()
            except OSError as error:
                self.catalogue_fault = f"it cannot be read: {error.strerror or error}"
            except OperatorError as error:
                self.catalogue_fault = str(error).replace(str(copy), str(original))
        return StoredCatalogue(queue_id_max=ID_MAX)

    def _look(self, store: OneStore) -> tuple[ReadOnlyDirectory, Recovered]:
        """What a start would find, found without changing anything."""
        directory = ReadOnlyDirectory(str(store.path / PERSISTENT))
        recovered = recover(
            OverlayDirectory(directory),
            SystemChance(),
            self.segment_bytes,
            {*store.names, *names_of_own(store.names)},
            store.trusts_footers,
        )
        return directory, recovered

    def missing(self) -> list[OneStore]:
        """Virtual hosts with durable queues, or files at the last clean stop, and no folder."""
        kept = self.kept()
        names = {row.vhost for row in kept.queues}
        names |= {name for name, one in self._inventory().items() if one.segments or one.streams}
        found: list[OneStore] = []
        for name in sorted(names):
            path = self.path / "vhosts" / vhost_folder(name)
            if not (path / PERSISTENT).is_dir():
                queues = {row.queue_id: row.name for row in kept.queues if row.vhost == name}
                found.append(OneStore(name, path, queues))
        return found

    def _inventory(self) -> Inventory:
        """What there was at the last clean stop; {} where nobody can tell. Raises: OSError."""
        try:
            return read_inventory(self.path)
        except OperatorError as error:
            self.inventory_fault = str(error)
            return {}

    def _missing(self, store: OneStore, findings: Findings) -> None:
        """Add what was there at the last clean stop and is not."""
        files = self._inventory().get(store.vhost, VhostFiles())
        segments = missing_segments(files, store.path / PERSISTENT)
        streams = missing_streams(files, store.path / STREAMS)
        machine = machine_start()
        segments.add_listed(store.path / PERSISTENT, machine)
        streams.add_listed(store.path / STREAMS, machine)
        for name, text in (*segments.files, *streams.files):
            findings.damage(name, text)
        for name, text in (*segments.unsure, *streams.unsure):
            findings.note(name, text)
        findings.lost_count += sum(segments.lost.values()) + sum(streams.lost.values())
        if self.inventory_fault:
            findings.damage(INVENTORY, self.inventory_fault)

    # -- what can be done ------------------------------------------------------------------------

    def check(self, store: OneStore) -> Findings:
        """Read everything. Raises: OSError, OperatorError for an unknown format."""
        if not (store.path / PERSISTENT).is_dir():
            path = store.path / PERSISTENT if store.path.is_dir() else store.path
            findings = Findings()
            findings.damage(".", no_folder(path, len(store.names)))
            self._missing(store, findings)
            return findings
        directory, recovered = self._look(store)
        facts = StoreFacts(
            {**store.names, **names_of_own(store.names)},
            self.kept().queue_id_max,
            recovered.queues,
            store.is_clean,
            store.trusts_footers,
            self.catalogue_fault == "",
        )
        findings = check(directory, facts)
        self._missing(store, findings)
        if (store.path / STREAMS).is_dir():
            streams = ReadOnlyDirectory(str(store.path / STREAMS))
            check_streams(streams, store.names, facts.has_catalogue, findings, facts.queue_id_max)
        if not store.is_known:
            findings.note(".", "no virtual host has this folder; the broker leaves it alone")
        return findings

    def stats(self, store: OneStore) -> StoreStats:
        """Measure. Raises: OSError, OperatorError."""
        self._need_catalogue()
        directory, recovered = self._look(store)
        return store_stats(recovered.log, directory)

    def _need_catalogue(self) -> None:
        """Without it every message would be taken for one of a deleted queue. Raises:
        OperatorError."""
        self.kept()
        if self.catalogue_fault != "":
            raise OperatorError(
                f"which messages count cannot be told without the catalogue: {self.catalogue_fault}"
                "; `penstock store check` reads the messages without it"
            )

    def stream_stats(self, store: OneStore) -> tuple[StreamStats, ...]:
        """Measure its streams. Raises: OSError."""
        path = store.path / STREAMS
        if not path.is_dir():
            return ()
        return found_stats(ReadOnlyDirectory(str(path)), SystemChance())

    def compact(self, store: OneStore) -> "Compacted":
        """Give back all the room there is. Raises: OSError, OperatorError for a damaged store, and
        where the catalogue does not tell what counts."""
        path = store.path
        self._need_catalogue()
        report = self._look(store)[1].report
        highest = self.kept().queue_id_max
        if report.queue_id_max > highest:
            raise OperatorError(
                f"{path} has messages of queue number {report.queue_id_max}, and the highest that "
                f"was ever given is {highest}: the catalogue is older than the messages, and "
                "compacting would remove them; restore the whole data directory from one copy"
            )
        if report.lost or report.unreadable:
            raise OperatorError(
                f"{path} is damaged, and compacting would hide where: look with `penstock store "
                "check`, then start the broker once, which says what is lost and pauses the queues"
            )
        directory = DiskDirectory(str(path / PERSISTENT))
        disown(directory)
        before = files_bytes(directory)
        trusts_footers = store.trusts_footers
        inventory = self._inventory()
        # A compaction that is killed leaves other files than there were.
        files = inventory.pop(store.vhost, VhostFiles())
        before_it = VhostFiles(streams=files.streams, ends=files.ends)
        write_inventory(self.path, {**inventory, store.vhost: before_it})
        is_clean = take_clean(path)
        recovered = recover(
            directory,
            SystemChance(),
            self.segment_bytes,
            {*store.names, *names_of_own(store.names)},
            trusts_footers,
        )
        mark_unsynced(path, False)
        roster = recovered.log.handles.roster
        roster.begin(machine_start(), listed(recovered.log, directory))
        damaged = compact_all(recovered.log)
        if is_clean:
            found = store_files(recovered.log, path / PERSISTENT)
            after_it = VhostFiles(found.segments, found.acks, files.streams, files.ends)
            write_inventory(self.path, {**inventory, store.vhost: after_it})
            leave_clean(path)
        return Compacted(before, files_bytes(directory), tuple(damaged))


def mend_catalogue(path: Path) -> tuple[Path, list[str]]:
    """Take the rows out of the catalogue in `path` that do not fit their checksums: where the file
    as it was is now, and what they were. Nothing is changed where all fit.

    Raises: OSError; OperatorError for what is damaged in another way."""
    original = path / "metadata.sqlite"
    if not original.exists():
        raise OperatorError(f"{original} is not there; restore the whole data directory")
    database = MetadataDb(original)
    try:
        if not database.damaged():
            return original, []
        number = 1
        while (copy := path / f"{original.name}.damaged-{number}").exists():
            number += 1
        database.copy_to(copy)
        return copy, database.take_out_damaged()
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of all files; damaged: segments that could not be read whole and were left alone."""

    before_bytes: int
    after_bytes: int
    damaged: tuple[int, ...]


@contextmanager
def taken(path: Path) -> Iterator[None]:
    """The directory is ours, as a broker's, until the block ends. Raises: OperatorError."""
    directory = DataDirectory(path, "store")
    try:
        yield
    finally:
        directory.close()


def _guessed(folder: str) -> str:
    """The virtual host of a folder, "" if there can be none."""
    name = unquote(folder[:-HASH_CHARACTERS])
    return name if vhost_folder(name) == folder else ""


def names_of_own(names: dict[int, str]) -> dict[int, str]:
    """What the broker keeps in place of queues, by number, if these are the queues; a queue that is
    no stream has nothing there."""
    outboxes = {
        OUTBOX_QUEUE_ID + queue_id: f"{name} (committed, on its way to the stream)"
        for queue_id, name in names.items()
    }
    return {MARKS_QUEUE_ID: MARKS_NAME, **outboxes}
