"""Who pages, by the rules of the profile: bytes in ours, RabbitMQ's in those that emulate it, and
there bytes for queues with records (rabbit_pager).

    every 5 s      each queue reports for how long what it holds would last
    every 2.5 s    the node reckons from all of them, and from the memory used, what it wants
A smaller wish goes to all queues at once, a larger one to each with its next report. Source:
flow-semantics 6.2 (rabbit_memory_monitor).
"""

from collections.abc import Callable
from math import inf
from typing import Final

from penstock.broker.alarm.alarm_manager import DISK, AlarmManager
from penstock.broker.node.paging_manager import PagingManager
from penstock.broker.paging.pager import Pager
from penstock.broker.paging.rabbit_pager import QueueAcks, RabbitPager, traffic_of
from penstock.broker.queue.queue_actor import NO_PAGING, QueueActor
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.vhost.context import Context
from penstock.queues.line import MessageLine
from penstock.queues.rabbit_paging import UNBOUNDED, RabbitPaging, desired_duration_s

REPORT_NS: Final = 5_000_000_000
RECKON_NS: Final = 2_500_000_000
CAP_WINDOWS: Final = 2
"""A pass from 3.8 on is at most so many windows of the store."""
UNCAPPED_BATCH: Final = 2048
"""msg_store_io_batch_size before 3.6.7, when passes had no cap."""


class ProfilePaging(PagingManager):
    """rules: of each queue, while RabbitMQ's apply; durations: what queues have reported, `inf`
    left out; desired_s: what the node wants."""

    __slots__ = (
        "alarms",
        "clock",
        "context",
        "desired_s",
        "durations",
        "reckoned_ns",
        "reported_ns",
        "rules",
    )

    def __init__(
        self,
        context: Context,
        scratch: Callable[[str], StoreActor | None],
        damaged: Callable[[QueueActor, int], None],
        alarms: AlarmManager,
    ) -> None:
        super().__init__(context.vhosts, context.config.paging_ratio, scratch, damaged)
        self.context = context
        self.clock = context.clock
        self.alarms = alarms
        self.rules: dict[QueueActor, RabbitPaging] = {}
        self.durations: list[float] = []
        self.desired_s = inf
        self.reported_ns = self.reckoned_ns = context.clock.monotonic_ns()

    def adopt(self, actor: QueueActor) -> None:
        if self.context.profile.io_batch == 0:
            super().adopt(actor)
        elif self.paging_ratio > 0:
            actor.paging = self
            self.rules_of(actor)

    def tick(self, memory_mark_bytes: int) -> None:
        if self.context.profile.io_batch == 0:
            super().tick(memory_mark_bytes)
            return
        # Those with records; plain ones count, and page by RabbitMQ's rules.
        self._share_out(int(memory_mark_bytes * self.paging_ratio))
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

    def goes_by_bytes(self, actor: QueueActor) -> bool:
        return self.context.profile.io_batch == 0 or actor.messages.has_entries

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
            if profile.io_batch > UNCAPPED_BATCH:
                most = CAP_WINDOWS * profile.queue_store.initial
            now_ns = self.clock.monotonic_ns()
            rules = RabbitPaging(profile.io_batch, profile.embed_below, most, now_ns)
            self.rules[actor] = rules
        return rules

    def _tell(self, actor: QueueActor) -> None:
        """The queue hears what the node wants; one that never had to page stays as it is while that
        is no bound."""
        if self.desired_s == inf and not isinstance(actor.paging, Pager):
            return
        pager = self.pager_of(actor)
        if isinstance(pager, RabbitPager):
            pager.aim_at(self.desired_s)

    def pager_of(self, actor: QueueActor) -> Pager | None:
        profile = self.context.profile
        if profile.io_batch == 0 or isinstance(actor.paging, Pager):
            return super().pager_of(actor)
        keeper = self.keeper_of(actor)
        if keeper is None:
            return None
        if not keeper.is_lasting:
            keeper.embed_below = profile.embed_below
        pager = RabbitPager(actor, keeper, self.damaged, self.rules_of(actor))
        if actor.page_above < NO_PAGING:
            pager.ruled_bytes = actor.page_above
        actor.paging = pager
        return pager
