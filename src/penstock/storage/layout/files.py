"""What the store asks of files and directories; who implements them decides where bytes go."""

from errno import EDQUOT, EIO, EMFILE, ENFILE, ENOSPC

from mypy_extensions import i64, mypyc_attr


class SyncFailed(OSError):
    """A file could not be synced. What it held in memory is lost for good, a second try would lie:
    nothing may be written to this log again (reliability F4)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class File:
    """One open file. Nominal base. Raises, everywhere: OSError."""

    __slots__ = ()

    def write(self, at: int, data: bytes) -> int:
        """Write `data` at offset `at`; returns how many bytes were taken, which may be fewer."""
        raise NotImplementedError

    def write_parts(self, at: int, parts: list[bytes]) -> int:
        """Write `parts`, one behind the other, as `write` does."""
        return self.write(at, b"".join(parts))

    def sync(self) -> None:
        """Return when what was written, and the size, would survive a loss of power."""
        raise NotImplementedError

    def read(self, at: int, count: int) -> bytes:
        """Up to `count` bytes from offset `at`; fewer at the end of the file."""
        raise NotImplementedError

    def size(self) -> int:
        """Bytes, 0.. ."""
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Give the handle back; a second time does nothing."""
        raise NotImplementedError


class SyncTotals:
    """Syncs of the files of one directory, for whoever explains the disk. count: that have ended;
    ns: nanoseconds all of them took; began_ns: monotonic, of the one under way, -1 without one.

    Written by the thread that syncs, read by any: each is one number."""

    __slots__ = ("began_ns", "count", "ns")

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0
        self.began_ns = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Directory:
    """One directory. Nominal base. Raises, everywhere: OSError."""

    __slots__ = ()

    def sync_totals(self) -> SyncTotals | None:
        """How long the syncs of its files took; None where they are not measured."""
        return None

    def note_publishes(self, runs: bytes) -> None:
        """What was written last holds these publishes as a whole (see replication/seen). Nothing
        where nobody asks for it."""

    def names(self) -> list[str]:
        """The names of all files in it, sorted."""
        raise NotImplementedError

    def open(self, name: str) -> File:
        """An existing file."""
        raise NotImplementedError

    def create(self, name: str) -> File:
        """A new, empty file. Raises: FileExistsError."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Take the name away. Raises: FileNotFoundError."""
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""
        raise NotImplementedError

    def sync(self) -> None:
        """Return when names created, removed and changed would survive a loss of power."""
        raise NotImplementedError


def is_scarce(error: OSError) -> bool:
    """Whether all that was missing is a handle: nothing was opened, so nothing was written."""
    return error.errno in (EMFILE, ENFILE)


def can_wait(error: OSError) -> bool:
    """Whether the same may be tried again later: there was no room, or no handle to be had."""
    if isinstance(error, SyncFailed):
        return False
    return error.errno in (ENOSPC, EDQUOT) or is_scarce(error)


def write_fully(file: File, at: i64, data: bytes) -> None:
    """Write all of `data`, however little the file takes at a time.

    Raises: OSError; ENOSPC when it takes nothing at all (reliability F3).
    """
    done: i64 = i64(file.write(int(at), data))
    size: i64 = len(data)
    while done < size:
        taken: i64 = i64(file.write(int(at + done), data[done:]))
        if taken <= 0:
            raise OSError(ENOSPC, "a file takes no more bytes")
        done += taken


def write_all(file: File, at: i64, parts: list[bytes]) -> None:
    """Write all of `parts`, one behind the other, however little the file takes at a time.

    Raises: as `write_fully`.
    """
    size: i64 = 0
    for part in parts:
        size += len(part)
    done: i64 = i64(file.write_parts(int(at), parts))
    if done < size:
        write_fully(file, at + done, b"".join(parts)[done:])


def read_fully(file: File, at: i64, count: i64) -> bytes:
    """`count` bytes from offset `at`, fewer only where the file ends before.

    Raises: OSError; of EIO only when a second attempt has failed, too: a cable or a path that was
    away for a moment is no damage, and reading twice harms nothing.
    """
    data = _read(file, at, count)
    if len(data) == count:
        return data
    parts = [data]
    have: i64 = len(data)
    while have < count:
        more = _read(file, at + have, count - have)
        if not more:
            break
        parts.append(more)
        have += len(more)
    return b"".join(parts)


def _read(file: File, at: i64, count: i64) -> bytes:
    try:
        return file.read(int(at), int(count))
    except OSError as error:
        if error.errno != EIO:
            raise
        return file.read(int(at), int(count))
