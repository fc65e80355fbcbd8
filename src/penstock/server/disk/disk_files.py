"""Files and directories of the machine, as the message log uses them.

The room of removed files is given back on a thread of its own. A file system frees the blocks of a
file when its last handle is closed: 5 to 30 ms for a segment of 16 MiB. The disk's thread, for
which confirms wait, takes only the name away, in its order, and leaves that close to this thread.
"""

import os
import time
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.base.limits import STORE_FREEING_FILES
from penstock.storage.layout.files import Directory, File, SyncTotals


@mypyc_attr(allow_interpreted_subclasses=True)
class FileReclaimer:
    """The handles that wait to be closed. Owner: whoever made it, who calls `close` once."""

    __slots__ = ("_handles", "_runner")

    def __init__(self) -> None:
        self._handles: SimpleQueue[int] = SimpleQueue()
        self._runner = Thread(target=self._work, name="penstock-freeing", daemon=True)
        self._runner.start()

    def free(self, fd: int) -> None:
        """Close the last handle of a file without a name. On any thread; waits only at the bound,
        where it closes it itself."""
        if self._handles.qsize() >= STORE_FREEING_FILES.default:
            os.close(fd)
        else:
            self._handles.put(fd)

    def close(self) -> None:
        """End when everything is freed."""
        self._handles.put(-1)
        self._runner.join()

    def _work(self) -> None:
        while (fd := self._handles.get()) >= 0:
            with suppress(OSError):
                # The name is gone: there is nothing anybody could do about it.
                os.close(fd)


PARTS_MAX: Final = 1024
"""What the system takes at once (IOV_MAX); a batch has fewer."""
FREED_LATER_BYTES: Final = 1_048_576
"""Smaller files are removed faster than handed to another thread."""


class DiskFile(File):
    """One open file. syncs: counts its syncs, None for nobody. Raises, everywhere: OSError."""

    __slots__ = ("_fd", "_syncs")

    def __init__(self, fd: int, syncs: SyncTotals | None = None) -> None:
        self._fd = fd
        self._syncs = syncs

    def write(self, at: int, data: bytes) -> int:
        return os.pwrite(self._fd, data, at)

    def write_parts(self, at: int, parts: list[bytes]) -> int:
        if 1 < len(parts) <= PARTS_MAX:
            return os.pwritev(self._fd, parts, at)
        return super().write_parts(at, parts)

    def sync(self) -> None:
        syncs = self._syncs
        if syncs is None:
            os.fdatasync(self._fd)
            return
        syncs.began_ns = time.monotonic_ns()
        try:
            os.fdatasync(self._fd)
        finally:
            syncs.ns += time.monotonic_ns() - syncs.began_ns
            syncs.count += 1
            syncs.began_ns = -1

    def read(self, at: int, count: int) -> bytes:
        return os.pread(self._fd, count, at)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskDirectory(Directory):
    """One directory, made with mode 0700 if it is not there. freeing: who gives the room of large
    files back, None to wait for it. Raises, everywhere: OSError."""

    __slots__ = ("_syncs", "freeing", "path")

    def __init__(self, path: str, freeing: FileReclaimer | None = None) -> None:
        self.path = path
        self.freeing = freeing
        self._syncs = SyncTotals()
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
            _sync_directory(os.path.dirname(path) or ".")

    def sync_totals(self) -> SyncTotals | None:
        return self._syncs

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def open(self, name: str) -> File:
        return DiskFile(os.open(self._at(name), os.O_RDWR | os.O_CLOEXEC), self._syncs)

    def create(self, name: str) -> File:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return DiskFile(os.open(self._at(name), flags, 0o600), self._syncs)

    def remove(self, name: str) -> None:
        path = self._at(name)
        freeing = self.freeing
        if freeing is None:
            os.unlink(path)
            return
        fd = -1
        # Where no handle is to be had it is removed without; what else is wrong `unlink` says.
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.unlink(path)
        finally:
            if fd >= 0:
                _let_go(fd, freeing)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def sync(self) -> None:
        _sync_directory(self.path)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)


def _let_go(fd: int, freeing: FileReclaimer) -> None:
    if os.fstat(fd).st_size < FREED_LATER_BYTES:
        os.close(fd)
    else:
        freeing.free(fd)


class ReadOnlyDirectory(Directory):
    """One directory whose files can be read, and nothing else. Raises, everywhere: OSError."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def open(self, name: str) -> File:
        return DiskFile(os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_CLOEXEC))


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
