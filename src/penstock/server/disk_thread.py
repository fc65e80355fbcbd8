"""The one thread that writes: jobs in the order they were given, ends told on the loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from penstock.broker.disk import Disk, JobClient
from penstock.storage.job import Job


class DiskThread(Disk):
    """run_soon: asks for a run of the scheduler, because the end of a job is work for actors."""

    __slots__ = ("_ended", "_jobs", "_loop", "_run_soon", "_thread")

    def __init__(self, loop: asyncio.AbstractEventLoop, run_soon: Callable[[], None]) -> None:
        self._loop = loop
        self._run_soon = run_soon
        self._jobs: SimpleQueue[tuple[Job, JobClient] | None] = SimpleQueue()
        self._ended: deque[tuple[Job, JobClient, OSError | None]] = deque()
        self._thread = Thread(target=self._work, name="penstock-disk", daemon=True)
        self._thread.start()

    def submit(self, job: Job, client: JobClient) -> None:
        self._jobs.put((job, client))

    def close(self) -> None:
        """Do what was submitted, then end; returns when it has. Ends are told before it returns."""
        self._jobs.put(None)
        self._thread.join()
        self._tell()

    def _work(self) -> None:
        while True:
            entry = self._jobs.get()
            if entry is None:
                return
            job, client = entry
            error: OSError | None = None
            try:
                job.run()
            except OSError as found:
                error = found
            except Exception as found:
                # A bug of ours must not leave publishers without an answer and nobody knowing.
                error = OSError(f"internal error in a disk job: {found!r}")
            self._ended.append((job, client, error))
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        while self._ended:
            job, client, error = self._ended.popleft()
            client.job_done(job, error)
        self._run_soon()
