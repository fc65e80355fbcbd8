"""The actor of a message store: takes parcels out of its queues' lanes, batch after batch to disk.

While one batch is written and synced everything that comes joins the next one, so that one sync
answers for all of it (group commit); an idle store writes the first parcel at once. There is never
a third batch (reliability F21): what comes while the next one is full waits in the lanes, whose
credit runs out, and so on up to the publishers. When a batch is on the disk its parcels are repaid
and whoever waits for a confirm is told.

A full disk is no failure: the batch is tried again until there is room, and meanwhile nobody gets
credit. Any other failure is the last thing this store does: nothing is confirmed any more
(reliability F4), `StoreOwner.store_failed` ends the broker.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import BLOCKED, IDLE, WAITING, Actor, Line
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.actors.sync_times import SyncTimes
from penstock.broker.actors.syncing import Syncing
from penstock.broker.store.spare_watch import SpareWatch
from penstock.broker.store.store_lane import Parcel, StoreLane
from penstock.broker.store.store_owner import StoreOwner
from penstock.flow.due import DueLine, Timer
from penstock.flow.strategy import Strategy
from penstock.storage.layout.files import can_wait
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.batch import Batch
from penstock.storage.log.compaction import Compactor, CopyJob
from penstock.storage.log.job import Job
from penstock.storage.log.log import MessageLog

BATCH_BYTES: Final = 4_194_304
"""A batch that has this much is full, unless a single message has more."""
ACKS_EVERY: Final = 8
"""Batches of which one takes the acknowledgements along: they cost a write of their own."""
FLUSH_NS: Final = 1_000_000_000
"""Acknowledgements reach the disk after this long, when no batch has taken them along."""
RETRY_NS: Final = 250_000_000
NS_PER_MS: Final = 1_000_000


class StoreClient(JobClient):
    """The store as the disk sees it; apart from the actor, which has another base."""

    __slots__ = ("actor",)

    def __init__(self, actor: "StoreActor") -> None:
        self.actor = actor

    def job_done(self, job: Job, error: OSError | None) -> None:
        if isinstance(job, CopyJob):
            self.actor.copy_done(job, error)
            return
        assert isinstance(job, Batch), "the store submits batches and copies only"
        if error is None:
            self.actor.batch_done(job)
        else:
            self.actor.batch_failed(job, error)


class StoreActor(Actor):
    """name: of its virtual host; lanes: of all queues with a place here; pending: those with
    parcels; readers: queues that wait for the next batch to read what is in it; open: parcels in
    the batch that is being made; batch: what is under way, with its parcels; mark: what the
    catalogue has to have before they are answered; withheld: parcels on the disk for whose queues
    it has not what withheld_mark says; is_full: the batch waits for room on the disk; is_failed:
    nothing is written any more; batch_bytes: of the batch under way; synced_count: messages that
    were ever made safe."""

    __slots__ = (
        "batch",
        "batch_bytes",
        "batch_count",
        "client",
        "compactor",
        "disk",
        "dues",
        "flush",
        "is_failed",
        "is_flush_due",
        "is_full",
        "lanes",
        "log",
        "mark",
        "name",
        "open",
        "owner",
        "pending",
        "readers",
        "recheck",
        "spare_watch",
        "strategy",
        "sync_times",
        "synced_count",
        "syncing",
        "under_way",
        "withheld",
        "withheld_mark",
    )

    def __init__(
        self,
        name: str,
        log: MessageLog,
        disk: Disk,
        dues: DueLine,
        strategy: Strategy,
        owner: StoreOwner,
        line: Line,
    ) -> None:
        super().__init__("store:" + name, line)
        self.name = name
        self.log = log
        self.disk = disk
        self.dues = dues
        self.strategy = strategy
        self.owner = owner
        self.client = StoreClient(self)
        self.compactor = Compactor(log)
        self.spare_watch = SpareWatch(log.spares, disk, dues)
        self.flush = Timer(self._flush_due)
        self.syncing = Syncing(log, self._flush_due, dues)
        self.lanes: list[StoreLane] = []
        self.pending: list[StoreLane] = []
        self.readers: dict[Actor, None] = {}
        self.open: list[Parcel] = []
        self.batch: Batch | None = None
        self.under_way: list[Parcel] = []
        self.withheld: list[Parcel] = []
        self.mark: i64 = 0
        self.withheld_mark: i64 = 0
        self.recheck = Timer(self._recheck)
        self.is_failed = False
        self.is_flush_due = False
        self.is_full = False
        self.synced_count: i64 = 0
        self.batch_bytes: i64 = 0
        self.batch_count: i64 = 0
        self.sync_times = SyncTimes()

    # -- queues ----------------------------------------------------------------------------------

    def join(self, queue: Actor, index: QueueIndex) -> StoreLane:
        """A durable queue begins to keep its messages here."""
        lane = StoreLane(queue, self.identity, self.gate, index)
        self.strategy.wire(lane)
        self.lanes.append(lane)
        return lane

    def offered(self, parcel: Parcel) -> None:
        """A queue hands a parcel over."""
        lane = parcel.lane
        lane.items.append(parcel)
        lane.waiting_count += 1
        lane.uncharged_bytes += parcel.uncharged_bytes
        self.strategy.charge(lane, parcel.origin, parcel.count, parcel.bytes)
        if not lane.is_listed:
            lane.is_listed = True
            self.pending.append(lane)
        self.wake()

    def has_settled(self) -> None:
        """Something was settled: it goes with the next batch, or a little later."""
        if self.flush.due_ns < 0:
            self.dues.put(self.flush, self.line.clock.monotonic_ns() + FLUSH_NS)

    def drop(self, lane: StoreLane) -> None:
        """The queue is gone. As in RabbitMQ, what it had taken counts as taken when it is done."""
        lane.is_wanted = False
        self.log.drop_queue(lane.index)
        self.has_settled()
        if lane.waiting_count == 0:
            self.lanes.remove(lane)
        else:
            self.wake()

    # -- turns -----------------------------------------------------------------------------------

    def turn(self, budget: i64) -> bool:
        if self.is_failed:
            return False
        self._take(budget)
        self._answer(self._send())
        return len(self.pending) > 0 and self._has_room()

    def _has_room(self) -> bool:
        return i64(self.log.open_bytes()) < BATCH_BYTES

    def _take(self, budget: i64) -> None:
        """Parcels of every lane in rotation, into the batch that is being made."""
        now_ms = self.line.clock.wall_ns() // NS_PER_MS
        left: i64 = budget
        while self.pending and left > 0 and self._has_room():
            lane = self.pending.pop(0)
            parcel = lane.items.pop(0)
            if parcel.uncharged_bytes > 0:
                lane.uncharged_bytes -= parcel.uncharged_bytes
                lane.queue.wake()
            if lane.items:
                self.pending.append(lane)
            else:
                lane.is_listed = False
            left -= len(parcel.messages)
            if lane.is_wanted:
                parcel.append_to(self.log, int(now_ms))
            parcel.joined_ns = self.line.turn_ns
            self.open.append(parcel)

    def _send(self) -> list[Parcel]:
        """Let the disk have the batch, if it is its time. Returns the parcels that need no disk."""
        if self.batch is not None or not (self.open or self.is_flush_due):
            return []
        self.batch_count += 1
        takes_acks = self.is_flush_due or self.batch_count % ACKS_EVERY == 0
        self.is_flush_due = False
        self.batch_bytes = self.log.open_bytes()
        parcels = self.open
        self.open = []
        batch = self.log.take_batch(len(parcels) > 0 and self.syncing.is_prompt, takes_acks)
        if batch is None:
            self._compact()
            return parcels
        self.batch = batch
        self.under_way = parcels
        self.mark = self.owner.hand_over()
        self.owner.will_write(int(self.batch_bytes))
        self.sync_times.began_ns = self.line.clock.monotonic_ns()
        self.syncing.submitted(batch, self.sync_times.began_ns)
        self.disk.submit(batch, self.client)
        self._let_readers_look()
        return []

    def _let_readers_look(self) -> None:
        """What they wait for may be where it can be read by now."""
        readers = self.readers
        self.readers = {}
        for queue in readers:
            queue.wake()

    def last_batch(self) -> Batch:
        """Everything that is still here, at a clean stop, when no batch is under way."""
        self.take_all()
        return self.log.take_last_batch()

    def take_all(self) -> None:
        """Everything that waits goes into the open batch, when none is under way."""
        assert self.batch is None, "the disk has done everything"
        while self.pending:
            lane = self.pending.pop()
            self.open.extend(lane.items)
            lane.is_listed = False
            if lane.is_wanted:
                now_ms = self.line.clock.wall_ns() // NS_PER_MS
                for parcel in lane.items:
                    parcel.append_to(self.log, int(now_ms))
            lane.items = []

    def parcels(self) -> list[Parcel]:
        """Everything that was offered and is not answered yet, for whoever counts it."""
        found = [*self.withheld, *self.under_way, *self.open]
        for lane in self.lanes:
            found.extend(lane.items)
        return found

    # -- the disk --------------------------------------------------------------------------------

    def batch_done(self, batch: Batch) -> None:
        """The batch that was under way is on the disk, as safe as the store's mode makes it."""
        assert self.batch is batch, "one batch is under way at a time"
        parcels = self.under_way
        self.batch = None
        self.under_way = []
        self.batch_bytes = 0
        self.sync_times.ended(self.line.clock.monotonic_ns())
        self.log.done(batch)
        self.spare_watch.look(batch, self.line.clock)
        if self.is_full:
            self.is_full = False
            self.owner.disk_has_room(self.name)
            self._let_readers_look()
        mark: i64 = self.mark
        self._compact()
        # The disk goes on before anybody is told: every message waits for its pauses, too.
        parcels.extend(self._send())
        if self.withheld or not self.owner.has(int(mark)):
            self.withheld.extend(parcels)
            self.withheld_mark = mark
            self.answer_withheld()
        else:
            self._answer(parcels)
        self.wake()

    def _compact(self) -> None:
        """Have the next slice of a mostly dead segment read; a batch makes safe what was copied."""
        job = self.compactor.plan_at(self.line.clock.monotonic_ns())
        if job is not None:
            self.disk.submit(job, self.client)
        elif self.log.wants_sync or self.log.dead:
            self.is_flush_due = True
        elif self.log.has_work() or self.compactor.wants_look:
            self.has_settled()

    def copy_done(self, job: CopyJob, error: OSError | None) -> None:
        """A slice was read: it goes with the next batch. What cannot be read is left alone."""
        if self.is_failed:
            return
        if error is None:
            self.compactor.copy(job)
        else:
            self.compactor.failed()
        self.is_flush_due = True
        self.wake()

    def answer_withheld(self) -> None:
        """Batches are answered in their order, once the catalogue has their queues."""
        if not self.owner.has(int(self.withheld_mark)):
            if self.recheck.due_ns < 0:
                self.dues.put(self.recheck, self.line.clock.monotonic_ns() + RETRY_NS)
            return
        parcels = self.withheld
        self.withheld = []
        self._answer(parcels)

    def _answer(self, parcels: list[Parcel]) -> None:
        for parcel in parcels:
            lane = parcel.lane
            count: i64 = len(parcel.messages)
            self.synced_count += count
            self.strategy.repay(lane, parcel.origin, parcel.count, parcel.bytes)
            parcel.answer(self.sync_times)
            lane.waiting_count -= 1
            if lane.is_pass_waiting and not lane.is_closed:
                lane.is_pass_waiting = False
                lane.queue.wake()
            if lane.waiting_count == 0 and not lane.is_wanted:
                self.lanes.remove(lane)

    def batch_failed(self, batch: Batch, error: OSError) -> None:
        """The batch that was under way is not on the disk."""
        if can_wait(error):
            if not self.is_full:
                self.is_full = True
                self.sync_times.found_full(self.line.clock.monotonic_ns())
                self.owner.disk_full(self.name, error)
            self.dues.put(Timer(self._try_again), self.line.clock.monotonic_ns() + RETRY_NS)
            return
        if not self.is_failed:
            self.is_failed = True
            self.owner.store_failed(self.name, error)

    # -- timers ----------------------------------------------------------------------------------

    def _flush_due(self, now_ns: int) -> None:
        """Acknowledgements are written that no batch has taken along."""
        self.is_flush_due = True
        self.wake()

    def _try_again(self, now_ns: int) -> None:
        """The batch is tried again that found the disk full."""
        batch = self.batch
        assert batch is not None, "it stays under way until it is on the disk"
        self.log.give_room(batch)
        self.disk.submit(batch, self.client)

    def _recheck(self, now_ns: int) -> None:
        """Batches that are on the disk may be answered now."""
        self.answer_withheld()

    def rest_state(self) -> int:
        """Waiting for the disk while a batch is under way."""
        if not self.gate.is_open:
            return BLOCKED
        return IDLE if self.batch is None else WAITING
