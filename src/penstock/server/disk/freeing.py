"""Gives the room of removed files back, on a thread of its own.

A file system frees the blocks of a file when its last handle is closed: 5 to 30 ms for a segment of
16 MiB. The disk's thread, for which confirms wait, takes only the name away, in its order, and
leaves that close to this thread.
"""

import os
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from penstock.base.limits import STORE_FREEING_FILES


class Freeing:
    """The handles that wait to be closed. Owner: whoever made it, who calls `close` once."""

    __slots__ = ("_handles", "_thread")

    def __init__(self) -> None:
        self._handles: SimpleQueue[int] = SimpleQueue()
        self._thread = Thread(target=self._work, name="penstock-freeing", daemon=True)
        self._thread.start()

    def free(self, fd: int) -> None:
        """Close the last handle of a file without a name. On any thread; waits only at the bound,
        where it closes it itself."""
        if self._handles.qsize() >= STORE_FREEING_FILES.default:
            os.close(fd)
        else:
            self._handles.put(fd)

    def close(self) -> None:
        """End when everything is freed."""
        self._handles.put(-1)
        self._thread.join()

    def _work(self) -> None:
        while (fd := self._handles.get()) >= 0:
            with suppress(OSError):
                # The name is gone: there is nothing anybody could do about it.
                os.close(fd)
