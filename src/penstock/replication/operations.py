"""What a leader has done to its data directory, as bytes that make the same of another one.

    entry       | "PE" | version | 0 | operations | body bytes | CRC-32 of all but itself | body
                  2      1         1   4            4            4
    operation   | kind | path bytes | data bytes | number | path | data
                  1      2            4            8

Every operation says the same however often it is done: offsets are absolute, CREATE empties what is
there, REMOVE of what is gone is nothing. So entries may be applied again, and a copy that was taken
while they were made becomes right by applying all of them.

    CREATE            path                  WRITE       path, at, data
    TRUNCATE          path, size            REMOVE      path
    SYNC_FILE         path                  MAKE_FOLDER path
    SYNC_FOLDER       path, "" for all      REMOVE_FOLDER path, with all that is in it
    WHOLE             path, data            replaces the file; safe when it is done
    ROW_KEPT          table, id, fields     ROW_GONE    table, fields (msgpack, see the catalogue)

Paths are relative, of the data directory, with "/" between their parts; none leads out of it.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from msgspec import Struct as Record

from penstock.base.limits import CLUSTER_ENTRY_BYTES, CLUSTER_FRAME_BYTES

CREATE: Final = 1
WRITE: Final = 2
TRUNCATE: Final = 3
REMOVE: Final = 4
SYNC_FILE: Final = 5
MAKE_FOLDER: Final = 6
REMOVE_FOLDER: Final = 7
SYNC_FOLDER: Final = 8
WHOLE: Final = 9
ROW_KEPT: Final = 10
ROW_GONE: Final = 11

KINDS: Final = frozenset(range(CREATE, ROW_GONE + 1))
MAY_BE_ROOT: Final = frozenset({SYNC_FOLDER})
WITH_DATA: Final = frozenset({WRITE, WHOLE, ROW_KEPT, ROW_GONE})
WITH_NUMBER: Final = frozenset({WRITE, TRUNCATE, ROW_KEPT})
MAKES_SAFE: Final = frozenset({SYNC_FILE, SYNC_FOLDER, WHOLE, ROW_KEPT, ROW_GONE})
"""What somebody may wait for: an entry without any is not known to be on a disk by its leader,
either."""

MAGIC: Final = b"PE"
VERSION: Final = 1
ENTRY_HEAD: Final = Struct(">2sBBII")
CHECKSUM: Final = Struct(">I")
HEAD_BYTES: Final = ENTRY_HEAD.size + CHECKSUM.size
OPERATION_HEAD: Final = Struct(">BHIQ")
PATH_BYTES_MAX: Final = 1024
NUMBER_MAX: Final = (1 << 63) - 1


class OperationFault(ValueError):
    """Bytes that are no entry, or one that nobody may apply; says which, and why."""


class Operation(Record, frozen=True):
    """path: a table for rows; number: an offset, a size or a row's id, 0 where there is none."""

    kind: int
    path: str
    number: int = 0
    data: bytes = b""


def check_path(path: str) -> None:
    """Raises: OperationFault for one that is empty, too long, or leads out of the directory."""
    shown = ascii(path[:80])
    if len(path.encode("utf-8", "surrogateescape")) > PATH_BYTES_MAX:
        raise OperationFault(f"path {shown}… has more than {PATH_BYTES_MAX} bytes")
    if "\0" in path or "\\" in path:
        raise OperationFault(f"path {shown} has a character that no file here has in its name")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise OperationFault(f"path {shown} is not one of a file below the data directory")


