"""The actor of one queue's leases: takes messages for groups, gives what they hold to readers.

What a group holds is unanswered in the eyes of the queue: nobody else gets it, no rule looks at it,
it stays charged to whoever published it and counts for the depth mark. Taking goes on over turns,
and waits for the disk where the queue is paged. A reader gets a range in order, as fast as it
answers; answering only makes room for the next. Who asks for chunks gets the columns of many
messages as one delivery.
"""

from collections import deque
from collections.abc import Callable

from mypy_extensions import i64

from penstock.base.limits import LEASE_RUNS
from penstock.broker.actors.actor import Actor, Line
from penstock.broker.lease.lease_reader import LeaseReader
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.queue.uncommitted import ReadWaiter
from penstock.protocol.content import Message, SharedMessage
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery, DeliverySink
from penstock.queues.hold_reasons import REASON_CHANNEL_PREFETCH
from penstock.queues.leases import LeaseGroup
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


class LeaseSink(DeliverySink):
    """The other end of a group's consumer, which is given nothing by itself: its window is full
    whatever it holds, and that is how it is shown."""

    __slots__ = ("actor",)

    def __init__(self, actor: "LeaseActor") -> None:
        super().__init__()
        self.actor = actor
        self.prefetch = 1
        self.unacked_count = 1

    def deliver(
        self, consumer: Consumer, message: Message, position: i64, redelivered: bool
    ) -> None:
        raise AssertionError("a lease has no room for deliveries")

    def cancelled_by_broker(self, consumer: Consumer) -> None:
        self.actor.end()


