"""Which of the consumers that have room are served: by priority, or one alone.

    single active    the active one; when it goes the next by priority, then by age
    else             those of the highest priority among the ones with room
The others stand by until nobody of the ring is left. A queue whose consumers are all alike has none
of this. Source: RabbitMQ's rabbit_queue_consumers; features.md 1.3.
"""

from bisect import bisect_left
from collections.abc import Collection
from operator import attrgetter
from typing import Final

from penstock.queues.consumers import REASON_STANDBY, Consumer

PRIORITY: Final = attrgetter("priority")


class ConsumerSelection:
    """is_single: one consumer at a time; active: that one; standby: those with room that are not
    served for now; heirs: who would be active next is last, some of them have gone since, None
    while that is not known: each of very many ends at the cost of one. Owner: the queue's actor."""

    __slots__ = ("active", "heirs", "is_single", "standby")

    def __init__(self, is_single: bool) -> None:
        self.is_single = is_single
        self.active: Consumer | None = None
        self.standby: dict[Consumer, None] = {}
        self.heirs: list[Consumer] | None = None

    def admits(self, consumer: Consumer, ring: list[Consumer]) -> bool:
        """Whether `consumer`, which has room, joins `ring`; those it is preferred to leave it."""
        if self.is_single:
            if self.active is not consumer:
                consumer.reason = REASON_STANDBY
            return self.active is consumer
        if ring and ring[0].priority > consumer.priority:
            self._stand_by(consumer)
            return False
        if ring and ring[0].priority < consumer.priority:
            for other in ring:
                other.is_ready = False
                self._stand_by(other)
            ring.clear()
        self.standby.pop(consumer, None)
        return True

    def _stand_by(self, consumer: Consumer) -> None:
        consumer.reason = REASON_STANDBY
        self.standby[consumer] = None

    def next_up(self) -> list[Consumer]:
        """Those to be asked now that the ring is empty: the ones of the highest priority, in the
        order in which they came to stand by. They stand by no more."""
        if not self.standby:
            return []
        highest = max(int(consumer.priority) for consumer in self.standby)
        chosen = [consumer for consumer in self.standby if consumer.priority == highest]
        for consumer in chosen:
            del self.standby[consumer]
        return chosen

    def joined(self, consumer: Consumer) -> None:
        """A new consumer."""
        heirs = self.heirs
        if self.is_single and self.active is None:
            self.active = consumer
        elif heirs is not None:
            heirs.insert(bisect_left(heirs, int(consumer.priority), key=PRIORITY), consumer)

    def left(self, consumer: Consumer, others: Collection[Consumer]) -> Consumer | None:
        """`consumer` is gone; who takes over from it, None if nobody has to or can."""
        self.standby.pop(consumer, None)
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
