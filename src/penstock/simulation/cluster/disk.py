"""The disk of a simulated node: jobs in a row, each in two halves; stalls, slowness, no room."""

from collections import deque
from typing import TYPE_CHECKING

from penstock.replication.actions import Apply, Persist, WholeAt
from penstock.simulation.cluster.directory import unpack

if TYPE_CHECKING:
    from penstock.simulation.cluster.child import SimChild
    from penstock.simulation.cluster.node import SimNode


class Sync:
    """The sync of a leader's broker, up to an entry."""

    __slots__ = ("child", "seq")

    def __init__(self, child: "SimChild", seq: int) -> None:
        self.child = child
        self.seq = seq


Job = Persist | Apply | WholeAt | Sync


class SimDisk:
    """is_stalled: nothing ends. slow: how many times slower than usual. is_full: what a member
    writes fails, in part done; a leader's broker waits for room."""

    def __init__(self, node: "SimNode") -> None:
        self.node = node
        self.is_stalled = False
        self.is_full = False
        self.slow = 1
        self._jobs: deque[Job] = deque()
        self._job: Job | None = None
        self._written = 0

    @property
    def is_idle(self) -> bool:
        return self._job is None and not self._jobs

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        self._next()

    def sync_for(self, child: "SimChild", seq: int) -> None:
        """One sync for all entries that were written before it begins."""
        if self._jobs and isinstance(self._jobs[-1], Sync):
            self._jobs[-1].seq = seq
        else:
            self.put(Sync(child, seq))

    def forget_child(self) -> None:
        """What the broker had asked for is not done."""
        self._jobs = deque(job for job in self._jobs if not isinstance(job, Sync))
        if isinstance(self._job, Sync):
            self._job = None
            self._next()

    def crash(self) -> None:
        self._jobs.clear()
        self._job = None

    def _next(self) -> None:
        if self._job is not None or not self._jobs:
            return
        job = self._job = self._jobs.popleft()
        directory = self.node.directory
        if isinstance(job, Apply):
            writes = [one for entry in job.entries for one in unpack(entry.payload)]
            directory.write(writes[: self.node.world.dice.below(len(writes) + 1)])
        self._written = directory.written
        self._wait(job)

    def _wait(self, job: Job) -> None:
        world, life = self.node.world, self.node.life
        delay = world.dice.skewed(3000) / 1000 * self.slow + 0.1

        def end() -> None:
            if self._job is not job or self.node.life != life or not self.node.is_up:
                return
            is_held = self.is_stalled or (self.is_full and isinstance(job, Sync))
            if is_held or self.node.is_paused:
                world.after(20, end)
            else:
                self._end(job)

        world.after(delay, end)

    def _end(self, job: Job) -> None:
        node = self.node
        if self.is_full and not isinstance(job, Sync):
            self.crash()
            node.disk_failed()
            return
        if isinstance(job, Persist):
            node.store_state(job)
        elif isinstance(job, Apply):
            # Again from the first: it is idempotent, and simpler than to remember.
            writes = [one for entry in job.entries for one in unpack(entry.payload)]
            node.directory.write(writes)
            node.directory.sync(node.directory.written)
            node.store_applied(job.entries)
        elif isinstance(job, WholeAt):
            node.directory.sync(node.directory.written)
            if node.slot >= job.position:
                node.tell_applied(node.slot)
        else:
            node.directory.sync(self._written)
            job.child.synced(job.seq)
        self._job = None
        self._next()
