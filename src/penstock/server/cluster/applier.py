"""Entries of a leader, applied on a thread of their own, in order, each told when it is safe.

An entry is as safe as the leader makes it: synced where the leader has synced, before it is told.
There are two ways to that, and never both at once:

- In the files: what the leader has synced is synced here, then how far the directory is gets
  written down and synced, once for all that came meanwhile.
- In the journal, where several small entries in a row only write: they go there, and into the files
  without a sync, and the journal alone is synced. A checkpoint makes the files safe and writes the
  position; `replay` does that at a start for what a kill or a loss of power has left of it.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Final
from zlib import crc32

from penstock.base.errors import OperatorError
from penstock.base.limits import (
    CLUSTER_APPLY_BYTES,
    CLUSTER_APPLY_ENTRIES,
    CLUSTER_JOURNAL_BYTES,
    CLUSTER_JOURNAL_ENTRY_BYTES,
)
from penstock.replication.operations import (
    MAKES_SAFE,
    SYNC_FILE,
    SYNC_FOLDER,
    WRITE,
    Operation,
    OperationFault,
    decode,
)
from penstock.server.cluster.follower_files import FollowerFiles
from penstock.server.cluster.journal import Journal
from penstock.server.cluster.position import PositionFile, Stored

Place = tuple[int, int]
"""Epoch and number of an entry."""
Item = tuple[Place, bytes] | Event
"""An entry and its place, or somebody who waits until what was before it is safe."""
LOOK: Final[tuple[Place, bytes]] = ((0, 0), b"")
"""Nothing to apply: look whether the directory is whole now."""
PLAIN: Final = frozenset({WRITE, SYNC_FILE, SYNC_FOLDER})
"""Operations of an entry that may go into the journal. Whoever makes or removes a file, or keeps
rows, does so where everything before is safe: done again on what a later one has left, a write
would make a file anew that has lost its beginning."""
IN_A_ROW: Final = 8
"""Entries that might go into the journal before one does, because each change of the way costs a
checkpoint."""


def replay(directory: Path, position: PositionFile) -> Stored | None:
    """Make of a directory what its journal says, and its position, which is returned; None when
    there is none. The caller holds the lock, and nothing is being applied.

    Raises: OSError; OperatorError, OperationFault for what another version has written."""
    stored = position.read()
    if stored is None or not stored.is_whole:
        return stored
    files = FollowerFiles(directory)
    try:
        for epoch, seq, entry in Journal(directory).read(position.count, stored.seq):
            for one in decode(entry):
                # All of it is synced at once afterwards, and not once for each record.
                if one.kind == WRITE:
                    files.apply(one)
            stored = Stored(epoch, seq, True)
        files.sync_written()
    finally:
        files.close()
    if stored != position.read():
        position.write(stored.epoch, stored.seq, True)
    return stored


class Applier:
    """directory: of which the caller holds the lock. told(epoch, seq), on this thread: everything
    up to there is safe; failed(words), on this thread, once: nothing is applied any more, and
    has_failed says so.

    Bounds: CLUSTER_APPLY_BYTES that wait, CLUSTER_APPLY_ENTRIES that are told at once."""

    def __init__(
        self,
        directory: Path,
        position: PositionFile,
        told: Callable[[int, int], None],
        failed: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self._position = position
        self._told = told
        self._failed = failed
        stored = position.read()
        self._is_whole = stored is not None and stored.is_whole
        self._at: Place = (0, 0) if stored is None else (stored.epoch, stored.seq)
        self._whole_at: Place | None = None
        # Of each node another one, so that not all of them are at a checkpoint at once.
        share = 8 - crc32(str(directory).encode()) % 4
        self._journal = Journal(directory, CLUSTER_JOURNAL_BYTES.default * share // 8)
        self._is_journaling = False
        self._in_a_row = 0
        # Of whoever waits in `settle`.
        self._settling: list[Event] = []
        # None: nothing comes behind it.
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._queued_bytes = 0
        self._is_closing = False
        self.has_failed = False
        self._counting = Lock()
        self._files = FollowerFiles(directory)
        self._thread = Thread(target=self._work, name="penstock-applier", daemon=True)
        self._thread.start()

    def put(self, epoch: int, seq: int, entry: bytes) -> bool:
        """Queue the next entry; False when no more may wait, or nothing is applied any more."""
        with self._counting:
            queued = self._queued_bytes + len(entry)
            is_full = queued > CLUSTER_APPLY_BYTES.default and self._queued_bytes > 0
            if self.has_failed or self._is_closing or is_full:
                return False
            self._queued_bytes = queued
            self._queue.put(((epoch, seq), entry))
        return True

    def whole_at(self, epoch: int, seq: int) -> None:
        """The copy that was taken is whole when this entry is applied: everything is synced then,
        and the position says so."""
        self._whole_at = (epoch, seq)
        self._queue.put(LOOK)

    def settle(self) -> bool:
        """Wait, on another thread, until what is queued is applied and everything that was is safe,
        what its leader had not synced as well. False: nothing is applied any more."""
        settled = Event()
        with self._counting:
            if self.has_failed or self._is_closing:
                return False
            self._settling.append(settled)
            self._queue.put(settled)
        settled.wait()
        return not self.has_failed

    def close(self) -> None:
        """Apply what is queued, then give everything back; where something has failed, as it is.
        Raises: OSError where what is in the journal cannot be made safe in its files."""
        with self._counting:
            self._is_closing = True
            self._queue.put(None)
        self._thread.join()
        try:
            if self._is_journaling and not self.has_failed:
                self._checkpoint()
        finally:
            self._files.close()
            self._journal.close()
            self._position.close()

    # -- on the thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            # A catalogue without a row is one, too: without a file a broker would refuse to start.
            self._files.rows()
            while (first := self._queue.get()) is not None:
                if not self._group(first):
                    return
        except OperationFault as fault:
            self._give_up(f"{self.directory}: {fault}")
        except OperatorError as error:
            self._give_up(str(error))
        except OSError as error:
            self._give_up(self._words(error))
        except Exception as error:
            self._give_up(f"{self.directory}: internal error while applying: {error!r}")

    def _becomes_whole(self) -> bool:
        return self._whole_at is not None and self._at >= self._whole_at

    def _group(self, item: Item | None) -> bool:
        """Apply `item` and what is behind it by now; False when nothing comes any more."""
        must_sync = False
        count = 0
        settled: list[Event] = []
        while item is not None:
            if isinstance(item, Event):
                settled.append(item)
                place, entry = LOOK
            else:
                place, entry = item
            if entry:
                must_sync = self._apply(place, entry) or must_sync
                count += 1
            if self._becomes_whole() or count >= CLUSTER_APPLY_ENTRIES.default:
                break
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
        if self._becomes_whole():
            self._files.sync_all()
            self._is_whole = True
            self._whole_at = None
            self._checkpoint()
        elif settled:
            self._checkpoint()
        elif count == 0:
            return item is not None
        elif not self._is_journaling:
            self._position.write(*self._at, self._is_whole, must_sync)
        elif must_sync:
            self._journal.sync()
        self._told(*self._at)
        self._let_go(settled)
        return item is not None

    def _checkpoint(self) -> None:
        """All that was applied is safe in its files, and the journal counts no more."""
        self._files.sync_written()
        self._position.write(*self._at, self._is_whole)
        self._is_journaling = False

    def _let_go(self, settled: list[Event]) -> None:
        for one in settled:
            with self._counting:
                self._settling.remove(one)
            one.set()

    def _apply(self, place: Place, entry: bytes) -> bool:
        """Whether somebody may wait for it to be safe."""
        may_be_plain = len(entry) <= CLUSTER_JOURNAL_ENTRY_BYTES.default and self._is_whole
        operations = tuple(decode(entry)) if may_be_plain else ()
        if operations and all(one.kind in PLAIN for one in operations):
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        if self._in_a_row > IN_A_ROW:
            must_sync = self._into_journal(place, entry, operations)
        else:
            if self._is_journaling:
                self._checkpoint()
            must_sync = self._into_files(operations or decode(entry))
        self._at = place
        with self._counting:
            self._queued_bytes -= len(entry)
        return must_sync

    def _into_journal(self, place: Place, entry: bytes, operations: tuple[Operation, ...]) -> bool:
        if not self._is_journaling or not self._journal.has_room(len(entry)):
            self._checkpoint()
            self._journal.begin(self._position.count)
            self._is_journaling = True
        self._journal.append(*place, entry)
        must_sync = False
        for one in operations:
            if one.kind == WRITE:
                self._files.apply(one)
            else:
                must_sync = True
        return must_sync

    def _into_files(self, operations: Iterable[Operation]) -> bool:
        must_sync = False
        for one in operations:
            self._files.apply(one)
            must_sync = must_sync or one.kind in MAKES_SAFE
        self._files.commit()
        return must_sync

    def _give_up(self, words: str) -> None:
        with self._counting:
            self.has_failed = True
            self._queue = SimpleQueue()
            self._queued_bytes = 0
        with suppress(OSError):
            # What it has is not known any more; the handles are given back all the same.
            self._files.close()
        self._failed(words)
        self._let_go(self._settling[:])

    def _words(self, error: OSError) -> str:
        if error.errno in (ENOSPC, EDQUOT):
            return (
                f"the disk of {self.directory} is full: nothing is applied until there is room "
                f"again; this node counts for no majority meanwhile ({error.strerror or error})"
            )
        return (
            f"the disk of {self.directory} failed ({error.strerror or error}): nothing is applied "
            "any more; look at the disk, then start this node again"
        )
