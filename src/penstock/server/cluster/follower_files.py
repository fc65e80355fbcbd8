"""The follower's side: operations of a leader, done to another data directory.

Each can be done again, also where later ones have been done already: folders that are missing are
made, a file that is missing is made to be written, and what is to be removed may be gone.
"""

import os
import shutil
from contextlib import suppress
from errno import ENOTDIR
from pathlib import Path
from typing import Final

from penstock.base.limits import CLUSTER_APPLY_FILES
from penstock.replication.operations import (
    CREATE,
    MAKE_FOLDER,
    REMOVE,
    REMOVE_FOLDER,
    ROW_GONE,
    ROW_KEPT,
    SYNC_FILE,
    SYNC_FOLDER,
    TRUNCATE,
    WHOLE,
    WRITE,
    Operation,
    OperationFault,
)
from penstock.server.cluster.catalogue_replica import CatalogueReplica
from penstock.server.disk.audit_file import NAME as AUDIT
from penstock.server.disk.data_directory import CLUSTER, PLACES, WORKERS
from penstock.server.disk.disk_files import FileReclaimer
from penstock.server.disk.whole_file import sync_directory, write_whole
from penstock.server.machine.reserve_file import NAME as RESERVE

DATABASE: Final = "metadata.sqlite"
ROWS: Final = frozenset({ROW_KEPT, ROW_GONE})
OWN_NAMES: Final = frozenset({"lock", CLUSTER, "lost+found", RESERVE, "parked", WORKERS, PLACES})
OWN_BEGINNINGS: Final = (DATABASE, AUDIT.partition(".")[0] + ".")
TRANSIENT: Final = "transient"
FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


def is_own(path: str) -> bool:
    """Whether `path`, relative, is of this node alone, and neither copied nor written by others."""
    parts = path.split("/")
    if parts[0] in OWN_NAMES or parts[0].startswith(OWN_BEGINNINGS):
        return True
    # What was being written whole when the power went.
    return parts[0].startswith(".") or TRANSIENT in parts[2:3] or parts[-1].startswith(".")


