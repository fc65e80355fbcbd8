"""A disk of the lab: files in memory, and jobs that end when a slow disk would have done them.

    a job ends    write_us_per_kib x what it writes + sync_ms, if it syncs, after it began
    it begins     when it was submitted, or when the one before it has ended

Whoever owns it calls `serve` about every millisecond, in the simulator and in a running broker.
"""

from collections import deque

from penstock.base.clock import Clock
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.broker import Broker
from penstock.broker.store.gathering import WAIT_NS
from penstock.lab.workload import DiskSpec, Workload
from penstock.simulation.machine.durable_disks import give_store
from penstock.storage.log.batch import Batch
from penstock.storage.log.job import Job
from penstock.streams.memory_files import MemoryDirectory

SEGMENT_BYTES = 16 * 1024 * 1024
NS_PER_MS = 1_000_000


class SlowDisk(Disk):
    """jobs: those that have not ended, oldest first; ends_ns: when the oldest will have."""

    def __init__(self, spec: DiskSpec, clock: Clock) -> None:
        self.spec = spec
        self.clock = clock
        self.jobs: deque[tuple[Job, JobClient]] = deque()
        self.ends_ns = 0

    def submit(self, job: Job, client: JobClient) -> None:
        self.jobs.append((job, client))
        if len(self.jobs) == 1:
            self.ends_ns = self.clock.monotonic_ns() + self._takes_ns(job)

    def _takes_ns(self, job: Job) -> int:
        if not isinstance(job, Batch):
            return 0
        kib = sum(int(chunk.end - chunk.at) for chunk in job.chunks) / 1024
        sync_ns = self.spec.sync_ms * NS_PER_MS if job.is_sync else 0.0
        return int(kib * self.spec.write_us_per_kib * 1000 + sync_ns)

    def serve(self, now_ns: int) -> None:
        """End what is done by now."""
        while self.jobs and self.ends_ns <= now_ns:
            job, client = self.jobs.popleft()
            job.run()
            if self.jobs:
                self.ends_ns += self._takes_ns(self.jobs[0][0])
            client.job_done(job, None)


def give_disk(broker: Broker, workload: Workload) -> SlowDisk | None:
    """Durable queues declared from now on are kept on the disk of `workload`, if it has one."""
    if workload.disk is None:
        return None
    disk = SlowDisk(workload.disk, broker.clock)
    broker.stores.wait_ns = WAIT_NS
    give_store(broker, disk, MemoryDirectory(), SEGMENT_BYTES, spares_max=2)
    return disk
