"""How a queue takes messages out of its senders' lanes: the books of every way in.

Taking and repaying are apart, because what the queue does with a message (store it, hand it to a
consumer) is charged to its cause before the lane is repaid for it.
"""

from mypy_extensions import i64

from penstock.broker.actors.actor import Line
from penstock.broker.actors.fair_take import affordable, allot
from penstock.broker.actors.lane import Lane, LaneReceiver
from penstock.broker.queue.queue_keeping import QueueKeeping
from penstock.broker.queue.queue_ruling import FORCED, QueueRuling
from penstock.flow.strategy import Strategy
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue


class LaneIntake(LaneReceiver):
    """lanes: of every channel that publishes here; pending: those with messages in them;
    fair_bytes: the quantum of fair shares between them, 0 for as many messages each (fair_take);
    ruling: what its rules ask for, None for a plain queue; keeper: its way to the disk, None for a
    queue that is gone after a restart."""

    __slots__ = ("fair_bytes", "keeper", "lanes", "messages", "pending", "ruling", "strategy")

    def __init__(self, identity: str, strategy: Strategy, line: Line) -> None:
        super().__init__(identity, line)
        self.strategy = strategy
        self.messages: ClassicQueue = MessageLine()
        self.lanes: list[Lane] = []
        self.pending: list[Lane] = []
        self.fair_bytes: i64 = 0
        self.ruling: QueueRuling | None = None
        self.keeper: QueueKeeping | None = None

    def attach(self, lane: Lane) -> None:
        """A channel begins to publish here."""
        self.lanes.append(lane)
        if self.toll is not None:
            self.toll.joined(lane)

    def offered(self, lane: Lane) -> None:
        """`lane` got its first message: see to it."""
        lane.is_listed = True
        self.pending.append(lane)
        self.wake()

    def may_take(self) -> bool:
        """Whether what it keeps has room on its way to the disk; it is woken when it has."""
        return self.keeper is None or self.keeper.has_room()

    def take_round(self, budget: i64) -> None:
        """Take from every lane that has messages, up to `budget` each, in fair shares of bytes."""
        pending = self.pending
        self.pending = []
        is_shared = self.fair_bytes > 0 and len(pending) > 1
        if is_shared:
            allot(pending, self.fair_bytes)
        for index in range(len(pending)):
            lane = pending[index]
            if self.take_lane(lane, affordable(lane, budget) if is_shared else budget):
                self.pending.append(lane)
            else:
                lane.is_listed = False

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        """Take up to `budget` messages out of `lane`; True if it holds more."""
        if self.ruling is not None:
            return self.ruling.take_lane(lane, budget)
        items = lane.items
        count: i64 = len(items)
        if count == 0 or budget == 0:
            return count > 0
        if count > budget:
            lane.items = items[budget:]
            items = items[:budget]
            count = budget
        else:
            lane.items = []
        bytes_: i64 = 0
        messages = self.messages
        index: i64 = 0
        try:
            if not messages.is_ruled:
                bytes_ = messages.add_all(items)
                index = count
            while index < count:
                message = items[index]
                messages.add(message)
                bytes_ += len(message.raw)
                index += 1
        finally:
            # Also when this fails: what came in is repaid when the failed queue is emptied.
            lane.origin.store(index, bytes_ + index * MESSAGE_OVERHEAD_BYTES)
        lane.taken += count
        lane.taken_bytes += bytes_
        if self.keeper is not None:
            self.keeper.took(lane, items, count)
        elif lane.wants_answers:
            lane.answerable.accepted(items, count)
        return len(lane.items) > 0

    def repay_taken(self, lane: Lane) -> None:
        """Repay what `take_lane` has taken: the sender may hand over more."""
        taken: i64 = lane.taken
        if taken > 0:
            bytes_: i64 = lane.taken_bytes
            lane.taken = 0
            lane.taken_bytes = 0
            self.line.accepted_bytes += bytes_
            self.strategy.repay(lane, lane.origin, taken, bytes_)

    def detach(self, lane: Lane) -> None:
        """The sender of `lane` is gone: what it had handed over is still taken."""
        while self.take_lane(lane, FORCED):
            pass
        self.repay_taken(lane)
        if lane in self.pending:
            self.pending.remove(lane)
        self.lanes.remove(lane)
        # A grant that is kept until the queue is less deep has nobody left to go to.
        if lane in self.gate.deferred:
            self.gate.deferred.remove(lane)
        self.strategy.forget(lane, lane.origin)
        self.wake()
