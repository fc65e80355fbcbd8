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

from penstock.broker.actor import Actor
from penstock.broker.disk import JobClient
from penstock.broker.keeper import UNCHARGED_BYTES, Keeper
from penstock.broker.paged_messages import (
    has_expiration,
    head_bytes,
    page_bytes,
    place_found,
    plain_of,
    restore_spans,
    set_records,
    unread,
)
from penstock.broker.queue_actor import QueueActor
from penstock.broker.queue_paging import ALWAYS, NO_PAGING, QueuePaging, ReadWaiter
from penstock.broker.ruling import Ruling
from penstock.flow.account import Account
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_out import UNBOUNDED
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rabbit_paging import PendingAcks
from penstock.queues.ruled import RuledMessages
from penstock.queues.ruled_paged import LONG_AGO_NS, RuledPaged, can_page
from penstock.queues.rules import QueueRules
from penstock.queues.wanted import Paged, Wanted
from penstock.storage.job import Job
from penstock.storage.reading import ReadJob
from penstock.storage.spans import spans_without

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
    """messages: of `actor`, None while it has nothing on the disk; wanted, job: the read under way;
    has_husks_out: bodies of unanswered deliveries may be on the disk only; is_at_end: what comes
    next is in a batch that the disk has no room for; read_bytes: of the next one; came_bytes: what
    the last one has put into memory; waiters: for the first message; wants_all: who wants to keep
    records waits until everything is in memory; damaged: told how many messages cannot be read."""

    __slots__ = (
        "actor",
        "came_bytes",
        "client",
        "damaged",
        "has_husks_out",
        "is_at_end",
        "job",
        "keeper",
        "messages",
        "read_bytes",
        "target_bytes",
        "waiters",
        "wanted",
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
        self.client = PagerClient(self)
        self.messages: PagedMessages | None = None
        self.read_bytes: i64 = READ_BYTES_MIN
        self.came_bytes: i64 = 0
        self.wanted: Wanted | None = None
        self.job: ReadJob | None = None
        self.waiters: list[ReadWaiter] = []
        self.wants_all = False
        self.is_at_end = False
        self.has_husks_out = False

    # -- the turn --------------------------------------------------------------------------------

    def turn_ended(self, actor: Actor) -> None:
        queue = self.actor
        messages = self.messages
        if messages is None:
            if not self.can_hold(queue):
                queue.page_above = NO_PAGING
                return
            messages = self._begin()
        self._page(messages)
        self._read(messages)
        self.keeper.is_through = messages.delta.count > 0
        if not messages.is_split:
            self._end(messages)

    def aim(self, target_bytes: i64) -> None:
        self.target_bytes = target_bytes
        if self.messages is None:
            self.actor.page_above = target_bytes

    def can_hold(self, actor: QueueActor) -> bool:
        """Whether `actor` may page, by its rules."""
        return can_page(actor.messages)

    def _begin(self) -> PagedMessages:
        """The queue is about to have messages on the disk."""
        actor = self.actor
        index = self.keeper.index
        plain = actor.messages
        if isinstance(plain, RuledMessages):
            ruled = RuledPaged.from_records(plain, index)
            set_records(actor, ruled)
            messages = ruled.tail
        else:
            messages = PagedMessages.from_plain(plain, index, index)
            actor.messages = messages
        self.messages = messages
        actor.page_above = ALWAYS
        return messages

    def _end(self, messages: PagedMessages) -> bool:
        """Make it a plain queue again, if it has everything in memory; whether it has."""
        if messages.paged_count() > 0 or messages.is_split or self.job is not None:
            return False
        if self.has_husks_out and self.actor.unacked_count > 0:
            return False
        self.has_husks_out = False
        self.messages = None
        self.keeper.is_through = False
        whole = self.actor.messages
        if isinstance(whole, RuledPaged):
            set_records(self.actor, whole.unpaged())
        else:
            self.actor.messages = plain_of(messages)
        self.actor.page_above = self.target_bytes
        if self.wants_all:
            self.wants_all = False
            ruling = self.actor.ruling
            if isinstance(ruling, Ruling):
                ruling.change(ruling.rules)
        return True

    # -- out of memory ---------------------------------------------------------------------------

    def _ready_target(self) -> i64:
        """What ready messages may take: what unanswered ones leave of the target, but a part of it
        in any case, so that deliveries go on."""
        least: i64 = self.target_bytes // READY_SHARE
        left: i64 = self.target_bytes - self.actor.unacked_bytes
        return left if left > least else least

    def _read_size(self) -> i64:
        """Bytes of the next read, 1.. ."""
        most: i64 = self._ready_target() // READ_SHARE
        size: i64 = self.read_bytes if self.read_bytes < most else most
        return size if size > 0 else 1

    def _keep_bytes(self, messages: PagedMessages) -> i64:
        """What stays in memory: the target without room for the next read, but the first message in
        any case, because it may have been read for somebody."""
        keep: i64 = self._ready_target()
        if messages.is_split:
            size: i64 = self._read_size()
            keep -= size
            # A read may bring a message that is larger than all it was to bring.
            if self.came_bytes > 2 * size:
                keep += self.came_bytes - 2 * size
        head: i64 = head_bytes(self.actor.messages)
        return keep if keep > head else head

    def _page(self, messages: PagedMessages) -> None:
        """Passes until the queue is at its target, the store has no more credit, or it is enough
        for one turn."""
        keeper = self.keeper
        lane = keeper.lane
        passes: i64 = 0
        whole = self.actor.messages
        while whole.bytes_ready > self._keep_bytes(messages):
            if passes == PASSES_PER_TURN:
                self.actor.wake()
                return
            passes += 1
            can_save = not lane.is_closed and lane.uncharged_bytes < UNCHARGED_BYTES
            credit: i64 = lane.balance if lane.window > 0 else UNBOUNDED
            keep: i64 = self._keep_bytes(messages)
            saves = page_bytes(whole, keep, PASS_BYTES if can_save else 0, credit)
            if not saves:
                # What is left has to be saved and may not now, or it is all there has to be.
                lane.is_pass_waiting = lane.is_closed
                if messages.husk_count > 0:
                    # They go, too, when they have their places.
                    self._wait_for_store()
                return
            keeper.save(saves)

    def page_unanswered(self, acks: PendingAcks, keep_bytes: i64) -> None:
        """Let bodies of deliveries go that have their place in the log, the newest first, until
        what is unanswered takes no more than `keep_bytes`. They are read again if they come back.
        """
        actor = self.actor
        messages = self.messages
        if messages is None:
            if not self.can_hold(actor):
                return
            messages = self._begin()
        whole = actor.messages
        paged = Paged()
        for delivery in acks.newest(actor.unacked_count):
            if actor.unacked_bytes <= keep_bytes:
                return
            if messages.place_of(delivery.message) > 0:
                husk = messages.page_out(delivery.message, paged)
                acks.replace(delivery, husk)
                if isinstance(whole, RuledPaged):
                    whole.husked_out(delivery.position, husk)
                self.has_husks_out = True

    # -- back into memory ------------------------------------------------------------------------

    def _read(self, messages: PagedMessages) -> None:
        """Begin the next read, if there is something to read and none is under way."""
        if self.job is not None or not (messages.is_split or messages.husks_back):
            return
        store = self.keeper.store
        if self.is_at_end:
            if store.is_full or store.is_failed:
                store.readers[self.actor] = None
                return
            self.is_at_end = False
        size: i64 = self._read_size()
        whole = self.actor.messages
        if whole.at_hand() > 0:
            front: i64 = whole.bytes_ready - messages.tail_bytes
            if front + 2 * size > self._ready_target() - size:
                return
        wanted = messages.wanted(size)
        if wanted is None:
            if whole.at_hand() == 0 and whole.ready_count() > 0:
                self._wait_for_store()
            return
        average: i64 = messages.paged_bytes() // messages.paged_count()
        count: i64 = size // (average + MESSAGE_OVERHEAD_BYTES) + 1
        if count > wanted.count:
            count = wanted.count
        job = store.log.plan_reads(wanted.index, int(wanted.first), int(count), int(size))
        if not job.stretches:
            self._wait_for_store()
            return
        self.wanted = wanted
        self.job = job
        store.disk.submit(job, self.client)

    def _wait_for_store(self) -> None:
        """What comes next is not in a batch yet: look again when the next one is on its way."""
        self.keeper.store.readers[self.actor] = None

    def read_done(self, job: ReadJob, error: OSError | None) -> None:
        """The read that was under way has ended. One of a queue that was purged or deleted since
        is of no use."""
        messages = self.messages
        wanted = self.wanted
        if job is not self.job or wanted is None or messages is None:
            return
        self.job = None
        self.wanted = None
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
            damaged = unread(job)
        if not self.actor.messages.is_ruled and has_expiration(found):
            # A queue that came back from the disk without records needs them after all.
            self.actor.expects_lifetimes()
        whole = self.actor.messages
        was_empty = whole.at_hand() == 0
        self.came_bytes = 0
        for one in found:
            self.came_bytes += len(one.message.raw) + MESSAGE_OVERHEAD_BYTES
        lost = place_found(messages, wanted, found, damaged)
        if isinstance(whole, RuledPaged):
            clock = self.actor.line.clock
            whole.now_ns = clock.monotonic_ns()
            whole.refill(found, clock.wall_ns() - whole.now_ns)
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
        ruling = self.actor.ruling
        if self.messages is None or (ruling is not None and ruling.is_paused):
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
            total = restore_spans(self._begin(), index, spans, origin, is_clean)
            whole = self.actor.messages
            if isinstance(whole, RuledPaged):
                whole.body_bytes_ready = body_bytes
                whole.restored(LONG_AGO_NS, body_bytes > 0)
            self.keeper.is_through = True
        return total

    def may_keep_records(self, rules: QueueRules) -> bool:
        messages = self.messages
        if messages is None or rules.is_linear() or self._end(messages):
            return True
        self.wants_all = True
        return False

    def purging(self) -> None:
        messages = self.messages
        self.job = None
        self.wanted = None
        if messages is not None:
            store = self.keeper.store
            for piece in messages.pieces():
                store.log.settle_between(piece.index, int(piece.first), int(piece.last + 1))
            store.has_settled()
        self._let_go_on()

    def ended(self) -> None:
        self.job = None
        self.wanted = None
        self._let_go_on()
