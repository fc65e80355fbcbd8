"""Durable queues in a simulated broker: a disk whose jobs wait for the test, ids, a fresh log."""

from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.vhost.catalogue import Catalogue, is_kept_queue
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.faults import LawBroken
from penstock.storage.log.job import Job
from penstock.storage.log.log import MessageLog


class Numbers(Catalogue):
    """Gives durable queues their ids, and keeps nothing."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def queue_added(self, actor: QueueActor) -> int:
        if not is_kept_queue(actor):
            return 0
        self.last += 1
        return self.last


class HandDisk(Disk):
    """Jobs wait until `work` is called; a job that fails says so. ran: how many have been done."""

    __slots__ = ("jobs", "ran")

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, JobClient]] = []
        self.ran = 0

    def submit(self, job: Job, client: JobClient) -> None:
        self.jobs.append((job, client))

    def work_one(self) -> None:
        """Do the first of the jobs that wait."""
        self.work()

    def work(self, count: int = 1) -> int:
        """Do up to `count` of the jobs that wait; how many."""
        done = 0
        while self.jobs and done < count:
            job, client = self.jobs.pop(0)
            error: OSError | None = None
            try:
                job.run()
            except OSError as found:
                error = found
            done += 1
            self.ran += 1
            client.job_done(job, error)
        return done


def give_store(
    broker: Broker, disk: Disk, files: SimDisk, segment_bytes: int, spares_max: int = 0
) -> StoreActor:
    """Virtual host / keeps what durable queues declared from now on are given, in `files`."""
    broker.keep(Numbers())
    log = MessageLog(files, broker.chance, segment_bytes, spares_max=spares_max)
    return broker.stores.open("/", log, disk)


def give_scratch(broker: Broker, disk: Disk, segment_bytes: int) -> None:
    """Virtual host / has a transient log from the first time that one is needed."""

    def open_it(vhost: str) -> None:
        log = MessageLog(SimDisk(), broker.chance, segment_bytes, is_scratch=True)
        broker.stores.open_scratch(vhost, log, disk)

    broker.stores.scratch_opener = open_it


def check_store(store: StoreActor) -> None:
    """What holds between any two turns: hops add up, and what is in flight is in requests.

    Raises: LawBroken."""
    requests = store.requests()
    for lane in store.lanes:
        lane.check()
        mine = [request for request in requests if request.lane is lane]
        count = sum(int(request.count) for request in mine)
        bytes_ = sum(int(request.bytes) for request in mine)
        if (count, bytes_) != (int(lane.in_flight), int(lane.in_flight_bytes)):
            raise LawBroken(
                f"{lane.name}: {lane.in_flight} messages in flight, {count} in requests"
            )
        if len(mine) != lane.waiting_count:
            raise LawBroken(f"{lane.name}: {len(mine)} requests, {lane.waiting_count} counted")
        if bool(lane.items) != lane.is_listed:
            raise LawBroken(f"{lane.name} is not in its list")
