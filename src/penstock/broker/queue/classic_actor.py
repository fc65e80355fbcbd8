"""The actor of one classic queue: takes messages out of its lanes, gives them to its consumers.

One turn: take from each sender's lane in rotation, answer the senders, deliver while a consumer is
ready, then repay the lanes, so that a cause is charged for a delivery before it is repaid for the
publish. What rests here is charged to its cause as stored, until it leaves, however.

Ready consumers stand in a ring and are served in rotation, in the queue's turn. Those that share a
window with others wait in the line of their channel instead when it is full, and are served from
there (queues/consumers); that is not always a turn of the queue, which is woken for the rest of it.

The depth mark is what may lie here or be on its way here before senders wait, so that publishers
wait before any alarm rings: at the end of a turn the queue measures what it holds, and the rest of
the mark is the room that its senders share (flow/room).
Source: flow-semantics 16 (W18); scenario 116.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.broker.actors.actor import Line, Owed
from penstock.broker.actors.lane import Lane
from penstock.broker.queue.queue_actor import COMMITTED, QueueActor, QueueLimits
from penstock.broker.queue.uncommitted import UncommittedBatch
from penstock.flow.credit import Strategy
from penstock.flow.room import Room
from penstock.protocol.content import (
    NO_CAUSE,
    SHARED_BYTES,
    Message,
    SharedMessage,
    join_all,
)
from penstock.queues.consumers import Consumer, Delivery
from penstock.queues.delivery_count import with_delivery_count
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Purged
from penstock.queues.rules import QueueRules

FORGOTTEN_AT_ONCE: Final = 512
"""Messages of a queue that was purged or has ended."""
RUN_MIN: Final = 2
"""Fewer messages are not given together."""
HELD_AT_ONCE: Final = 512
"""Consumers that one turn finds without room, as when the channel of very many ends."""


def leave(origin: Cause, messages: i64, bytes_: i64, shared_bytes: i64) -> None:
    """So many `messages` of `origin` have left a queue, with `bytes_` of frames, of which other
    queues still hold `shared_bytes`."""
    if shared_bytes > 0:
        origin.share(-shared_bytes)
    origin.unstore(messages, bytes_ + messages * MESSAGE_OVERHEAD_BYTES)


class Forgetting(Owed):
    """What was in a queue that was purged or has ended. is_settling: the log keeps some of it."""

    __slots__ = ("actor", "is_settling", "purged")

    def __init__(self, actor: "ClassicActor", purged: Purged, is_settling: bool) -> None:
        self.actor = actor
        self.purged = purged
        self.is_settling = is_settling

    def step(self) -> bool:
        left: i64 = FORGOTTEN_AT_ONCE
        # First, because they lead to messages, which are to be out of memory when they are repaid.
        if self.purged.forget_rows(left):
            return True
        while left > 0 and self.purged.bytes > 0:
            messages = self.purged.forget(left)
            if not messages:
                # Its books are wrong, which is found elsewhere; not a reason to look for ever.
                return False
            left -= len(messages)
            if self.is_settling:
                for message in messages:
                    if message.stored is not None:
                        self.actor.forget(message)
        return self.purged.bytes > 0


class ClassicActor(QueueActor):
    """new_limits: gives it rules when a policy or a message asks for them, None for a queue that
    clients have not declared."""

    __slots__ = ("new_limits",)

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
        self.room = Room(self.gate, "consumers:" + self.identity[6:], MESSAGE_OVERHEAD_BYTES)
        self.new_limits: Callable[[ClassicActor], QueueLimits] | None = None

    def turn(self, budget: i64) -> bool:
        if self.queue_limits is not None:
            return self.queue_limits.turn(budget)
        if self.uncommitted is not None and self.uncommitted.due > 0:
            self.take_committed()
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
        if self.depth_bytes > 0 and self.measure_depth():
            return True
        if len(self.pending) > 0 and self.may_take():
            return True
        return len(self.ready) > 0 and self.messages.at_hand() > 0

    def catch_up(self) -> None:
        if self.queue_limits is not None:
            self.queue_limits.catch_up()
            return
        if self.uncommitted is not None and self.uncommitted.due > 0:
            self.take_committed()
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

    def attach(self, lane: Lane) -> None:
        super().attach(lane)
        if self.room is not None and not self.room.is_tight:
            self.measure_depth()

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
        bytes_: i64 = 0
        if lane.has_shared:
            bytes_ = join_all(items, lane.origin)
        else:
            for message in items:
                bytes_ += len(message.raw)
        if self.uncommitted is None or self.may_show(budget):
            self.messages.add_all(items, bytes_)
        if lane.has_foreign:
            for message in items:
                message.origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        else:
            lane.origin.store(count, bytes_ + count * MESSAGE_OVERHEAD_BYTES)
        lane.taken += count
        lane.taken_bytes += bytes_
        if self.durability is not None:
            self.durability.took(lane, items, count)
        elif lane.wants_answers:
            lane.answerable.accepted(items, count)
        return len(lane.items) > 0

    def committed(self, batch: UncommittedBatch) -> None:
        """The store has answered for `batch`, the oldest one of a quorum queue, which is ready in
        the next turn, unless it is gone."""
        if self.uncommitted is not None and not batch.is_gone:
            self.uncommitted.due += 1
            self.wake()

    def may_show(self, budget: i64) -> bool:
        """Whether what is taken up to `budget` is ready at once. What a transaction has committed
        stands behind all that the store has answered for before."""
        uncommitted = self.uncommitted
        if uncommitted is None:
            return True
        if budget != COMMITTED:
            return False
        if uncommitted.due > 0:
            self.take_committed()
        return True

    def take_committed(self) -> None:
        """What the store has answered for since the last turn is ready from now on."""
        uncommitted = self.uncommitted
        assert uncommitted is not None, "it is a quorum queue"
        while uncommitted.due > 0:
            batch = uncommitted.release()
            if self.queue_limits is None:
                count: i64 = len(batch.messages)
                self.messages.add_all(batch.messages, batch.bytes - count * MESSAGE_OVERHEAD_BYTES)
                continue
            for message in batch.messages:
                self.messages.add(message)
        if uncommitted.waiters:
            uncommitted.let_go_on()

    def stop_reason(self) -> str:
        """Full, or above its depth mark."""
        if self.queue_limits is not None and self.queue_limits.is_full:
            return "full"
        return "depth" if self.is_deep else ""

    # -- deliveries ------------------------------------------------------------------------------

    def pump(self, budget: i64) -> bool:
        """Give up to `budget` ready messages to ready consumers, one to each in turn. True if there
        may be others with room behind the HELD_AT_ONCE that had none."""
        messages = self.messages
        holds: i64 = HELD_AT_ONCE
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
                    given: i64 = self._give_run(consumer, room) if room >= RUN_MIN else 0
                    if given == 0:
                        self._give(consumer)
                        given = 1
                    room -= given
                    left -= given
                if consumer.room() == 0 or not consumer.fits(messages):
                    self._hold(consumer)
                    holds -= 1
                    if holds == 0:
                        return True
                continue
            if self.cursor >= len(self.ready):
                self.cursor = 0
            consumer = self.ready[self.cursor]
            if consumer.room() == 0 or not consumer.fits(messages):
                self._hold(consumer)
                holds -= 1
                if holds == 0:
                    return True
                continue
            self._give(consumer)
            left -= 1
            self.cursor += 1
        return False

    def _give_run(self, consumer: Consumer, most: i64) -> i64:
        """Up to `most` messages of a queue without rules together, to a consumer that has room for
        them; how many were given, 0 where the next one has to be given by itself. The books are
        changed once for those of one cause."""
        if self.queue_limits is not None:
            return 0
        messages = self.messages
        run = messages.next_run(most)
        if len(run) < RUN_MIN:
            return 0
        given: i64 = consumer.sink.deliver_run(consumer, run, messages.run_position())
        if given == 0:
            return 0
        if given < len(run):
            run = run[:given]
        consumer.delivered += given
        consumer.unsent.count += given
        if consumer.is_no_ack:
            messages.drop_run(given, self._given_away(run))
            messages.ack_count += given
            return given
        bytes_: i64 = 0
        body_bytes: i64 = 0
        for message in run:
            bytes_ += len(message.raw)
            body_bytes += i64(message.body_size)
        messages.drop_run(given, bytes_)
        consumer.unacked += given
        consumer.unacked_bytes += body_bytes
        self.unacked_count += given
        self.unacked_bytes += bytes_
        self.unacked_body_bytes += body_bytes
        return given

    def _given_away(self, run: list[Message]) -> i64:
        """The messages of `run` were given to a consumer that answers none, and have left the
        queue; their bytes."""
        origin: Cause = NO_CAUSE
        paid: i64 = 0
        paid_bytes: i64 = 0
        shared: i64 = 0
        bytes_: i64 = 0
        for message in run:
            if message.origin is not origin:
                if paid > 0:
                    leave(origin, paid, paid_bytes, shared)
                origin = message.origin
                paid = 0
                paid_bytes = 0
                shared = 0
            size: i64 = len(message.raw)
            paid += 1
            paid_bytes += size
            bytes_ += size
            # As SharedMessage.left, without a call for each.
            if isinstance(message, SharedMessage):
                holders: i64 = message.holders - 1
                if holders >= 0:
                    message.holders = holders
                    if holders > 0:
                        shared += size + SHARED_BYTES
            if message.stored is not None:
                self.forget(message)
        leave(origin, paid, paid_bytes, shared)
        return bytes_

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
            self.unacked_body_bytes += i64(message.body_size)
        consumer.sink.deliver(consumer, message, self.messages.position, self.messages.redelivered)

    def serve(self, consumer: Consumer, most: i64) -> i64:
        if self.choice is not None and not self.choice.is_single and self._has_one():
            consumer = self._preferred(consumer)
        self.offer(consumer)
        messages = self.messages
        given: i64 = 0
        while given < most and self.is_served(consumer) and self._may_give(consumer):
            self._give(consumer)
            given += 1
        if given > 0:
            self.line.charge_outputs()
            self.left_room()
        consumer.sink.served = None
        if not self.is_served(consumer) or messages.ready_count() == 0:
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

    def _may_give(self, consumer: Consumer) -> bool:
        """Whether `consumer` has room, and the first message can be given to it now."""
        return consumer.room() > 0 and self._has_one() and consumer.fits(self.messages)

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
        shared: i64 = 0
        while at < end:
            delivery = deliveries[at]
            if delivery.queue is not client or delivery.consumer is not consumer:
                break
            message = delivery.message
            if message.origin is not origin:
                if shared > 0:
                    origin.share(-shared)
                    shared = 0
                origin.unstore(paid, paid_bytes)
                origin = message.origin
                paid = 0
                paid_bytes = 0
            size: i64 = len(message.raw)
            # As SharedMessage.left, without a call for each.
            if isinstance(message, SharedMessage) and message.holders > 0:
                message.holders -= 1
                if message.holders > 0:
                    shared += size + SHARED_BYTES
            paid += 1
            paid_bytes += size + MESSAGE_OVERHEAD_BYTES
            raw_bytes += size
            body_bytes += i64(message.body_size)
            at += 1
        if self.durability is not None:
            self.durability.left_all(deliveries, first, at)
        if shared > 0:
            origin.share(-shared)
        origin.unstore(paid, paid_bytes)
        count: i64 = at - first
        self.messages.ack_count += count
        self.unacked_count -= count
        self.unacked_bytes -= raw_bytes
        self.unacked_body_bytes -= body_bytes
        consumer.unacked -= count
        consumer.unacked_bytes -= body_bytes
        if not consumer.is_ready:
            self.offer(consumer)
        if self.room is not None and self.room.is_tight:
            self.left_room()
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
        self.unacked_body_bytes -= i64(delivery.message.body_size)
        if self.queue_limits is not None and self.queue_limits.is_full:
            self.wake()
        consumer = delivery.consumer
        if consumer is not None:
            consumer.unacked -= 1
            consumer.unacked_bytes -= i64(delivery.message.body_size)
            if not consumer.is_ready:
                self.offer(consumer)
        if self.room is not None and self.room.is_tight:
            self.left_room()

    def get(self) -> Message | None:
        if self.queue_limits is not None and not self.queue_limits.may_get():
            return None
        if self.messages.at_hand() == 0:
            return None
        message = self.messages.take()
        if self.queue_limits is not None:
            self.queue_limits.freed()
        self.left_room()
        if self.page_above < 0:
            self.wake()
        return message

    def get_unacked(self, message: Message) -> None:
        self.unacked_count += 1
        self.unacked_bytes += len(message.raw)
        self.unacked_body_bytes += i64(message.body_size)

    def get_done(self, message: Message) -> None:
        self.messages.ack_count += 1
        if self.queue_limits is not None:
            self.messages.settled(self.messages.position)
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        if message.stored is not None:
            self.forget(message)

    def ready_behind(self) -> i64:
        if self.queue_limits is not None:
            # As RabbitMQ, which drops what is dead in front before it counts.
            self.queue_limits.may_get()
        return self.messages.ready_count()

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

    def measure_depth(self) -> bool:
        """What the depth mark leaves is lent to senders. True if there is more to do."""
        room = self.room
        return room is not None and room.measure(self.content_bytes(), self.depth_bytes)

    def content_bytes(self) -> i64:
        """What counts for the depth mark: messages in memory, unanswered ones, those that wait for
        the store, dead letters that rest here."""
        held: i64 = self.messages.bytes_ready + self.unacked_bytes
        held += self.unacked_count * MESSAGE_OVERHEAD_BYTES
        if self.uncommitted is not None:
            held += self.uncommitted.bytes
        return held if self.queue_limits is None else held + self.queue_limits.held_bytes()

    def set_depth(self, depth_bytes: i64, source: str) -> None:
        """Another depth mark, 0 for none, from now on: what was lent of the old one is free again.
        source: who has said so, "" for the node."""
        self.depth_source = source
        if depth_bytes == self.depth_bytes:
            return
        self.depth_bytes = depth_bytes
        if self.room is not None:
            self.room.take_back_all()
        if self.measure_depth() or depth_bytes > 0:
            self.wake()

    def end_depth(self) -> None:
        """Senders go on, as far as depth has held them."""
        if self.room is not None:
            self.room.loosen()

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
        if self.paging is not None:
            self.paging.purging()
        purged = self._give_up_all()
        self.line.errands.begin(Forgetting(self, purged, self.durability is not None))
        if self.queue_limits is not None:
            self.queue_limits.freed()
        self.left_room()
        return purged.count

    def _give_up_all(self) -> Purged:
        """What is ready, and what has been taken before and waits for the store."""
        purged = self.messages.purge()
        if self.uncommitted is not None:
            self.uncommitted.give_up(purged)
        return purged

    def finish(self, is_crash: bool) -> None:
        super().finish(is_crash)
        if self.paging is not None:
            self.paging.ended()
        self.line.errands.begin(Forgetting(self, self._give_up_all(), False))
        if self.durability is not None and not is_crash:
            # What a queue that has failed had on the disk comes back with it at the next start.
            self.durability.ended()
        if self.queue_limits is not None:
            self.queue_limits.finished()
        self.end_depth()
