"""Entries of a follower in one file, before those they change are safe: one sync for all of them.

DIR/cluster/journal    records one behind the other, from the beginning anew after every checkpoint

record | "PNJE" | version | 0 | base | epoch | seq | bytes | CRC-32 of all before | entry
         4        1         3   8      8       8     4       4

A record counts as long as the position's slot is the one with the count `base`: whatever is written
to the position later ends all of them at once. Their numbers have no gaps, so the first that does
not follow on the one before, left over from an earlier round, is the end, as is one that is torn.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from penstock.base.limits import CLUSTER_JOURNAL_BYTES
from penstock.replication.operations import OperationFault, check_entry
from penstock.server.disk.data_directory import CLUSTER
from penstock.server.disk.whole_file import sync_directory

NAME: Final = "journal"
MAGIC: Final = b"PNJE"
VERSION: Final = 1
RECORD: Final = Struct(">4sB3xQQQI")
SUM: Final = Struct(">I")
HEAD_BYTES: Final = RECORD.size + SUM.size
ZEROS: Final = bytes(1_048_576)


class Journal:
    """Of the data directory `directory`. One thread at a time; no file before the first `begin`.

    bound: bytes of one round, CLUSTER_JOURNAL_BYTES at most. Raises, everywhere: OSError."""

    def __init__(self, directory: Path, bound: int = CLUSTER_JOURNAL_BYTES.default) -> None:
        self.path = directory / CLUSTER / NAME
        self.bound = bound
        self._handle = -1
        self._base = 0
        self._at = 0

    def begin(self, base: int) -> None:
        """A round: its records follow on the position whose slot has the count `base`."""
        if self._handle < 0:
            self._open()
        self._base = base
        self._at = 0

    def has_room(self, entry_bytes: int) -> bool:
        """Whether one more entry fits into the round."""
        return self._at + HEAD_BYTES + entry_bytes <= self.bound

    def append(self, epoch: int, seq: int, entry: bytes) -> None:
        """The next entry, for which there is room; safe with the next `sync`."""
        head = RECORD.pack(MAGIC, VERSION, self._base, epoch, seq, len(entry))
        parts = [head + SUM.pack(crc32(head)), entry]
        if os.pwritev(self._handle, parts, self._at) != HEAD_BYTES + len(entry):
            raise OSError(f"{self.path}: an entry was not written whole")
        self._at += HEAD_BYTES + len(entry)

    def sync(self) -> None:
        """All that was appended is safe."""
        os.fdatasync(self._handle)

    def read(self, base: int, seq: int) -> Iterator[tuple[int, int, bytes]]:
        """Epoch, number and entry of each record that follows on the position with the count `base`
        and the number `seq`."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            while len(head := file.read(HEAD_BYTES)) == HEAD_BYTES:
                if SUM.unpack_from(head, RECORD.size)[0] != crc32(head[: RECORD.size]):
                    return
                magic, version, of, epoch, found, size = RECORD.unpack_from(head)
                entry = file.read(size)
                seq += 1
                if (magic, version, of, found) != (MAGIC, VERSION, base, seq) or _is_torn(entry):
                    return
                yield int(epoch), seq, entry

    def _open(self) -> None:
        """Room that was written once: a sync of what lies in it has no metadata to write."""
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        at = os.fstat(self._handle).st_size
        if at < self.bound:
            while at < self.bound:
                at += os.pwrite(self._handle, ZEROS[: self.bound - at], at)
            os.fsync(self._handle)
            sync_directory(self.path.parent)

    def close(self) -> None:
        """Give the handle back; a second time does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _is_torn(entry: bytes) -> bool:
    try:
        check_entry(entry)
    except OperationFault:
        return True
    return False
