"""The actor of one channel: publishes and methods in their order, deliveries out, answers back.

The lane from the connection holds publishes, the inbox all other methods, and the order between
them is kept. When a publish must wait (parking profiles), methods do not wait behind it:

    settles, qos, flow, consume, cancel, get, purge, queue.declare   go past waiting publishes
    every other method (bind, delete, confirm, tx, close ...)        first forces them through

Forcing hands over past closed hops, at most one lane's window of messages, and is counted.
"""

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.broker.actors.actor import BLOCKED, IDLE, Line
from penstock.broker.actors.deliver import write_confirms, write_return
from penstock.broker.actors.lane import Lane
from penstock.broker.actors.output import Output
from penstock.broker.channel.deliveries import DeliveringChannel
from penstock.broker.channel.inbox import Inbox
from penstock.broker.channel.publish import Publisher
from penstock.broker.channel.route import PublisherHost
from penstock.broker.channel.transactions import Transaction
from penstock.flow.strategy import Strategy
from penstock.protocol.content import EVENT_ACK, Event, Message
from penstock.telemetry.answer_times import BASIC_RETURN
from penstock.telemetry.events import ESCAPE

CHANNEL_CLOSE = 0x140028  # The one barrier method that goes through under an alarm.


@mypyc_attr(allow_interpreted_subclasses=True)
class Verbs:
    """What a channel is asked besides publishing, basic.ack; see broker/session/verbs. Nominal
    base."""

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


class ChannelPublisherHost(PublisherHost):
    """The channel as its publisher sees it."""

    __slots__ = ("channel",)

    def __init__(self, channel: "Channel") -> None:
        self.channel = channel

    def returned(self, message: Message, code: int, text: str) -> None:
        self.channel.give_back(message, code, text)

    def must_answer(self) -> None:
        channel = self.channel
        channel.times.queued(channel.line.turn_ns)
        channel.output.note_answering(channel.answering)

    def timed(self, queued_ns: i64, joined_ns: i64, sent_ns: i64, done_ns: i64) -> None:
        self.channel.times.synced(queued_ns, joined_ns, sent_ns, done_ns)

    def may_resume(self) -> None:
        self.channel.wake()


class Channel(DeliveringChannel):
    """upstream: the lane from the connection; publisher: the publishing side, None until the
    connection has set it; the consuming side is the base class."""

    __slots__ = (
        "escapes",
        "held",
        "host",
        "inbox",
        "is_stalled",
        "publisher",
        "stalled_by",
        "strategy",
        "transaction",
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
        super().__init__(identity, number, output, frame_bytes_max, unsent_limit, line)
        self.host = host
        self.verbs = verbs
        self.strategy = strategy
        self.publisher: Publisher | None = None
        self.upstream: Lane | None = None
        self.held: Message | None = None
        self.inbox = Inbox()
        self.transaction: Transaction | None = None
        self.is_stalled = False
        self.stalled_by = ("", "")
        self.escapes: i64 = 0

    # -- inbox -----------------------------------------------------------------------------------

    def offered(self, lane: Lane) -> None:
        lane.is_listed = True
        self.wake()

    def told(self, event: Event) -> None:
        """A method arrives behind everything that has arrived so far."""
        self.inbox.add(event)
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
        if self.inbox.arrived != self.times.arrived:
            self.note_request(self.inbox.arrived)
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
            self._stall((publisher.waits_for, publisher.waits_on))
        else:
            self._unstall()
        if self.inbox.has_method() and (is_waiting or self._is_behind_held(upstream)):
            self._past_waiting()
        if is_waiting or self.output.is_full or self._is_behind_held(upstream):
            return False
        return len(upstream.items) > upstream.head or self.inbox.has_method()

    def _in_order(self, publisher: Publisher, upstream: Lane, budget: i64) -> bool:
        """Publishes and methods in the order they came; True if the next publish has to wait."""
        is_waiting = False
        done: i64 = 0
        bytes_: i64 = 0
        try:
            while budget > 0 and not self.is_closed and not self.output.is_full:
                if self.inbox.has_method() and self.inbox.first().after <= self.inbox.taken:
                    if done > 0:
                        self._repay(upstream, done, bytes_)
                        done = 0
                        bytes_ = 0
                    if publisher.parked is not None:
                        self._unpark_before(self.inbox.first(), publisher)
                    self._perform(self.inbox.next())
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
                self.inbox.taken += 1
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

    def _is_behind_held(self, upstream: Lane) -> bool:
        """Whether the next method stands behind a publish that the connection still holds."""
        inbox = self.inbox
        is_lane_empty = upstream.head >= len(upstream.items)
        return is_lane_empty and inbox.has_method() and inbox.first().after > inbox.taken

    def _repay(self, upstream: Lane, done: i64, bytes_: i64) -> None:
        upstream.trim()
        self.strategy.repay(upstream, upstream.origin, done, bytes_)

    def _past_waiting(self) -> None:
        """Methods that arrived behind waiting publishes."""
        while self.inbox.has_method() and not self.is_closed and not self.output.is_full:
            event = self.inbox.first()
            if not self.verbs.goes_past(event):
                if event.tag != CHANNEL_CLOSE and self.host.is_alarmed(self):
                    return
                self.force()
                if self.is_closed:
                    return
            self._perform(self.inbox.next())

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
            self.inbox.taken += 1
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
        self.inbox.end()
        for is_forced in (False, True):
            if is_forced and not self.is_closed:
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

    def _stall(self, by: tuple[str, str]) -> None:
        if not self.is_stalled:
            self.is_stalled = True
            self.stalled_by = by
            self.note_held(by[0], by[1], self.line.clock.monotonic_ns())

    def _unstall(self) -> None:
        if self.is_stalled:
            self.is_stalled = False
            self.note_freed(self.stalled_by[0], self.stalled_by[1], self.line.clock.monotonic_ns())

    def rest_state(self) -> int:
        return BLOCKED if self.is_stalled or not self.gate.is_open else IDLE

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
        else:
            self.settle_one(tag)

    def give_back(self, message: Message, code: int, text: str) -> None:
        """basic.return with the message's content."""
        write_return(self.output.writer, self.number, code, text, message, self.frame_bytes_max)
        self.note_reply(BASIC_RETURN)
        self.note_answered(message)

    def note_answered(self, message: Message) -> None:
        self.output.mark()
        if self.output.note_answered(message.origin, len(message.raw)):
            self.host.output_full()

    def answer_publishes(self) -> None:
        publisher = self.publisher
        confirms = None if publisher is None else publisher.confirms
        if confirms is None or not confirms.is_dirty:
            return
        write_confirms(self.output.writer, self.number, confirms)
        self.output.mark()

    def unanswered(self) -> i64:
        publisher = self.publisher
        confirms = None if publisher is None else publisher.confirms
        return 0 if confirms is None or self.is_closed else confirms.span()

    # -- life ------------------------------------------------------------------------------------

    def _repay_all(self) -> None:
        """Whatever still waits in the lane is dropped and repaid: the channel has failed."""
        upstream = self.upstream
        if upstream is None:
            return
        left = upstream.take_rest()
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
            publisher.confirms = None
        self.inbox.clear()
        self.held = self.transaction = None
        self.sink.is_flow_active = False
        self.requeue_many(self.table.take_up_to(0))
        self.is_alive = False
