"""Who pages: every queue whose vhost has a store and that holds more than its target in memory.

Once a second the targets are set anew:

    target = min(half of the queue's depth mark, level)    level: flow of all to paging_ratio of the
                                                           memory mark, see `fair_level`
A queue below its target pays one comparison a turn. One that is above gets a pager, and with it,
if it is not durable, a place in its vhost's transient log, which is made when the first one needs
it. What queues without paging hold leaves less of the budget to the others.

Profiles that emulate RabbitMQ page by its rules (rabbit_pager), and by bytes only queues with
records:

    every 5 s      each queue reports for how long what it holds would last
    every 2.5 s    the node reckons from all of them, and from the memory used, what it wants
A smaller wish goes to all queues at once, a larger one to each with its next report. Source:
flow-semantics 6.2 (rabbit_memory_monitor).
"""

from collections.abc import Callable
from math import inf
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import OperatorError
from penstock.broker.alarm.alarm_manager import DISK, AlarmManager
from penstock.broker.paging.paged_view import paged_of
from penstock.broker.paging.pager import Pager
from penstock.broker.paging.rabbit_pager import QueueAcks, RabbitPager, traffic_of
from penstock.broker.queue.queue_actor import NO_PAGING, QueueActor, QueuePaging
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.vhost.context import Context
from penstock.queues.line import MessageLine
from penstock.queues.rabbit_paging import UNBOUNDED, RabbitPaging, desired_duration_s

NO_LEVEL: Final = 1 << 62


def fair_level(held: list[int], budget: int) -> int:
    """The bytes a queue may keep in memory, NO_LEVEL while every queue may keep all it has.

    All queues share one budget. A queue below its equal share keeps everything in memory; the rest
    of the budget is divided equally among the larger queues.
    held: bytes of each queue, in any order; budget: bytes of all together, 0.. ."""
    left = budget
    if sum(held) <= left:
        return NO_LEVEL
    ascending = sorted(held)
    count = len(ascending)
    for bytes_ in ascending:
        share = left // count
        if bytes_ > share:
            return share
        left -= bytes_
        count -= 1
    return NO_LEVEL


SCRATCH_IDS: Final = 1 << 40
"""Queues that are not durable have numbers from here on, in the transient log of their vhost."""
OWN_SHARE: Final = 2
"""A queue pages above half of its depth mark, so that the mark is for those the disk is too slow
for."""

UNANSWERED_LOOKED_AT: Final = 16_384
"""Deliveries of a queue that are looked at in one go. Beyond, all of them stay in memory."""

REPORT_NS: Final = 5_000_000_000
RECKON_NS: Final = 2_500_000_000
CAP_WINDOWS: Final = 2
"""A pass from 3.8 on is at most so many windows of the store."""


