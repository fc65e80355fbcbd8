"""The actor of one classic queue: takes messages out of its lanes, gives them to its consumers.

One turn: take from each sender's lane in rotation, answer the senders, deliver while a consumer is
ready, then repay the lanes, so that a cause is charged for a delivery before it is repaid for the
publish. What rests here is charged to its cause as stored, until it leaves, however.

Ready consumers stand in a ring and are served in rotation, in the queue's turn. Those that share a
window with others wait in the line of their channel instead when it is full, and are served from
there (queues/consumers); that is not always a turn of the queue, which is woken for the rest of it.

The depth mark is what may lie here before senders get no more credit, so that publishers wait
before any alarm rings:
    held > mark                        the gate closes for "depth": grants are deferred
    held <= a band below the mark      grants worth the room up to the mark are released
    that much drained, or used, since  again, until nothing is deferred
    held <= an eighth of the mark      everybody goes on, because what is owed to those who pause
                                       must not keep the others waiting at an empty queue
With `fair_bytes` what is released is shared out (flow/gate, `ration`); without it everything is
released at once, as in RabbitMQ. While grants are still kept the gate stays closed, because it is
still the consumers who hold the senders: a ration can only be as large as what they took out.
Source: flow-semantics 16 (W18); scenario 116.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Line
from penstock.broker.actors.lane import Lane
from penstock.broker.queue.queue_actor import QueueActor, QueueLimits
from penstock.flow.credit import Strategy
from penstock.protocol.content import Message, SharedMessage
from penstock.queues.consumers import Consumer, Delivery
from penstock.queues.delivery_count import with_delivery_count
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import QueueRules

DEPTH_BAND_BYTES: Final = 1_048_576
EMPTY_PARTS: Final = 8


class ClassicActor(QueueActor):
    """cursor: whose turn it is in the ring of ready consumers; new_limits: gives it rules when a
    policy or a message asks for them, None for a queue that clients have not declared; open_bytes:
    what is held where the next ration is due; ration_bytes: the last one."""

    __slots__ = ("cursor", "new_limits", "open_bytes", "ration_bytes")

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: dict[str, object],
        line: Line,
        strategy: Strategy,
        depth_bytes: int,
    ) -> None:
        super().__init__(
            vhost, name, durable, auto_delete, owner, arguments, line, strategy, MessageLine()
        )
        self.has_rules = True
        self.depth_bytes = depth_bytes
        self.cursor: i64 = 0
        self.new_limits: Callable[[ClassicActor], QueueLimits] | None = None
        self.open_bytes: i64 = 0
        self.ration_bytes: i64 = 0

    def turn(self, budget: i64) -> bool:
        if self.queue_limits is not None:
            return self.queue_limits.turn(budget)
        pending = self.pending
        if pending and self.may_take():
            self.take_round(budget)
        if self.ready:
            self.pump(budget)
            self.line.charge_outputs()
        if pending:
            for lane in pending:
                self.repay_taken(lane)
        self.keep_to_target()
        if self.depth_bytes > 0:
            self.measure_depth()
        if len(self.pending) > 0 and self.may_take():
            return True
        return len(self.ready) > 0 and self.messages.at_hand() > 0

    def catch_up(self) -> None:
        if self.queue_limits is not None:
            self.queue_limits.catch_up()
            return
        pending = self.pending
        self.pending = []
        for lane in pending:
            while self.take_lane(lane, len(lane.items)):
                pass
            lane.is_listed = False
        if self.ready:
            self.pump(self.messages.at_hand())
            self.line.charge_outputs()
        for lane in pending:
            self.repay_taken(lane)
        if pending:
            self.wake()

    # -- publishing ------------------------------------------------------------------------------

    def may_take(self) -> bool:
        return self.durability is None or self.durability.has_room()

    def expects_lifetimes(self) -> None:
        if not self.messages.has_entries and self._get_limits():
            assert self.queue_limits is not None, "it has them now"
            self.queue_limits.keep_records()

    def _get_limits(self) -> bool:
        """Whether it has rules, which it gets if it can."""
        if self.queue_limits is None and self.new_limits is not None:
            self.queue_limits = self.new_limits(self)
        return self.queue_limits is not None

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        if self.queue_limits is not None:
            return self.queue_limits.take_lane(lane, budget)
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
        bytes_: i64 = self.messages.add_all(items)
        if lane.has_foreign:
            for message in items:
                message.origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        else:
            lane.origin.store(count, bytes_ + count * MESSAGE_OVERHEAD_BYTES)
        if lane.has_shared:
            for message in items:
                if isinstance(message, SharedMessage):
                    message.joined()
        lane.taken += count
        lane.taken_bytes += bytes_
        if self.durability is not None:
            self.durability.took(lane, items, count)
        elif lane.wants_answers:
            lane.answerable.accepted(items, count)
        return len(lane.items) > 0

    def stop_reason(self) -> str:
        """Full, or above its depth mark."""
        if self.queue_limits is not None and self.queue_limits.is_full:
            return "full"
        return "depth" if self.is_deep else ""

    # -- deliveries ------------------------------------------------------------------------------

    def pump(self, budget: i64) -> None:
        """Give up to `budget` ready messages to ready consumers, one to each in turn."""
        messages = self.messages
        left: i64 = messages.at_hand()
        if left > budget:
            left = budget
        while left > 0 and self.ready:
            if len(self.ready) == 1:
                consumer = self.ready[0]
                room: i64 = consumer.room()
                if room > left:
                    room = left
                if not consumer.fits(messages):
                    room = 0
                sink = consumer.sink
                while room > 0 and sink.is_output_open:
                    self._give(consumer)
                    room -= 1
                    left -= 1
                if consumer.room() == 0 or not consumer.fits(messages):
                    self._hold(consumer)
                continue
            if self.cursor >= len(self.ready):
                self.cursor = 0
            consumer = self.ready[self.cursor]
            if consumer.room() == 0 or not consumer.fits(messages):
                self._hold(consumer)
                continue
            self._give(consumer)
            left -= 1
            self.cursor += 1

    def _give(self, consumer: Consumer) -> None:
        message = self.messages.take()
        consumer.delivered += 1
        consumer.unsent.count += 1
        if consumer.is_no_ack:
            self.messages.ack_count += 1
            size: i64 = len(message.raw)
            if isinstance(message, SharedMessage):
                message.left()
            message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
            if message.stored is not None:
                self.forget(message)
            if self.queue_limits is not None:
                self.messages.settled(self.messages.position)
        else:
            consumer.unacked += 1
            consumer.unacked_bytes += i64(message.body_size)
            self.unacked_count += 1
            self.unacked_bytes += len(message.raw)
        consumer.sink.deliver(consumer, message, self.messages.position, self.messages.redelivered)

    def serve(self, consumer: Consumer, most: i64) -> i64:
        if self.choice is not None and not self.choice.is_single and self._has_one():
            consumer = self._preferred(consumer)
        self.offer(consumer)
        messages = self.messages
        given: i64 = 0
        while given < most and consumer.is_ready and consumer.room() > 0 and self._has_one():
            if not consumer.fits(messages):
                break
            self._give(consumer)
            given += 1
        if given > 0:
            self.line.charge_outputs()
        consumer.sink.served = None
        if not consumer.is_ready or messages.ready_count() == 0:
            return given
        # One that was given nothing, though there is room, waits for the disk and not in line.
        if not consumer.fits(messages) or (given > 0 and consumer.room() == 0):
            self._hold(consumer)
        return given

    def _preferred(self, consumer: Consumer) -> Consumer:
        """Which consumer gets the turn of `consumer`: one of a higher priority that waits in the
        same line and can be given a message, the oldest of the highest; `consumer` waits again,
        then. Looks at those alone that wait with it, which are of one channel."""
        sink = consumer.sink
        best = consumer
        client = self.client
        for other in sink.waiting or ():
            if other.queue is not client or other.priority < best.priority:
                continue
            if other.priority == best.priority and (
                best is consumer or other.started_ns >= best.started_ns
            ):
                continue
            sink.served = other
            if other.room() > 0 and other.fits(self.messages):
                best = other
        sink.served = best
        if best is not consumer:
            sink.leave(best)
            sink.wait(consumer)
        return best

    def _has_one(self) -> bool:
        """Whether the first message can be given away now."""
        if self.queue_limits is not None and not self.queue_limits.may_get():
            return False
        return self.messages.at_hand() > 0

    def shown(self, message: Message) -> Message:
        queue_limits = self.queue_limits
        if queue_limits is not None and self.messages.has_entries and queue_limits.rules.is_counted:
            return with_delivery_count(message, self.messages.deliveries)
        return message

    def settled(self, delivery: Delivery) -> None:
        self.messages.ack_count += 1
        message = delivery.message
        size: i64 = len(message.raw)
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
        if message.stored is not None:
            self.forget(message)
        if self.queue_limits is not None:
            self.messages.settled(delivery.position)
        self.answered(delivery)

    def settled_run(self, deliveries: list[Delivery], first: i64) -> i64:
        """Those of one consumer: the books are changed once for all of them. With rules every
        delivery is looked at by itself."""
        consumer = deliveries[first].consumer
        if consumer is None or self.queue_limits is not None:
            self.settled(deliveries[first])
            return first + 1
        client = self.client
        origin = deliveries[first].message.origin
        at: i64 = first
        end: i64 = len(deliveries)
        body_bytes: i64 = 0
        raw_bytes: i64 = 0
        paid: i64 = 0
        paid_bytes: i64 = 0
        while at < end:
            delivery = deliveries[at]
            if delivery.queue is not client or delivery.consumer is not consumer:
                break
            message = delivery.message
            if message.origin is not origin:
                origin.unstore(paid, paid_bytes)
                origin = message.origin
                paid = 0
                paid_bytes = 0
            if isinstance(message, SharedMessage):
                message.left()
            size: i64 = len(message.raw)
            paid += 1
            paid_bytes += size + MESSAGE_OVERHEAD_BYTES
            raw_bytes += size
            body_bytes += i64(message.body_size)
            at += 1
        if self.durability is not None:
            self.durability.left_all(deliveries, first, at)
        origin.unstore(paid, paid_bytes)
        count: i64 = at - first
        self.messages.ack_count += count
        self.unacked_count -= count
        self.unacked_bytes -= raw_bytes
        consumer.unacked -= count
        consumer.unacked_bytes -= body_bytes
        if not consumer.is_ready:
            self.offer(consumer)
        if self.is_deep:
            self.wake()
        return at

    def discarded(self, delivery: Delivery) -> None:
        queue_limits = self.queue_limits if self.is_alive else None
        if queue_limits is None or queue_limits.rejected(delivery.position, delivery.message):
            self.settled(delivery)
        else:
            self.answered(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            # A queue that was deleted takes nothing back.
            message = delivery.message
            if self.is_alive:
                self.messages.put_back(delivery.position, message)
            else:
                if isinstance(message, SharedMessage):
                    message.left()
                message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
            self.answered(delivery)
        self.wake()

    def answered(self, delivery: Delivery) -> None:
        """It is with its consumer no more."""
        self.unacked_count -= 1
        self.unacked_bytes -= len(delivery.message.raw)
        consumer = delivery.consumer
        if consumer is not None:
            consumer.unacked -= 1
            consumer.unacked_bytes -= i64(delivery.message.body_size)
            if not consumer.is_ready:
                self.offer(consumer)
        if self.is_deep:
            self.wake()

    def get(self) -> Message | None:
        if self.queue_limits is not None and not self.queue_limits.may_get():
            return None
        if self.messages.at_hand() == 0:
            return None
        message = self.messages.take()
        if self.queue_limits is not None:
            self.queue_limits.freed()
        if self.is_deep or self.page_above < 0:
            self.wake()
        return message

    def get_unacked(self, message: Message) -> None:
        self.unacked_count += 1
        self.unacked_bytes += len(message.raw)

    def get_done(self, message: Message) -> None:
        self.messages.ack_count += 1
        if self.queue_limits is not None:
            self.messages.settled(self.messages.position)
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        if message.stored is not None:
            self.forget(message)

    def forget(self, message: Message) -> None:
        """`message`, which has a place on the disk, has left this queue for good."""
        if self.durability is not None:
            self.durability.left(message)

    # -- depth -----------------------------------------------------------------------------------

    def keep_to_target(self) -> None:
        """Page what is above the target, if there is so much."""
        held: i64 = self.messages.bytes_ready + self.unacked_bytes
        if held > self.page_above and self.paging is not None:
            self.paging.turn_ended(self)

    def measure_depth(self) -> None:
        """Close or open the gate for the depth mark."""
        held: i64 = self.messages.bytes_ready + self.unacked_bytes
        if self.queue_limits is not None:
            held += self.queue_limits.held_bytes()
        if self.is_deep:
            self._drained(held)
        elif held > self.depth_bytes:
            self.is_deep = True
            self.open_bytes = self._low_bytes()
            self.ration_bytes = 0
            self.gate.close(self.consumers_id(), "depth")

    def _drained(self, held: i64) -> None:
        """A deep queue looks whether it has room for more."""
        if held * EMPTY_PARTS <= self.depth_bytes:
            self.end_depth()
            return
        # A ration that was used shows in what is held; one that was not has to drain first.
        due: i64 = held - self.ration_bytes
        if due > self.open_bytes:
            low: i64 = self._low_bytes()
            self.open_bytes = due if due < low else low
        if held > self.open_bytes:
            return
        room: i64 = self.depth_bytes - held
        if self.fair_bytes == 0:
            self.end_depth()
        elif self.gate.ration(self.consumers_id(), "depth", room, self.fair_bytes):
            self.is_deep = False
        else:
            self.ration_bytes = room
            self.open_bytes = held - room

    def end_depth(self) -> None:
        """Senders go on, as far as depth has held them."""
        self.is_deep = False
        self.gate.open(self.consumers_id(), "depth")

    def _low_bytes(self) -> i64:
        """Where a deep queue takes publishes again: a quarter, or DEPTH_BAND_BYTES, below its mark.

        The band keeps the gate from flapping with every message; a wider one would make publishers
        of a large queue stop for as long as consumers need to drain it."""
        band: i64 = self.depth_bytes // 4
        return self.depth_bytes - (band if band < DEPTH_BAND_BYTES else DEPTH_BAND_BYTES)

    # -- life ------------------------------------------------------------------------------------

    def go_by(self, rules: QueueRules) -> None:
        if not rules.is_plain():
            self._get_limits()
        if self.queue_limits is not None:
            self.queue_limits.change(rules)

    def used(self) -> None:
        if self.queue_limits is not None:
            self.queue_limits.used()

    def pause(self, is_paused: bool) -> None:
        if is_paused:
            self._get_limits()
        if not is_paused and self.damaged_count > 0:
            self.damaged_count = 0
            if self.durability is not None:
                self.durability.give_up()
        super().pause(is_paused)

    def purge(self) -> int:
        if self.durability is not None:
            for message in self.messages.ready_messages():
                if message.stored is not None:
                    self.forget(message)
        if self.paging is not None:
            self.paging.purging()
        count = self.messages.purge()
        if self.queue_limits is not None:
            self.queue_limits.freed()
        if self.is_deep:
            self.wake()
        return count

    def finish(self, is_crash: bool) -> None:
        super().finish(is_crash)
        if self.paging is not None:
            self.paging.ended()
        self.messages.purge()
        if self.durability is not None and not is_crash:
            # What a queue that has failed had on the disk comes back with it at the next start.
            self.durability.ended()
        if self.queue_limits is not None:
            self.queue_limits.finished()
        if self.is_deep:
            self.end_depth()
