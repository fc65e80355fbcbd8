"""How far this node's data directory is, where that survives a loss of power.

DIR/cluster/position   two slots, written in turns; the valid one with the higher count is true

slot | "PNSP" | version | is whole | 0 | count | epoch | seq | CRC-32 of all before
       4        1         1          2   8       8       8     4
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from penstock.base.errors import OperatorError
from penstock.server.disk.data_directory import CLUSTER
from penstock.server.disk.whole_file import sync_directory, write_whole

NAME: Final = "position"
MAGIC: Final = b"PNSP"
VERSION: Final = 1
SLOT: Final = Struct(">4sBBHQQQ")
SUM: Final = Struct(">I")
SLOT_BYTES: Final = SLOT.size + SUM.size
SECTOR_BYTES: Final = 4096
"""Apart from each other, so that a torn write of one leaves the other."""


@dataclass(frozen=True, slots=True)
class Stored:
    """epoch, seq: of the last entry that is in the directory; is_whole: whether the directory is
    what its leader's was then, and not half a copy."""

    epoch: int
    seq: int
    is_whole: bool


class LeaderPosition:
    """Of a directory that the broker of a leader writes to: it says itself how far it is, after
    each job of its disk, so that nobody has to be woken for that.

    epoch: that it leads; base: the number of the entry before its first. Any thread, one at a time.
    """

    __slots__ = ("base", "epoch", "file")

    def __init__(self, directory: Path, epoch: int, base: int) -> None:
        self.epoch = epoch
        self.base = base
        self.file = PositionFile(directory)

    def write(self, count: int, *, must_sync: bool) -> None:
        """So many of its entries are as safe as anybody waits for. must_sync: whether this is safe
        when it returns. Raises: OSError."""
        self.file.write(self.epoch, self.base + count, True, must_sync)


class PositionFile:
    """Of the data directory `directory`. One thread at a time. Raises, everywhere: OSError.

    count: of the slot that was read or written last."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / CLUSTER / NAME
        self.count = 0
        self._handle = -1

    def read(self) -> Stored | None:
        """None when there is none yet. One of which nothing can be read is not whole.

        Raises: OperatorError for one that a newer Penstock has written."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        found = Stored(0, 0, False)
        self.count = 0
        for at in (0, SECTOR_BYTES):
            slot = data[at : at + SLOT_BYTES]
            if len(slot) < SLOT_BYTES or SUM.unpack(slot[SLOT.size :])[0] != crc32(slot[:-4]):
                continue
            magic, version, is_whole, _, count, epoch, seq = SLOT.unpack_from(slot)
            if magic == MAGIC and version > VERSION:
                raise OperatorError(
                    f"{self.path} has version {version}, and this Penstock knows {VERSION}: it was "
                    "written by a newer one; install that"
                )
            if magic == MAGIC and count > self.count:
                self.count = int(count)
                found = Stored(int(epoch), int(seq), is_whole == 1)
        return found

    def write(self, epoch: int, seq: int, is_whole: bool, must_sync: bool = True) -> None:
        """must_sync: whether it is safe when this returns."""
        if self._handle < 0:
            self._open()
        self.count += 1
        slot = _slot(self.count, epoch, seq, is_whole)
        at = SECTOR_BYTES * (self.count % 2)
        if os.pwrite(self._handle, slot, at) != len(slot):
            raise OSError(f"{self.path}: a position was not written whole")
        if must_sync:
            os.fdatasync(self._handle)

    def _open(self) -> None:
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(0o700)
            sync_directory(folder.parent)
        if self.read() is None:
            first = _slot(1, 0, 0, False)
            write_whole(self.path, first + bytes(SECTOR_BYTES * 2 - len(first)))
            self.count = 2
        self._handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Give the handle back; a second time does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _slot(count: int, epoch: int, seq: int, is_whole: bool) -> bytes:
    head = SLOT.pack(MAGIC, VERSION, int(is_whole), 0, count, epoch, seq)
    return head + SUM.pack(crc32(head))
