"""One queue's way out of memory and back, at the ends of its turns.

    out    what is above the target leaves: messages with a place in the log cost nothing, the
           others go to the store under its credit, PASS_BYTES at a time; a closed hop ends the
           pass, its credit begins the next one
    back   one read is under way at a time; it begins while the front still has messages, so that
           consumers find the next ones there
What a queue wants to read may still be in the batch the store is making: then it looks again when
that is on its way. A queue that has nothing on the disk any more is a plain one again.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.disk import JobClient
from penstock.broker.paging.paged_messages import (
    begin_paging,
    end_paging,
    has_expiration,
    has_husks_back,
    head_bytes,
    husk_count,
    is_split,
    page_bytes,
    paged_count,
    place_found,
    resting_bytes,
    restore_spans,
    tail_bytes,
    take_in,
)
from penstock.broker.paging.paged_reads import lacks_head, next_read, plan
from penstock.broker.paging.read_again import ReadAgain
from penstock.broker.queue.queue_actor import ALWAYS, QueueActor, QueuePaging, ReadWaiter
from penstock.broker.store.keeper import UNCHARGED_BYTES, Keeper
from penstock.flow.account import Account
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_out import UNBOUNDED
from penstock.queues.paged_records import PagedRecords, Reading
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rabbit_paging import PendingAcks
from penstock.queues.rules import QueueRules
from penstock.queues.wanted import Paged
from penstock.storage.layout.spans import spans_without
from penstock.storage.log.job import Job
from penstock.storage.log.reading import ReadJob

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


class PagerClient(JobClient):
    """The pager as the disk sees it; apart from it, which has another base."""

    __slots__ = ("pager",)

    def __init__(self, pager: "Pager") -> None:
        self.pager = pager

    def job_done(self, job: Job, error: OSError | None) -> None:
        assert isinstance(job, ReadJob), "a pager submits reads only"
        self.pager.read_done(job, error)


class Pager(QueuePaging):
    """tails: of the messages of `actor`, one or one a level, none while it has nothing on the disk;
    reading, job: the read under way;
    has_husks_out: bodies of unanswered deliveries may be on the disk only; is_at_end: what comes
    next is in a batch that the disk has no room for; read_bytes: of the next one; came_bytes: what
    the last one has put into memory; waiters: for the first message; wants_all: who wants to keep
    records waits until everything is in memory; again: lets it wait for what could not be read;
    damaged: told how many messages are lost."""

    __slots__ = (
        "actor",
        "again",
        "came_bytes",
        "client",
        "damaged",
        "has_husks_out",
        "is_at_end",
        "job",
        "keeper",
        "read_bytes",
        "reading",
        "tails",
        "target_bytes",
        "waiters",
        "wants_all",
    )

    def __init__(
        self,
        actor: QueueActor,
        keeper: Keeper,
        target_bytes: i64,
        damaged: Callable[[QueueActor, int], None],
    ) -> None:
        self.actor = actor
        self.keeper = keeper
        self.target_bytes: i64 = target_bytes
        self.damaged = damaged
        self.again = ReadAgain(actor, keeper.store)
        self.client = PagerClient(self)
        self.tails: list[PagedMessages] = []
        self.read_bytes: i64 = READ_BYTES_MIN
        self.came_bytes: i64 = 0
        self.reading: Reading | None = None
        self.job: ReadJob | None = None
        self.waiters: list[ReadWaiter] = []
        self.wants_all = False
        self.is_at_end = False
        self.has_husks_out = False

    # -- the turn --------------------------------------------------------------------------------

    def turn_ended(self, actor: QueueActor) -> None:
        if not self.tails:
            self._begin()
        self._page()
        self._read()
        self.keeper.is_through = paged_count(self.tails) > husk_count(self.tails)
        if not is_split(self.tails):
            self._end()

    def aim(self, target_bytes: i64) -> None:
        self.target_bytes = target_bytes
        if not self.tails:
            self.actor.page_above = target_bytes

    def _begin(self) -> None:
        """The queue is about to have messages on the disk."""
        self.tails = begin_paging(self.actor, self.keeper.index)
        self.actor.page_above = ALWAYS

    def _end(self) -> bool:
        """Make it a plain queue again, if it has everything in memory; whether it has."""
        if self.job is not None or is_split(self.tails) or paged_count(self.tails) > 0:
            return False
        if self.has_husks_out and self.actor.unacked_count > 0:
            return False
        self.has_husks_out = False
        self.tails = []
        self.keeper.is_through = False
        end_paging(self.actor)
        self.actor.page_above = self.target_bytes
        if self.wants_all:
            self.wants_all = False
            ruling = self.actor.ruling
            if ruling is not None:
                ruling.change(ruling.rules)
        return True

    # -- out of memory ---------------------------------------------------------------------------

    def _ready_target(self) -> i64:
        """What ready messages may take: what unanswered ones and what rules keep beside messages
        leave of the target, but a part of it in any case, so that deliveries go on."""
        least: i64 = self.target_bytes // READY_SHARE
        left: i64 = self.target_bytes - self.actor.unacked_bytes
        if self.actor.ruling is not None:
            left -= self.actor.ruling.held_bytes()
        left -= resting_bytes(self.actor.messages)
        return left if left > least else least

    def _leaving_bytes(self) -> i64:
        """What is in memory and may leave it."""
        messages = self.actor.messages
        return messages.bytes_ready - resting_bytes(messages)

    def _read_size(self) -> i64:
        """Bytes of the next read, 1.. ."""
        most: i64 = self._ready_target() // READ_SHARE
        size: i64 = self.read_bytes if self.read_bytes < most else most
        return size if size > 0 else 1

    def _keep_bytes(self) -> i64:
        """What stays in memory: the target without room for the next read, but the first message in
        any case, because it may have been read for somebody."""
        keep: i64 = self._ready_target()
        if is_split(self.tails):
            size: i64 = self._read_size()
            keep -= size
            # A read may bring a message that is larger than all it was to bring.
            if self.came_bytes > 2 * size:
                keep += self.came_bytes - 2 * size
        head: i64 = head_bytes(self.actor.messages)
        return keep if keep > head else head

    def _page(self) -> None:
        """Passes until the queue is at its target, the store has no more credit, or it is enough
        for one turn."""
        keeper = self.keeper
        lane = keeper.lane
        passes: i64 = 0
        whole = self.actor.messages
        while self._leaving_bytes() > self._keep_bytes():
            if passes == PASSES_PER_TURN:
                self.actor.wake()
                return
            passes += 1
            can_save = not lane.is_closed and lane.uncharged_bytes < UNCHARGED_BYTES
            credit: i64 = lane.balance if lane.window > 0 else UNBOUNDED
            keep: i64 = self._keep_bytes()
            saves = page_bytes(whole, keep, PASS_BYTES if can_save else 0, credit)
            if not saves:
                # What is left has to be saved and may not now, or it is all there has to be.
                lane.is_pass_waiting = lane.is_closed
                if husk_count(self.tails) > 0:
                    # They go, too, when they have their places.
                    self._wait_for_store()
                return
            keeper.save(saves)

    def page_unanswered(self, acks: PendingAcks, keep_bytes: i64) -> None:
        """Let bodies of deliveries go that have their place in the log, the newest first, until
        what is unanswered takes no more than `keep_bytes`. They are read again if they come back.
        """
        actor = self.actor
        if not self.tails:
            self._begin()
        whole = actor.messages
        # What is out is in none of them, and all of them have the same log.
        tail = self.tails[0]
        paged = Paged()
        for delivery in acks.newest(actor.unacked_count):
            if actor.unacked_bytes <= keep_bytes:
                return
            message = delivery.message
            if tail.place_of(message) > 0:
                husk = tail.page_out(message, paged)
                acks.replace(delivery, husk)
                if isinstance(whole, PagedRecords):
                    whole.husked_out(delivery.position, message, husk)
                self.has_husks_out = True

    # -- back into memory ------------------------------------------------------------------------

    def _read(self) -> None:
        """Begin the next read, if there is something to read and none is under way."""
        if self.job is not None or self.again.is_waiting():
            return
        if not (is_split(self.tails) or has_husks_back(self.tails)):
            return
        store = self.keeper.store
        if self.is_at_end:
            if store.is_full or store.is_failed:
                store.readers[self.actor] = None
                return
            self.is_at_end = False
        size: i64 = self._read_size()
        whole = self.actor.messages
        room: i64 = UNBOUNDED
        if whole.at_hand() > 0:
            room = self._ready_target() - (self._leaving_bytes() - tail_bytes(self.tails))
        reading = next_read(whole, size, 3 * size <= room)
        if reading is None:
            if lacks_head(whole):
                self._wait_for_store()
            return
        wanted = reading.wanted
        average: i64 = reading.average_bytes()
        if reading.is_ahead and average + MESSAGE_OVERHEAD_BYTES > room:
            # In memory it would be too much, and leave again.
            return
        count: i64 = size // (average + MESSAGE_OVERHEAD_BYTES) + 1
        if count > wanted.count:
            count = wanted.count
        job = plan(store.log, wanted, count, size)
        if not job.stretches:
            self._wait_for_store()
            return
        self.reading = reading
        self.job = job
        store.disk.submit(job, self.client)

    def _wait_for_store(self) -> None:
        """What comes next is not in a batch yet: look again when the next one is on its way."""
        self.keeper.store.readers[self.actor] = None

    def read_done(self, job: ReadJob, error: OSError | None) -> None:
        """The read that was under way has ended. One of a queue that was purged or deleted since
        is of no use."""
        reading = self.reading
        if job is not self.job or reading is None:
            return
        self.job = None
        self.reading = None
        store = self.keeper.store
        found = job.found
        damaged = job.damaged
        if store.is_full or store.is_failed:
            # A batch that found the disk full is not there yet, and what is in it is not damaged.
            self.is_at_end = len(damaged) > 0 or error is not None
            if damaged:
                found = [one for one in found if one.position < damaged[0]]
                damaged = []
        elif error is not None:
            damaged = self.again.failed(job, error)
        else:
            self.again.succeeded()
        if not self.actor.messages.is_ruled and has_expiration(found):
            # A queue that came back from the disk without records needs them after all.
            self.actor.expects_lifetimes()
        whole = self.actor.messages
        was_empty = whole.at_hand() == 0
        self.came_bytes = 0
        for one in found:
            self.came_bytes += len(one.message.raw) + MESSAGE_OVERHEAD_BYTES
        lost = place_found(reading.tail, reading.wanted, found, damaged)
        take_in(self.actor, found, len(lost) > 0)
        if lost:
            self.keeper.cannot_read(lost)
            self.damaged(self.actor, len(lost))
        if not found and not damaged:
            self._wait_for_store()
        elif was_empty and self.actor.ready and self.read_bytes < READ_BYTES_MAX:
            self.read_bytes *= 2
        self._let_go_on()
        self.actor.wake()

    def is_read_awaited(self) -> bool:
        if not self.tails or self.actor.is_paused:
            return False
        whole = self.actor.messages
        return whole.at_hand() == 0 and whole.ready_count() > 0

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
        index = self.keeper.index
        total: i64 = 0
        spans = spans_without(index, without)
        if spans:
            self._begin()
            total = restore_spans(self.tails[0], index, spans, origin, is_clean)
            whole = self.actor.messages
            if isinstance(whole, PagedRecords):
                whole.restored_unread(body_bytes)
            self.keeper.is_through = True
        return total

    def page_restored(self) -> None:
        """More of what the log has was put into the queue: what is too much leaves again."""
        if self.actor.messages.bytes_ready <= self.target_bytes:
            return
        if not self.tails:
            self._begin()
        page_bytes(self.actor.messages, self.target_bytes, 0, 0)
        self.keeper.is_through = True

    def may_keep_records(self, rules: QueueRules) -> bool:
        if not self.tails or rules.has_heads_only() or self._end():
            return True
        self.wants_all = True
        return False

    def purging(self) -> None:
        self.job = None
        self.reading = None
        store = self.keeper.store
        for tail in self.tails:
            for piece in tail.pieces():
                for first, last in piece.stretches():
                    store.log.settle_between(piece.index, first, last + 1)
            store.has_settled()
        self._let_go_on()

    def ended(self) -> None:
        self.job = None
        self.reading = None
        self._let_go_on()
