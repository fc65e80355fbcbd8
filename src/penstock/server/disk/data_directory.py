"""The data directory: who may use it, what is in it, and that it is ours.

    DIR/lock                    held (flock) by the broker that uses it; its pid and boot id
    DIR/VERSION                 layout of the directory: 1
    DIR/metadata.sqlite         see server/disk/metadata_db
    DIR/vhosts/NAME/persistent  messages of durable queues
    DIR/vhosts/NAME/transient   messages that rest on disk for want of memory; emptied at the start
    DIR/INVENTORY               which files there were at the last clean stop, see inventory
    DIR/vhosts/NAME/DELETED     there is no such virtual host: its directory goes at the next stop
    DIR/parked                  publishes that wait for queues which take nothing; emptied likewise

Readable by its owner alone: password hashes and messages are in it. Nothing in a directory is
touched before the lock is held, and none is taken that holds something else (F24).

Two empty files beside a store say how its last life has ended:

CLEAN      the stop was clean; gone before anything else is done at the next start. Without it every
           message that comes back may have been delivered before, and says so
UNSYNCED   nothing was synced while it ran (mode none): after a crash nothing is believed that was
           not read itself
"""

import fcntl
import os
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

from penstock.base.errors import OperatorError
from penstock.server.disk.local_files import LOCAL, LocalFiles
from penstock.server.disk.whole_file import sync_directory
from penstock.server.machine.reserve_file import NAME as RESERVE
from penstock.storage.log.job import Job

PERSISTENT: Final = "persistent"
STREAMS: Final = "streams"
CLEAN: Final = "CLEAN"
UNSYNCED: Final = "UNSYNCED"
DELETED: Final = "DELETED"


def take_clean(path: Path, files: LocalFiles = LOCAL) -> bool:
    """Whether the last stop was clean; asked once. Raises: OSError."""
    try:
        files.remove(path / CLEAN)
    except FileNotFoundError:
        return not any((path / PERSISTENT).iterdir())
    return True


def leave_clean(path: Path, files: LocalFiles = LOCAL) -> None:
    """The last batch is safe. Raises: OSError."""
    files.write_whole(path / CLEAN, b"")


def is_unsynced(path: Path) -> bool:
    """Whether what lies in `path` may be in memory only, after a stop that was not clean."""
    return (path / UNSYNCED).exists()


def mark_unsynced(path: Path, is_lazy: bool, files: LocalFiles = LOCAL) -> None:
    """Before anything is written, and when what was there is safe: whether it will be synced.

    Raises: OSError."""
    if is_lazy:
        files.write_whole(path / UNSYNCED, b"")
    elif is_unsynced(path):
        files.remove(path / UNSYNCED)


class MarkDeleted(Job):
    """Notes that the virtual host with the directory `path` is deleted, or is there again."""

    __slots__ = ("files", "is_deleted", "path")

    def __init__(self, path: Path, is_deleted: bool, files: LocalFiles) -> None:
        self.path = path
        self.is_deleted = is_deleted
        self.files = files

    def run(self) -> None:
        if self.is_deleted:
            self.files.write_whole(self.path / DELETED, b"")
        elif (self.path / DELETED).exists():
            self.files.remove(self.path / DELETED)


def remove_deleted(directory: Path, names: Iterable[str], files: LocalFiles = LOCAL) -> list[Path]:
    """Remove the directories of virtual hosts that were deleted, which nobody has open; those that
    stay, because something of them cannot be removed. names: of the virtual hosts there are.

    Raises: OSError."""
    folders = directory / "vhosts"
    wanted = {vhost_folder(name) for name in names}
    left: list[Path] = []
    for path in sorted(folders.iterdir()) if folders.is_dir() else ():
        if not (path / DELETED).exists():
            continue
        if path.name in wanted:
            files.remove(path / DELETED)
            continue
        # The mark goes last: what is cut short is done again.
        shutil.rmtree(path / "transient", ignore_errors=True)
        for folder in (path / PERSISTENT, path / STREAMS, path):
            files.remove_folder(folder)
        if path.exists():
            left.append(path)
    return left


