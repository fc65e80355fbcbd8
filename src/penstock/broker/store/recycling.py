"""Gives back what a store keeps to write over: when nothing is written any more, or room runs out.

A store that is written to uses the file of an old segment for the next one, again and again. Where
none was used for IDLE_NS one is enough, and where nothing was written either, none. So an idle
store keeps nothing, and the room is back soon after a purge (reliability F16).
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.clock import Clock
from penstock.broker.actors.disk import Disk, JobClient
from penstock.flow.due import NEVER, DueLine, Timer
from penstock.storage.log.batch import Batch
from penstock.storage.log.job import Job
from penstock.storage.log.recycled import GiveBack, RecycledSegments

IDLE_NS: Final = 3_000_000_000


class Nobody(JobClient):
    """Whoever is told that they are gone. A file that could not be removed is removed by the next
    start."""

    __slots__ = ()

    def job_done(self, job: Job, error: OSError | None) -> None:
        """There is nothing to do."""


class RecyclingWatch:
    """Owner: one store's actor. seen_count: of files that had been used again at the last look;
    is_written: something was written since. timer: runs only while there is something to give
    back."""

    __slots__ = ("client", "disk", "dues", "is_written", "seen_count", "spares", "timer")

    def __init__(self, spares: RecycledSegments, disk: Disk, dues: DueLine) -> None:
        self.spares = spares
        self.disk = disk
        self.dues = dues
        self.client = Nobody()
        self.seen_count: i64 = 0
        self.is_written = False
        self.timer = Timer(self._look_again)

    def look(self, batch: Batch, clock: Clock) -> None:
        """`batch` is on the disk."""
        if batch.chunks:
            self.is_written = True
        if self.spares.kept_bytes > 0 and self.timer.due_ns == NEVER:
            self.seen_count = self.spares.taken_count
            self.dues.put(self.timer, clock.monotonic_ns() + IDLE_NS)

    def allow(self, is_wanted: bool) -> None:
        """Whether the disk has room for any."""
        self.spares.is_wanted = is_wanted
        if not is_wanted:
            self._give_back(0)

    def _look_again(self, now_ns: int) -> None:
        spares = self.spares
        if spares.taken_count == self.seen_count:
            self._give_back(1 if self.is_written else 0)
        self.is_written = False
        self.seen_count = spares.taken_count
        if spares.kept_bytes > 0:
            self.dues.put(self.timer, now_ns + IDLE_NS)

    def _give_back(self, left_count: i64) -> None:
        if self.spares.kept_bytes > 0:
            self.disk.submit(GiveBack(self.spares, left_count), self.client)
