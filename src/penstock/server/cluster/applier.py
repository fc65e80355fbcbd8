"""Entries of a leader, applied on a thread of their own, in order, each told when it is safe.

An entry is as safe as the leader makes it: synced where the leader has synced. How far the
directory is gets written down afterwards, once for all that came meanwhile, and then it is told.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from threading import Condition, Thread

from penstock.base.errors import OperatorError
from penstock.base.limits import CLUSTER_APPLY_BYTES, CLUSTER_APPLY_ENTRIES
from penstock.replication.operations import MAKES_SAFE, OperationFault, decode
from penstock.server.cluster.follower_files import FollowerFiles
from penstock.server.cluster.position import PositionFile

Place = tuple[int, int]
"""Epoch and number of an entry."""


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
        self._queue: deque[tuple[Place, bytes]] = deque()
        self._queued_bytes = 0
        self._is_closing = False
        self._has_failed = False
        self._news = Condition()
        self._files = FollowerFiles(directory)
        self._thread = Thread(target=self._work, name="penstock-applier", daemon=True)
        self._thread.start()

    def put(self, epoch: int, seq: int, entry: bytes) -> bool:
        """Queue the next entry; False when no more may wait, or nothing is applied any more."""
        with self._news:
            is_full = self._queued_bytes + len(entry) > CLUSTER_APPLY_BYTES.default
            if self._has_failed or self._is_closing or (is_full and self._queue):
                return False
            self._queue.append(((epoch, seq), entry))
            self._queued_bytes += len(entry)
            self._news.notify()
        return True

    def whole_at(self, epoch: int, seq: int) -> None:
        """The copy that was taken is whole when this entry is applied: everything is synced then,
        and the position says so."""
        with self._news:
            self._whole_at = (epoch, seq)
            self._news.notify()

    def close(self) -> None:
        """Apply what is queued, then give everything back."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.join()
        self._files.close()
        self._position.close()

    # -- on the thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            # A catalogue without a row is one, too: without a file a broker would refuse to start.
            self._files.rows()
            while self._wait():
                self._group()
        except OperationFault as fault:
            self._give_up(f"{self.directory}: {fault}")
        except OperatorError as error:
            self._give_up(str(error))
        except OSError as error:
            self._give_up(self._words(error))
        except Exception as error:
            self._give_up(f"{self.directory}: internal error while applying: {error!r}")

    def _wait(self) -> bool:
        """Whether there is something to do."""
        with self._news:
            while not self._queue and not self._is_closing and not self._becomes_whole():
                self._news.wait()
            return bool(self._queue) or self._becomes_whole()

    def _becomes_whole(self) -> bool:
        return self._whole_at is not None and self._at >= self._whole_at

    def _group(self) -> None:
        must_sync = False
        count = 0
        while self._queue and count < CLUSTER_APPLY_ENTRIES.default:
            place, entry = self._queue[0]
            for one in decode(entry):
                self._files.apply(one)
                must_sync = must_sync or one.kind in MAKES_SAFE
            self._files.commit()
            self._at = place
            count += 1
            with self._news:
                self._queue.popleft()
                self._queued_bytes -= len(entry)
                is_whole_now = self._becomes_whole()
            if is_whole_now:
                break
        if self._becomes_whole():
            self._files.sync_all()
            self._is_whole = True
            self._whole_at = None
            must_sync = True
        self._position.write(*self._at, self._is_whole, must_sync)
        self._told(*self._at)

    def _give_up(self, words: str) -> None:
        with self._news:
            self._has_failed = True
            self._queue.clear()
            self._queued_bytes = 0
        with suppress(OSError):
            # What it has is not known any more; the handles are given back all the same.
            self._files.close()
        self._failed(words)

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
