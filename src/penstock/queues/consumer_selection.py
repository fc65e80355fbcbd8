"""Which of the consumers that have room are served: by priority, or one alone.

    single active    the active one; when it goes the next by priority, then by age
    else             those of the highest priority among the ones with room
The others stand by until nobody of the ring is left: a ring for each priority, which takes the
place of the one that is served, and leaves it again, as a whole, however many are in it. A queue
whose consumers are all alike has none of this. Source: RabbitMQ's rabbit_queue_consumers;
features.md 1.3.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from operator import attrgetter
from typing import Final

from mypy_extensions import i64

from penstock.queues.consumers import Consumer
from penstock.queues.hold_reasons import REASON_STANDBY

PRIORITY: Final = attrgetter("priority")


class StandingBy:
    """Consumers of one priority that have had room, and stand by. cursor: whose turn it is when
    they are served; gone: how many of them have ended since, at most half of them."""

    __slots__ = ("consumers", "cursor", "gone")

    def __init__(self, consumers: list[Consumer], cursor: i64) -> None:
        self.consumers = consumers
        self.cursor: i64 = cursor
        self.gone: i64 = 0

    def tidy(self) -> None:
        """Forget those that have ended."""
        if self.gone == 0:
            return
        left: list[Consumer] = []
        before: i64 = 0
        for at, consumer in enumerate(self.consumers):
            if consumer.is_ready:
                left.append(consumer)
            elif at < self.cursor:
                before += 1
        self.consumers = left
        self.cursor -= before
        self.gone = 0


class ConsumerSelection:
    """is_single: one consumer at a time; active: that one; standing: by priority, those with room
    that are not served for now; priorities: of these, ascending, all below the one that is served;
    heirs: who would be active next is last, some of them have gone since, None while that is not
    known: each of very many ends at the cost of one. Owner: the queue's actor."""

    __slots__ = ("active", "heirs", "is_single", "priorities", "standing")

    def __init__(self, is_single: bool) -> None:
        self.is_single = is_single
        self.active: Consumer | None = None
        self.standing: dict[int, StandingBy] = {}
        self.priorities: list[int] = []
        self.heirs: list[Consumer] | None = None

    # -- by priority -----------------------------------------------------------------------------

    def stand_by(self, consumer: Consumer) -> None:
        """`consumer` has room, and others of a higher priority are served."""
        consumer.reason = REASON_STANDBY
        ring = self.standing.get(int(consumer.priority))
        if ring is None:
            self._add(StandingBy([consumer], 0))
        else:
            ring.consumers.append(consumer)

    def step_back(self, ring: list[Consumer], cursor: i64) -> None:
        """Those in `ring`, which is not empty, were served, and stand by from now on."""
        self._add(StandingBy(ring, cursor))

    def _add(self, ring: StandingBy) -> None:
        priority = int(ring.consumers[0].priority)
        self.standing[priority] = ring
        insort(self.priorities, priority)

    def next_up(self) -> StandingBy | None:
        """Those that are served now that the ring is empty: the ones of the highest priority, in
        the order in which they came to stand by. They stand by no more."""
        if not self.priorities:
            return None
        ring = self.standing.pop(self.priorities.pop())
        ring.tidy()
        return ring

    def forget(self, consumer: Consumer) -> None:
        """`consumer`, which stood by, has ended, and is not ready any more."""
        priority = int(consumer.priority)
        ring = self.standing[priority]
        ring.gone += 1
        if 2 * ring.gone > len(ring.consumers):
            ring.tidy()
            if not ring.consumers:
                del self.standing[priority]
                del self.priorities[bisect_left(self.priorities, priority)]

    def stands_by(self, consumer: Consumer) -> bool:
        """Whether `consumer` has had room, and stands by."""
        ring = self.standing.get(int(consumer.priority))
        return ring is not None and consumer.is_ready and consumer in ring.consumers

    # -- one alone -------------------------------------------------------------------------------

    def admits(self, consumer: Consumer) -> bool:
        """Whether `consumer`, which has room, is the active one."""
        if self.active is not consumer:
            consumer.reason = REASON_STANDBY
        return self.active is consumer

    def joined(self, consumer: Consumer) -> None:
        """A new consumer."""
        heirs = self.heirs
        if self.is_single and self.active is None:
            self.active = consumer
        elif heirs is not None:
            heirs.insert(bisect_left(heirs, int(consumer.priority), key=PRIORITY), consumer)

    def left(self, consumer: Consumer, others: Collection[Consumer]) -> Consumer | None:
        """`consumer` is gone; who takes over from it, None if nobody has to or can."""
        heirs = self.heirs
        if heirs is not None and len(heirs) > 2 * len(others):
            # Most of them have gone, and are not to be kept.
            heirs = self.heirs = None
        if self.active is not consumer:
            return None
        self.active = None
        if heirs is None:
            heirs = list(others)
            heirs.reverse()
            heirs.sort(key=PRIORITY)
            self.heirs = heirs
        while heirs and self.active is None:
            heir = heirs.pop()
            if heir in others:
                self.active = heir
        return self.active