class PagingManager(QueuePaging):
    """vhosts: of the broker, live; paging_ratio: of the memory mark, 0..1, 0 for no paging;
    scratch: gives the transient store of a vhost, None where there is none; damaged: told of a
    queue and how many of its messages cannot be read; rules: of each queue, while RabbitMQ's
    apply; durations: what queues have reported, `inf` left out; desired_s: what the node wants.
    Raises: OperatorError for another ratio."""

    __slots__ = (
        "alarms",
        "clock",
        "context",
        "damaged",
        "desired_s",
        "durations",
        "last_id",
        "paging_ratio",
        "reckoned_ns",
        "reported_ns",
        "rules",
        "scratch",
        "vhosts",
    )

    def __init__(
        self,
        context: Context,
        scratch: Callable[[str], StoreActor | None],
        damaged: Callable[[QueueActor, int], None],
        alarms: AlarmManager,
    ) -> None:
        paging_ratio = context.config.paging_ratio
        if not 0 <= paging_ratio <= 1:
            raise OperatorError(
                f"paging_ratio = {paging_ratio}: must be 0 (no paging) to 1, a share of the memory "
                "mark"
            )
        self.context = context
        self.vhosts = context.vhosts
        self.clock = context.clock
        self.paging_ratio = paging_ratio
        self.scratch = scratch
        self.damaged = damaged
        self.alarms = alarms
        self.last_id = SCRATCH_IDS
        self.rules: dict[QueueActor, RabbitPaging] = {}
        self.durations: list[float] = []
        self.desired_s = inf
        self.reported_ns = self.reckoned_ns = context.clock.monotonic_ns()

    def adopt(self, actor: QueueActor) -> None:
        """A queue is declared in a vhost with a store. What is delayed pages in no profile."""
        if self.paging_ratio == 0 or actor.delays:
            return
        if self.is_rabbits():
            actor.paging = self
            self.rules_of(actor)
        elif self.context.profile.is_depth_aware:
            actor.paging = self
            if actor.depth_bytes > 0:
                actor.page_above = actor.depth_bytes // OWN_SHARE

    def is_rabbits(self) -> bool:
        """Whether the profile pages by RabbitMQ's rules."""
        return self.context.profile.pages_by_counts()

    # -- once a second ---------------------------------------------------------------------------

    def tick(self, memory_mark_bytes: int) -> None:
        """Set every queue's target. memory_mark_bytes: above which the memory alarm rings."""
        # By RabbitMQ's rules those with records; plain ones count, and page by its rules.
        if self.paging_ratio > 0 or self.is_rabbits():
            self._share_out(int(memory_mark_bytes * self.paging_ratio))
        if self.is_rabbits():
            self._reckon(memory_mark_bytes)

    def _reckon(self, memory_mark_bytes: int) -> None:
        """What RabbitMQ's memory monitor does, in its periods."""
        now_ns = self.clock.monotonic_ns()
        if now_ns - self.reported_ns >= REPORT_NS:
            self.reported_ns = now_ns
            self._collect(now_ns)
        if now_ns - self.reckoned_ns >= RECKON_NS:
            self.reckoned_ns = now_ns
            before = self.desired_s
            self.desired_s = desired_duration_s(
                self.context.memory_used_bytes,
                memory_mark_bytes,
                self.paging_ratio,
                self.durations,
                DISK in self.alarms.alarms.resources(),
            )
            if self.desired_s < before:
                for actor in self.rules:
                    self._tell(actor)

    def _share_out(self, budget_bytes: int) -> None:
        """Every queue that goes by bytes gets its part of what all of them may hold."""
        budget = budget_bytes
        actors: list[QueueActor] = []
        held: list[int] = []
        owns: list[int] = []
        wanted: list[int] = []
        for vhost in self.vhosts.values():
            for actor in vhost.queues.values():
                bytes_ = int(actor.messages.bytes_ready + actor.unacked_bytes)
                if actor.paging is None:
                    budget -= bytes_
                    continue
                own = int(actor.depth_bytes) // OWN_SHARE if actor.depth_bytes > 0 else budget_bytes
                actors.append(actor)
                held.append(bytes_)
                owns.append(own)
                if self.goes_by_bytes(actor):
                    # What is on the disk would fill what it is given, and is not to come and go.
                    wanted.append(min(own, bytes_ + paged_of(actor)[1]))
                else:
                    wanted.append(bytes_)
        level = fair_level(wanted, max(0, budget))
        for at, actor in enumerate(actors):
            if not self.goes_by_bytes(actor):
                continue
            target = min(owns[at], level)
            if actor.paging is self:
                actor.page_above = target
            elif actor.paging is not None:
                actor.paging.aim(target)
            if held[at] > target:
                self._page_unanswered(actor, target // OWN_SHARE)
                actor.wake()

    def goes_by_bytes(self, actor: QueueActor) -> bool:
        """Whether `actor` has a target in bytes of memory."""
        return not self.is_rabbits() or actor.messages.has_entries

    def _page_unanswered(self, actor: QueueActor, keep_bytes: int) -> None:
        """Unanswered deliveries take the larger part of the target: what is on the disk anyway
        leaves memory."""
        if not keep_bytes < actor.unacked_bytes or actor.unacked_count > UNANSWERED_LOOKED_AT:
            return
        pager = self.pager_of(actor)
        if pager is not None:
            pager.page_unanswered(QueueAcks(actor, 0), keep_bytes)

    # -- RabbitMQ's rules ------------------------------------------------------------------------

    def _collect(self, now_ns: int) -> None:
        """Every queue reports, and is told what the node wants."""
        rules: dict[QueueActor, RabbitPaging] = {}
        self.durations = []
        for vhost in self.vhosts.values():
            for actor in vhost.queues.values():
                if actor.paging is None or actor.messages.has_entries:
                    continue
                mine = self.rules_of(actor)
                rules[actor] = mine
                acks = QueueAcks(actor, mine.embed_below)
                messages = actor.messages
                ram = messages.ready_count()
                if isinstance(messages, MessageLine):
                    ram = messages.ram_count()
                duration = mine.report(now_ns, traffic_of(actor), int(ram), int(acks.whole_count()))
                if duration != inf:
                    self.durations.append(duration)
        self.rules = rules
        for actor in rules:
            self._tell(actor)

    def rules_of(self, actor: QueueActor) -> RabbitPaging:
        """The rules of one queue, whose rates are reckoned from its declaration on."""
        rules = self.rules.get(actor)
        if rules is None and isinstance(actor.paging, RabbitPager):
            # It had records meanwhile.
            rules = actor.paging.rules
            self.rules[actor] = rules
        if rules is None:
            profile = self.context.profile
            most = UNBOUNDED
            if profile.caps_passes:
                most = CAP_WINDOWS * profile.queue_store.initial
            now_ns = self.clock.monotonic_ns()
            rules = RabbitPaging(profile.io_batch, profile.embed_below, most, now_ns)
            self.rules[actor] = rules
        return rules

    def follow_profile(self) -> None:
        """The profile has other numbers of RabbitMQ's: every queue goes by them from now on. What
        is on its way to the store is repaid as it was charged."""
        profile = self.context.profile
        for rules in self.rules.values():
            rules.batch = profile.io_batch
            rules.embed_below = profile.embed_below
        for vhost in self.vhosts.values():
            for actor in vhost.queues.values():
                durability, paging = actor.durability, actor.paging
                if isinstance(durability, StoreDurability) and durability.is_lasting:
                    durability.embed_below = profile.embed_below
                if isinstance(paging, RabbitPager):
                    paging.durability.embed_below = profile.embed_below
                    paging.rules.batch = profile.io_batch
                    paging.rules.embed_below = profile.embed_below
                    paging.acks.embed_below = profile.embed_below

    def _tell(self, actor: QueueActor) -> None:
        """The queue hears what the node wants; one that never had to page stays as it is while that
        is no bound."""
        if self.desired_s == inf and not isinstance(actor.paging, Pager):
            return
        pager = self.pager_of(actor)
        if isinstance(pager, RabbitPager):
            pager.aim_at(self.desired_s)

    # -- one queue -------------------------------------------------------------------------------

    def turn_ended(self, actor: QueueActor) -> None:
        pager = self.pager_of(actor)
        if pager is None:
            actor.page_above = NO_PAGING
        else:
            pager.turn_ended(actor)

    def pager_of(self, actor: QueueActor) -> Pager | None:
        """The pager of `actor`, which begins to page now if it has not; None where there is no
        store."""
        if isinstance(actor.paging, Pager):
            return actor.paging
        durability = self.durability_of(actor)
        if durability is None:
            return None
        if self.is_rabbits():
            return self._rabbit_pager(actor, durability)
        target_bytes: i64 = actor.page_above
        pager = Pager(actor, durability, target_bytes, self.damaged)
        actor.paging = pager
        return pager

    def _rabbit_pager(self, actor: QueueActor, durability: StoreDurability) -> Pager:
        if not durability.is_lasting:
            durability.embed_below = self.context.profile.embed_below
        pager = RabbitPager(actor, durability, self.damaged, self.rules_of(actor))
        if actor.page_above < NO_PAGING:
            pager.ruled_bytes = actor.page_above
        actor.paging = pager
        return pager

    def durability_of(self, actor: QueueActor) -> StoreDurability | None:
        """The way of `actor` to a log, made if it has none; None where there is no store."""
        durability = actor.durability
        if durability is None:
            store = self.scratch(actor.vhost)
            return None if store is None else self._transient_durability(store, actor)
        assert isinstance(durability, StoreDurability), "the broker makes these"
        return durability

    def _transient_durability(self, store: StoreActor, actor: QueueActor) -> StoreDurability:
        """The way of a queue that is gone after a restart to the transient log."""
        self.last_id += 1
        index = store.log.open_queue(self.last_id)
        durability = StoreDurability(store, store.join(actor, index), index, 0)
        durability.is_lasting = False
        actor.durability = durability
        return durability
