"""The actor of a message store: group commit of what durable queues keep, and of what they settle.

Compaction goes along: slices of mostly dead segments are read between batches, and a batch makes
safe what was copied.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.clock import Clock
from penstock.broker.actors.actor import Actor, Line
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.actors.syncing import NONE, Syncing, SyncRule
from penstock.broker.store.group_commit import GroupCommit, StoreOwner
from penstock.broker.store.mirrors import Mirroring
from penstock.broker.store.write_request import StoreLane, StoreRequest, WriteLane, WriteRequest
from penstock.flow.credit import Strategy
from penstock.flow.due import NEVER, DueLine, Timer
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.batch import Batch
from penstock.storage.log.compaction import Compactor, CopyJob
from penstock.storage.log.groups import GroupAppend
from penstock.storage.log.job import Job
from penstock.storage.log.log import MessageLog
from penstock.storage.log.recycled import GiveBack, RecycledSegments

IDLE_NS: Final = 3_000_000_000


class Unwatched(JobClient):
    """For removals: a file that could not be removed is removed by the next start."""

    __slots__ = ()

    def job_done(self, job: Job, error: OSError | None) -> None:
        """There is nothing to do."""


class RecyclingWatch:
    """Gives back the files that a store keeps to write over. Where none was used for IDLE_NS one is
    enough, and where nothing was written either, none: an idle store keeps nothing, and the room is
    back soon after a purge (reliability F16).

    seen_count: of files that had been used again at the last look;
    is_written: something was written since. timer: runs only while there is something to give
    back."""

    __slots__ = ("client", "disk", "dues", "is_written", "seen_count", "spares", "timer")

    def __init__(self, spares: RecycledSegments, disk: Disk, dues: DueLine) -> None:
        self.spares = spares
        self.disk = disk
        self.dues = dues
        self.client = Unwatched()
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


ACKS_EVERY: Final = 8
"""Batches of which one takes the acknowledgements along: they cost a write of their own."""
FLUSH_NS: Final = 1_000_000_000
"""Acknowledgements reach the disk after this long, when no batch has taken them along."""
ACK_SYNC_NS: Final = 5_000_000_000
"""Acknowledgements that were written are safe after about this long, so that a loss of power brings
back no older ones."""
ACK_SYNC_NEXT_NS: Final = 50_000_000
ACK_SYNCS: Final = 2
"""Files of acknowledgements that one batch syncs, so that confirms wait for no more of them, and
the time until another batch does."""
NS_PER_MS: Final = 1_000_000
LANES_A_TURN: Final = 256
"""Mirrored queues that are looked at in one turn when mirrors have more."""
GROUP_PIECE: Final = 256
"""Messages of a group that join the open batch in one turn."""


class StoreActor(GroupCommit):
    """lanes: of all queues with a place here; behind: those of them with requests that wait for
    mirrors; unseen: those that were not looked at since mirrors have moved;
    readers: queues that wait for the next batch to read what is in it; flush: runs while
    acknowledgements wait that no batch has taken along; ack_sync: while some were written and are
    not known to be safe; group: what the open batch has a part of;
    copied: a slice that was read meanwhile, and waits for it."""

    __slots__ = (
        "ack_sync",
        "batch_count",
        "behind",
        "compactor",
        "copied",
        "flush",
        "group",
        "is_flush_due",
        "lanes",
        "log",
        "readers",
        "spare_watch",
        "syncing",
        "unseen",
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
        super().__init__("store:" + name, name, disk, dues, strategy, owner, line)
        self.log = log
        self.compactor = Compactor(log)
        self.spare_watch = RecyclingWatch(log.spares, disk, dues)
        self.flush = Timer(self.make_flush_due)
        self.ack_sync = Timer(self._ack_sync_due)
        self.syncing = Syncing(self._sync_due, dues)
        self.lanes: list[StoreLane] = []
        self.behind: dict[StoreLane, None] = {}
        self.unseen: list[StoreLane] = []
        self.readers: dict[Actor, None] = {}
        self.is_flush_due = False
        self.batch_count: i64 = 0
        self.group: GroupAppend | None = None
        self.copied: CopyJob | None = None

    def follow(self, rule: SyncRule) -> None:
        """Sync as `rule` says, from before anything is written."""
        self.syncing.follow(rule)
        if rule.mode == NONE:
            self.log.make_lazy()

    # -- queues ----------------------------------------------------------------------------------

    def join(self, queue: Actor, index: QueueIndex) -> StoreLane:
        """A durable queue begins to keep its messages here."""
        lane = StoreLane(queue, self.identity, self.gate, index)
        self.strategy.wire(lane)
        self.lanes.append(lane)
        return lane

    def has_settled(self) -> None:
        """Something was settled, or is safe: it goes with the next batch, or a little later."""
        if self.flush.due_ns < 0:
            self.dues.put(self.flush, self.line.clock.monotonic_ns() + FLUSH_NS)

    def make_flush_due(self, now_ns: int) -> None:
        """The next batch goes at once, and takes acknowledgements along."""
        self.is_flush_due = True
        self.wake()

    def _watch_acks(self, batch: Batch) -> None:
        """After `batch` there are acknowledgements that are not safe, whichever has taken them
        along: their files are synced some time later."""
        if not self.syncing.is_prompt or self.log.is_scratch:
            return
        now_ns = self.sync_times.done_ns
        if batch.ack_syncs > 0 and batch.is_in_round:
            # Also when one that was under way as this one was asked for has put it off.
            self.dues.put(self.ack_sync, int(now_ns + ACK_SYNC_NEXT_NS))
        elif self.ack_sync.due_ns < 0:
            self.dues.put(self.ack_sync, int(now_ns + ACK_SYNC_NS))

    def _ack_sync_due(self, now_ns: int) -> None:
        self.log.ack_syncs = ACK_SYNCS
        self.make_flush_due(now_ns)

    def _sync_due(self, now_ns: int) -> None:
        self.log.wants_sync = True
        self.make_flush_due(now_ns)

    def drop(self, lane: StoreLane) -> None:
        """The queue is gone. As in RabbitMQ, what it had taken counts as taken when it is done."""
        self.forget_mirrors(lane)
        lane.is_wanted = False
        self.log.drop_queue(lane.index)
        self.has_settled()
        if lane.waiting_count == 0:
            self.lanes.remove(lane)
        else:
            self.wake()

    def all_lanes(self) -> list[WriteLane]:
        return [*self.lanes]

    def requests(self) -> list[WriteRequest]:
        found = super().requests()
        for lane in self.behind:
            found.extend(lane.behind)
        return found

    # -- mirrors ---------------------------------------------------------------------------------

    def mirrors_moved(self) -> None:
        """Mirrors have more on their disks, or others are waited for."""
        if self.behind:
            self.is_moved = True
            self.wake()

    def mirror(self, lane: StoreLane, mirroring: Mirroring) -> None:
        """The queue of `lane` is mirrored, or in another way; what is behind waits for those that
        are its mirrors now."""
        if lane.mirroring is None:
            self.mirrored_count += 1
        lane.mirroring = mirroring
        self.mirrors_moved()

    def forget_mirrors(self, lane: StoreLane) -> None:
        """The queue of `lane` is mirrored no longer, or is gone: nothing of it waits."""
        if lane.mirroring is not None:
            lane.mirroring = None
            self.mirrored_count -= 1
        if lane.behind and not self.is_failed:
            requests: list[WriteRequest] = [*lane.behind]
            lane.behind = []
            del self.behind[lane]
            self.answer(requests)

    def kept_back(self, requests: list[WriteRequest], need: i64) -> list[WriteRequest]:
        found: list[WriteRequest] = []
        for request in requests:
            assert isinstance(request, StoreRequest), "queues of the store offer nothing else"
            lane = _lacking(request, need, None)
            if lane is None:
                found.append(request)
            else:
                request.need = need
                lane.behind.append(request)
                self.behind[lane] = None
        return found

    def look_at_mirrors(self) -> None:
        if not self.unseen:
            self.is_moved = False
            self.unseen = [*self.behind]
        lanes = self.unseen[:LANES_A_TURN]
        del self.unseen[:LANES_A_TURN]
        requests: list[WriteRequest] = []
        for lane in lanes:
            if lane in self.behind:
                self._take_covered(lane, requests)
        if requests:
            self.answer(requests)
        if self.unseen:
            self.is_moved = True
            self.wake()

    def _take_covered(self, lane: StoreLane, found: list[WriteRequest]) -> None:
        """Put into `found` what the mirrors of `lane` have, and others need not have as well."""
        mirroring = lane.mirroring
        assert mirroring is not None, "nothing is behind without one"
        covered: i64 = mirroring.covered()
        behind = lane.behind
        at: i64 = 0
        while at < len(behind) and behind[at].need <= covered:
            request = behind[at]
            at += 1
            other = _lacking(request, request.need, lane)
            if other is None:
                found.append(request)
            else:
                other.behind.append(request)
                self.behind[other] = None
        if at > 0:
            lane.behind = behind[at:]
        if not lane.behind:
            del self.behind[lane]

    # -- batches ---------------------------------------------------------------------------------

    def append(self, request: WriteRequest, now_ns: i64) -> None:
        assert isinstance(request, StoreRequest), "queues of the store offer nothing else"
        if request.lane.is_wanted:
            group = request.append_to(self.log, int(now_ns // NS_PER_MS))
            if group is not None:
                self.group = group
                self.is_appending = True
                self.append_more()

    def append_more(self) -> None:
        group = self.group
        assert group is not None, "there is a part of one in the batch"
        if group.step(GROUP_PIECE):
            return
        self.group = None
        self.is_appending = False
        copied = self.copied
        if copied is not None:
            self.copied = None
            self._copy(copied)

    def open_bytes(self) -> i64:
        return self.log.open_size

    def has_work(self) -> bool:
        return self.is_flush_due

    def take_batch(self, has_requests: bool) -> Job | None:
        self.batch_count += 1
        takes_acks = self.is_flush_due or self.batch_count % ACKS_EVERY == 0
        if self.is_flush_due:
            self.log.mark_safe()
        self.is_flush_due = False
        batch = self.log.take_batch(has_requests and self.syncing.is_prompt, takes_acks)
        if batch is None:
            self._compact()
        return batch

    def submitted(self, batch: Job) -> None:
        assert isinstance(batch, Batch), "the log makes no others"
        self.syncing.submitted(batch.is_sync, len(batch.chunks) > 0, self.sync_times.began_ns)
        self._let_readers_look()

    def _let_readers_look(self) -> None:
        """What they wait for may be where it can be read by now."""
        readers = self.readers
        self.readers = {}
        for queue in readers:
            queue.wake()

    def last_batch(self) -> Batch:
        """Everything that is still here, at a clean stop, when no batch is under way."""
        self.take_all()
        batch = self.log.take_last_batch()
        self.say_whole(batch, self.open)
        return batch

    # -- the disk --------------------------------------------------------------------------------

    def written(self, batch: Job) -> None:
        assert isinstance(batch, Batch), "the log makes no others"
        self.log.done(batch)
        if batch.synced:
            # The last records of a log have none behind them to say that they are safe.
            self.has_settled()
        if batch.owes_acks:
            self._watch_acks(batch)
        self.spare_watch.look(batch, self.line.clock)
        self._compact()

    def has_room(self) -> None:
        self._let_readers_look()

    def prepare_retry(self, batch: Job) -> None:
        assert isinstance(batch, Batch), "the log makes no others"
        self.log.give_room(batch)

    def answered(self, lane: WriteLane) -> None:
        assert isinstance(lane, StoreLane), "streams have their own store"
        if lane.is_pass_waiting and not lane.is_closed:
            lane.is_pass_waiting = False
            lane.queue.wake()
        if lane.waiting_count == 0 and not lane.is_wanted:
            self.lanes.remove(lane)

    def _compact(self) -> None:
        """Have the next slice of a mostly dead segment read; a batch makes safe what was copied."""
        if self.group is not None:
            # It may not be told that its segment is full; the batch that it is in looks again.
            return
        job = self.compactor.plan_at(self.line.clock.monotonic_ns())
        if job is not None:
            self.disk.submit(job, self.client)
        elif self.log.wants_sync or self.log.dead:
            self.is_flush_due = True
        elif self.log.has_work() or self.compactor.wants_look:
            self.has_settled()

    def other_job_done(self, job: Job, error: OSError | None) -> None:
        """A slice was read: it goes with the next batch. What cannot be read is left alone."""
        assert isinstance(job, CopyJob), "the store submits batches and copies only"
        if self.is_failed:
            return
        if error is not None:
            self.compactor.failed()
            self.make_flush_due(0)
        elif self.group is not None:
            self.copied = job
        else:
            self._copy(job)

    def _copy(self, job: CopyJob) -> None:
        self.compactor.copy(job)
        self.make_flush_due(0)


def _lacking(request: StoreRequest, need: i64, beside: StoreLane | None) -> StoreLane | None:
    """The first queue of `request`, `beside` apart, with a mirror that has to have the entry `need`
    and has not, or with earlier messages that wait for one; None when there is none."""
    for lane in request.lanes():
        mirroring = lane.mirroring
        if mirroring is None or lane is beside:
            continue
        if lane.behind or mirroring.covered() < need:
            return lane
    return None
