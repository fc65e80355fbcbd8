"""One queue's way out of memory and back, at the ends of its turns.

    out    what is above the target leaves: messages with a place in the log cost nothing, the
           others go to the store under its credit, PASS_BYTES at a time; a closed hop ends the
           pass, its credit begins the next one
    back   one read is under way at a time; it begins while the front still has messages, so that
           consumers find the next ones there
What a queue wants to read may still be in the batch the store is making: then it looks again when
that is on its way. A queue that has nothing on the disk any more does not page, until it has to.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.disk import JobClient
from penstock.broker.paging.read_again import ReadAgain
from penstock.broker.queue.queue_actor import ALWAYS, QueueActor, QueuePaging
from penstock.broker.queue.uncommitted import ReadWaiter
from penstock.broker.store.durability import UNCHARGED_BYTES, StoreDurability
from penstock.flow.account import Account
from penstock.protocol.content import SharedMessage
from penstock.queues.backlog import PAGED_AT_ONCE, UNBOUNDED
from penstock.queues.entry import FLAG_EXPIRATION, flags_of, stub_of
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, FoundRange, ReadRequest
from penstock.queues.rabbit_paging import PendingAcks
from penstock.queues.rules import QueueRules
from penstock.storage.layout.index import spans_without
from penstock.storage.log.job import Job
from penstock.storage.log.log import MessageLog
from penstock.storage.log.reading import Found, ReadJob, Stretch, plan_run

PASS_BYTES: Final = 1_048_576
READ_BYTES_MIN: Final = 131_072
READ_BYTES_MAX: Final = 4_194_304
READY_SHARE: Final = 2
"""Ready messages may take this part of the target, however much is unanswered."""
READ_SHARE: Final = 6
"""A read is no more than this part of what ready messages may take. It may be twice as much in
memory, where messages are small, and the front has less than one when it begins: so what was read
does not have to leave again."""
PASSES_PER_TURN: Final = 4


class PagerPhase(Enum):
    """What a pager is about."""

    IN_MEMORY = "everything is in memory"
    RESTING = "part of it is on the disk"
    READING = "a read is under way"
    RETRYING = "a read failed and waits to be tried again"
    DISK_FULL = "what comes next waits for room on the disk"


class PagerEvent(Enum):
    """What moves a pager on."""

    BEGUN = "messages may leave memory"
    SUBMITTED = "a read is given to the disk"
    READ = "the read has ended"
    FAILED = "the read failed by an error that may pass"
    REFUSED = "the read ended at what a full disk has not taken"
    RETRIED = "it is time to try again"
    ROOM = "the disk takes batches again"
    GIVEN_UP = "the queue is purged or deleted"
    WHOLE = "everything is in memory again"


TRANSITIONS: Final[Mapping[tuple[PagerPhase, PagerEvent], PagerPhase]] = MappingProxyType(
    {
        (PagerPhase.IN_MEMORY, PagerEvent.BEGUN): PagerPhase.RESTING,
        (PagerPhase.RESTING, PagerEvent.SUBMITTED): PagerPhase.READING,
        (PagerPhase.READING, PagerEvent.READ): PagerPhase.RESTING,
        (PagerPhase.READING, PagerEvent.FAILED): PagerPhase.RETRYING,
        (PagerPhase.READING, PagerEvent.REFUSED): PagerPhase.DISK_FULL,
        (PagerPhase.READING, PagerEvent.GIVEN_UP): PagerPhase.RESTING,
        (PagerPhase.RETRYING, PagerEvent.RETRIED): PagerPhase.RESTING,
        (PagerPhase.DISK_FULL, PagerEvent.ROOM): PagerPhase.RESTING,
        (PagerPhase.RESTING, PagerEvent.WHOLE): PagerPhase.IN_MEMORY,
        (PagerPhase.RETRYING, PagerEvent.WHOLE): PagerPhase.IN_MEMORY,
        (PagerPhase.DISK_FULL, PagerEvent.WHOLE): PagerPhase.IN_MEMORY,
    }
)
"""What is not here changes nothing."""


class PagerClient(JobClient):
    """The pager as the disk sees it; apart from it, which has another base."""

    __slots__ = ("pager",)

    def __init__(self, pager: "Pager") -> None:
        self.pager = pager

    def job_done(self, job: Job, error: OSError | None) -> None:
        assert isinstance(job, ReadJob), "a pager submits reads only"
        self.pager.read_done(job, error)


class Pager(QueuePaging):
    """phase: see TRANSITIONS; request, job: the read under way; has_stubs_out: bodies of unanswered
    deliveries may be on the disk only; read_bytes: of the next read; came_bytes: what the last one
    has put into memory; waiters: for the first message; wants_all: rules that need
    every entry wait until everything is in memory; again: lets it wait for what could not be read;
    damaged: told how many messages are lost; seen: how many had come when the last turn ended."""

    __slots__ = (
        "actor",
        "again",
        "came_bytes",
        "client",
        "damaged",
        "durability",
        "has_stubs_out",
        "job",
        "phase",
        "read_bytes",
        "request",
        "seen",
        "target_bytes",
        "waiters",
        "wants_all",
    )

    def __init__(
        self,
        actor: QueueActor,
        durability: StoreDurability,
        target_bytes: i64,
        damaged: Callable[[QueueActor, int], None],
    ) -> None:
        self.actor = actor
        self.durability = durability
        self.target_bytes: i64 = target_bytes
        self.damaged = damaged
        self.phase = PagerPhase.IN_MEMORY
        self.again = ReadAgain(actor, durability.store, self._retry)
        self.client = PagerClient(self)
        self.read_bytes: i64 = READ_BYTES_MIN
        self.came_bytes: i64 = 0
        self.request: ReadRequest | None = None
        self.job: ReadJob | None = None
        self.waiters: list[ReadWaiter] = []
        self.wants_all = False
        self.has_stubs_out = False
        self.seen: i64 = 0

    def _move(self, event: PagerEvent) -> None:
        """`event` has happened: the phase is what the table says."""
        self.phase = TRANSITIONS.get((self.phase, event), self.phase)

    # -- the turn --------------------------------------------------------------------------------

    def turn_ended(self, actor: QueueActor) -> None:
        if not self.actor.messages.is_paging:
            self._begin()
        self._page()
        self._read()
        messages = self.actor.messages
        self.durability.is_through = messages.pieces_count() > 0
        if messages.is_whole():
            self._end()

    def aim(self, target_bytes: i64) -> None:
        self.target_bytes = target_bytes
        if not self.actor.messages.is_paging:
            self.actor.page_above = target_bytes

    def _begin(self) -> None:
        """The queue is about to have messages on the disk."""
        self._move(PagerEvent.BEGUN)
        self.actor.messages.begin_paging(self.durability.index, self.durability.index)
        self.actor.page_above = ALWAYS
        self.seen = self._arrived()

    def _end(self) -> bool:
        """The queue does not page any more, if it has everything in memory; whether it has."""
        if self.phase is PagerPhase.READING or not self.actor.messages.is_whole():
            return False
        if self.has_stubs_out and self.actor.unacked_count > 0:
            return False
        self._move(PagerEvent.WHOLE)
        self.has_stubs_out = False
        self.durability.is_through = False
        self.actor.messages.end_paging()
        self.actor.page_above = self.target_bytes
        if self.wants_all:
            self.wants_all = False
            queue_limits = self.actor.queue_limits
            if queue_limits is not None:
                queue_limits.change(queue_limits.rules)
        return True

    # -- out of memory ---------------------------------------------------------------------------

    def _ready_target(self) -> i64:
        """What ready messages may take: what unanswered ones and what rules keep beside messages
        leave of the target, but a part of it in any case, so that deliveries go on."""
        least: i64 = self.target_bytes // READY_SHARE
        left: i64 = self.target_bytes - self.actor.unacked_bytes
        if self.actor.queue_limits is not None:
            left -= self.actor.queue_limits.held_bytes()
        left -= self.actor.messages.resting_bytes()
        return left if left > least else least

    def _leaving_bytes(self) -> i64:
        """What is in memory and may leave it."""
        messages = self.actor.messages
        return messages.bytes_ready - messages.resting_bytes()

    def _read_size(self) -> i64:
        """Bytes of the next read, 1.. ."""
        most: i64 = self._ready_target() // READ_SHARE
        size: i64 = self.read_bytes if self.read_bytes < most else most
        return size if size > 0 else 1

    def _keep_bytes(self) -> i64:
        """What stays in memory: the target without room for the next read, but the first message in
        any case, because it may have been read for somebody."""
        keep: i64 = self._ready_target()
        if not self.actor.messages.is_whole():
            size: i64 = self._read_size()
            keep -= size
            # A read may bring a message that is larger than all it was to bring.
            if self.came_bytes > 2 * size:
                keep += self.came_bytes - 2 * size
        head: i64 = self.actor.messages.head_bytes()
        return keep if keep > head else head

    def _page(self) -> None:
        """Passes until the queue is at its target, the store has no more credit, or it is enough
        for one turn."""
        durability = self.durability
        lane = durability.lane
        messages = self.actor.messages
        arrived: i64 = self._arrived()
        passes: i64 = PASSES_PER_TURN + 2 * (arrived - self.seen) // PAGED_AT_ONCE
        room: i64 = PASSES_PER_TURN * PASS_BYTES
        self.seen = arrived
        while self._leaving_bytes() > self._keep_bytes():
            if passes == 0 or room <= 0:
                self.actor.wake()
                return
            passes -= 1
            can_save = not lane.is_closed and lane.uncharged_bytes < UNCHARGED_BYTES
            credit: i64 = lane.balance if lane.window > 0 else UNBOUNDED
            keep: i64 = self._keep_bytes()
            before: i64 = self._leaving_bytes()
            saves = messages.page_bytes(keep, PASS_BYTES if can_save else 0, credit)
            if not saves and before > self._leaving_bytes() > self._keep_bytes():
                # What has its place already has left, and there may be more of it.
                continue
            if not saves:
                # What is left has to be saved and may not now, or it is all there has to be.
                lane.is_pass_waiting = lane.is_closed
                if messages.paged_count() > messages.pieces_count():
                    # They go, too, when they have their places.
                    self._wait_for_store()
                return
            for message in saves:
                room -= len(message.raw)
            durability.save(saves)

    def _arrived(self) -> i64:
        """Messages that have ever come, and come back: twice as many may leave in a turn as have
        come since the last one, however many those are."""
        messages = self.actor.messages
        return messages.publish_count + messages.requeue_count

    def page_unanswered(self, acks: PendingAcks, keep_bytes: i64) -> None:
        """Let bodies of deliveries go that have their place in the log, the newest first, until
        what is unanswered takes no more than `keep_bytes`. They are read again if they come back.
        """
        actor = self.actor
        messages = actor.messages
        if not messages.is_paging:
            self._begin()
        for delivery in acks.newest(actor.unacked_count):
            if actor.unacked_bytes <= keep_bytes:
                return
            message = delivery.message
            if messages.place_of(message) > 0:
                if isinstance(message, SharedMessage):
                    message.left()
                message.origin.unstore(0, len(message.raw))
                stub = stub_of(message)
                acks.replace(delivery, stub)
                messages.stubbed_out(delivery.position, message, stub)
                self.has_stubs_out = True

    # -- back into memory ------------------------------------------------------------------------

    def _read(self) -> None:
        """Begin the next read, if there is something to read and none is under way."""
        if self.phase is PagerPhase.READING or self.phase is PagerPhase.RETRYING:
            return
        messages = self.actor.messages
        if messages.is_whole():
            return
        store = self.durability.store
        if self.phase is PagerPhase.DISK_FULL:
            if store.is_full or store.is_failed:
                self._wait_for_store()
                return
            self._move(PagerEvent.ROOM)
        size: i64 = self._read_size()
        room: i64 = UNBOUNDED
        if messages.at_hand() > 0:
            room = self._ready_target() - (self._leaving_bytes() - messages.tail_bytes_ready())
        request = messages.next_read(size, 3 * size <= room)
        if request is None:
            if messages.lacks_head():
                self._wait_for_store()
            return
        average: i64 = request.average_bytes()
        if request.is_ahead and average + MESSAGE_OVERHEAD_BYTES > room:
            # In memory it would be too much, and leave again.
            return
        count: i64 = size // (average + MESSAGE_OVERHEAD_BYTES) + 1
        if count > request.count:
            count = request.count
        job = plan(store.log, request, count, size)
        if not job.stretches:
            self._wait_for_store()
            return
        self.request = request
        self.job = job
        self._move(PagerEvent.SUBMITTED)
        store.disk.submit(job, self.client)

    def _wait_for_store(self) -> None:
        """What comes next is not in a batch yet: look again when the next one is on its way."""
        self.durability.store.readers[self.actor] = None

    def read_done(self, job: ReadJob, error: OSError | None) -> None:
        """The read that was under way has ended. One of a queue that was purged or deleted since
        is of no use."""
        request = self.request
        if job is not self.job or request is None:
            return
        self.job = None
        self.request = None
        store = self.durability.store
        found = job.found
        damaged = job.damaged
        event = PagerEvent.READ
        if store.is_full or store.is_failed:
            # A batch that found the disk full is not there yet, and what is in it is not damaged.
            if damaged or error is not None:
                event = PagerEvent.REFUSED
            if damaged:
                found = [one for one in found if one.position < damaged[0]]
                damaged = []
        elif error is not None:
            damaged = self.again.failed(job, error)
            if self.again.is_waiting():
                event = PagerEvent.FAILED
        else:
            self.again.succeeded()
        self._move(event)
        if not self.actor.messages.has_entries and has_expiration(found):
            # A queue that came back from the disk without entries needs them after all.
            self.actor.expects_lifetimes()
        was_empty = self.actor.messages.at_hand() == 0
        self.came_bytes = 0
        for one in found:
            self.came_bytes += len(one.message.raw) + MESSAGE_OVERHEAD_BYTES
        lost = self._take_in(request, found, damaged)
        if lost:
            self.durability.cannot_read(lost)
            self.damaged(self.actor, len(lost))
        if not found and not damaged:
            self._wait_for_store()
        elif was_empty and self.actor.ready and self.read_bytes < READ_BYTES_MAX:
            self.read_bytes *= 2
        self._let_go_on()
        self.actor.wake()

    def _take_in(self, request: ReadRequest, found: list[Found], damaged: list[int]) -> list[int]:
        """Put what was read where it belongs, and give up what cannot be read, in their order; the
        positions that were given up. What does not come next any more, because the queue has paged
        on meanwhile, is read again, and counts until then."""
        messages = self.actor.messages
        lost: list[int] = []
        at = 0
        for position in sorted(damaged):
            begin = at
            while at < len(found) and found[at].position < position:
                at += 1
            messages.arrived(request, found[begin:at])
            if messages.lost(request, position):
                lost.append(position)
        messages.arrived(request, found[at:])
        clock = self.actor.line.clock
        now_ns = clock.monotonic_ns()
        for dropped in messages.take_in(found, now_ns, clock.wall_ns() - now_ns):
            queue_limits = self.actor.queue_limits
            assert queue_limits is not None, (
                "what was rejected is read for the dead letters of rules"
            )
            queue_limits.dropped(dropped.message, dropped.reason)
        return lost

    def is_read_awaited(self) -> bool:
        messages = self.actor.messages
        if not messages.is_paging or self.actor.is_paused:
            return False
        return messages.at_hand() == 0 and messages.ready_count() > 0

    def wait(self, waiter: ReadWaiter) -> None:
        self.waiters.append(waiter)
        self.actor.wake()

    def _let_go_on(self) -> None:
        waiters = self.waiters
        self.waiters = []
        for waiter in waiters:
            waiter.go_on()

    # -- what others do --------------------------------------------------------------------------

    def restore(self, origin: Account, is_clean: bool, body_bytes: int, without: list[int]) -> i64:
        """Everything the log has is in the queue again but what is at the positions `without`, and
        nothing of it is read before somebody wants it; how many. `origin` pays for it then.
        is_clean: only what the log says was delivered may have been; body_bytes: of all of them,
        for a limit; 0 where there is none."""
        index = self.durability.index
        total: i64 = 0
        spans = spans_without(index, without)
        if not spans:
            return total
        self._begin()
        messages = self.actor.messages
        average: i64 = index.live_bytes() // index.live_count()
        for span in spans:
            total += span.count
            found = FoundRange(
                index, span.first, span.last, span.count, average * span.count, origin
            )
            before: i64 = span.below(index, index.delivered_below) if is_clean else span.count
            found.redelivered_count = before
            messages.restore_delta(found)
        messages.restored_unread(body_bytes)
        self.durability.is_through = True
        return total

    def page_restored(self) -> None:
        """More of what the log has was put into the queue: what is too much leaves again."""
        messages = self.actor.messages
        if messages.bytes_ready <= self.target_bytes:
            return
        if not messages.is_paging:
            self._begin()
        before: i64 = messages.bytes_ready + 1
        while self.target_bytes < messages.bytes_ready < before:
            before = messages.bytes_ready
            messages.page_bytes(self.target_bytes, 0, 0)
        self.durability.is_through = True

    def may_keep_records(self, rules: QueueRules) -> bool:
        if not self.actor.messages.is_paging or rules.last_value_key == "" or self._end():
            return True
        self.wants_all = True
        return False

    def _retry(self, now_ns: int) -> None:
        self._move(PagerEvent.RETRIED)
        self.actor.wake()

    def purging(self) -> None:
        self._give_up_read()
        store = self.durability.store
        stretches = self.actor.messages.stretches()
        for index, first, last in stretches:
            store.log.settle_between(index, first, last + 1)
        if stretches:
            store.has_settled()
        self._let_go_on()

    def ended(self) -> None:
        self._give_up_read()
        self._let_go_on()

    def _give_up_read(self) -> None:
        """What is being read is of no use any more."""
        self.job = None
        self.request = None
        self._move(PagerEvent.GIVEN_UP)


def plan(log: MessageLog, request: ReadRequest, count_max: i64, bytes_max: i64) -> ReadJob:
    """A job for the first `count_max` messages of `request`, and none behind `bytes_max` of
    content; without stretches while all of them are in the open batch."""
    index = request.index
    if request.chosen is None:
        return log.plan_reads(index, int(request.first), int(count_max), int(bytes_max))
    job = ReadJob(log.handles, log.cache, index, bytes_max)
    last: Stretch | None = None
    for position in request.chosen[: int(count_max)]:
        run = index.find(position)
        if run is None or plan_run(job, run, position, 1) <= 0:
            break
        # Those of one table are read together.
        stretch = job.stretches[-1]
        if last is not None and last.table is stretch.table:
            last.positions.extend(stretch.positions)
            job.stretches.pop()
        else:
            last = stretch
    return job


def has_expiration(found: list[Found]) -> bool:
    """Whether one of those that were read has a lifetime of its own."""
    flags: i64 = 0
    for one in found:
        flags |= flags_of(one.message)
    return flags & FLAG_EXPIRATION != 0
