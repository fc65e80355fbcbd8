"""Files of segments that are gone, kept to be written over.

A sync of what was appended to a file also commits the file system's journal, because the file has
become longer; a sync of blocks that were there does not. So the file of a segment in which nothing
counts is given the name of a spare, and later that of a new segment:

    NNNNNNNNNN.log  -> .spare     nothing of it is written before the directory was synced: until
                                  then a loss of power brings the old name back, and what it names
                                  has to be what it was
    .spare -> MMMMMMMMMM.log      the directory is synced before anything in it is confirmed

A spare is never read. What stands in it cannot be taken for the new segment's: every checksum
begins with the new identity, headers and footers have the number too.
"""

from contextlib import suppress
from errno import EMFILE, ENFILE

from mypy_extensions import i64

from penstock.storage.layout.checksum import VERSION_CRC32
from penstock.storage.layout.files import Directory, File
from penstock.storage.layout.format import log_name, spare_name
from penstock.storage.layout.segment import Segment
from penstock.storage.log.job import Job


class RecycledSegments:
    """ready: names and sizes of files that may be written over; fresh: of those whose new name is
    not safe yet; count_max: of both, 0 for none; segment_bytes: of a full segment; taken_count:
    files that were used again; kept_bytes: what `ready` and `fresh` have taken.

    is_wanted: none is kept without, the owner of the log says so; has_no_room: the disk was full
    when it was written to last. Everything else is for jobs alone.
    """

    __slots__ = (
        "count_max",
        "directory",
        "fresh",
        "has_no_room",
        "is_wanted",
        "kept_bytes",
        "ready",
        "segment_bytes",
        "taken_count",
    )

    def __init__(self, directory: Directory, segment_bytes: i64, count_max: i64) -> None:
        self.directory = directory
        self.segment_bytes: i64 = segment_bytes
        self.count_max: i64 = count_max
        self.ready: dict[str, int] = {}
        self.fresh: dict[str, int] = {}
        self.taken_count: i64 = 0
        self.kept_bytes: i64 = 0
        self.is_wanted = True
        self.has_no_room = False

    def keep(self, segment: Segment) -> bool:
        """Make the file of `segment` a spare, False when it has to be removed instead. One that is
        much smaller than a segment is not worth it, nor is one of a single large message.

        Raises: OSError."""
        if not self.is_wanted or self.has_no_room or segment.version <= VERSION_CRC32:
            return False
        if len(self.ready) + len(self.fresh) >= self.count_max:
            return False
        if segment.end > self.segment_bytes or segment.end * 2 < self.segment_bytes:
            return False
        name = spare_name(segment.number)
        self.directory.rename(log_name(segment.number), name)
        size = self._size(name, segment)
        self.fresh[name] = size
        self.kept_bytes += size
        return True

    def _size(self, name: str, segment: Segment) -> int:
        try:
            file = self.directory.open(name)
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE):
                raise
            # Where handles are scarce the size without the footer will do.
            return int(segment.end)
        try:
            return file.size()
        finally:
            file.close()

    def names_are_safe(self) -> None:
        """The directory was synced."""
        if self.fresh:
            self.ready.update(self.fresh)
            self.fresh.clear()

    def take(self, name: str) -> File | None:
        """The file of the segment `name` that begins, None when there is none to be used again.

        Raises: OSError."""
        while self.ready:
            spare = next(iter(self.ready))
            try:
                # First, because there may be no handle to be had, and then nothing has happened.
                file = self.directory.open(spare)
            except FileNotFoundError:
                # Somebody who needed room has removed it, which harms nobody.
                self.kept_bytes -= self.ready.pop(spare)
                continue
            self.directory.rename(spare, name)
            self.kept_bytes -= self.ready.pop(spare)
            self.taken_count += 1
            return file
        return None

    def give_back(self, left_count: i64 = 0) -> None:
        """Remove all of them but `left_count`. Raises: OSError."""
        for files in (self.fresh, self.ready):
            for name in list(files):
                if len(self.fresh) + len(self.ready) <= left_count:
                    return
                self.kept_bytes -= files.pop(name)
                with suppress(FileNotFoundError):
                    self.directory.remove(name)

    def make_room(self) -> bool:
        """Remove all of them, and return when their blocks are free, as far as no loss of power can
        want them back; False when there was none. Raises: OSError."""
        if not self.ready and not self.fresh:
            return False
        for name in self.ready:
            with suppress(FileNotFoundError):
                _empty(self.directory, name)
        self.give_back()
        return True


def _empty(directory: Directory, name: str) -> None:
    """Its room would otherwise come back when a thread has come to it."""
    file = directory.open(name)
    try:
        file.truncate(0)
    finally:
        file.close()


class GiveBack(Job):
    """Removes the spares of a log, all but `left_count`."""

    __slots__ = ("left_count", "spares")

    def __init__(self, spares: RecycledSegments, left_count: i64 = 0) -> None:
        self.spares = spares
        self.left_count: i64 = left_count

    def run(self) -> None:
        self.spares.give_back(self.left_count)
