"""A thread that does one job after the other and tells their ends on the loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

Job = Callable[[], None]
Then = Callable[[Exception | None], None]
"""Called on the loop with what the job has raised, None for nothing."""


class DiskWorker:
    """As an executor with one thread, and with one turn of the loop for an end instead of two."""

    __slots__ = ("_jobs", "_loop", "_runner")

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, Then] | None] = SimpleQueue()
        self._runner = Thread(target=self._work, name=name, daemon=True)
        self._runner.start()

    def submit(self, job: Job, then: Then) -> None:
        """Behind those of before."""
        self._jobs.put((job, then))

    def close(self) -> None:
        """Wait until what was submitted is done."""
        self._jobs.put(None)
        self._runner.join()

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, then = entry
            fault: Exception | None = None
            try:
                job()
            except Exception as error:
                fault = error
            # A loop that was closed has nobody who waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(then, fault)
