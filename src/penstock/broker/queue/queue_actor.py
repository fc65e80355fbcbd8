"""The actor of one classic queue: takes messages out of its lanes, gives them to its consumers.

One turn: take from each sender's lane in rotation, answer the senders, deliver while a consumer is
ready, then repay the lanes, so that a cause is charged for a delivery before it is repaid for the
publish. What rests here is charged to its cause as stored, until it leaves, however. While the
queue holds more bytes than its depth mark its gate is closed for "depth": grants are deferred, so
publishers wait before any alarm rings; consumers go on, and it opens again a little below the mark.
"""

from mypy_extensions import i64

from penstock.broker.actors.actor import BLOCKED, IDLE, WAITING, Line
from penstock.broker.queue.queue_ruling import RuleDesk
from penstock.broker.queue.serving import ServingQueue
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message
from penstock.queues.applied import Applied
from penstock.queues.choice import Choice
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery
from penstock.queues.delivery_count import with_delivery_count
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.ruled import RuledQueue
from penstock.routing.destination import Destination


class QueueTarget(Destination):
    """The queue as bindings see it."""

    __slots__ = ("actor",)

    def __init__(self, name: str, actor: "QueueActor") -> None:
        super().__init__(name)
        self.actor = actor


class QueueClient(ConsumerQueue):
    """The queue as consumers and settles see it; apart from the actor, which has another base."""

    __slots__ = ("actor",)

    def __init__(self, actor: "QueueActor") -> None:
        self.actor = actor

    def consumer_changed(self, consumer: Consumer) -> None:
        self.actor.offer(consumer)

    def serve(self, consumer: Consumer, most: i64) -> i64:
        return self.actor.serve(consumer, most)

    def shown(self, message: Message) -> Message:
        messages = self.actor.messages
        if isinstance(messages, RuledQueue) and messages.rules.is_counted:
            return with_delivery_count(message, messages.deliveries)
        return message

    def settle(self, delivery: Delivery) -> None:
        self.actor.settled(delivery)

    def discard(self, delivery: Delivery) -> None:
        ruling = self.actor.ruling if self.actor.is_alive else None
        if ruling is None or ruling.rejected(delivery.position, delivery.message):
            self.actor.settled(delivery)
        else:
            self.actor.answered(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        self.actor.requeue(deliveries)


class QueueActor(ServingQueue):
    """rule_desk: gives it rules when a message comes that asks for them; applied: the policies it
    goes by; queue_id: under which it is kept, else 0."""

    __slots__ = (
        "applied",
        "arguments",
        "auto_delete",
        "client",
        "durable",
        "exclusive_consumer",
        "had_consumers",
        "name",
        "owner",
        "queue_id",
        "rule_desk",
        "target",
        "vhost",
    )

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
        identity = f"queue:{vhost}{'' if vhost == '/' else '/'}{name}"
        super().__init__(identity, strategy, line, depth_bytes)
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments
        self.exclusive_consumer: Consumer | None = None
        self.had_consumers = False
        self.rule_desk: RuleDesk | None = None
        self.applied: Applied | None = None
        self.queue_id = 0
        self.target = QueueTarget(name, self)
        self.client = QueueClient(self)

    # -- publishing ------------------------------------------------------------------------------

    def turn(self, budget: i64) -> bool:
        if self.ruling is not None:
            return self.ruling.turn(budget)
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

    def expects_lifetimes(self) -> None:
        if self.rule_desk is not None and not self.messages.is_ruled:
            self.rule_desk.keep_records(self)

    def stop_reason(self) -> str:
        """Why it takes nothing, "" while it does: full, or above its depth mark."""
        if self.ruling is not None and self.ruling.is_full:
            return "full"
        return "depth" if self.is_deep else ""

    # -- answers ---------------------------------------------------------------------------------

    def settled(self, delivery: Delivery) -> None:
        """The client acknowledged or rejected for good."""
        self.messages.ack_count += 1
        message = delivery.message
        size: i64 = len(message.raw)
        message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
        if message.stored is not None:
            self.forget(message)
        if self.ruling is not None:
            self.messages.settled(delivery.position)
        self.answered(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        """Deliveries come back to their places."""
        for delivery in deliveries:
            # A queue that was deleted takes nothing back.
            message = delivery.message
            if self.is_alive:
                self.messages.put_back(delivery.position, message)
            else:
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
            consumer.unacked_bytes -= delivery.message.body_bytes
            if not consumer.is_ready:
                self.offer(consumer)
        if self.is_deep:
            self.wake()

    def get(self) -> Message | None:
        """The first ready message for basic.get; see `messages.position`, `.redelivered`."""
        if self.ruling is not None and not self.ruling.may_get():
            return None
        if self.messages.at_hand() == 0:
            return None
        message = self.messages.take()
        if self.ruling is not None:
            self.ruling.freed()
        if self.is_deep or self.page_above < 0:
            self.wake()
        return message

    def get_unacked(self, message: Message) -> None:
        """The message just got must be answered."""
        self.unacked_count += 1
        self.unacked_bytes += len(message.raw)

    def get_done(self, message: Message) -> None:
        """The message just got needs no answer."""
        self.messages.ack_count += 1
        if self.ruling is not None:
            self.messages.settled(self.messages.position)
        message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        if message.stored is not None:
            self.forget(message)

    # -- life ------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        consumer.unsent.consumers.append(consumer)
        self.had_consumers = True
        if consumer.is_exclusive:
            self.exclusive_consumer = consumer
        if self.choice is None and consumer.priority != 0:
            self.choice = Choice(False)
        if self.choice is not None:
            self.choice.joined(consumer)
        self.offer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.sink.leave(consumer)
        if consumer in consumer.unsent.consumers:
            consumer.unsent.consumers.remove(consumer)
        if consumer.is_ready:
            consumer.is_ready = False
            self.ready.remove(consumer)
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.choice is not None:
            heir = self.choice.left(consumer, self.consumers)
            if heir is not None:
                self.offer(heir)
            self._promote(self.choice)
        if self.ruling is not None and not self.consumers:
            self.ruling.used()

    def purge(self) -> int:
        """Drop what is ready; how many there were."""
        if self.keeper is not None:
            for message in self.messages.ready_messages():
                if message.stored is not None:
                    self.forget(message)
        if self.paging is not None:
            self.paging.purging()
        count = self.messages.purge()
        if self.ruling is not None:
            self.ruling.freed()
        if self.is_deep:
            self.wake()
        return count

    def finish(self, is_crash: bool) -> None:
        """The queue is deleted, or has failed: lanes are forgotten, consumers cancelled, senders
        told. As in RabbitMQ what was on its way counts as taken, unless the queue has failed."""
        self.is_alive = False
        if self.toll is not None:
            self.toll.end()
        for lane in self.lanes:
            items = lane.items
            lane.items = []
            self.strategy.forget(lane, lane.origin)
            lane.sender_gate.forget(self.identity)
            if items and lane.wants_answers:
                if is_crash:
                    lane.answerable.refused(items)
                else:
                    lane.answerable.accepted(items, len(items))
        self.lanes.clear()
        self.pending.clear()
        self.ready.clear()
        for consumer in list(self.consumers):
            consumer.unsent.consumers.remove(consumer)
            consumer.sink.leave(consumer)
            consumer.sink.cancelled_by_broker(consumer)
        self.consumers.clear()
        self.exclusive_consumer = None
        if self.paging is not None:
            self.paging.ended()
        self.messages.purge()
        if self.keeper is not None and not is_crash:
            # What a queue that has failed had on the disk comes back with it at the next start.
            self.keeper.ended()
        if self.ruling is not None:
            self.ruling.finished()
        if self.is_deep:
            self.end_depth()

    def rest_state(self) -> int:
        """Blocked while held; else waiting while messages rest that no consumer can take."""
        if not self.gate.is_open:
            return BLOCKED
        return WAITING if self.messages.ready_count() > 0 else IDLE
