"""Durable queues in a simulated broker: a disk whose jobs end by chance, and a fresh log.

At the end the disk is recovered: it must hold exactly what rests in the queues.
"""

from typing import Final

from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import WriteLane, WriteRequest
from penstock.broker.vhost.catalogue import Catalogue, is_kept_queue
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.faults import LawBroken
from penstock.storage.layout.files import Directory
from penstock.storage.log.job import Job
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery.recovery import recover

EVERYTHING: Final = 1 << 30
SPARES: Final = 2


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
    """Jobs wait until `work` is called; a job that fails says so. ran: how many have been done;
    fault: what every job ends with instead of being run."""

    __slots__ = ("fault", "jobs", "ran")

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, JobClient]] = []
        self.ran = 0
        self.fault: OSError | None = None

    def submit(self, job: Job, client: JobClient) -> None:
        self.jobs.append((job, client))

    def work(self, count: int = 1) -> int:
        """Do up to `count` of the jobs that wait; how many."""
        done = 0
        while self.jobs and done < count:
            job, client = self.jobs.pop(0)
            error = self.fault
            if error is None:
                try:
                    job.run()
                except OSError as found:
                    error = found
            done += 1
            self.ran += 1
            client.job_done(job, error)
        return done


def give_store(
    broker: Broker, disk: Disk, files: Directory, segment_bytes: int, spares_max: int = 0
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


PIECES: Final = 4
"""Files of parked publishes that a simulated disk has room for, and more."""


def give_parking(broker: Broker, bytes_max: int) -> HandDisk:
    """Lots may have so many bytes on a disk, in small pieces; 0 for no disk."""
    disk = HandDisk()
    if bytes_max > 0:
        broker.park_on(SimDisk(), disk)
        parking = broker.parking.disk
        assert parking is not None, "it has just been given"
        parking.bytes_max = bytes_max
        parking.piece_bytes_min = 1
        parking.piece_bytes = max(1, bytes_max // (3 * PIECES))
        parking.write_bytes = max(1, bytes_max // PIECES)
    return disk


def check_store(store: StoreActor) -> None:
    """What holds between any two turns. Raises: LawBroken."""
    requests = store.requests()
    for lane in store.lanes:
        check_requests(lane, requests)


def check_requests(lane: WriteLane, requests: list[WriteRequest]) -> None:
    """A hop to a store adds up, and what is in flight is in the store's `requests`.

    Raises: LawBroken."""
    lane.check()
    mine = [request for request in requests if request.lane is lane]
    count = sum(int(request.count) for request in mine)
    bytes_ = sum(int(request.bytes) for request in mine)
    if (count, bytes_) != (int(lane.in_flight), int(lane.in_flight_bytes)):
        raise LawBroken(f"{lane.name}: {lane.in_flight} messages in flight, {count} in requests")
    if len(mine) != lane.waiting_count:
        raise LawBroken(f"{lane.name}: {len(mine)} requests, {lane.waiting_count} counted")
    if bool(lane.items) != lane.is_listed:
        raise LawBroken(f"{lane.name} is not in its list")


class Depot:
    """The store of virtual host /, its files, and the disk that works when it is told to."""

    def __init__(self, broker: Broker, dice: Dice) -> None:
        self.disk = HandDisk()
        self.files = SimDisk()
        self.segment_bytes = dice.one_of((2048, 20_000, 1 << 20))
        self.store = give_store(broker, self.disk, self.files, self.segment_bytes, SPARES)
        give_scratch(broker, self.disk, self.segment_bytes)

    def check_end(self, broker: Broker) -> None:
        """Nothing is under way: the log has what rests in each queue, no more and no less; and a
        start on what is on the disk brings back all of it. Raises: LawBroken."""
        store = self.store
        if self.disk.jobs or store.requests():
            raise LawBroken(f"{store.identity}: {len(store.requests())} requests are left behind")
        queues = [one for one in broker.vhosts["/"].queues.values() if one.queue_id > 0]
        for queue in queues:
            durability = queue.durability
            assert isinstance(durability, StoreDurability), "a queue with an id has a durability"
            kept = store.log.live_count(durability.index)
            if kept != queue.messages.ready_count():
                raise LawBroken(
                    f"{queue.identity}: {kept} in the log, {queue.messages.ready_count()} ready"
                )
        if len(store.lanes) < len(queues):
            raise LawBroken(f"{store.identity}: {len(store.lanes)} lanes, {len(queues)} queues")
        self._check_start(broker, queues)

    def _check_start(self, broker: Broker, queues: list[QueueActor]) -> None:
        image = SimDisk(self.files.contents())
        ids = {int(queue.queue_id) for queue in queues}
        recovered = recover(image, broker.chance, self.segment_bytes, ids)
        for queue in queues:
            index = recovered.queues[int(queue.queue_id)]
            job = recovered.log.plan_reads(index, 0, EVERYTHING, EVERYTHING)
            job.run()
            bodies = [found.message.body() for found in job.found]
            for message in queue.messages.ready_messages():
                if message.body() not in bodies:
                    raise LawBroken(f"{queue.identity}: a message would not come back")
            if job.damaged:
                raise LawBroken(f"{queue.identity}: {len(job.damaged)} damaged messages")
