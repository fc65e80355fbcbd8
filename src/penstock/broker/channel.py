"""The actor of one channel: publishes and methods in their order, deliveries out, answers back.

Inbox: the lane from the connection holds publishes, `methods` holds everything else, each with the
number of publishes that came before it, so order is kept without one common queue. When a publish
must wait (parking profiles), methods do not wait behind it:

    settles, qos, flow, consume, cancel, get, purge, queue.declare   go past waiting publishes
    every other method (bind, delete, confirm, tx, close ...)        first forces them through

Forcing hands over past closed hops, at most one lane's window of messages, and is counted.
"""

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.broker.actor import BLOCKED, IDLE, Line
from penstock.broker.deliver import (
    ChannelSink,
    SinkOwner,
    write_answer,
    write_cancel,
    write_return,
)
from penstock.broker.lane import Lane, LaneReceiver
from penstock.broker.output import Answering, Output
from penstock.broker.publish import Publisher, PublisherHost
from penstock.broker.queue_actor import QueueActor
from penstock.broker.transactions import Transaction
from penstock.flow.strategy import Strategy
from penstock.protocol.content import EVENT_ACK, Event, Message
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery, Unsent
from penstock.queues.unacked import UnackedTable
from penstock.telemetry.events import ESCAPE

CHANNEL_CLOSE = 0x140028
"""The one barrier method that goes through under an alarm."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Verbs:
    """Everything a channel is asked besides publishing and basic.ack; see broker/verbs.
    Nominal base."""

    __slots__ = ()

    def perform(self, channel: "Channel", event: Event) -> None:
        """Do what the method says. Raises: PeerError."""
        raise NotImplementedError

    def goes_past(self, event: Event) -> bool:
        """Whether the method may overtake waiting publishes."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelHost:
    """What a channel asks of its connection. Nominal base."""

    __slots__ = ()

    def release_held(self, channel: "Channel") -> None:
        """Hand over publishes of `channel` that wait at the connection, hop closed or not."""
        raise NotImplementedError

    def output_full(self) -> None:
        """The peer does not take its answers: read nothing more until it does."""
        raise NotImplementedError

    def is_alarmed(self, channel: "Channel") -> bool:
        """Whether an alarm holds publishes of `channel`; nothing more is read behind them then."""
        raise NotImplementedError

    def channel_failed(self, channel: "Channel", fault: ChannelFault) -> None:
        """The channel has closed itself; tell the peer."""
        raise NotImplementedError

    def fail(self, fault: PeerError) -> None:
        """Close the connection."""
        raise NotImplementedError

    def report(self, error: BaseException, where: str) -> None:
        """A bug of ours: put it into the log."""
        raise NotImplementedError


class ChannelSinkOwner(SinkOwner):
    """The channel as its deliveries see it."""

    __slots__ = ("channel",)

    def __init__(self, channel: "Channel") -> None:
        self.channel = channel

    def consumer_gone(self, consumer: Consumer) -> None:
        self.channel.consumer_gone(consumer)


class ChannelPublisherHost(PublisherHost):
    """The channel as its publisher sees it."""

    __slots__ = ("channel",)

    def __init__(self, channel: "Channel") -> None:
        self.channel = channel

    def returned(self, message: Message, code: int, text: str) -> None:
        self.channel.give_back(message, code, text)

    def must_answer(self) -> None:
        self.channel.output.note_answering(self.channel.answering)

    def may_resume(self) -> None:
        self.channel.wake()


class ChannelAnswering(Answering):
    """The channel's confirms as its output sees them."""

    __slots__ = ("channel",)

    def __init__(self, channel: "Channel") -> None:
        super().__init__()
        self.channel = channel

    def answer(self) -> None:
        self.channel.answer_publishes()


