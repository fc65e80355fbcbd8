"""The leader's side: everything that is changed below the data directory is written down as well.

An operation is recorded when it was done here, and sent before the sync that follows it, so that
the disks of followers work while this one does. What was recorded and not sent yet goes with the
end of the job. Between the two the process may be killed: then this directory has something that
no follower has, which is why a leader that was killed starts with copies of its directory.
"""

import os
from pathlib import Path
from threading import Lock, RLock, get_ident
from typing import Final

from penstock.replication.operations import (
    CREATE,
    MAKE_FOLDER,
    MAKES_SAFE,
    REMOVE,
    SYNC_FILE,
    SYNC_FOLDER,
    TRUNCATE,
    WHOLE,
    WRITE,
    EntryWriter,
)
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.pipe import COUNT, MARKED
from penstock.server.cluster.position import LeaderPosition
from penstock.server.disk.disk_files import DiskDirectory, FileReclaimer
from penstock.server.disk.whole_file import sync_directory, write_whole
from penstock.storage.layout.files import Directory, File, SyncTotals, write_fully

PIECE_BYTES: Final = 524_288
"""A longer write is several operations."""


class Recorder:
    """root: the data directory; pipe: to the member; position: says how far the directory is, None
    for nothing; is_starting: until clients are served. Used by the disk's thread and by the loop's,
    each of which says when a piece of work begins and ends."""

    __slots__ = (
        "_done",
        "_lock",
        "_open",
        "_publishes",
        "_safe_to",
        "_said",
        "_saying",
        "_writer",
        "is_starting",
        "pipe",
        "position",
        "root",
    )

    def __init__(self, root: Path, pipe: ChildPipe, position: LeaderPosition | None = None) -> None:
        self.root = str(root)
        self.pipe = pipe
        self.position = position
        self.is_starting = True
        self._writer = EntryWriter()
        self._publishes: list[bytes] = []
        self._lock = RLock()
        self._done = 0
        self._said = 0
        # The last entry that somebody may wait for to be safe.
        self._safe_to = 0
        self._saying = Lock()
        self._open: dict[int, int] = {}

    # -- what is done ----------------------------------------------------------------------------

    def path_of(self, path: str | Path) -> str:
        """As followers call it. Raises: ValueError for one that is not below the data directory."""
        found = os.path.relpath(path, self.root)
        if found.startswith(".."):
            raise ValueError(f"{path} is not below {self.root}")
        return "" if found == "." else found.replace(os.sep, "/")

    def check(self) -> None:
        """Before anything is changed. Raises: PipeEnded."""
        self.pipe.check()

    def add(self, kind: int, path: str, number: int = 0, data: bytes = b"") -> None:
        """Something that was just done. Raises: PipeEnded."""
        if self.is_starting:
            # There are no jobs yet: the loop itself does all the work, and may wait.
            self.pipe.wait_room()
        with self._lock:
            if not self._writer.has_room(len(data)):
                self._flush()
            self._writer.add(kind, path, number, data)
            if kind in MAKES_SAFE:
                self._safe_to = self.pipe.sent + 1

    def wrote(self, path: str, at: int, data: bytes, taken: int) -> None:
        """The first `taken` bytes of `data` were written."""
        if taken == len(data) <= PIECE_BYTES:
            self.add(WRITE, path, at, data)
            return
        for begin in range(0, taken, PIECE_BYTES):
            self.add(WRITE, path, at + begin, data[begin : min(begin + PIECE_BYTES, taken)])

    def safe_next(self, kind: int, path: str) -> None:
        """`path` is about to be synced here: what leads to it leaves first. Raises: PipeEnded."""
        with self._lock:
            self.add(kind, path)
            self._flush()

    def note_publishes(self, runs: bytes) -> None:
        """All of what these publishes left in files was recorded: the next entry says so."""
        with self._lock:
            self._publishes.append(runs)

    def _flush(self) -> None:
        if self._writer.count > 0:
            publishes = b"".join(self._publishes)
            self._publishes.clear()
            self.pipe.send_entry(self._writer.take(), publishes)

    def mark(self, number: int) -> None:
        """Everything that was done so far leaves before the answer to this. Raises: PipeEnded."""
        with self._lock:
            self._flush()
            self.pipe.send(MARKED, COUNT.pack(number))

    # -- pieces of work --------------------------------------------------------------------------

    def begin(self) -> None:
        """This thread begins something whose entries are not safe here before `end`."""
        with self._lock:
            self._open[get_ident()] = self.pipe.sent + 1

    def end(self) -> int:
        """What this thread began is over: the number of its last entry, 0 if it recorded nothing.

        Raises: PipeEnded."""
        with self._lock:
            first = self._open.pop(get_ident())
            self._flush()
            sent = self.pipe.sent
            done = min(self._open.values()) - 1 if self._open else sent
            self._done = max(done, self._done)
        self._say_done()
        return sent if sent >= first else 0

    def _say_done(self) -> None:
        """How far this directory is. A sync: nobody who records waits for it."""
        with self._saying:
            done = self._done
            if done <= self._said:
                return
            if self.position is not None:
                try:
                    self.position.write(done, must_sync=self._said < self._safe_to)
                except OSError as error:
                    self.pipe.end(f"the position cannot be written: {error.strerror or error}")
            self.pipe.send_done(done)
            self._said = done

    def working(self) -> "Working":
        """As a block; several may lie within each other."""
        return Working(self)

    def is_open(self) -> bool:
        """Whether this thread has begun something that is not over."""
        return get_ident() in self._open


