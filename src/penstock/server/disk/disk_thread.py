"""A thread that writes: jobs in the order they were given, ends told on the loop. The stores have
one, and parking lots another, so that no confirm waits for what is parked.

An end is told through a descriptor that the poller watches beside the clients' sockets: asyncio's
way to wake the loop from another thread would be seen only after the poller has lingered for input,
a millisecond in which nobody gets a confirm. Both threads wake each other by a write to an eventfd,
and the poller hears of each write without reading it: of all ways this takes the fewest system
calls, and a confirm that comes alone waits for every one of them (docs/performance.md, c1).
"""

import os
import sys
from collections import deque
from errno import ENOMEM
from threading import Thread
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.actors.disk import Disk, JobClient
from penstock.server.net.poller import Poller, Watched
from penstock.storage.log.job import Job

RING: Final = (1).to_bytes(8, sys.byteorder)
"""What an eventfd takes and gives: a count. A pipe takes any bytes."""


class Wire:
    """One thread writes to it, another one waits for that: an eventfd, or a pipe where there is
    none. fd: the end to wait at."""

    __slots__ = ("_end", "fd")

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.fd = self._end = os.eventfd(0)
        else:
            self.fd, self._end = os.pipe()

    def ring(self) -> None:
        """Let the other thread go on."""
        os.write(self._end, RING)

    def wait(self) -> None:
        """Until it has rung since the last time."""
        os.read(self.fd, len(RING))

    def close(self) -> None:
        """No thread waits any more. Who rings all the same gets an OSError, and does not write to
        whatever has the number of this descriptor by then."""
        for fd in {self.fd, self._end}:
            self.fd = self._end = -1
            os.close(fd)


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


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskThread(Disk):
    """The end of a job is work for actors, and the poller lets them work when it was told. name: of
    its thread."""

    __slots__ = (
        "_bell",
        "_call",
        "_ended",
        "_is_called",
        "_is_read",
        "_is_rung",
        "_jobs",
        "_runner",
        "poller",
    )

    def __init__(self, poller: Poller, name: str = "penstock-disk") -> None:
        self.poller = poller
        self._jobs: deque[tuple[Job, JobClient] | None] = deque()
        self._ended: deque[tuple[Job, JobClient, OSError | None]] = deque()
        self._is_called = False
        self._is_rung = False
        self._call, self._bell = Wire(), Wire()
        self._is_read = not poller.watch_bell(self._bell.fd, Bell(self))
        self._runner = Thread(target=self._work, name=name, daemon=True)
        self._runner.start()

    def submit(self, job: Job, client: JobClient) -> None:
        self._give((job, client))

    def close(self) -> None:
        """Do what was submitted, then end; returns when it has. Ends are told before it returns."""
        self.join()
        self.tell()
        self.hang_up()

    def join(self) -> None:
        """Do what was submitted; nothing is taken after it."""
        self._give(None)
        self._runner.join()

    def hang_up(self) -> None:
        """Nothing is told any more."""
        self.poller.unwatch_bell(self._bell.fd)
        self._bell.close()
        self._call.close()

    def answer(self) -> None:
        """The bell has rung: tell every end there is by now."""
        if self._is_read:
            self._bell.wait()
        # Before looking: what ends after the look rings again.
        self._is_rung = False
        self.tell()

    def _give(self, entry: tuple[Job, JobClient] | None) -> None:
        """To the thread, which is called unless it is about to look anyway; None: it ends."""
        self._jobs.append(entry)
        if not self._is_called:
            self._is_called = True
            self._call.ring()

    def _work(self) -> None:
        jobs = self._jobs
        while True:
            self._call.wait()
            # Before looking: what is given after the look calls again.
            self._is_called = False
            while jobs:
                entry = jobs.popleft()
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
            self._bell.ring()

    def tell(self) -> None:
        """Every end there is by now."""
        while self._ended:
            job, client, error = self._ended.popleft()
            client.job_done(job, error)