class Channel(LaneReceiver):
    """number: 1..channels_max; upstream: the lane from the connection; table: unanswered
    deliveries; publisher: the publishing side, None until the connection has set it."""

    __slots__ = (
        "answering",
        "arrived",
        "cancel_notify",
        "consumers",
        "escapes",
        "frame_bytes_max",
        "held",
        "host",
        "is_answered",
        "is_closed",
        "is_stalled",
        "method_head",
        "methods",
        "number",
        "output",
        "prefetch",
        "publisher",
        "queues_of",
        "sink",
        "stalled_by",
        "strategy",
        "table",
        "taken",
        "transaction",
        "unsent",
        "unsent_limit",
        "upstream",
        "verbs",
    )

    def __init__(
        self,
        identity: str,
        number: int,
        host: ChannelHost,
        output: Output,
        verbs: Verbs,
        strategy: Strategy,
        frame_bytes_max: int,
        unsent_limit: int,
        line: Line,
    ) -> None:
        super().__init__(identity, line)
        self.number: i64 = number
        self.host = host
        self.output = output
        self.verbs = verbs
        self.strategy = strategy
        self.frame_bytes_max: i64 = frame_bytes_max
        self.unsent_limit = unsent_limit
        self.publisher: Publisher | None = None
        self.upstream: Lane | None = None
        self.held: Message | None = None
        self.answering = ChannelAnswering(self)
        self.is_answered = False
        self.methods: list[Event] = []
        self.method_head: i64 = 0
        self.arrived: i64 = 0
        self.taken: i64 = 0
        self.table = UnackedTable()
        self.sink = ChannelSink(
            self.number, self.table, output, self.frame_bytes_max, ChannelSinkOwner(self)
        )
        self.consumers: dict[str, Consumer] = {}
        self.unsent: dict[str, Unsent] = {}
        self.prefetch = 0
        self.cancel_notify = False
        self.transaction: Transaction | None = None
        self.queues_of: dict[str, QueueActor] = {}
        self.is_stalled = False
        self.stalled_by = ""
        self.is_closed = False
        self.escapes: i64 = 0

    # -- inbox -----------------------------------------------------------------------------------

    def offered(self, lane: Lane) -> None:
        lane.is_listed = True
        self.wake()

    def told(self, event: Event) -> None:
        """A method arrives behind everything that has arrived so far."""
        event.after = self.arrived
        self.methods.append(event)
        self.wake()

    def turn(self, budget: i64) -> bool:
        has_more = False
        try:
            has_more = self._work(budget)
        except ChannelFault as fault:
            self._repay_all()
            self.host.channel_failed(self, fault)
        except ConnectionFault as fault:
            self._repay_all()
            self.host.fail(fault)
        except Exception as error:
            self.host.report(error, self.identity)
            self._repay_all()
            self.host.fail(ConnectionFault(541, "internal error"))
        return has_more and not self.is_closed

    def _work(self, budget: i64) -> bool:
        publisher = self.publisher
        upstream = self.upstream
        if publisher is None or upstream is None or self.is_closed:
            return False
        if publisher.retry(False):
            self._unstall()
        is_waiting = self._in_order(publisher, upstream, budget)
        if self.is_closed:
            return False
        if is_waiting:
            self._stall(publisher.waits_for)
        else:
            self._unstall()
        if self._has_method() and (is_waiting or self._is_behind_held(upstream)):
            self._past_waiting()
        if is_waiting or self.output.is_full or self._is_behind_held(upstream):
            return False
        return len(upstream.items) > upstream.head or self._has_method()

    def _in_order(self, publisher: Publisher, upstream: Lane, budget: i64) -> bool:
        """Publishes and methods in the order they came; True if the next publish has to wait."""
        is_waiting = False
        done: i64 = 0
        bytes_: i64 = 0
        try:
            while budget > 0 and not self.is_closed and not self.output.is_full:
                if self._has_method() and self.methods[self.method_head].after <= self.taken:
                    if done > 0:
                        self._repay(upstream, done, bytes_)
                        done = 0
                        bytes_ = 0
                    if publisher.parked is not None:
                        self._unpark_before(self.methods[self.method_head], publisher)
                    self._perform(self._next_method())
                    budget -= 1
                    continue
                items = upstream.items
                at: i64 = upstream.head
                if at >= len(items):
                    upstream.is_listed = False
                    break
                message = items[at]
                size: i64 = len(message.raw)
                if self.transaction is not None:
                    publisher.check(message)
                    self.transaction.publish(message)
                elif not publisher.publish(message, False):
                    is_waiting = True
                    break
                upstream.head = at + 1
                self.taken += 1
                done += 1
                bytes_ += size
                budget -= 1
        finally:
            if done > 0:
                self._repay(upstream, done, bytes_)
        return is_waiting

    def _unpark_before(self, event: Event, publisher: Publisher) -> None:
        """The parked publish came before `event`, which may only overtake it if it goes past."""
        if not self.verbs.goes_past(event):
            publisher.retry(True)
            self.escapes += 1
            self.line.recorder.record(ESCAPE, self.identity, publisher.waits_for, "", 1)

    def _has_method(self) -> bool:
        return self.method_head < len(self.methods)

    def _is_behind_held(self, upstream: Lane) -> bool:
        """Whether the next method stands behind a publish that the connection still holds."""
        if upstream.head < len(upstream.items) or not self._has_method():
            return False
        return self.methods[self.method_head].after > self.taken

    def _next_method(self) -> Event:
        """Take the oldest method; the list is emptied when the last one is taken."""
        event = self.methods[self.method_head]
        self.method_head += 1
        if self.method_head == len(self.methods):
            self.methods.clear()
            self.method_head = 0
        elif self.method_head >= 512:
            del self.methods[: self.method_head]
            self.method_head = 0
        return event

    def _repay(self, upstream: Lane, done: i64, bytes_: i64) -> None:
        head: i64 = upstream.head
        if head >= len(upstream.items):
            # Here too, because a budget that ends with the last publish leaves the loop early.
            upstream.is_listed = False
            upstream.items = []
            upstream.head = 0
        elif head >= 256:
            del upstream.items[:head]
            upstream.head = 0
        self.strategy.repay(upstream, upstream.origin, done, bytes_)

    def _past_waiting(self) -> None:
        """Methods that arrived behind waiting publishes."""
        while self._has_method() and not self.is_closed and not self.output.is_full:
            event = self.methods[self.method_head]
            if not self.verbs.goes_past(event):
                if event.tag != CHANNEL_CLOSE and self.host.is_alarmed(self):
                    return
                self.force()
                if self.is_closed:
                    return
            self._perform(self._next_method())

    def force(self) -> None:
        """Hand over every waiting publish of this channel, closed hops or not."""
        publisher = self.publisher
        upstream = self.upstream
        if publisher is None or upstream is None:
            return
        publisher.retry(True)
        self.host.release_held(self)
        items = upstream.items
        count: i64 = 0
        bytes_: i64 = 0
        while upstream.head < len(items):
            message = items[upstream.head]
            upstream.head += 1
            self.taken += 1
            count += 1
            bytes_ += len(message.raw)
            if self.transaction is not None:
                publisher.check(message)
                self.transaction.publish(message)
            else:
                publisher.publish(message, True)
        if count > 0:
            self.escapes += count
            self.line.recorder.record(ESCAPE, self.identity, publisher.waits_for, "", int(count))
            self._repay(upstream, count, bytes_)
        upstream.is_listed = False
        self._unstall()

    def finish_inbox(self) -> None:
        """Do all that has arrived, in its order and past closed hops: an end stands behind it."""
        while not self.is_closed and self.turn(1 << 30):
            pass
        if not self.is_closed:
            self.force_now()
        while not self.is_closed and self.turn(1 << 30):
            pass

    def force_now(self) -> None:
        """`force`, from outside a turn: a fault closes the channel as it would within one."""
        try:
            self.force()
        except ChannelFault as fault:
            self._repay_all()
            self.host.channel_failed(self, fault)
        except PeerError as fault:
            self.host.fail(fault)

    def _stall(self, by: str) -> None:
        if not self.is_stalled:
            self.is_stalled = True
            self.stalled_by = by
            self.note_held(by, "credit", self.line.clock.monotonic_ns())

    def _unstall(self) -> None:
        if self.is_stalled:
            self.is_stalled = False
            self.note_freed(self.stalled_by, "credit", self.line.clock.monotonic_ns())

    def rest_state(self) -> int:
        if self.is_stalled or not self.gate.is_open:
            return BLOCKED
        return IDLE

    # -- methods ---------------------------------------------------------------------------------

    def _perform(self, event: Event) -> None:
        if event.kind == EVENT_ACK:
            self.acknowledge(event.tag, event.flag)
        else:
            self.verbs.perform(self, event)

    def acknowledge(self, tag: i64, is_multiple: bool) -> None:
        """basic.ack. Raises: ChannelFault 406 for a tag nobody waits for."""
        if self.transaction is not None:
            self.verbs.perform(self, Event(EVENT_ACK, self.number, b"", tag, is_multiple))
            return
        if is_multiple:
            self.settle_many(self.take_many(tag, 80))
            return
        delivery = self.table.take(tag)
        if delivery is None:
            raise unknown_tag(tag, 80)
        if delivery.consumer is not None:
            self.sink.unacked_count -= 1
        delivery.queue.settle(delivery)
        if self.sink.prefetch > 0:
            self.offer_consumers()

    def take_many(self, tag: i64, method_id: int) -> list[Delivery]:
        """Deliveries up to `tag` (0: all), no longer remembered. Raises: ChannelFault 406."""
        if tag != 0 and not self.table.is_known(tag):
            raise unknown_tag(tag, method_id)
        return self.table.take_up_to(tag)

    def settle_many(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.consumer is not None:
                self.sink.unacked_count -= 1
            delivery.queue.settle(delivery)
        if self.sink.prefetch > 0:
            self.offer_consumers()

    def requeue_many(self, deliveries: list[Delivery]) -> None:
        """Put deliveries back into their queues, each queue told once."""
        by_queue: dict[ConsumerQueue, list[Delivery]] = {}
        for delivery in deliveries:
            if delivery.consumer is not None:
                self.sink.unacked_count -= 1
            by_queue.setdefault(delivery.queue, []).append(delivery)
        for queue, some in by_queue.items():
            queue.requeue(some)
        if self.sink.prefetch > 0:
            self.offer_consumers()

    def offer_consumers(self) -> None:
        """Something all consumers of the channel share has changed."""
        for consumer in list(self.consumers.values()):
            consumer.queue.consumer_changed(consumer)

    # -- deliveries ------------------------------------------------------------------------------

    def give_back(self, message: Message, code: int, text: str) -> None:
        """basic.return with the message's content."""
        write_return(self.output.writer, self.number, code, text, message, self.frame_bytes_max)
        self.note_answered(message)

    def note_answered(self, message: Message) -> None:
        """An answer with the content of `message` is written."""
        self.output.mark()
        if self.output.note_answered(len(message.raw)):
            self.host.output_full()

    def answer_publishes(self) -> None:
        """Write every confirm that is due, coalesced."""
        publisher = self.publisher
        confirms = None if publisher is None else publisher.confirms
        if confirms is None or not confirms.is_dirty or self.is_answered:
            return
        confirms.is_dirty = False
        writer = self.output.writer
        number: i64 = self.number
        for sequence in confirms.collect_nacks():
            write_answer(writer, number, 0x3C0078, sequence, False)
        last: i64 = confirms.collect_multiple()
        if last > 0:
            write_answer(writer, number, 0x3C0050, last, True)
        for sequence in confirms.collect_singles():
            write_answer(writer, number, 0x3C0050, sequence, False)
        self.output.mark()

    # -- life ------------------------------------------------------------------------------------

    def consumer_gone(self, consumer: Consumer) -> None:
        """The queue of `consumer` was deleted: basic.cancel to clients that want to know."""
        if self.consumers.get(consumer.tag) is not consumer:
            return
        del self.consumers[consumer.tag]
        self.queues_of.pop(consumer.tag, None)
        if self.cancel_notify and not self.is_closed:
            write_cancel(self.output.writer, self.number, consumer.tag)
            self.output.mark()

    def unsent_of(self, queue_name: str) -> Unsent:
        """The count of unsent deliveries this channel shares per queue."""
        unsent = self.unsent.get(queue_name)
        if unsent is None:
            if len(self.unsent) > 2 * len(self.consumers) + 16:
                self._forget_unsent()
            unsent = Unsent(self.unsent_limit)
            self.unsent[queue_name] = unsent
        return unsent

    def _forget_unsent(self) -> None:
        """Drop the counts of queues that nothing is consumed from and nothing waits to be sent."""
        for name, unsent in list(self.unsent.items()):
            if not unsent.consumers and unsent.count == 0:
                del self.unsent[name]

    def _repay_all(self) -> None:
        """Whatever still waits in the lane is dropped and repaid: the channel has failed."""
        upstream = self.upstream
        if upstream is None:
            return
        left = upstream.items[upstream.head :]
        upstream.items = []
        upstream.head = 0
        upstream.is_listed = False
        bytes_: i64 = 0
        for message in left:
            bytes_ += len(message.raw)
        if left:
            self.strategy.repay(upstream, upstream.origin, len(left), bytes_)

    def close(self) -> None:
        """The channel ends, however: deliveries go back, consumers go, hops are unwired."""
        if self.is_closed:
            return
        self.is_closed = True
        self._repay_all()
        self._unstall()
        publisher = self.publisher
        if publisher is not None:
            publisher.close()
            self.answer_publishes()
        self.is_answered = True
        self.methods.clear()
        self.method_head = 0
        self.held = None
        self.sink.is_flow_active = False
        self.requeue_many(self.table.take_up_to(0))
        self.is_alive = False


def unknown_tag(tag: i64, method_id: int) -> ChannelFault:
    """RabbitMQ's answer to a delivery tag nobody waits for. method_id: of class basic."""
    shown: i64 = tag
    text = str(int(shown)) if shown >= 0 else str(int(shown) + (1 << 64))
    return ChannelFault(406, f"unknown delivery tag {text}", 60, method_id)