class LeaseReads(ConsumerQueue):
    """The leases as their readers' channels see them; apart from the actor, which has another
    base."""

    __slots__ = ("actor",)

    def __init__(self, actor: "LeaseActor") -> None:
        self.actor = actor

    def consumer_changed(self, consumer: Consumer) -> None:
        if self.actor.readers:
            self.actor.wake()

    def serve(self, consumer: Consumer, most: i64) -> i64:
        return self.actor.serve(consumer, most)

    def settle(self, delivery: Delivery) -> None:
        self._answered(delivery)

    def discard(self, delivery: Delivery) -> None:
        self._answered(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self._answered(delivery)

    def _answered(self, delivery: Delivery) -> None:
        consumer = delivery.consumer
        assert consumer is not None, "leases are not read by basic.get"
        consumer.unacked -= 1
        consumer.unacked_bytes -= delivery.message.body_bytes
        if self.actor.readers:
            self.actor.wake()


class Taking:
    """What a group is to hold: `count` messages, `bytes`, unless the first one alone has more."""

    __slots__ = ("bytes", "count", "group")

    def __init__(self, group: LeaseGroup, count: i64, bytes_: i64) -> None:
        self.group = group
        self.count: i64 = count
        self.bytes: i64 = bytes_

    def is_enough(self) -> bool:
        group = self.group
        if group.held_count >= self.count or group.gaps >= LEASE_RUNS.default:
            return True
        return group.held_bytes >= self.bytes


class LeaseWaiter(ReadWaiter):
    """Waits for the disk."""

    __slots__ = ("actor",)

    def __init__(self, actor: "LeaseActor") -> None:
        self.actor = actor

    def go_on(self) -> None:
        self.actor.is_waiting = False
        self.actor.wake()


class LeaseActor(Actor):
    """queue: whose messages are leased; leaving: what groups are done with and the queue does not
    know of yet; takings: what is to be leased after that, in order; readers: those that have not
    got everything yet; is_waiting: the next message is being read from the disk; taken: called
    when a group has as many messages as were asked for, or as there were; queue_gone: called when
    the queue is deleted, or has failed."""

    __slots__ = (
        "is_waiting",
        "leaving",
        "queue",
        "queue_gone",
        "readers",
        "reads",
        "sink",
        "taken",
        "takings",
    )

    def __init__(
        self,
        queue: QueueActor,
        line: Line,
        taken: Callable[["LeaseActor", LeaseGroup], None],
        queue_gone: Callable[["LeaseActor"], None],
    ) -> None:
        super().__init__("lease:" + queue.identity[6:], line)
        self.queue = queue
        self.taken = taken
        self.queue_gone = queue_gone
        self.sink = LeaseSink(self)
        self.reads = LeaseReads(self)
        self.leaving: deque[Delivery] = deque()
        self.takings: list[Taking] = []
        self.readers: list[LeaseReader] = []
        self.is_waiting = False

    def failing_queue(self) -> tuple[str, str]:
        return self.queue.failing_queue()

    def turn(self, budget: i64) -> bool:
        if not self.queue.is_alive:
            # It went while no group held anything, so that nothing of it was told.
            self.end()
            return False
        has_more = False
        if self.leaving:
            has_more = self._settle(budget)
        elif self.takings and not self.is_waiting:
            has_more = self._take(self.takings[0], budget)
        if self.readers:
            if self._serve(budget):
                has_more = True
            self.line.charge_outputs()
        return has_more

    # -- leasing ---------------------------------------------------------------------------------

    def take(self, taking: Taking) -> None:
        """Lease for a group; `taken` is called when that is done."""
        self.takings.append(taking)
        self.wake()

    def _take(self, taking: Taking, budget: i64) -> bool:
        """Take up to `budget` messages; True if there may be more."""
        queue = self.queue
        group = taking.group
        left: i64 = budget
        while self.is_alive and not taking.is_enough():
            if left == 0:
                return True
            message = queue.get()
            if message is None:
                paging = queue.paging
                if paging is not None and paging.is_read_awaited():
                    self.is_waiting = True
                    paging.wait(LeaseWaiter(self))
                    return False
                break
            queue.get_unacked(message)
            self.hold(group, message, queue.messages.position)
            left -= 1
        self.takings.remove(taking)
        self.taken(self, group)
        return len(self.takings) > 0

    def hold(self, group: LeaseGroup, message: Message, position: i64) -> None:
        """`group` holds `message`, which counts as unanswered already, behind its others."""
        consumer = group.consumer
        if group.held_count == 0:
            consumer.started_ns = self.line.clock.monotonic_ns()
            if consumer not in self.queue.consumers:
                self.queue.add_consumer(consumer)
        consumer.delivered += 1
        consumer.unacked += 1
        consumer.unacked_bytes += message.body_bytes
        given_ns: i64 = self.line.stamp.now_ns
        group.add(Delivery(0, message, self.queue.client, consumer, position, given_ns))

    def settle(self, group: LeaseGroup, start: i64) -> None:
        """`group` is done with everything below `start`: it leaves the queue, before anything else
        is taken."""
        self.leaving.extend(group.advance(start))
        self.wake()

    def _settle(self, budget: i64) -> bool:
        """Up to `budget` of those that leave; True, because something comes after them."""
        left: i64 = budget
        while self.leaving and left > 0:
            delivery = self.leaving.popleft()
            self.queue.settled(delivery)
            self._rest(delivery.consumer)
            left -= 1
        return True

    def give_back(self, group: LeaseGroup) -> i64:
        """Everything that `group` holds goes back to where it was; how many."""
        held = group.give_up()
        if held:
            self.queue.requeue(held)
            self._rest(group.consumer)
        self._cancel(group)
        return len(held)

    def _rest(self, consumer: Consumer | None) -> None:
        """A group that holds nothing is no consumer of its queue."""
        if consumer is not None and consumer.unacked == 0 and consumer in self.queue.consumers:
            self.queue.remove_consumer(consumer)

    def drop(self, group: LeaseGroup) -> None:
        """The queue is gone, and with it what `group` held."""
        self._drop(group.give_up())
        self._cancel(group)

    def _drop(self, held: list[Delivery]) -> None:
        for delivery in held:
            message = delivery.message
            size: i64 = len(message.raw)
            self.queue.unacked_count -= 1
            self.queue.unacked_bytes -= size
            self.queue.unacked_body_bytes -= i64(message.body_size)
            if isinstance(message, SharedMessage):
                message.left()
            message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)

    def end(self) -> None:
        """The queue is gone."""
        if self.is_alive:
            self.is_alive = False
            self.takings.clear()
            self._drop(list(self.leaving))
            self.leaving.clear()
            self.queue_gone(self)

    # -- reading ---------------------------------------------------------------------------------

    def read(self, reader: LeaseReader) -> None:
        """Give a range to a consumer."""
        consumer = reader.consumer
        consumer.unsent.consumers[consumer] = None
        self.readers.append(reader)
        self.wake()

    def end_read(self, consumer: Consumer) -> None:
        """The reader has gone, or has all it wanted."""
        for reader in self.readers:
            if reader.consumer is consumer:
                self.readers.remove(reader)
                break
        consumer.sink.leave(consumer)
        consumer.unsent.consumers.pop(consumer, None)

    def _cancel(self, group: LeaseGroup) -> None:
        """Whoever reads what `group` held is told that there is no more."""
        for reader in list(self.readers):
            if reader.group is group:
                self.end_read(reader.consumer)
                reader.consumer.sink.cancelled_by_broker(reader.consumer)

    def _serve(self, budget: i64) -> bool:
        """Give to every reader in turn; True if one of them could take more."""
        share: i64 = budget // len(self.readers)
        if share < 1:
            share = 1
        has_more = False
        for reader in list(self.readers):
            self._give(reader, share)
            if self._has_more(reader):
                has_more = True
        return has_more

    def serve(self, consumer: Consumer, most: i64) -> i64:
        """The channel of `consumer` has room, and it is its turn: give it up to `most` deliveries
        of its range; how many."""
        for reader in self.readers:
            if reader.consumer is consumer:
                given = self._give(reader, most)
                self.line.charge_outputs()
                consumer.sink.served = None
                if self._has_more(reader):
                    self.wake()
                return given
        return 0

    def _has_more(self, reader: LeaseReader) -> bool:
        """Whether `reader` could be given another; it ends when it has all, or waits."""
        consumer = reader.consumer
        if reader.next >= reader.stop or reader not in self.readers:
            self.end_read(consumer)
            return False
        if consumer.room() > 0:
            return True
        if consumer.reason == REASON_CHANNEL_PREFETCH:
            consumer.sink.wait(consumer)
        return False

    def _give(self, reader: LeaseReader, budget: i64) -> i64:
        """Up to `budget` deliveries; how many."""
        consumer = reader.consumer
        sink = consumer.sink
        group = reader.group
        left: i64 = consumer.room()
        if left > budget:
            left = budget
        given: i64 = 0
        while left > 0 and sink.is_output_open and reader.next < reader.stop:
            delivery = group.at(reader.next)
            if delivery is None:
                # It was settled or given back meanwhile: the reader is not to think it has all.
                self.end_read(consumer)
                consumer.sink.cancelled_by_broker(consumer)
                return given
            message = delivery.message
            first: i64 = reader.next
            if reader.has_chunks:
                message = reader.chunk(message.origin)
            else:
                reader.next += 1
            consumer.delivered += 1
            consumer.unsent.count += 1
            if not consumer.is_no_ack:
                consumer.unacked += 1
                consumer.unacked_bytes += message.body_bytes
            sink.deliver(consumer, message, first, False)
            if reader.has_chunks:
                # It was written, and is held until it is answered.
                message.raw = b""
            given += 1
            left -= 1
        return given
