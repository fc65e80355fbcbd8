"""A thread that writes: jobs in the order they were given, ends told on the loop. The stores have
one, and parking lots another, so that no confirm waits for what is parked.

An end is told through a socket that the poller watches beside the clients' own: asyncio's way to
wake the loop from another thread would be seen only after the poller has lingered for input, a
millisecond in which nobody gets a confirm.
"""

import socket
from collections import deque
from errno import ENOMEM
from queue import SimpleQueue
from threading import Thread
from typing import Final

from penstock.broker.actors.disk import Disk, JobClient
from penstock.server.net.poller import READ, Poller, Watched
from penstock.storage.log.job import Job

RING: Final = b"!"


class Bell(Watched):
    """What the poller watches for a disk; apart from it, which has another base."""

    __slots__ = ("disk",)

    def __init__(self, disk: "DiskThread") -> None:
        self.disk = disk

    def readable(self) -> bool:
        self.disk.answer()
        return True

    def gone(self) -> None:
        """Only the disk itself hangs up, and then nobody listens."""


class DiskThread(Disk):
    """The end of a job is work for actors, and the poller lets them work when it was told. name: of
    its thread."""

    __slots__ = ("_bell", "_ended", "_is_rung", "_jobs", "_rope", "_thread", "poller")

    def __init__(self, poller: Poller, name: str = "penstock-disk") -> None:
        self.poller = poller
        self._jobs: SimpleQueue[tuple[Job, JobClient] | None] = SimpleQueue()
        self._ended: deque[tuple[Job, JobClient, OSError | None]] = deque()
        self._is_rung = False
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        poller.watch(self._bell, Bell(self), READ)
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, client: JobClient) -> None:
        self._jobs.put((job, client))

    def close(self) -> None:
        """Do what was submitted, then end; returns when it has. Ends are told before it returns."""
        self.join()
        self.tell()
        self.hang_up()

    def join(self) -> None:
        """Do what was submitted; nothing is taken after it."""
        self._jobs.put(None)
        self._thread.join()

    def hang_up(self) -> None:
        """Nothing is told any more."""
        self.poller.unwatch(self._bell)
        self._bell.close()
        self._rope.close()

    def answer(self) -> None:
        """The bell has rung: tell every end there is by now."""
        try:  # noqa: SIM105  (`suppress` costs as much as all the rest)
            self._bell.recv(16)
        except BlockingIOError:
            pass
        # Before looking: what ends after the look rings again.
        self._is_rung = False
        self.tell()

    def _work(self) -> None:
        while True:
            entry = self._jobs.get()
            if entry is None:
                return
            self.work(*entry)

    def work(self, job: Job, client: JobClient) -> None:
        """Do `job`, and have its end told."""
        self._ended.append((job, client, self.run(job)))
        self.ring()

    def run(self, job: Job) -> OSError | None:
        """Do `job`: the error with which it ended."""
        try:
            job.run()
        except OSError as found:
            return found
        except MemoryError:
            # No bug, and no fault of the disk: what can be tried again is.
            return OSError(ENOMEM, "no memory for a job of the disk")
        except Exception as found:
            # A bug of ours must not leave publishers without an answer and nobody knowing.
            return OSError(f"internal error in a disk job: {found!r}")
        return None

    def ring(self) -> None:
        """See to it that the loop looks, on any thread."""
        if not self._is_rung:
            self._is_rung = True
            self._rope.send(RING)

    def tell(self) -> None:
        """Every end there is by now."""
        while self._ended:
            job, client, error = self._ended.popleft()
            client.job_done(job, error)
