"""Files in memory, for a broker that keeps nothing: the log of a stream is the same either way."""

from errno import ENOENT

from penstock.storage.layout.files import Directory, File


class MemoryFile(File):
    """One file."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, at: int, data: bytes) -> int:
        self._data[at : at + len(data)] = data
        return len(data)

    def sync(self) -> None:
        """Nothing here outlives the process."""

    def read(self, at: int, count: int) -> bytes:
        return bytes(memoryview(self._data)[at : at + count])

    def size(self) -> int:
        return len(self._data)

    def truncate(self, size: int) -> None:
        del self._data[size:]

    def close(self) -> None:
        """It stays."""


class MemoryDirectory(Directory):
    """Files by name."""

    __slots__ = ("files",)

    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> File:
        file = self.files.get(name)
        if file is None:
            raise FileNotFoundError(ENOENT, "no such file", name)
        return file

    def create(self, name: str) -> File:
        if name in self.files:
            raise FileExistsError(name)
        made = MemoryFile()
        self.files[name] = made
        return made

    def remove(self, name: str) -> None:
        if name not in self.files:
            raise FileNotFoundError(ENOENT, "no such file", name)
        del self.files[name]

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)

    def sync(self) -> None:
        """Nothing here outlives the process."""