class FollowerFiles:
    """root: the data directory. The owner sees to it that nobody else writes there.

    Raises, everywhere: OSError; OperationFault for what is not to be done here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, int] = {}
        self._dirty: dict[str, None] = {}
        # Folders in which a name was made or taken away that is not safe yet.
        self._loose: dict[str, None] = {}
        self._rows: CatalogueReplica | None = None
        self._freeing = FileReclaimer()
        self._is_closed = False
        self._deeds = {
            CREATE: self._create,
            WRITE: self._write,
            TRUNCATE: self._truncate,
            REMOVE: self._remove,
            SYNC_FILE: self._sync,
            MAKE_FOLDER: self._make_folder,
            REMOVE_FOLDER: self._remove_folder,
            SYNC_FOLDER: self._sync_folder,
            WHOLE: self._whole,
        }

    def apply(self, one: Operation) -> None:
        """Do it. Rows are safe with the next operation that is none, or `commit`."""
        if one.kind in ROWS:
            if self._rows is None:
                self._rows = CatalogueReplica(self.root / DATABASE)
            self._rows.apply(one)
            return
        self.commit()
        if is_own(one.path):
            raise OperationFault(
                f"an operation on {one.path!r}, which belongs to each node alone: the leader runs "
                "another version; install the same on every node"
            )
        self._deeds[one.kind](one)

    def commit(self) -> None:
        """Rows that were changed are safe."""
        if self._rows is not None:
            self._rows.commit()

    def rows(self) -> CatalogueReplica:
        """For whoever changes all of them."""
        if self._rows is None:
            self._rows = CatalogueReplica(self.root / DATABASE)
        return self._rows

    # -- files -----------------------------------------------------------------------------------

    def _opened(self, path: str) -> int:
        handle = self._files.pop(path, -1)
        if handle < 0:
            while len(self._files) >= CLUSTER_APPLY_FILES.default:
                self._let_go(next(iter(self._files)))
            handle = self._open(path)
        self._files[path] = handle
        return handle

    def _open(self, path: str) -> int:
        whole = self.root / path
        try:
            return os.open(whole, FLAGS)
        except FileNotFoundError:
            self._make_all(whole.parent)
        self._note_name(path)
        return os.open(whole, FLAGS | os.O_CREAT, 0o600)

    def _note_name(self, path: str) -> None:
        self._loose[path.rpartition("/")[0]] = None

    def _let_go(self, path: str) -> None:
        """An error of writing is told to the handle that has written, so it is asked for."""
        handle = self._files.pop(path)
        try:
            if path in self._dirty:
                os.fdatasync(handle)
                del self._dirty[path]
        finally:
            os.close(handle)

    def _forget(self, path: str) -> None:
        handle = self._files.pop(path, -1)
        self._dirty.pop(path, None)
        if handle >= 0:
            os.close(handle)

    def _create(self, one: Operation) -> None:
        handle = self._opened(one.path)
        os.ftruncate(handle, 0)
        self._dirty[one.path] = None

    def _write(self, one: Operation) -> None:
        self.write(one.path, one.number, one.data)

    def write(self, path: str, at: int, data: bytes) -> None:
        """All of it."""
        handle = self._opened(path)
        left = memoryview(data)
        while left:
            taken = os.pwrite(handle, left, at)
            at += taken
            left = left[taken:]
        self._dirty[path] = None

    def _truncate(self, one: Operation) -> None:
        self.truncate(one.path, one.number)

    def truncate(self, path: str, size: int) -> None:
        """Cut to `size` bytes, or fill up with zeros."""
        os.ftruncate(self._opened(path), size)
        self._dirty[path] = None

    def _remove(self, one: Operation) -> None:
        self.remove(one.path)

    def remove(self, path: str) -> None:
        """The file, if it is there."""
        handle = self._files.pop(path, -1)
        self._dirty.pop(path, None)
        whole = self.root / path
        try:
            if handle < 0:
                handle = os.open(whole, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            os.unlink(whole)
            self._note_name(path)
        except FileNotFoundError:
            pass
        finally:
            if handle >= 0:
                # The room of a large file takes long to be given back.
                self._freeing.free(handle)

    def _sync(self, one: Operation) -> None:
        if one.path in self._files or (self.root / one.path).exists():
            os.fdatasync(self._opened(one.path))
            self._dirty.pop(one.path, None)

    def _whole(self, one: Operation) -> None:
        self._forget(one.path)
        path = self.root / one.path
        self._make_all(path.parent)
        write_whole(path, one.data)

    # -- folders ---------------------------------------------------------------------------------

    def _make_folder(self, one: Operation) -> None:
        self._make_all(self.root / one.path)

    def _make_all(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder == self.root:
            raise OSError(ENOTDIR, f"{folder} is gone")
        self._make_all(folder.parent)
        folder.mkdir(0o700)
        sync_directory(folder.parent)

    def _remove_folder(self, one: Operation) -> None:
        self.remove_folder(one.path)

    def remove_folder(self, path: str) -> None:
        """With all that is in it, if it is there."""
        for name in [name for name in self._files if name.startswith(f"{path}/")]:
            self._forget(name)
        with suppress(FileNotFoundError):
            shutil.rmtree(self.root / path)
            self._note_name(path)

    def _sync_folder(self, one: Operation) -> None:
        self._sync_names(one.path)

    def _sync_names(self, path: str) -> None:
        # A folder that was removed later has nothing that could be safe.
        with suppress(FileNotFoundError):
            sync_directory(self.root / path)
        self._loose.pop(path, None)

    # -- the end ---------------------------------------------------------------------------------

    def sync_all(self) -> None:
        """Everything below the data directory that is not of this node alone is safe."""
        self.commit()
        for path in list(self._files):
            self._let_go(path)
        for folder, folders, names in os.walk(self.root):
            inside = os.path.relpath(folder, self.root)
            if inside == "." and WORKERS in folders:
                # Other members' directories.
                folders.remove(WORKERS)
            for name in names:
                path = name if inside == "." else f"{inside}/{name}"
                if not is_own(path):
                    _sync_path(os.path.join(folder, name))
            sync_directory(Path(folder))
        self._loose.clear()

    def sync_written(self) -> None:
        """What was written, made and removed, and is not safe yet."""
        for path in list(self._dirty):
            os.fdatasync(self._opened(path))
            del self._dirty[path]
        for path in list(self._loose):
            self._sync_names(path)

    def close(self) -> None:
        """Give everything back; what no sync has asked for may not be safe. A second time does
        nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._freeing.close()
        for path in list(self._files):
            self._forget(path)
        if self._rows is not None:
            self._rows.close()
            self._rows = None


def _sync_path(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
