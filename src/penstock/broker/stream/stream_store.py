"""The actor that writes the streams of one virtual host: parcels in, one batch after the other out.

As the message store does it (broker/store/store_actor): while one batch is written and synced
everything else joins the next, one sync answers for all of it, what comes while the next one is
full waits in the lanes. A message can be read, and is confirmed, when its batch is on the disk. A
full disk is waited for; any other failure ends the broker.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import BLOCKED, IDLE, WAITING, Actor, Line
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.actors.sync_times import SyncTimes
from penstock.broker.actors.syncing import ALWAYS, INTERVAL, SYNC_ALWAYS
from penstock.broker.stream.stream_lane import StreamLane, StreamParcel
from penstock.flow.due import NEVER, DueLine, Timer
from penstock.flow.strategy import Strategy
from penstock.storage.layout.files import can_wait
from penstock.storage.log.job import Job
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import StreamLog

BATCH_BYTES: Final = 4_194_304
"""A batch that has this much is full, unless a single message has more."""
RETRY_NS: Final = 250_000_000
NS_PER_US: Final = 1000


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamOwner:
    """Who hears what the disk does with streams. Nominal base; see broker/node/stream_desk."""

    __slots__ = ()

    def hand_over(self) -> int:
        """See StoreOwner."""
        raise NotImplementedError

    def has(self, mark: int) -> bool:
        """See StoreOwner."""
        raise NotImplementedError

    def will_write(self, size_bytes: int) -> None:
        """See StoreOwner."""
        raise NotImplementedError

    def streams_failed(self, store: "StreamStore", error: OSError) -> None:
        """Nothing more is written."""
        raise NotImplementedError

    def disk_is_full(self, store: "StreamStore", error: OSError) -> None:
        """A batch waits for room."""
        raise NotImplementedError

    def disk_has_room_again(self, store: "StreamStore") -> None:
        """The batch that waited is on the disk."""
        raise NotImplementedError


class StreamStoreClient(JobClient):
    """The store as the disk sees it; apart from the actor, which has another base."""

    __slots__ = ("actor",)

    def __init__(self, actor: "StreamStore") -> None:
        self.actor = actor

    def job_done(self, job: Job, error: OSError | None) -> None:
        assert isinstance(job, StreamBatch), "the store submits batches only"
        if error is None:
            self.actor.batch_done(job)
        else:
            self.actor.batch_failed(job, error)


class StreamStore(Actor):
    """name: of its virtual host; handles: its files; lanes: of its streams, by queue id; pending:
    those with parcels; changed: logs with something to write; open: parcels in the batch that is
    being made; batch, under_way: what is being written, with its parcels; mark, withheld: see
    StoreActor; rule: when it syncs, late_sync: when it has to, if not at once, wants_sync: now;
    written_count: messages that were ever made safe, as far as the rule wants that."""

    __slots__ = (
        "batch",
        "changed",
        "client",
        "disk",
        "dues",
        "handles",
        "is_failed",
        "is_full",
        "lanes",
        "late_sync",
        "mark",
        "name",
        "open",
        "open_bytes",
        "owner",
        "pending",
        "recheck",
        "rule",
        "strategy",
        "sync_times",
        "under_way",
        "wants_sync",
        "withheld",
        "written_count",
    )

    def __init__(
        self,
        name: str,
        handles: StreamHandles,
        disk: Disk,
        dues: DueLine,
        strategy: Strategy,
        owner: StreamOwner,
        line: Line,
    ) -> None:
        super().__init__("store:" + name + ":streams", line)
        self.name = name
        self.handles = handles
        self.disk = disk
        self.dues = dues
        self.strategy = strategy
        self.owner = owner
        self.client = StreamStoreClient(self)
        self.lanes: dict[int, StreamLane] = {}
        self.pending: list[StreamLane] = []
        self.changed: dict[StreamLog, None] = {}
        self.open: list[StreamParcel] = []
        self.open_bytes: i64 = 0
        self.batch: StreamBatch | None = None
        self.under_way: list[StreamParcel] = []
        self.withheld: list[StreamParcel] = []
        self.recheck = Timer(self._recheck)
        self.rule = SYNC_ALWAYS
        self.late_sync = Timer(self._sync_late)
        self.wants_sync = False
        self.mark: i64 = 0
        self.is_failed = False
        self.is_full = False
        self.sync_times = SyncTimes()
        self.written_count: i64 = 0

    # -- streams ---------------------------------------------------------------------------------

    def join(self, queue: Actor, log: StreamLog) -> StreamLane:
        """A stream is kept here from now on."""
        lane = StreamLane(queue, self.identity, self.gate, log)
        self.strategy.wire(lane)
        self.lanes[int(log.queue_id)] = lane
        return lane

    def offered(self, parcel: StreamParcel) -> None:
        """A stream hands a parcel over."""
        lane = parcel.lane
        lane.log.coming += parcel.count
        lane.log.coming_bytes += parcel.bytes
        lane.items.append(parcel)
        lane.waiting_count += 1
        self.strategy.charge(lane, parcel.origin, parcel.count, parcel.bytes)
        if not lane.is_listed:
            lane.is_listed = True
            self.pending.append(lane)
        self.wake()

    def take_now(self, parcel: StreamParcel) -> None:
        """Into the batch that is being made, past everything that waits: for a start, which brings
        back what was committed."""
        parcel.lane.waiting_count += 1
        self.strategy.charge(parcel.lane, parcel.origin, parcel.count, parcel.bytes)
        self._append(parcel, self.line.clock.wall_ns() // NS_PER_US)
        self.wake()

    def drop(self, lane: StreamLane) -> None:
        """The stream is deleted. What is under way is answered when it is done: as in RabbitMQ,
        what a deleted queue had taken counts as taken."""
        lane.is_wanted = False
        lane.log.drop()
        self.changed[lane.log] = None
        self._forget_unwanted(lane)
        self.wake()

    def _forget_unwanted(self, lane: StreamLane) -> None:
        if not lane.is_wanted and lane.waiting_count == 0:
            self.lanes.pop(int(lane.log.queue_id), None)

    # -- turns -----------------------------------------------------------------------------------

    def turn(self, budget: i64) -> bool:
        if self.is_failed:
            return False
        self._take(budget)
        self._send()
        return len(self.pending) > 0 and self.open_bytes < BATCH_BYTES

    def _take(self, budget: i64) -> None:
        """Parcels of every lane in rotation, into the batch that is being made."""
        now_us: i64 = self.line.clock.wall_ns() // NS_PER_US
        left: i64 = budget
        while self.pending and left > 0 and self.open_bytes < BATCH_BYTES:
            lane = self.pending.pop(0)
            parcel = lane.items.pop(0)
            if lane.items:
                self.pending.append(lane)
            else:
                lane.is_listed = False
            left -= parcel.count
            self._arrived(parcel, now_us)

    def _arrived(self, parcel: StreamParcel, now_us: i64) -> None:
        log = parcel.lane.log
        log.coming -= parcel.count
        log.coming_bytes -= parcel.bytes
        self._append(parcel, now_us)

    def _append(self, parcel: StreamParcel, now_us: i64) -> None:
        lane = parcel.lane
        self.open.append(parcel)
        if not lane.is_wanted:
            return
        log = lane.log
        for message in parcel.messages:
            log.append(message, now_us)
        if log.origins is not None:
            log.origins.came(parcel.origin, len(parcel.messages), parcel.bytes, log.next)
        self.open_bytes += parcel.bytes
        self.changed[log] = None

    def _send(self) -> None:
        """Let the disk have the batch, if it is its time."""
        if self.batch is not None or not (self.open or self.changed or self.wants_sync):
            return
        batch = StreamBatch(self.handles)
        batch.is_prompt = self.rule.mode == ALWAYS or self.wants_sync
        for log in self.changed:
            log.take(batch)
        self._submit(batch)

    def _submit(self, batch: StreamBatch) -> None:
        self.changed = {}
        size: i64 = self.open_bytes
        self.open_bytes = 0
        self.batch = batch
        self.under_way = self.open
        self.open = []
        self.mark = self.owner.hand_over()
        self.owner.will_write(int(size))
        self.sync_times.began_ns = self.line.clock.monotonic_ns()
        self._note_sync(batch)
        self.disk.submit(batch, self.client)

    def _note_sync(self, batch: StreamBatch) -> None:
        """See that what `batch` does not sync is synced in time."""
        if batch.has_to_sync():
            self.wants_sync = False
            self.dues.take_off(self.late_sync)
        elif self.rule.mode == INTERVAL and self.late_sync.due_ns == NEVER:
            self.dues.put(self.late_sync, int(self.sync_times.began_ns + self.rule.interval_ns))

    def last_batch(self) -> StreamBatch:
        """Everything that is still here, at a clean stop, when no batch is under way."""
        assert self.batch is None, "the disk has done everything"
        now_us: i64 = self.line.clock.wall_ns() // NS_PER_US
        while self.pending:
            lane = self.pending.pop()
            lane.is_listed = False
            for parcel in lane.items:
                self._arrived(parcel, now_us)
            lane.items = []
        batch = StreamBatch(self.handles)
        batch.is_last = True
        for lane in self.lanes.values():
            lane.log.take_last(batch)
            self.changed.pop(lane.log, None)
        for log in self.changed:
            log.take(batch)
        return batch

    def parcels(self) -> list[StreamParcel]:
        """Everything that was offered and is not answered yet, for whoever counts it."""
        found = [*self.withheld, *self.under_way, *self.open]
        for lane in self.lanes.values():
            found.extend(lane.items)
        return found

    # -- the disk --------------------------------------------------------------------------------

    def batch_done(self, batch: StreamBatch) -> None:
        """The batch that was under way is on the disk."""
        assert self.batch is batch, "one batch is under way at a time"
        parcels = self.under_way
        self.batch = None
        self.under_way = []
        self.sync_times.ended(self.line.clock.monotonic_ns())
        for deed in batch.chunks:
            lane = self.lanes.get(int(deed.segment.queue_id))
            if lane is not None:
                lane.log.done(deed)
                lane.queue.wake()
        if self.is_full:
            self.is_full = False
            self.owner.disk_has_room_again(self)
        if self.withheld or not self.owner.has(int(self.mark)):
            self.withheld.extend(parcels)
            self.answer_withheld()
        else:
            self._answer(parcels)
        self.wake()

    def answer_withheld(self) -> None:
        """Batches are answered in their order, once the catalogue has their queues."""
        if not self.owner.has(int(self.mark)):
            if self.recheck.due_ns < 0:
                self.dues.put(self.recheck, self.line.clock.monotonic_ns() + RETRY_NS)
            return
        parcels = self.withheld
        self.withheld = []
        self._answer(parcels)

    def _answer(self, parcels: list[StreamParcel]) -> None:
        for parcel in parcels:
            lane = parcel.lane
            self.written_count += parcel.count
            self.strategy.repay(lane, parcel.origin, parcel.count, parcel.bytes)
            parcel.answer(self.sync_times)
            lane.waiting_count -= 1
            self._forget_unwanted(lane)

    def batch_failed(self, batch: StreamBatch, error: OSError) -> None:
        """The batch that was under way is not on the disk."""
        if can_wait(error):
            if not self.is_full:
                self.is_full = True
                self.sync_times.found_full(self.line.clock.monotonic_ns())
                self.owner.disk_is_full(self, error)
            self.dues.put(Timer(self._try_again), self.line.clock.monotonic_ns() + RETRY_NS)
            return
        if not self.is_failed:
            self.is_failed = True
            self.owner.streams_failed(self, error)

    # -- timers ----------------------------------------------------------------------------------

    def _sync_late(self, now_ns: int) -> None:
        """What was written and answered without a sync is synced, in the mode INTERVAL."""
        self.wants_sync = True
        self.wake()

    def _try_again(self, now_ns: int) -> None:
        """The batch is tried again that found the disk full."""
        batch = self.batch
        assert batch is not None, "it stays under way until it is on the disk"
        self.disk.submit(batch, self.client)

    def _recheck(self, now_ns: int) -> None:
        """Batches that are on the disk may be answered now."""
        self.answer_withheld()

    def rest_state(self) -> int:
        """Waiting for the disk while a batch is under way."""
        if not self.gate.is_open:
            return BLOCKED
        return IDLE if self.batch is None else WAITING
