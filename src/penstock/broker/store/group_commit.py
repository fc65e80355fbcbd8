"""Group commit: an actor that takes write requests out of its queues' lanes, and has the disk write
and sync them batch after batch. The message store and the stores of streams are such actors.

While one batch is written and synced everything that comes joins the next one, so that one sync
answers for all of it. There is never a third batch (reliability F21): what comes while the next one
is full waits in the lanes, whose credit runs out, and so on up to the publishers. A batch is handed
to the disk at the end of a run of the scheduler, where output is handed to the sockets: what was
read together is synced together; it may wait a moment for more (broker/store/gathering). When it is
on the disk its requests are repaid, and senders that wait for a confirm are told.

A full disk is no failure: the batch is tried again until there is room, and meanwhile no sender
gets credit. Any other failure is the last thing the actor does: nothing is confirmed any more
(reliability F4), `StoreOwner.store_failed` ends the broker.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import BLOCKED, IDLE, WAITING, Actor, Line
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.actors.syncing import SyncTimes
from penstock.broker.actors.whole_publishes import WholePublishes
from penstock.broker.store.commit_state import (
    TRANSITIONS,
    CommitAction,
    CommitInput,
    CommitState,
)
from penstock.broker.store.gathering import Gathering
from penstock.broker.store.write_request import WriteLane, WriteRequest
from penstock.flow.credit import Strategy
from penstock.flow.due import DueLine, Timer
from penstock.storage.layout.files import can_wait
from penstock.storage.log.job import Job

BATCH_BYTES: Final = 4_194_304
"""A batch that has this much is full, unless a single message has more."""
RETRY_NS: Final = 250_000_000
ANSWERS: Final = 512
"""Messages whose senders are told in one go that they are safe, and a request more."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreOwner:
    """Is told what the disk of a store does. Nominal base of the broker's managers of stores.

    name: of the virtual host; for a transient log, see StoreRegistry.open_scratch."""

    __slots__ = ()

    def hand_over(self) -> int:
        """What queues need beside their messages goes to the disk before the batch that is about to
        be submitted; a mark for `has`."""
        raise NotImplementedError

    def has(self, mark: int) -> bool:
        """Whether the disk has all that `hand_over` meant when it gave `mark`."""
        raise NotImplementedError

    def will_write(self, size_bytes: int) -> None:
        """A batch of so many bytes is about to be submitted."""
        raise NotImplementedError

    def store_failed(self, name: str, error: OSError) -> None:
        """Nothing more is written."""
        raise NotImplementedError

    def disk_full(self, name: str, error: OSError) -> None:
        """A batch waits for room."""
        raise NotImplementedError

    def disk_has_room(self, name: str) -> None:
        """The batch that waited is on the disk."""
        raise NotImplementedError

    def read_failed(self, queue: str, error: OSError, is_lost: bool) -> None:
        """What the actor `queue` reads cannot be read now; is_lost: nor ever."""

    def reads_again(self, queue: str) -> None:
        """It can be read."""


class CommitClient(JobClient):
    """The actor as the disk sees it; apart from the actor, which has another base."""

    __slots__ = ("actor",)

    def __init__(self, actor: "GroupCommit") -> None:
        self.actor = actor

    def job_done(self, job: Job, error: OSError | None) -> None:
        actor = self.actor
        if job is not actor.batch:
            actor.other_job_done(job, error)
        elif error is None:
            actor.batch_done(job)
        else:
            actor.batch_failed(job, error)


