"""One queue's way out of memory by RabbitMQ's rules, for the profiles that emulate it.

What is to be paged, and when, is queues/rabbit_paging's; this asks it at the ends of turns, and
hands what has to be saved to the store, whose credit it may overdraw by unanswered deliveries. A
publish is written when it is paged and not before (scenario 23).

Those rules count messages of a plain queue. One whose messages have records (lifetimes, delivery
limits, a limit in bytes, priorities, keys) goes by bytes, as in our own profiles.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.deliver import ChannelSink
from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import ALWAYS, NO_PAGING, QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.protocol.content import Message
from penstock.queues.consumers import Delivery
from penstock.queues.entry import is_embedded, is_stub
from penstock.queues.line import MessageLine
from penstock.queues.rabbit_paging import UNBOUNDED, PendingAcks, RabbitPaging, Traffic
from penstock.queues.rules import DROP_HEAD

READ_TARGET_BYTES: Final = 16_777_216
"""What reading ahead may fill; RabbitMQ has no bound in bytes. After a start, what a queue with
records may hold until the targets are set."""


class QueueAcks(PendingAcks):
    """What the consumers of a queue have not answered. Those of basic.get stay in memory."""

    __slots__ = ("actor", "embed_below")

    def __init__(self, actor: QueueActor, embed_below: i64) -> None:
        self.actor = actor
        self.embed_below: i64 = embed_below

    def whole_count(self) -> i64:
        return len(self._whole())

    def newest(self, count: i64) -> list[Delivery]:
        found = self._whole()
        found.sort(key=position_of, reverse=True)
        return found[: int(count)]

    def _whole(self) -> list[Delivery]:
        """Those whose bodies are in memory and may leave it, in no order."""
        return [
            delivery
            for delivery in self.deliveries()
            if not is_stub(delivery.message) and not is_embedded(delivery.message, self.embed_below)
        ]

    def deliveries(self) -> list[Delivery]:
        """All that may be paged, or is."""
        actor = self.actor
        found: list[Delivery] = []
        if actor.unacked_count == 0:
            return found
        # Consumers of one channel share its table.
        for sink in {consumer.sink for consumer in actor.consumers}:
            if isinstance(sink, ChannelSink):
                for delivery in (*sink.table.old.values(), *sink.table.entries):
                    if delivery is not None and delivery.queue is actor.client:
                        found.append(delivery)
        return found

    def replace(self, delivery: Delivery, stub: Message) -> None:
        self.actor.unacked_bytes -= len(delivery.message.raw)
        delivery.message = stub


class RabbitPager(Pager):
    """rules: of this queue while it is plain; ruled_bytes: its target while it has records, until
    it is told another one; seen:
    publishes and requeues that were looked at; is_due: there has to be a pass, whether or not
    something came."""

    __slots__ = ("acks", "is_due", "ruled_bytes", "rules", "seen")

    def __init__(
        self,
        actor: QueueActor,
        durability: StoreDurability,
        damaged: Callable[[QueueActor, int], None],
        rules: RabbitPaging,
    ) -> None:
        super().__init__(actor, durability, READ_TARGET_BYTES, damaged)
        self.rules = rules
        self.acks = QueueAcks(actor, rules.embed_below)
        self.ruled_bytes: i64 = READ_TARGET_BYTES
        self.seen: i64 = 0
        self.is_due = True

    def turn_ended(self, actor: QueueActor) -> None:
        queue = self.actor
        if queue.messages.has_entries:
            self.target_bytes = self.ruled_bytes
            super().turn_ended(actor)
            return
        self.target_bytes = READ_TARGET_BYTES
        # By counts a publish is written when it is paged, and not as it comes.
        self.durability.is_through = False
        if not queue.messages.is_paging and self.rules.target == UNBOUNDED:
            queue.page_above = NO_PAGING
            return
        count: i64 = queue.messages.publish_count + queue.messages.requeue_count
        if self.rules.moved(count - self.seen):
            self.is_due = True
        self.seen = count
        if not queue.messages.is_paging:
            if not self.is_due or queue.messages.ready_count() + queue.unacked_count == 0:
                return
            self._begin()
        if self.is_due:
            self._reduce()
        self._read()
        if queue.messages.is_whole():
            self._end()

    def aim(self, target_bytes: i64) -> None:
        """For a queue whose messages have records; for plain ones see `aim_at`."""
        self.ruled_bytes = target_bytes
        if self.actor.messages.has_entries:
            super().aim(target_bytes)

    def aim_at(self, desired_s: float) -> None:
        """The node wants its queues to hold so many seconds of their traffic."""
        if self.rules.aim(desired_s):
            self.is_due = True
            self.actor.wake()
        self._look_when_needed()

    def _look_when_needed(self) -> None:
        if self.actor.messages.has_entries:
            return
        is_idle = not self.actor.messages.is_paging and self.rules.target == UNBOUNDED
        self.actor.page_above = NO_PAGING if is_idle else ALWAYS

    def _end(self) -> bool:
        is_plain = super()._end()
        if is_plain:
            self._look_when_needed()
        return is_plain

    def _read(self) -> None:
        """Ahead only below the target, or the next pass would page what was read; otherwise for
        those who wait."""
        if self.actor.messages.has_entries:
            super()._read()
            return
        messages = self._plain()
        if messages.behind.leaving:
            # A dead letter waits for its body.
            pass
        elif messages.at_hand() > 0:
            if messages.ram_count() >= self.rules.target:
                return
        elif not self.actor.ready and not self.waiters and not self._is_over(messages):
            return
        super()._read()

    def _plain(self) -> MessageLine:
        """The messages of the queue, which has no rules that need entries."""
        messages = self.actor.messages
        assert isinstance(messages, MessageLine), "a queue with entries goes by bytes"
        return messages

    def _is_over(self, messages: MessageLine) -> bool:
        """Whether a limit waits for the first message, to drop it."""
        queue_limits = self.actor.queue_limits
        if queue_limits is None or queue_limits.rules.overflow != DROP_HEAD:
            return False
        # A limit in bytes would have kept everything in memory.
        return queue_limits.rules.is_over(messages.ready_count() - messages.leaving_count(), 0)

    def _reduce(self) -> None:
        """One pass; another one follows when its cap ended it, or credit comes."""
        lane = self.durability.lane
        credit: i64 = lane.balance if lane.window > 0 else UNBOUNDED
        if not self.actor.gate.is_open:
            credit = 0
        done = self.rules.reduce(self._plain(), self.acks, credit)
        if done.acks > 0:
            self.has_stubs_out = True
        self.durability.save(done.to_save)
        lane.is_pass_waiting = lane.is_closed
        self.is_due = done.has_more or lane.is_closed
        if done.has_more:
            self.actor.wake()


def position_of(delivery: Delivery) -> int:
    """Its place in the queue."""
    return int(delivery.position)


def traffic_of(actor: QueueActor) -> Traffic:
    """What the queue has done; deliveries that need no answer count as answered at once."""
    messages = actor.messages
    return Traffic(
        int(messages.publish_count + messages.requeue_count),
        int(messages.deliver_count),
        int(messages.deliver_count),
        int(messages.ack_count),
    )
