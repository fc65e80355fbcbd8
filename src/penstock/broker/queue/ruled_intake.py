"""How a queue with limits takes messages out of its lanes, and what it does at the limit.

    drop-head             takes all; the turn drops what is too much, see broker/queue/ruling
    reject-publish[-dlx]  what would break a limit is not taken: nack, or a counted loss
    backpressure          what would break a limit stays in its lane, the gate is closed for "full"
                          until a quarter or FULL_BAND is free again, and the message that stayed
                          fits; an empty queue takes anything
Limits count ready messages only. What the lanes of a channel that has ended still hold is taken
past a limit of backpressure, because it has nowhere to wait; it is at most their windows.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.lane import Lane
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.queue.queue_ruling import COMMITTED, FORCED, QueueRuling
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.ruled import RuledQueue
from penstock.queues.rules import (
    BACKPRESSURE,
    DROP_HEAD,
    NEVER,
    REASON_DELIVERY_LIMIT,
    REASON_DUPLICATE,
    REASON_MAXLEN,
    REASON_REFUSED,
    REJECT_PUBLISH_DLX,
)

FULL_BAND: Final = 256
FULL_BAND_BYTES: Final = 1_048_576
EVERYTHING: Final = 1 << 30


@mypyc_attr(allow_interpreted_subclasses=True)
class RuledIntake(QueueRuling):
    """The way into `actor` under its rules. records: its messages while each has a record, else
    None; is_stopped: in this turn a message was left in its lane, because it would break a limit;
    stopped: the last one of them, until the queue takes publishes again; now_ns: of this turn."""

    __slots__ = ("actor", "is_stopped", "now_ns", "records", "stopped")

    def __init__(self, actor: QueueActor) -> None:
        super().__init__()
        self.actor = actor
        self.records: RuledQueue | None = None
        self.is_stopped = False
        self.stopped: Message | None = None
        self.now_ns: i64 = 0

    def give_one(self) -> None:
        """Give the first ready message to a ready consumer, if there are both."""
        raise NotImplementedError

    def look_at_clock(self) -> None:
        """What follows happens now."""
        self.now_ns = self.actor.line.clock.monotonic_ns()
        if self.records is not None:
            self.records.now_ns = self.now_ns

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        items = lane.items
        count: i64 = len(items)
        if count == 0 or budget == 0:
            return count > 0
        if count > budget:
            count = budget
        rules = self.rules
        is_bounded = rules.overflow != DROP_HEAD and rules.is_limited()
        is_holding = rules.overflow == BACKPRESSURE
        if budget == COMMITTED or (is_holding and budget == FORCED):
            is_bounded = False
        if self.records is not None and budget >= FORCED:
            self.look_at_clock()
        refused: list[Message] = []
        taken: list[Message] = []
        duplicates: list[Message] = []
        index: i64 = 0
        bytes_: i64 = 0
        while index < count:
            message = items[index]
            size: i64 = len(message.raw)
            if is_bounded and self._is_beyond(message, is_holding):
                if budget != FORCED:
                    self._keep(lane, taken)
                    taken = []
                    self.give_one()
                if budget == FORCED or self._is_beyond(message, is_holding):
                    if is_holding:
                        self.is_stopped = True
                        self.stopped = message
                        break
                    self._refuse(message)
                    refused.append(message)
                    bytes_ += size
                    index += 1
                    continue
            if taken and self._supersedes(message):
                self._keep(lane, taken)
                taken = []
            if self._add(lane, message, size):
                taken.append(message)
            else:
                duplicates.append(message)
            bytes_ += size
            index += 1
        lane.items = items[index:]
        lane.taken += index
        lane.taken_bytes += bytes_
        if refused and lane.wants_answers:
            lane.answerable.refused(refused)
        if duplicates and lane.wants_answers:
            lane.answerable.accepted(duplicates, len(duplicates))
        self._keep(lane, taken)
        return len(lane.items) > 0

    def _keep(self, lane: Lane, taken: list[Message]) -> None:
        """`taken` are in the queue: before any of them may leave it, its keeper knows of them, or
        it would keep what has gone."""
        if not taken:
            return
        if self.actor.keeper is not None:
            self.actor.keeper.took(lane, taken, len(taken))
        elif lane.wants_answers:
            lane.answerable.accepted(taken, len(taken))

    def _supersedes(self, message: Message) -> bool:
        records = self.records
        return records is not None and records.supersedes(message)

    def _add(self, lane: Lane, message: Message, size: i64) -> bool:
        """False for a duplicate, which is dropped and must not be kept on disk. Charged before it
        is in, because it may supersede one that is repaid at once."""
        before = self.drops[REASON_DUPLICATE]
        lane.origin.store(1, size + MESSAGE_OVERHEAD_BYTES)
        try:
            self.actor.messages.add(message)
        except Exception:
            lane.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
            raise
        return self.drops[REASON_DUPLICATE] == before

    def _is_beyond(self, message: Message, is_holding: bool) -> bool:
        """Whether `message` would break a limit (RabbitMQ's will_overflow)."""
        count: i64 = self.actor.messages.ready_count()
        if is_holding and count == 0:
            return False
        bytes_: i64 = self.body_bytes() + message.body_bytes
        if not self.rules.is_over(count + 1, bytes_):
            return False
        return not self._supersedes(message)

    def _refuse(self, message: Message) -> None:
        self.drops[REASON_REFUSED] += 1
        if self.rules.overflow == REJECT_PUBLISH_DLX and self.dead_letters is not None:
            self.dead_letters.dropped(message, REASON_MAXLEN)

    def measure_full(self) -> None:
        """Close or open the gate for overflow backpressure."""
        rules = self.rules
        actor = self.actor
        is_holding = rules.overflow == BACKPRESSURE and rules.is_limited() and actor.is_alive
        if not is_holding:
            if self.is_full:
                self.open_gate()
            return
        count: i64 = actor.messages.ready_count()
        bytes_: i64 = self.body_bytes()
        limit: i64 = rules.max_length
        if limit == 0:
            limit = 1
        # Who opened for a message that does not fit would close again at once, and so for ever.
        stopped = self.stopped
        has_no_place = stopped is not None and self._is_beyond(stopped, True)
        if self.is_full:
            if has_no_place:
                return
            if (limit == NEVER or count <= limit - _band(limit, FULL_BAND)) and (
                rules.max_bytes == NEVER
                or count == 0
                or bytes_ <= rules.max_bytes - _band(rules.max_bytes, FULL_BAND_BYTES)
            ):
                self.open_gate()
        elif (
            # If it fits by now, the next turn tries again; if not, one is ready whose leaving
            # brings a turn.
            (self.is_stopped and has_no_place)
            or (limit != NEVER and count >= limit)
            or (rules.max_bytes != NEVER and count > 0 and bytes_ >= rules.max_bytes)
        ):
            self.is_full = True
            actor.gate.close(actor.consumers_id(), "full")

    def open_gate(self) -> None:
        """The queue takes publishes again."""
        self.is_full = False
        self.is_stopped = False
        self.stopped = None
        self.actor.gate.open(self.actor.consumers_id(), "full")

    def body_bytes(self) -> i64:
        """Of the ready messages, as far as they are counted: 0 for a plain queue."""
        records = self.records
        return 0 if records is None else records.body_bytes_ready

    def dropped(self, message: Message, reason: i64) -> None:
        """A message has left the queue: count it, hand it on, repay its cause."""
        self.drops[reason] += 1
        if self.dead_letters is not None and reason <= REASON_DELIVERY_LIMIT:
            self.dead_letters.dropped(message, reason)
        if message.stored is not None:
            self.actor.forget(message)
        size: i64 = len(message.raw)
        message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)

    def room(self, reason: i64) -> i64:
        if self.dead_letters is None:
            return EVERYTHING
        return self.dead_letters.room(reason)


def _band(limit: i64, most: i64) -> i64:
    """How far below `limit` a full queue takes publishes again, 1.. ."""
    band: i64 = limit // 4
    if band > most:
        band = most
    return band if band > 0 else 1