class GroupCommit(Actor):
    """name: of its virtual host; state: of the batch that was made last; pending: lanes with
    requests; open: requests in the batch that is being made; batch: what is under way, with its
    requests; mark: what the catalogue has to have before they are answered; withheld: requests on
    the disk for whose queues it has not what withheld_mark says, of which mirrors have to have
    withheld_need; mirrored_count: queues that have mirrors, is_moved: those have more since it was
    looked at; safe: requests that are answered piece by piece, from safe_head on; batch_bytes: of
    the batch under way; synced_count: messages that were ever made safe; is_ending: it is called at
    the end of the present run; is_appending: a request is in the batch that is being made in part
    only, so before `append_more` has brought the rest nothing else joins, and the disk is not given
    it; gathering: whether a batch waits for more, timer: for how long."""

    __slots__ = (
        "batch",
        "batch_bytes",
        "client",
        "disk",
        "dues",
        "gathering",
        "is_appending",
        "is_ending",
        "is_moved",
        "keeps_publishes",
        "mark",
        "mirrored_count",
        "name",
        "open",
        "owner",
        "pending",
        "recheck",
        "retry",
        "safe",
        "safe_head",
        "state",
        "strategy",
        "sync_times",
        "synced_count",
        "timer",
        "under_way",
        "withheld",
        "withheld_mark",
        "withheld_need",
    )

    def __init__(
        self,
        identity: str,
        name: str,
        disk: Disk,
        dues: DueLine,
        strategy: Strategy,
        owner: StoreOwner,
        line: Line,
    ) -> None:
        super().__init__(identity, line)
        self.name = name
        self.disk = disk
        self.keeps_publishes = disk.keeps_publishes()
        self.dues = dues
        self.strategy = strategy
        self.owner = owner
        self.client = CommitClient(self)
        self.pending: list[WriteLane] = []
        self.open: list[WriteRequest] = []
        self.batch: Job | None = None
        self.under_way: list[WriteRequest] = []
        self.withheld: list[WriteRequest] = []
        self.safe: list[WriteRequest] = []
        self.safe_head: i64 = 0
        self.mark: i64 = 0
        self.mirrored_count: i64 = 0
        self.withheld_mark: i64 = 0
        self.withheld_need: i64 = 0
        self.recheck = Timer(self._recheck)
        self.retry = Timer(self._retry)
        self.gathering = Gathering()
        self.timer = Timer(self._waited)
        self.is_ending = False
        self.is_moved = False
        self.is_appending = False
        self.state = CommitState.FREE
        self.synced_count: i64 = 0
        self.batch_bytes: i64 = 0
        self.sync_times = SyncTimes()

    @property
    def is_full(self) -> bool:
        """Whether the batch waits for room on the disk."""
        return self.state is CommitState.FULL

    @property
    def is_failed(self) -> bool:
        """Whether nothing is written any more."""
        return self.state is CommitState.FAILED

    def _step(self, given: CommitInput) -> CommitAction:
        self.state, action = TRANSITIONS[(self.state, given)]
        return action

    # -- what a store writes ---------------------------------------------------------------------

    def all_lanes(self) -> list[WriteLane]:
        """The lanes of every queue that keeps something here."""
        raise NotImplementedError

    def append(self, request: WriteRequest, now_ns: i64) -> None:
        """Put `request` into the batch that is being made, unless its queue is gone. now_ns: wall
        clock."""
        raise NotImplementedError

    def append_more(self) -> None:
        """Another piece of the request that `is_appending` is about."""
        raise NotImplementedError

    def open_bytes(self) -> i64:
        """Bytes in the batch that is being made."""
        raise NotImplementedError

    def has_work(self) -> bool:
        """Whether there is anything for a batch apart from requests."""
        raise NotImplementedError

    def take_batch(self, has_requests: bool) -> Job | None:
        """The batch that was made, as a job; None when the disk has nothing to do for it."""
        raise NotImplementedError

    def submitted(self, batch: Job) -> None:
        """The disk has been given `batch`."""

    def written(self, batch: Job) -> None:
        """`batch` is on the disk, as safe as the store's mode makes it."""
        raise NotImplementedError

    def has_room(self) -> None:
        """A batch that had found the disk full is on the disk."""

    def prepare_retry(self, batch: Job) -> None:
        """`batch`, which found the disk full, is about to be tried again."""

    def answered(self, lane: WriteLane) -> None:
        """A request of `lane` has been repaid and answered."""
        raise NotImplementedError

    def other_job_done(self, job: Job, error: OSError | None) -> None:
        """A job of the store that is no batch has ended."""
        raise AssertionError("the store submits batches only")

    # -- turns -----------------------------------------------------------------------------------

    def offered(self, request: WriteRequest) -> None:
        """A queue hands a request over."""
        lane = request.lane
        lane.items.append(request)
        lane.waiting_count += 1
        lane.uncharged_bytes += request.uncharged_bytes
        count: i64 = len(request.messages)
        self.gathering.unanswered += count
        if request.commands is not None:
            request.commands.took(count)
        if request.uncharged_bytes > 0:
            lane.free_count += count - request.count
        self.strategy.charge(lane, request.origin, request.count, request.bytes)
        if not lane.is_listed:
            lane.is_listed = True
            self.pending.append(lane)
        self.wake()

    def turn(self, budget: i64) -> bool:
        if self.state is CommitState.FAILED:
            return False
        if self.is_moved:
            self.look_at_mirrors()
        self._answer_some()
        if self.is_appending:
            self.append_more()
            if self.is_appending:
                return True
        self._take(budget)
        if self.batch is None and not self.is_ending:
            self.is_ending = True
            self.line.end_with(self)
        if self.is_appending or len(self.safe) > 0:
            return True
        return len(self.pending) > 0 and self.open_bytes() < BATCH_BYTES

    def run_ended(self) -> None:
        """The disk gets what has come together, unless it has a batch."""
        self.is_ending = False
        if self.state is CommitState.FAILED or self.is_appending:
            return
        if (
            self.batch is None
            and self.open
            and self.gathering.has_to_wait()
            and self.open_bytes() < BATCH_BYTES
            and not self.has_work()
        ):
            if self._step(CommitInput.WAIT) is CommitAction.START_TIMER:
                self.gathering.waits()
                now_ns = self.line.clock.monotonic_ns()
                self.dues.put(self.timer, int(now_ns + self.gathering.wait_ns))
            return
        self.answer(self._send())
        if self.pending:
            self.wake()

    def _waited(self, now_ns: int) -> None:
        """The batch has waited for long enough."""
        if self.state is CommitState.GATHERING:
            self.gathering.is_late = True
            self.wake()

    def _take(self, budget: i64) -> None:
        """Requests of every lane in rotation, into the batch that is being made."""
        now_ns: i64 = self.line.clock.wall_ns()
        left: i64 = budget
        pending = self.pending
        taken: i64 = 0
        while taken < len(pending) and left > 0 and self.open_bytes() < BATCH_BYTES:
            lane = pending[taken]
            taken += 1
            request = lane.items.pop(0)
            if request.uncharged_bytes > 0:
                lane.uncharged_bytes -= request.uncharged_bytes
                lane.queue.wake()
            if lane.items:
                pending.append(lane)
            else:
                lane.is_listed = False
            left -= len(request.messages)
            self._join(request, now_ns)
            if self.is_appending:
                break
        del pending[:taken]

    def _join(self, request: WriteRequest, now_ns: i64) -> None:
        self.append(request, now_ns)
        request.joined_ns = self.line.turn_ns
        self.open.append(request)

    def hasten(self, lane: WriteLane) -> None:
        """What waits in `lane` goes into the open batch now."""
        if not lane.is_listed:
            return
        lane.is_listed = False
        self.pending.remove(lane)
        items = lane.items
        lane.items = []
        now_ns: i64 = self.line.clock.wall_ns()
        gone: i64 = 0
        for request in items:
            gone += request.uncharged_bytes
            self._join(request, now_ns)
            self._append_rest()
        if gone > 0:
            lane.uncharged_bytes -= gone
            lane.queue.wake()

    def take_all(self) -> None:
        """Everything that waits goes into the open batch, when none is under way."""
        assert self.batch is None, "the disk has done everything"
        self._append_rest()
        while self.pending:
            self.hasten(self.pending[-1])

    def _append_rest(self) -> None:
        while self.is_appending:
            self.append_more()

    def _send(self) -> list[WriteRequest]:
        """Let the disk have the batch, if it has none. Returns the requests that need no disk."""
        if self.batch is not None or not (self.open or self.has_work()):
            return []
        self.gathering.sent()
        size: i64 = self.open_bytes()
        requests = self.open
        self.open = []
        batch = self.take_batch(len(requests) > 0)
        if batch is None:
            self._step(CommitInput.EMPTY)
            return requests
        self._step(CommitInput.SEND)
        self.batch = batch
        self.batch_bytes = size
        self.under_way = requests
        self.mark = self.owner.hand_over()
        self.owner.will_write(int(size))
        now_ns = self.line.clock.monotonic_ns()
        self.sync_times.began_ns = now_ns
        if self.line.is_accounting:
            self.time.enter(self.rest_state(), now_ns)
        self.submitted(batch)
        self.say_whole(batch, requests)
        self.disk.submit(batch, self.client)
        return []

    def say_whole(self, batch: Job, requests: list[WriteRequest]) -> None:
        """Tell `batch` which publishes of forwarded clients are in the log as a whole with these
        requests, which it writes."""
        if not self.keeps_publishes:
            return
        publishes = WholePublishes()
        for request in requests:
            if request.answerable is not None:
                request.answerable.written(request.messages, publishes)
        batch.holds(publishes.encoded())

    def requests(self) -> list[WriteRequest]:
        """Everything that was offered and is not answered yet, for whoever counts it."""
        found = [*self.safe[self.safe_head :], *self.withheld, *self.under_way, *self.open]
        for lane in self.all_lanes():
            found.extend(lane.items)
        return found

    # -- the disk --------------------------------------------------------------------------------

    def batch_done(self, batch: Job) -> None:
        """The batch that was under way is on the disk, as safe as the store's mode makes it."""
        requests = self.under_way
        need: i64 = self.disk.needs() if self.mirrored_count > 0 else 0
        self.batch = None
        self.under_way = []
        self.batch_bytes = 0
        self.sync_times.ended(self.line.clock.monotonic_ns())
        self.gathering.ended()
        self.written(batch)
        if self._step(CommitInput.WRITTEN) is CommitAction.SAY_ROOM:
            self.owner.disk_has_room(self.name)
            self.has_room()
        if self.withheld or not self.owner.has(int(self.mark)):
            self.withheld.extend(requests)
            self.withheld_mark = self.mark
            self.withheld_need = need
            self.answer_withheld()
        else:
            self.answer(requests if need == 0 else self.kept_back(requests, need))
        self.wake()

    def answer_withheld(self) -> None:
        """Batches are answered in their order, once the catalogue has their queues."""
        if not self.owner.has(int(self.withheld_mark)):
            if self.recheck.due_ns < 0:
                self.dues.put(self.recheck, self.line.clock.monotonic_ns() + RETRY_NS)
            return
        requests = self.withheld
        self.withheld = []
        self.answer(self.kept_back(requests, self.withheld_need))

    def kept_back(self, requests: list[WriteRequest], need: i64) -> list[WriteRequest]:
        """Those of `requests`, which a cluster has with its entry `need`, that may be answered now;
        a store of mirrored queues keeps some back."""
        return requests

    def look_at_mirrors(self) -> None:
        """Answer what mirrors have by now, of some queues; it is woken if there are more."""
        self.is_moved = False

    def _recheck(self, now_ns: int) -> None:
        """Looks whether batches that are on the disk may be answered now."""
        self.answer_withheld()

    def answer(self, requests: list[WriteRequest]) -> None:
        """Repay `requests`, and tell the senders that wait: some now, the rest of very many in the
        next turns."""
        if self.safe:
            self.safe.extend(requests)
            return
        self.safe = requests
        self.safe_head = 0
        self._answer_some()
        if self.safe:
            self.wake()

    def _answer_some(self) -> None:
        """Answer those that have waited longest."""
        requests = self.safe
        left: i64 = ANSWERS
        at: i64 = self.safe_head
        while at < len(requests) and left > 0:
            request = requests[at]
            at += 1
            self.safe_head = at
            lane = request.lane
            count: i64 = len(request.messages)
            self.synced_count += count
            self.gathering.unanswered -= count
            left -= count
            self.strategy.repay(lane, request.origin, request.count, request.bytes)
            request.answer(self.sync_times)
            lane.waiting_count -= 1
            self.answered(lane)
        if at >= len(requests):
            self.safe = []
            self.safe_head = 0

    def batch_failed(self, batch: Job, error: OSError) -> None:
        """The batch that was under way is not on the disk."""
        action = self._step(CommitInput.NO_ROOM if can_wait(error) else CommitInput.ERROR)
        if action is CommitAction.SAY_FAILED:
            self.owner.store_failed(self.name, error)
            return
        if action is CommitAction.SAY_FULL:
            self.sync_times.found_full(self.line.clock.monotonic_ns())
            self.owner.disk_full(self.name, error)
        self.dues.put(self.retry, self.line.clock.monotonic_ns() + RETRY_NS)

    def _retry(self, now_ns: int) -> None:
        """Tries the batch again that found the disk full."""
        batch = self.batch
        assert batch is not None, "it waits for room"
        self._step(CommitInput.RETRY)
        self.prepare_retry(batch)
        self.disk.submit(batch, self.client)

    def rest_state(self) -> int:
        """Waiting for the disk while a batch is under way."""
        if not self.gate.is_open:
            return BLOCKED
        return IDLE if self.batch is None else WAITING
