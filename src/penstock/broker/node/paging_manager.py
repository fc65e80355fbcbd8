"""Who pages: every queue whose vhost has a store and that holds more than its target in memory.

Once a second the targets are set anew:

    target = min(half of the queue's depth mark, level)    level: flow of all to paging_ratio of the
                                                           memory mark, see queues/fair_level
A queue below its target pays one comparison a turn. One that is above gets a pager, and with it,
if it is not durable, a place in its vhost's transient log, which is made when the first one needs
it. What queues without paging hold leaves less of the budget to the others.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import OperatorError
from penstock.broker.paging.paged_view import paged_of
from penstock.broker.paging.pager import Pager
from penstock.broker.paging.rabbit_pager import QueueAcks
from penstock.broker.queue.queue_actor import NO_PAGING, QueueActor, QueuePaging
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.vhost.vhost import VirtualHost
from penstock.queues.fair_level import fair_level

SCRATCH_IDS: Final = 1 << 40
"""Queues that are not durable have numbers from here on, in the transient log of their vhost."""
OWN_SHARE: Final = 2
"""A queue pages above half of its depth mark, so that the mark is for those the disk is too slow
for."""

UNANSWERED_LOOKED_AT: Final = 16_384
"""Deliveries of a queue that are looked at in one go. Beyond, all of them stay in memory."""


class PagingManager(QueuePaging):
    """vhosts: of the broker, live; paging_ratio: of the memory mark, 0..1, 0 for no paging;
    scratch: gives the transient store of a vhost, None where there is none; damaged: told of a
    queue and how many of its messages cannot be read. Raises: OperatorError for another ratio."""

    __slots__ = ("damaged", "last_id", "paging_ratio", "scratch", "vhosts")

    def __init__(
        self,
        vhosts: Mapping[str, VirtualHost],
        paging_ratio: float,
        scratch: Callable[[str], StoreActor | None],
        damaged: Callable[[QueueActor, int], None],
    ) -> None:
        if not 0 <= paging_ratio <= 1:
            raise OperatorError(
                f"paging_ratio = {paging_ratio}: must be 0 (no paging) to 1, a share of the memory "
                "mark"
            )
        self.vhosts = vhosts
        self.paging_ratio = paging_ratio
        self.scratch = scratch
        self.damaged = damaged
        self.last_id = SCRATCH_IDS

    def adopt(self, actor: QueueActor) -> None:
        """A queue is declared in a vhost with a store."""
        if actor.depth_bytes > 0 and self.paging_ratio > 0:
            actor.paging = self
            actor.page_above = actor.depth_bytes // OWN_SHARE

    # -- once a second ---------------------------------------------------------------------------

    def tick(self, memory_mark_bytes: int) -> None:
        """Set every queue's target. memory_mark_bytes: above which the memory alarm rings."""
        if self.paging_ratio > 0:
            self._share_out(int(memory_mark_bytes * self.paging_ratio))

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
        return True

    def _page_unanswered(self, actor: QueueActor, keep_bytes: int) -> None:
        """Unanswered deliveries take the larger part of the target: what is on the disk anyway
        leaves memory."""
        if not keep_bytes < actor.unacked_bytes or actor.unacked_count > UNANSWERED_LOOKED_AT:
            return
        pager = self.pager_of(actor)
        if pager is not None:
            pager.page_unanswered(QueueAcks(actor, 0), keep_bytes)

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
        keeper = self.keeper_of(actor)
        if keeper is None:
            return None
        target_bytes: i64 = actor.page_above
        pager = Pager(actor, keeper, target_bytes, self.damaged)
        actor.paging = pager
        return pager

    def keeper_of(self, actor: QueueActor) -> StoreDurability | None:
        """The way of `actor` to a log, made if it has none; None where there is no store."""
        keeper = actor.keeper
        if keeper is None:
            store = self.scratch(actor.vhost)
            return None if store is None else self._fleeting_keeper(store, actor)
        assert isinstance(keeper, StoreDurability), "the broker makes these"
        return keeper

    def _fleeting_keeper(self, store: StoreActor, actor: QueueActor) -> StoreDurability:
        """The way of a queue that is gone after a restart to the transient log."""
        self.last_id += 1
        index = store.log.open_queue(self.last_id)
        keeper = StoreDurability(store, store.join(actor, index), index, 0)
        keeper.is_lasting = False
        actor.keeper = keeper
        return keeper
