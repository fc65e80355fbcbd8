"""A disk in memory that keeps what was written apart from what is safe, and can lose power.

Every operation is recorded. `simulation/machine/crash` makes of a record the states in which a
crash may leave the disk; faults here are those of a disk that still runs: short writes, errors, no
room.
"""

from errno import EBADF, EIO, ENOENT, ENOSPC
from typing import Final

from penstock.storage.layout.files import Directory, File

WRITE: Final = 1
TRUNCATE: Final = 2
SYNC: Final = 3
CREATE: Final = 4
REMOVE: Final = 5
RENAME: Final = 6
SYNC_DIRECTORY: Final = 7


class Op:
    """One operation. node: of the file it was done to, -1 for the directory; at: an offset or a
    size; data: what was written; name, new_name: of files."""

    __slots__ = ("at", "data", "kind", "name", "new_name", "node")

    def __init__(
        self,
        kind: int,
        node: int = -1,
        at: int = 0,
        data: bytes = b"",
        name: str = "",
        new_name: str = "",
    ) -> None:
        self.kind = kind
        self.node = node
        self.at = at
        self.data = data
        self.name = name
        self.new_name = new_name


class Inode:
    """A file without its name. read_errno: what every read of it fails with, 0 for nothing."""

    __slots__ = ("data", "number", "read_errno")

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.read_errno = 0
        self.data = bytearray(data)


class SimDisk(Directory):
    """One directory. image: the files it begins with, all of them safe; ops: what was done since.

    Faults: write_max: bytes that one write takes, 0 for all; room: bytes that can still be written,
    -1 for no bound, removing and truncating gives back; failing_sync: the number of the sync,
    counted from 1, from which on every sync fails, 0 for none."""

    def __init__(self, image: dict[str, bytes] | None = None) -> None:
        self.image = dict(image or {})
        self.nodes: list[Inode] = []
        self.files: dict[str, Inode] = {}
        self.ops: list[Op] = []
        self.write_max = 0
        self.room = -1
        self.failing_sync = 0
        self.sync_count = 0
        for name, data in self.image.items():
            self.files[name] = self._node(data)

    def _node(self, data: bytes = b"") -> Inode:
        node = Inode(len(self.nodes), data)
        self.nodes.append(node)
        return node

    def contents(self) -> dict[str, bytes]:
        """What a process sees, safe or not: also what is there after the process was killed."""
        return {name: bytes(node.data) for name, node in self.files.items()}

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str) -> File:
        if name not in self.files:
            raise FileNotFoundError(ENOENT, "no such file", name)
        return SimFile(self, self.files[name])

    def create(self, name: str) -> File:
        if name in self.files:
            raise FileExistsError(name)
        node = self._node()
        self.files[name] = node
        self.ops.append(Op(CREATE, node.number, name=name))
        return SimFile(self, node)

    def remove(self, name: str) -> None:
        if name not in self.files:
            raise FileNotFoundError(ENOENT, "no such file", name)
        node = self.files.pop(name)
        self.give_back(len(node.data))
        self.ops.append(Op(REMOVE, node.number, name=name))

    def rename(self, old: str, new: str) -> None:
        if old not in self.files:
            raise FileNotFoundError(ENOENT, "no such file", old)
        node = self.files.pop(old)
        self.files[new] = node
        self.ops.append(Op(RENAME, node.number, name=old, new_name=new))

    def sync(self) -> None:
        self.count_sync()
        self.ops.append(Op(SYNC_DIRECTORY))

    def count_sync(self) -> None:
        """One more sync. Raises: OSError when it is time."""
        self.sync_count += 1
        if 0 < self.failing_sync <= self.sync_count:
            raise OSError(EIO, "input or output error")

    def take_room(self, size: int) -> int:
        """How many of `size` bytes can be written. Raises: OSError when there is no room at all."""
        if self.room < 0:
            return size
        if self.room == 0 and size > 0:
            raise OSError(ENOSPC, "no space left on device")
        taken = min(size, self.room)
        self.room -= taken
        return taken

    def give_back(self, size: int) -> None:
        """So many bytes are free again."""
        if self.room >= 0:
            self.room += size

    def flip(self, name: str, bit: int) -> None:
        """Turn one bit of a file over, as a worn disk does."""
        self.files[name].data[bit >> 3] ^= 1 << (bit & 7)


class SimFile(File):
    """One open file of a SimDisk."""

    def __init__(self, disk: SimDisk, node: Inode) -> None:
        self._disk = disk
        self._node = node
        self._is_open = True

    def _data(self) -> bytearray:
        if not self._is_open:
            raise OSError(EBADF, "the file is closed")
        return self._node.data

    def write(self, at: int, data: bytes) -> int:
        held = self._data()
        disk = self._disk
        taken = min(len(data), disk.write_max) if disk.write_max else len(data)
        taken = disk.take_room(taken)
        if at > len(held):
            held.extend(bytes(at - len(held)))
        held[at : at + taken] = data[:taken]
        disk.ops.append(Op(WRITE, self._node.number, at, data[:taken]))
        return taken

    def sync(self) -> None:
        self._data()
        self._disk.count_sync()
        self._disk.ops.append(Op(SYNC, self._node.number))

    def read(self, at: int, count: int) -> bytes:
        if self._node.read_errno != 0:
            raise OSError(self._node.read_errno, "the file cannot be read")
        return bytes(self._data()[at : at + count])

    def size(self) -> int:
        return len(self._data())

    def truncate(self, size: int) -> None:
        held = self._data()
        if size < len(held):
            self._disk.give_back(len(held) - size)
            del held[size:]
        else:
            held.extend(bytes(size - len(held)))
        self._disk.ops.append(Op(TRUNCATE, self._node.number, size))

    def close(self) -> None:
        self._is_open = False
