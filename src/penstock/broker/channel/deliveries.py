"""The consuming side of a channel: its consumers, what they were given, and the client's answers.

A delivery is remembered until it is answered; acknowledging forgets it, requeueing puts it back
where it was. What consumers of one channel share changes for all of them at once.
"""

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.broker.actors.actor import Line
from penstock.broker.actors.deliver import ChannelSink, SinkOwner, write_cancel
from penstock.broker.actors.lane import LaneReceiver
from penstock.broker.actors.output import Answering, Output
from penstock.broker.queue.queue_actor import QueueActor
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery, Unsent
from penstock.queues.unacked import UnackedTable
from penstock.telemetry.answer_times import AnswerTimes


class ChannelSinkOwner(SinkOwner):
    """The channel as its deliveries see it."""

    __slots__ = ("channel",)

    def __init__(self, channel: "DeliveringChannel") -> None:
        self.channel = channel

    def consumer_gone(self, consumer: Consumer) -> None:
        self.channel.consumer_gone(consumer)


class ChannelAnswering(Answering):
    """The channel's confirms as its output sees them."""

    __slots__ = ("channel",)

    def __init__(self, channel: "DeliveringChannel") -> None:
        super().__init__()
        self.channel = channel

    def answer(self) -> None:
        self.channel.answer_due()


class DeliveringChannel(LaneReceiver):
    """number: 1..65535; table: unanswered deliveries; consumers, queues_of: by consumer tag;
    prefetch, prefetch_bytes: for consumers started from now on; unsent: counts by queue name;
    times: how long the client waits for answers; first: which consumer is the first to be asked
    when all are."""

    __slots__ = (
        "answering",
        "cancel_notify",
        "consumers",
        "first",
        "frame_bytes_max",
        "is_closed",
        "number",
        "output",
        "prefetch",
        "prefetch_bytes",
        "queues_of",
        "sink",
        "table",
        "times",
        "unsent",
        "unsent_limit",
    )

    def __init__(
        self,
        identity: str,
        number: int,
        output: Output,
        frame_bytes_max: int,
        unsent_limit: int,
        line: Line,
    ) -> None:
        super().__init__(identity, line)
        self.number: i64 = number
        self.output = output
        self.frame_bytes_max: i64 = frame_bytes_max
        self.unsent_limit = unsent_limit
        self.table = UnackedTable(line.stamp)
        self.sink = ChannelSink(
            self.number, self.table, output, self.frame_bytes_max, ChannelSinkOwner(self)
        )
        self.consumers: dict[str, Consumer] = {}
        self.queues_of: dict[str, QueueActor] = {}
        self.unsent: dict[str, Unsent] = {}
        self.prefetch = 0
        self.prefetch_bytes = 0
        self.first: i64 = 0
        self.cancel_notify = False
        self.is_closed = False
        self.answering = ChannelAnswering(self)
        self.times = AnswerTimes(output.times)

    # -- answers ---------------------------------------------------------------------------------

    def unanswered(self) -> i64:
        """Publishes that wait for their confirms, or for those of a commit."""
        raise NotImplementedError

    def answer_publishes(self) -> None:
        """Write every confirm that is due, coalesced."""
        raise NotImplementedError

    def note_request(self, arrived: i64) -> None:
        """In this turn requests of the client were taken, and `arrived` publishes so far."""
        line = self.line
        times = self.times
        times.arrived = arrived
        if line.is_accounting:
            times.heard(line.heard_ns, line.turn_ns, line.flushed_ns)
            times.note_unanswered(self.unanswered())

    def note_reply(self, kind: i64) -> None:
        """An answer of this `kind` was written, see AnswerTimes.answered."""
        if self.line.is_accounting:
            self.times.reply = kind
            self.output.note_answering(self.answering)

    def answer_due(self) -> None:
        """Everything is about to be sent: write the answers that wait for that."""
        times = self.times
        writer = self.output.writer
        before: i64 = len(writer)
        flying: i64 = self.unanswered()
        self.answer_publishes()
        kind: i64 = times.reply
        if kind == 0 and len(writer) > before:
            kind = times.awaited
        if kind != 0 and self.line.is_accounting:
            times.answered(kind, flying, self.unanswered(), self.line.turn_ns)

    # -- settling --------------------------------------------------------------------------------

    def settle_one(self, tag: i64) -> None:
        """Acknowledge one delivery. Raises: ChannelFault 406 for a tag nobody waits for."""
        delivery = self.table.take(tag)
        if delivery is None:
            raise unknown_tag(tag, 80)
        sink = self.sink
        if delivery.consumer is not None:
            sink.unacked_count -= 1
            sink.unacked_bytes -= delivery.message.body_bytes
        delivery.queue.settle(delivery)
        if sink.waiting:
            sink.serve_waiting()

    def take_many(self, tag: i64, method_id: int) -> list[Delivery]:
        """Deliveries up to `tag` (0: all), no longer remembered. Raises: ChannelFault 406."""
        if tag != 0 and not self.table.is_known(tag):
            raise unknown_tag(tag, method_id)
        return self.table.take_up_to(tag)

    def settle_many(self, deliveries: list[Delivery], is_discard: bool = False) -> None:
        """Forget deliveries: acknowledged, or with `is_discard` rejected for good."""
        sink = self.sink
        for delivery in deliveries:
            if delivery.consumer is not None:
                sink.unacked_count -= 1
                sink.unacked_bytes -= delivery.message.body_bytes
            if is_discard:
                delivery.queue.discard(delivery)
        if not is_discard:
            at: i64 = 0
            end: i64 = len(deliveries)
            while at < end:
                at = deliveries[at].queue.settle_run(deliveries, at)
        if sink.waiting:
            sink.serve_waiting()

    def requeue_many(self, deliveries: list[Delivery]) -> None:
        """Put deliveries back into their queues, each queue told once."""
        sink = self.sink
        by_queue: dict[ConsumerQueue, list[Delivery]] = {}
        for delivery in deliveries:
            if delivery.consumer is not None:
                sink.unacked_count -= 1
                sink.unacked_bytes -= delivery.message.body_bytes
            by_queue.setdefault(delivery.queue, []).append(delivery)
        for queue, some in by_queue.items():
            queue.requeue(some)
        if sink.waiting:
            sink.serve_waiting()

    def offer_consumers(self) -> None:
        """Something all consumers of the channel share has changed, other than by an answer."""
        self.sink.serve_waiting()
        consumers = list(self.consumers.values())
        count: i64 = len(consumers)
        for index in range(count):
            consumer = consumers[(self.first + index) % count]
            consumer.queue.consumer_changed(consumer)

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


def unknown_tag(tag: i64, method_id: int) -> ChannelFault:
    """RabbitMQ's answer to a delivery tag nobody waits for. method_id: of class basic."""
    shown: i64 = tag
    text = str(int(shown)) if shown >= 0 else str(int(shown) + (1 << 64))
    return ChannelFault(406, f"unknown delivery tag {text}", 60, method_id)