LAYOUT: Final = 1
CLUSTER: Final = "cluster"
"""What a node of a cluster knows of itself; never copied to another one."""
WORKERS: Final = "workers"
PLACES: Final = "workers.json"
"""Directories of other workers than the first, and who has which virtual host: the parent's."""
OTHERS: Final = frozenset({"lost+found", RESERVE, "lock", CLUSTER, WORKERS, PLACES})
"""What may lie in a directory that is to become a data directory."""
READABLE_MAX: Final = 80


class DataDirectory:
    """path: made if it is not there; files: who changes what is in it.

    Raises: OperatorError that says who uses it, or why not."""

    def __init__(self, path: Path, boot_id: str, files: LocalFiles = LOCAL) -> None:
        self.path = path
        self.files = files
        self._lock = -1
        try:
            self._open(boot_id)
        except OSError as error:
            self.close()
            raise OperatorError(
                f"cannot use {path} for data: {error.strerror or error}; choose another directory "
                "with --data, or none with --memory"
            ) from error
        except OperatorError:
            self.close()
            raise

    def _open(self, boot_id: str) -> None:
        path = self.path
        if not path.exists():
            path.mkdir(0o700, parents=True)
            sync_directory(path.parent)
        names = set(os.listdir(path))
        # What was being written when the power went is none of them, and nobody's.
        begun = (".VERSION.", f".{PLACES}.")
        others = sorted(one for one in names - OTHERS if not one.startswith(begun))
        if "VERSION" not in names and others:
            raise OperatorError(
                f"{path} is not a data directory of Penstock (it holds {others[0]} and no "
                "VERSION); choose an empty or a new one with --data"
            )
        self._take_lock(boot_id)
        self._check_version()
        os.chmod(path, 0o700)

    def _take_lock(self, boot_id: str) -> None:
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            held = os.pread(self._lock, 256, 0).decode("utf-8", "replace").split()
            who = f"pid {held[0]}" if held else "another process"
            raise OperatorError(
                f"{self.path} is used by {who}; stop that broker, or choose another directory "
                "with --data"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()} {boot_id}\n".encode(), 0)

    def _check_version(self) -> None:
        try:
            check_layout(self.path)
        except FileNotFoundError:
            self.files.write_whole(self.path / "VERSION", f"{LAYOUT}\n".encode())

    @property
    def metadata(self) -> Path:
        """Of the database."""
        return self.path / "metadata.sqlite"

    @property
    def parked(self) -> Path:
        """Where parking lots go that are large."""
        return self.path / "parked"

    def vhost_path(self, name: str) -> Path:
        """Where messages of the virtual host `name` are, if it has any."""
        return self.path / "vhosts" / vhost_folder(name)

    def vhost(self, name: str) -> Path:
        """Where messages of the virtual host `name` are; made, with its two parts, if need be.

        Raises: OSError."""
        whole = self.vhost_path(name)
        for folder in (whole.parent, whole, whole / "persistent", whole / "transient"):
            if not folder.exists():
                self.files.make_folder(folder)
        return whole

    def close(self) -> None:
        """Let another broker have it. The file stays, because whoever waits for it has it open."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def check_layout(directory: Path) -> None:
    """Raises: OperatorError for a layout that is unknown here, FileNotFoundError for none."""
    path = directory / "VERSION"
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        text = "?"
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise OperatorError(
            f"{path} says {text[:40]!r} instead of the layout of the directory, 1..{LAYOUT}; "
            "it is damaged: restore the directory from a copy"
        )
    if int(text) > LAYOUT:
        raise OperatorError(
            f"{directory} has layout {text}, and this Penstock knows layouts up to {LAYOUT}: "
            "it was written by a newer one; install that, or choose another directory with --data"
        )


def vhost_folder(name: str) -> str:
    """A file name for any virtual host: readable, and different for different ones even where
    capitals do not count or names are cut."""
    readable = quote(name, safe="").replace(".", "%2E")[:READABLE_MAX]
    return f"{readable}-{sha256(name.encode()).hexdigest()[:16]}"
