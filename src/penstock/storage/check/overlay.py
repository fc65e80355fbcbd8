"""A directory as it would be after changes that nobody makes: they stay in memory.

`recover` on an overlay says what a start would find, and the files keep every byte.
"""

from penstock.storage.layout.files import Directory, File


class OverlayFile(File):
    """name: of the real file, "" for a new one; kept: how much of it is still seen; tail: what
    follows, which is little: recovery cuts a file, and writes a footer behind the cut. The real
    file is open only while it is read, because a store may have more of them than may be open."""

    __slots__ = ("directory", "kept", "name", "tail")

    def __init__(self, directory: Directory, name: str) -> None:
        self.directory = directory
        self.name = name
        self.kept = 0
        self.tail = bytearray()
        if name != "":
            file = directory.open(name)
            try:
                self.kept = file.size()
            finally:
                file.close()

    def write(self, at: int, data: bytes) -> int:
        assert at >= self.kept, "recovery writes behind what it keeps"
        start = at - self.kept
        self.tail.extend(bytes(max(start - len(self.tail), 0)))
        self.tail[start : start + len(data)] = data
        return len(data)

    def sync(self) -> None:
        """There is nothing that could be lost."""

    def read(self, at: int, count: int) -> bytes:
        end = at + count
        found = b""
        if at < self.kept:
            file = self.directory.open(self.name)
            try:
                found = file.read(at, min(end, self.kept) - at)
            finally:
                file.close()
        if end > self.kept and at + len(found) >= self.kept:
            found += bytes(self.tail[max(at - self.kept, 0) : end - self.kept])
        return found

    def size(self) -> int:
        return self.kept + len(self.tail)

    def truncate(self, size: int) -> None:
        assert size <= self.size(), "recovery makes files shorter"
        del self.tail[max(size - self.kept, 0) :]
        self.kept = min(self.kept, size)

    def close(self) -> None:
        """Nothing is open."""


class OverlayDirectory(Directory):
    """files: what there is, by the name it would have."""

    __slots__ = ("base", "files")

    def __init__(self, base: Directory) -> None:
        self.base = base
        self.files: dict[str, OverlayFile] = {
            name: OverlayFile(base, name) for name in base.names()
        }

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> File:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def create(self, name: str) -> File:
        if name in self.files:
            raise FileExistsError(name)
        self.files[name] = OverlayFile(self.base, "")
        return self.files[name]

    def remove(self, name: str) -> None:
        if self.files.pop(name, None) is None:
            raise FileNotFoundError(name)

    def rename(self, old: str, new: str) -> None:
        if old not in self.files:
            raise FileNotFoundError(old)
        self.files[new] = self.files.pop(old)

    def sync(self) -> None:
        """There is nothing that could be lost."""
