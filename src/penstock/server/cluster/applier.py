"""Entries of a leader, applied on a thread of their own, in order, each told when it is safe.

An entry is as safe as the leader makes it: synced where the leader has synced. How far the
directory is gets written down afterwards, once for all that came meanwhile, and then it is told.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import CLUSTER_APPLY_BYTES, CLUSTER_APPLY_ENTRIES
from penstock.replication.operations import MAKES_SAFE, OperationFault, decode
from penstock.server.cluster.follower_files import FollowerFiles
from penstock.server.cluster.position import PositionFile

Place = tuple[int, int]
"""Epoch and number of an entry."""
Item = tuple[Place, bytes] | Event
"""An entry and its place, or somebody who waits until what was before it is safe."""
LOOK: Final[tuple[Place, bytes]] = ((0, 0), b"")
"""Nothing to apply: look whether the directory is whole now."""


class Applier:
    """directory: of which the caller holds the lock. told(epoch, seq), on this thread: everything
    up to there is safe; failed(words), on this thread, once: nothing is applied any more.

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
        # Of whoever waits in `settle`.
        self._settling: list[Event] = []
        # None: nothing comes behind it.
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._queued_bytes = 0
        self._is_closing = False
        self._has_failed = False
        self._counting = Lock()
        self._files = FollowerFiles(directory)
        self._thread = Thread(target=self._work, name="penstock-applier", daemon=True)
        self._thread.start()

    def put(self, epoch: int, seq: int, entry: bytes) -> bool:
        """Queue the next entry; False when no more may wait, or nothing is applied any more."""
        with self._counting:
            queued = self._queued_bytes + len(entry)
            is_full = queued > CLUSTER_APPLY_BYTES.default and self._queued_bytes > 0
            if self._has_failed or self._is_closing or is_full:
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
            if self._has_failed or self._is_closing:
                return False
            self._settling.append(settled)
            self._queue.put(settled)
        settled.wait()
        return not self._has_failed

    def close(self) -> None:
        """Apply what is queued, then give everything back."""
        with self._counting:
            self._is_closing = True
            self._queue.put(None)
        self._thread.join()
        self._files.close()
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
                must_sync = self._apply(entry) or must_sync
                self._at = place
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
            must_sync = True
        elif settled:
            self._files.sync_written()
            must_sync = True
        elif count == 0:
            return item is not None
        self._position.write(*self._at, self._is_whole, must_sync)
        self._told(*self._at)
        self._let_go(settled)
        return item is not None

    def _let_go(self, settled: list[Event]) -> None:
        for one in settled:
            with self._counting:
                self._settling.remove(one)
            one.set()

    def _apply(self, entry: bytes) -> bool:
        """Whether somebody may wait for it to be safe."""
        must_sync = False
        for one in decode(entry):
            self._files.apply(one)
            must_sync = must_sync or one.kind in MAKES_SAFE
        self._files.commit()
        with self._counting:
            self._queued_bytes -= len(entry)
        return must_sync

    def _give_up(self, words: str) -> None:
        with self._counting:
            self._has_failed = True
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
