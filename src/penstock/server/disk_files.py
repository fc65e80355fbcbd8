"""Files and directories of the machine, as the message log uses them."""

import os

from penstock.storage.files import Directory, File


class DiskFile(File):
    """One open file. Raises, everywhere: OSError."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, at: int, data: bytes) -> int:
        return os.pwrite(self._fd, data, at)

    def sync(self) -> None:
        os.fdatasync(self._fd)

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
    """One directory, made with mode 0700 if it is not there. Raises, everywhere: OSError."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
            _sync_directory(os.path.dirname(path) or ".")

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def open(self, name: str) -> File:
        return DiskFile(os.open(self._at(name), os.O_RDWR | os.O_CLOEXEC))

    def create(self, name: str) -> File:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return DiskFile(os.open(self._at(name), flags, 0o600))

    def remove(self, name: str) -> None:
        os.unlink(self._at(name))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def sync(self) -> None:
        _sync_directory(self.path)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)


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