class EntryWriter:
    """Gathers operations until somebody takes the entry. size: bytes of its body; count: its
    operations. Who adds sees to the bound: see `has_room`."""

    __slots__ = ("_parts", "count", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0
        self.count = 0

    def has_room(self, data_bytes: int) -> bool:
        """Whether an operation with so many bytes of data fits; an empty one has room for any that
        is allowed."""
        head = OPERATION_HEAD.size + PATH_BYTES_MAX
        return self.count == 0 or self.size + head + data_bytes <= CLUSTER_ENTRY_BYTES.default

    def add(self, kind: int, path: str, number: int = 0, data: bytes = b"") -> None:
        """One operation."""
        name = path.encode("utf-8", "surrogateescape")
        self._parts.append(OPERATION_HEAD.pack(kind, len(name), len(data), number) + name)
        self.size += OPERATION_HEAD.size + len(name) + len(data)
        self.count += 1
        if data:
            self._parts.append(data)

    def take(self) -> list[bytes]:
        """The entry, to be sent part by part; the next one is empty."""
        head = ENTRY_HEAD.pack(MAGIC, VERSION, 0, self.count, self.size)
        sum_ = crc32(head)
        for part in self._parts:
            sum_ = crc32(part, sum_)
        entry = [head + CHECKSUM.pack(sum_), *self._parts]
        self._parts = []
        self.size = 0
        self.count = 0
        return entry


def encode(operations: list[Operation]) -> bytes:
    """One entry of all of them."""
    writer = EntryWriter()
    for one in operations:
        writer.add(one.kind, one.path, one.number, one.data)
    return b"".join(writer.take())


def check_entry(entry: bytes) -> int:
    """How many operations it has. Raises: OperationFault for a damaged one, or one of a version
    that is not known here."""
    most = CLUSTER_FRAME_BYTES.default
    if len(entry) > most:
        raise OperationFault(f"an entry of {len(entry)} bytes, and {most} may be")
    if len(entry) < HEAD_BYTES:
        raise OperationFault(f"an entry of {len(entry)} bytes, and its head has {HEAD_BYTES}")
    magic, version, zero, count, size = ENTRY_HEAD.unpack_from(entry)
    if magic != MAGIC:
        raise OperationFault(f"an entry begins with {magic!r} instead of {MAGIC!r}")
    if version != VERSION or zero != 0:
        raise OperationFault(
            f"an entry of version {version}, and this Penstock knows {VERSION}: install the same "
            "version on every node"
        )
    if len(entry) != HEAD_BYTES + size:
        raise OperationFault(f"an entry of {len(entry)} bytes says it has {HEAD_BYTES + size}")
    (said,) = CHECKSUM.unpack_from(entry, ENTRY_HEAD.size)
    found = crc32(memoryview(entry)[HEAD_BYTES:], crc32(entry[: ENTRY_HEAD.size]))
    if said != found:
        raise OperationFault(f"an entry of {len(entry)} bytes does not fit its checksum")
    return int(count)


def decode(entry: bytes) -> Iterator[Operation]:
    """Its operations, in order; nothing is given of an entry that is damaged.

    Raises: OperationFault, for an operation nobody may do when it is its turn."""
    count = check_entry(entry)
    at = HEAD_BYTES
    for _ in range(count):
        if at + OPERATION_HEAD.size > len(entry):
            raise OperationFault("an entry ends within an operation")
        kind, name_bytes, data_bytes, number = OPERATION_HEAD.unpack_from(entry, at)
        at += OPERATION_HEAD.size
        end = at + name_bytes + data_bytes
        if end > len(entry):
            raise OperationFault("an entry ends within an operation")
        path = entry[at : at + name_bytes].decode("utf-8", "surrogateescape")
        data = entry[at + name_bytes : end]
        at = end
        yield _checked(Operation(kind, path, number, data))
    if at != len(entry):
        raise OperationFault(f"an entry has {len(entry) - at} bytes behind its last operation")


def _checked(one: Operation) -> Operation:
    if one.kind not in KINDS:
        raise OperationFault(f"an operation of kind {one.kind}, and there are 1..{ROW_GONE}")
    if one.path != "" or one.kind not in MAY_BE_ROOT:
        check_path(one.path)
    if one.data and one.kind not in WITH_DATA:
        raise OperationFault(f"an operation of kind {one.kind} with {len(one.data)} bytes of data")
    if one.number and one.kind not in WITH_NUMBER:
        raise OperationFault(f"an operation of kind {one.kind} with the number {one.number}")
    if one.number + len(one.data) > NUMBER_MAX:
        raise OperationFault(f"an operation at {one.number}, where no file has a byte")
    return one