class Working:
    """A piece of work as a block: of several that lie within each other the outermost counts."""

    __slots__ = ("is_outermost", "recorder")

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.is_outermost = False

    def __enter__(self) -> None:
        self.is_outermost = not self.recorder.is_open()
        if self.is_outermost:
            self.recorder.begin()

    def __exit__(self, *why: object) -> None:
        if self.is_outermost:
            self.recorder.end()


class RecordedFile(File):
    """One open file of a leader. path: as followers call it. Raises, everywhere: OSError."""

    __slots__ = ("_file", "_path", "_recorder")

    def __init__(self, file: File, path: str, recorder: Recorder) -> None:
        self._file = file
        self._path = path
        self._recorder = recorder

    def write(self, at: int, data: bytes) -> int:
        self._recorder.check()
        taken = self._file.write(at, data)
        self._recorder.wrote(self._path, at, data, taken)
        return taken

    def sync(self) -> None:
        self._recorder.safe_next(SYNC_FILE, self._path)
        self._file.sync()

    def read(self, at: int, count: int) -> bytes:
        return self._file.read(at, count)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._recorder.check()
        self._file.truncate(size)
        self._recorder.add(TRUNCATE, self._path, size)

    def close(self) -> None:
        self._file.close()


class RecordedDirectory(Directory):
    """One directory of a leader, made if it is not there. Raises, everywhere: OSError."""

    __slots__ = ("_directory", "_path", "_recorder")

    def __init__(self, path: Path, recorder: Recorder, freeing: FileReclaimer | None) -> None:
        self._recorder = recorder
        self._path = recorder.path_of(path)
        if not path.is_dir():
            make_folder(path, recorder)
        self._directory = DiskDirectory(str(path), freeing)

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def sync_totals(self) -> SyncTotals | None:
        return self._directory.sync_totals()

    def note_publishes(self, runs: bytes) -> None:
        self._recorder.note_publishes(runs)

    def names(self) -> list[str]:
        return self._directory.names()

    def open(self, name: str) -> File:
        return RecordedFile(self._directory.open(name), self._at(name), self._recorder)

    def create(self, name: str) -> File:
        self._recorder.check()
        file = self._directory.create(name)
        self._recorder.add(CREATE, self._at(name))
        return RecordedFile(file, self._at(name), self._recorder)

    def remove(self, name: str) -> None:
        self._recorder.check()
        self._directory.remove(name)
        self._recorder.add(REMOVE, self._at(name))

    def rename(self, old: str, new: str) -> None:
        """A copy and a removal, which can be done again where a renaming cannot. It is seldom: what
        is damaged is set aside at the start, and files are not used again."""
        source = self._directory.open(old)
        try:
            self._copy(source, new)
        finally:
            source.close()
        self.remove(old)

    def _copy(self, source: File, new: str) -> None:
        if new in self._directory.names():
            self.remove(new)
        target = self.create(new)
        try:
            at = 0
            while data := source.read(at, PIECE_BYTES):
                write_fully(target, at, data)
                at += len(data)
            target.sync()
        finally:
            target.close()

    def sync(self) -> None:
        self._recorder.safe_next(SYNC_FOLDER, self._path)
        self._directory.sync()


def make_folder(path: Path, recorder: Recorder) -> None:
    """A new one, for its owner alone; safe when this returns. Raises: OSError."""
    recorder.check()
    path.mkdir(0o700)
    recorder.add(MAKE_FOLDER, recorder.path_of(path))
    recorder.safe_next(SYNC_FOLDER, recorder.path_of(path.parent))
    sync_directory(path.parent)


def put_whole(path: Path, data: bytes, recorder: Recorder) -> None:
    """In the place of whatever is at `path`. Raises: OSError."""
    recorder.check()
    write_whole(path, data)
    recorder.add(WHOLE, recorder.path_of(path), 0, data)


def take_away(path: Path, recorder: Recorder) -> None:
    """Safe when this returns. Raises: OSError, FileNotFoundError."""
    recorder.check()
    os.unlink(path)
    recorder.add(REMOVE, recorder.path_of(path))
    recorder.safe_next(SYNC_FOLDER, recorder.path_of(path.parent))
    sync_directory(path.parent)
