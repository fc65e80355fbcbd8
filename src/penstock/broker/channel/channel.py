"""The actor of one channel: publishes and methods in their order, deliveries out, answers back.

The lane from the connection holds publishes, the inbox all other methods, and the order between
them is kept. When a publish must wait (parking profiles), methods do not wait behind it:

    settles, qos, flow, consume, cancel, get, purge, queue.declare   go past waiting publishes
    every other method (bind, delete, confirm, tx, close ...)        first routes them

A publish that is parked for its queue has been routed, so every method goes past that one; only
queue.delete, and an end, first hand over what is parked. Routing what waits in front of the channel
parks what its lot has room for and hands over the rest past closed hops, at most one lane's window
of messages, and is counted. A tx.commit may have to wait itself (session/piecewise).

A delivery is remembered until it is answered; acknowledging forgets it, requeueing puts it back
where it was. What consumers of one channel share changes for all of them at once.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.broker.actors.actor import BLOCKED, IDLE, Actor, Errand, Line, Owed
from penstock.broker.actors.confirms import write_confirms
from penstock.broker.actors.deliver import (
    ENDED,
    ChannelFace,
    ChannelSink,
    write_cancel,
    write_return,
)
from penstock.broker.actors.lane import Lane, LaneReceiver
from penstock.broker.actors.output import Output
from penstock.broker.channel.content_rules import PropertyRules
from penstock.broker.channel.inbox import Inbox
from penstock.broker.channel.parking import Parking
from penstock.broker.channel.parking_lot import ParkingLot
from penstock.broker.channel.publish import Publisher
from penstock.broker.channel.publish_run import publish_run
from penstock.broker.channel.settling import GIVE_BACK, Settling, settled_at_once, unknown_tag
from penstock.broker.channel.transactions import ACK, DROP, REQUEUE, Transaction
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.vhost import VirtualHost
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.gate import NOBODY, Gate
from penstock.protocol.content import EVENT_ACK, EVENT_METHOD, Event, Message
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery, Unsent
from penstock.queues.unacked import UnackedTable
from penstock.routing.search import WORK_OF_ONE
from penstock.telemetry.answer_times import BASIC_RETURN, TX_COMMIT, AnswerTimes
from penstock.telemetry.events import ESCAPE

METHOD_COST: Final = 8
"""Ordinary publishes that take about as long as a method; an acknowledgement is like one."""
CHANNEL_CLOSE: Final = 0x140028  # The one barrier method that goes through under an alarm.
OFFERED_AT_ONCE: Final = 1024
"""Consumers that are asked whether they take something before others have their turn."""
SETTLE_COST: Final = 64
"""Ordinary publishes that take about as long as that."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Verbs:
    """What a channel is asked besides publishing and basic.ack. A base although only
    broker/session/verbs derives from it: the session is made of connections, which are made of
    channels."""

    __slots__ = ()

    def perform(self, channel: "Channel", event: Event) -> None:
        """Do what the method says. Raises: PeerError."""
        raise NotImplementedError

    def closing(self, channel: "Channel") -> None:
        """The channel ends, and still has its counts."""

    def keeps_commit(self, channel: "Channel") -> bool:
        """Whether the tx.commit that is next waits for a hop."""
        raise NotImplementedError

    def goes_past(self, event: Event) -> bool:
        """Whether the method may overtake waiting publishes."""
        raise NotImplementedError


class ChannelHost(Actor):
    """What a channel asks of its connection. A base although only the connection derives from it:
    connections are made of channels."""

    __slots__ = ()

    def release_parked(self, channel: "Channel") -> None:
        """Hand over what waits at the entrance of `channel`, hop closed or not."""
        raise NotImplementedError

    def stop_behind_parked(self, channel: "Channel") -> bool:
        """Whether an alarm or a rate limit holds publishes of `channel`; if so, read no more."""
        raise NotImplementedError

    def hop_opened(self, channel: "Channel", gate: Gate) -> None:
        """`channel` takes publishes again."""
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


NO_CONSUMERS: Final[dict[str, Consumer]] = {}
NO_QUEUES: Final[dict[str, QueueActor]] = {}
NO_UNSENT: Final[dict[str, Unsent]] = {}
"""What all channels share that have nothing to remember there."""


class Ending(Owed):
    """What a channel had not settled when it ended."""

    __slots__ = ("channel", "settling")

    def __init__(self, channel: "Channel", settling: Settling) -> None:
        self.channel = channel
        self.settling = settling

    def step(self) -> bool:
        settling = self.settling
        some = settling.next()
        try:
            self.channel.settle(some, settling.action, settling.what, settling.method_id)
        except ConnectionFault:
            settling.action = GIVE_BACK
        return len(settling.left) > 0


class Offering(Errand):
    """The consumers of a channel that are still to be asked whether they take something, the next
    one last. at_once: so many the first time; is_again: there is something new for all of them."""

    __slots__ = ("at_once", "channel", "consumers", "is_again")

    def __init__(self, channel: "Channel", at_once: i64) -> None:
        self.channel = channel
        self.at_once: i64 = at_once
        self.consumers = channel.consumers_in_turn()
        self.is_again = False

    def step(self) -> bool:
        left: i64 = self.at_once
        self.at_once = OFFERED_AT_ONCE
        while left > 0 and self.consumers:
            left -= 1
            consumer = self.consumers.pop()
            consumer.queue.consumer_changed(consumer)
        if self.consumers:
            return True
        if self.is_again and not self.channel.is_closed:
            self.is_again = False
            self.consumers = self.channel.consumers_in_turn()
            return True
        self.channel.offering = None
        return False


class ChannelAnswering(ChannelFace):
    """The channel as its output, its sink and its publishing side see it, until it is let go."""

    __slots__ = ("channel",)

    def __init__(self, channel: "Channel") -> None:
        super().__init__()
        self.channel: Channel | None = channel

    def answer(self) -> None:
        channel = self.channel
        if channel is not None:
            channel.answer_due()
            if channel.is_closed and not channel.is_alive:
                self.channel = None

    def unasked(self) -> None:
        channel = self.channel
        if channel is not None and channel.is_closed and not channel.is_alive:
            self.channel = None

    def consumer_gone(self, consumer: Consumer) -> None:
        if self.channel is not None:
            self.channel.consumer_gone(consumer)

    def give_back(self, message: Message, code: int, text: str) -> None:
        if self.channel is not None:
            self.channel.give_back(message, code, text)


class Channel(LaneReceiver):
    """One channel of a connection.

    number: 1..65535; upstream: the lane from the connection; publisher: its publishing side;
    parking: publishes that wait, in front of it and behind; inbox: methods that wait
    table: unanswered deliveries; consumers, queues_of: by consumer tag; prefetch, prefetch_bytes:
    for consumers started from now on; unsent: counts by queue name; first: which consumer is the
    first to be asked when all are
    offering: which consumers are still to be asked, None for none
    settling: what one settle has named and is not settled yet; methods behind it wait
    fault: what the channel closes with when all is done that had arrived before, None for nothing
    times: how long the client waits for answers; escapes: publishes forced past closed hops;
    stalled_by: peer and reason of the hold that is on record while `is_stalled`.
    """

    __slots__ = (
        "answering",
        "cancel_notify",
        "consumers",
        "escapes",
        "fault",
        "first",
        "frame_bytes_max",
        "host",
        "inbox",
        "is_closed",
        "is_stalled",
        "number",
        "offering",
        "output",
        "parking",
        "prefetch",
        "prefetch_bytes",
        "publisher",
        "queues_of",
        "settling",
        "sink",
        "stalled_by",
        "strategy",
        "table",
        "times",
        "transaction",
        "unsent",
        "unsent_least",
        "unsent_most",
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
        vhost: VirtualHost,
        rules: PropertyRules,
        account: Account,
        strategy: Strategy,
        lot: ParkingLot,
        is_parking: bool,
        frame_bytes_max: int,
        unsent_least: int,
        unsent_most: int,
        line: Line,
    ) -> None:
        super().__init__(identity, line)
        self.number: i64 = number
        self.host = host
        self.output = output
        self.verbs = verbs
        self.strategy = strategy
        self.frame_bytes_max: i64 = frame_bytes_max
        self.unsent_least = unsent_least
        self.unsent_most = unsent_most
        self.upstream: Lane | None = None
        self.parking = Parking(lot)
        self.inbox = Inbox()
        self.transaction: Transaction | None = None
        self.table = UnackedTable(line.stamp)
        self.settling: Settling | None = None
        self.consumers: dict[str, Consumer] = NO_CONSUMERS
        self.queues_of: dict[str, QueueActor] = NO_QUEUES
        self.unsent: dict[str, Unsent] = NO_UNSENT
        self.prefetch = 0
        self.prefetch_bytes = 0
        self.first: i64 = 0
        self.offering: Offering | None = None
        self.cancel_notify = False
        self.is_closed = False
        self.is_stalled = False
        self.stalled_by = ("", "")
        self.escapes: i64 = 0
        self.fault: ChannelFault | None = None
        self.times = AnswerTimes(output.times)
        self.answering = ChannelAnswering(self)
        self.sink = ChannelSink(
            self.number, self.table, output, self.frame_bytes_max, self.answering
        )
        self.publisher = Publisher(
            self,
            vhost,
            account,
            strategy,
            is_parking,
            self.parking,
            rules,
            output,
            self.answering,
            self.times,
        )
        self.publisher.caused_by = self.table

    # -- gates: its own, and that of the hop that leads to it ------------------------------------

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        if gate is self.gate:
            super().gate_closed(gate, peer, reason, now_ns)

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        if gate is self.gate:
            super().gate_opened(gate, peer, reason, now_ns)
        else:
            self.host.hop_opened(self, gate)

    def grant_deferred(self, gate: Gate, sender: str, messages: int) -> None:
        if gate is self.gate:
            super().grant_deferred(gate, sender, messages)

    # -- inbox -----------------------------------------------------------------------------------

    def offered(self, lane: Lane) -> None:
        lane.is_listed = True
        self.wake()

    def told(self, event: Event) -> None:
        """A method arrives behind everything that has arrived so far."""
        self.inbox.add(event)
        self.wake()

    def turn(self, budget: i64) -> bool:
        if self.is_closed:
            return self._rest(budget)
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

    def _rest(self, budget: i64) -> bool:
        """Hand over what the closed channel has parked on the disk; True if there is more."""
        self.publisher.retry(budget)
        if not self.parking.lines:
            self.is_alive = False
            self.publisher.end_rest()
            self.let_go(True)
            return False
        return len(self.parking.opened) > 0 and not self.publisher.account.is_stopped()

    def _work(self, budget: i64) -> bool:
        publisher = self.publisher
        upstream = self.upstream
        if upstream is None or self.is_closed:
            return False
        if self.parking.opened:
            # Half a turn at most: what comes now is for other queues.
            is_forced = publisher.account.is_stopped()
            handed: i64 = publisher.retry((budget + 1) // 2)
            budget -= handed
            if is_forced and handed > 0:
                self.escapes += handed
                self.line.recorder.record(ESCAPE, self.identity, self.parking.waits_for, "", 1)
        is_waiting = self._in_order(publisher, upstream, budget)
        if self.is_closed:
            return False
        if self.settling is not None and not self.output.is_full:
            return True
        if is_waiting:
            self._stall((self.parking.waits_for, self.parking.waits_on))
        elif self.is_stalled:
            self._unstall()
        inbox = self.inbox
        has_method = len(inbox.methods) > 0 and inbox.has_method()
        if has_method and (is_waiting or self._is_behind_parked(upstream)):
            self._past_waiting()
            has_method = inbox.has_method()
        has_opened = len(self.parking.opened) > 0
        if has_opened and publisher.account.is_stopped():
            has_opened = is_waiting
        if is_waiting or self.output.is_full or (has_method and self._is_behind_parked(upstream)):
            return has_opened
        has_publish = publisher.spread is not None or len(upstream.items) > upstream.head
        return has_opened or has_method or has_publish

    def _in_order(self, publisher: Publisher, upstream: Lane, budget: i64) -> bool:
        """Publishes and methods in the order they came; True if the next publish has to wait."""
        is_waiting = False
        done: i64 = 0
        bytes_: i64 = 0
        inbox = self.inbox
        count: i64 = 0
        size: i64 = 0
        try:
            while budget > 0 and not self.is_closed and not self.output.is_full:
                if publisher.spread is not None:
                    budget -= publisher.spread_on(budget)
                    continue
                if self.settling is not None:
                    self.settle_some()
                    budget -= SETTLE_COST
                    continue
                if inbox.methods and inbox.is_due():
                    if self.transaction is not None and self._keeps_commit():
                        is_waiting = True
                        break
                    if done > 0:
                        self._repay(upstream, done, bytes_)
                        done = 0
                        bytes_ = 0
                    event = inbox.next()
                    self._perform(event)
                    budget -= event.count if event.kind == EVENT_ACK else METHOD_COST
                    continue
                items = upstream.items
                at: i64 = upstream.head
                if at >= len(items):
                    upstream.is_listed = False
                    break
                if self.transaction is None and len(items) - at > 1:
                    due: i64 = inbox.until_due()
                    most: i64 = budget if budget < due else due
                    count, size = publish_run(publisher, items, at, most)
                    if count > 0:
                        upstream.head = at + count
                        inbox.taken += count
                        done += count
                        bytes_ += size
                        budget -= count
                        continue
                message = items[at]
                size = len(message.raw)
                if self.transaction is not None:
                    publisher.check(message)
                    self.transaction.publish(message)
                elif not publisher.publish(message, False):
                    is_waiting = not publisher.is_wiring()
                    break
                upstream.head = at + 1
                inbox.taken += 1
                done += 1
                bytes_ += size
                budget -= 1
                if publisher.work >= WORK_OF_ONE:
                    budget -= publisher.take_work()
        finally:
            if done > 0:
                self._repay(upstream, done, bytes_)
        return is_waiting

    def _is_behind_parked(self, upstream: Lane) -> bool:
        """Whether the next method stands behind a publish at the entrance."""
        inbox = self.inbox
        is_lane_empty = upstream.head >= len(upstream.items)
        return is_lane_empty and inbox.has_method() and inbox.first().after > inbox.taken

    def _repay(self, upstream: Lane, done: i64, bytes_: i64) -> None:
        if upstream.head >= len(upstream.items):
            # Here too, because a budget that ends with the last message leaves the loop early.
            upstream.is_listed = False
            upstream.items = []
            upstream.head = 0
        elif upstream.head >= 256:
            del upstream.items[: upstream.head]
            upstream.head = 0
        self.strategy.repay(upstream, upstream.origin, done, bytes_)

    def _past_waiting(self) -> None:
        """Methods that arrived behind waiting publishes."""
        while self.inbox.has_method() and not self.is_closed and not self.output.is_full:
            event = self.inbox.first()
            if not self.verbs.goes_past(event):
                if event.tag != CHANNEL_CLOSE and self.host.stop_behind_parked(self):
                    return
                if self.transaction is not None and self._keeps_commit():
                    return
                self.force()
                if self.is_closed:
                    return
            self._perform(self.inbox.next())

    def force(self) -> None:
        """Route every publish that waits in front of this channel: it is parked where there is
        room, and handed over otherwise, closed hops or not."""
        publisher = self.publisher
        upstream = self.upstream
        if upstream is None or self.inbox.is_kept:
            return
        self.host.release_parked(self)
        items = upstream.items
        count: i64 = 0
        bytes_: i64 = 0
        escaped: i64 = 0
        forced: i64 = publisher.forced
        while upstream.head < len(items):
            message = items[upstream.head]
            upstream.head += 1
            self.inbox.taken += 1
            count += 1
            bytes_ += len(message.raw)
            if self.transaction is not None:
                publisher.check(message)
                self.transaction.publish(message)
            elif not publisher.publish(message, False):
                escaped += 0 if publisher.is_wiring() else 1
                publisher.publish(message, True)
        publisher.finish_spread()
        escaped += publisher.forced - forced
        if escaped > 0:
            self.escapes += escaped
            peer = self.parking.waits_for
            self.line.recorder.record(ESCAPE, self.identity, peer, "", int(escaped))
        if count > 0:
            self._repay(upstream, count, bytes_)
        upstream.is_listed = False
        self._unstall()

    def force_queue(self, name: str) -> int:
        """Hand over what is parked for the queue `name`; how many publishes stay on the disk."""
        lane = self.publisher.lanes.get(name)
        if lane is None:
            return 0
        peer = self.parking.waits_for
        count: i64 = self.publisher.force_line(lane)
        if count > 0:
            self.escapes += count
            self.line.recorder.record(ESCAPE, self.identity, peer, "", int(count))
        line = self.parking.lines.get(lane)
        return 0 if line is None else int(line.count())

    def end_with(self, fault: ChannelFault) -> None:
        """The channel closes with `fault`, behind all that has arrived and in turns as that is."""
        self.fault = fault
        self.told(Event(EVENT_METHOD, self.number, b"", CHANNEL_CLOSE, False))

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
            self.publisher.is_waiting = True
            self.stalled_by = by
            self.note_held(by[0], by[1], self.line.clock.monotonic_ns())

    def _unstall(self) -> None:
        if self.is_stalled:
            self.is_stalled = False
            self.publisher.is_waiting = False
            self.parking.lot.leave(self)
            self.note_freed(self.stalled_by[0], self.stalled_by[1], self.line.clock.monotonic_ns())

    def rest_state(self) -> int:
        return BLOCKED if self.is_stalled or not self.gate.is_open else IDLE

    # -- methods ---------------------------------------------------------------------------------

    def _keeps_commit(self) -> bool:
        """Whether a tx.commit is next, and waits for a hop."""
        event, parking = self.inbox.first(), self.parking
        is_commit = event.tag == TX_COMMIT and event.kind != EVENT_ACK
        self.inbox.is_kept = parking.note_commit(self, is_commit and self.verbs.keeps_commit(self))
        return self.inbox.is_kept

    def _perform(self, event: Event) -> None:
        if event.kind == EVENT_ACK:
            self.acknowledge(event.tag, event.flag, event.count)
        else:
            self.verbs.perform(self, event)

    def acknowledge(self, tag: i64, is_multiple: bool, count: i64 = 1) -> None:
        """basic.ack, or `count` of them for one tag after the other. Raises: ChannelFault 406 for a
        tag nobody waits for."""
        if count > 1 and self.transaction is None:
            run = self.table.take_run(tag, count)
            if run:
                self.settle_many(run)
                return
        while count > 0:
            if self.transaction is not None:
                self.verbs.perform(self, Event(EVENT_ACK, self.number, b"", tag, is_multiple))
            elif is_multiple:
                self.settle_all(self.take_many(tag, 80), ACK, "", 80)
            else:
                self.settle_one(tag)
            tag += 1
            count -= 1

    def give_back(self, message: Message, code: int, text: str) -> None:
        """basic.return with the message's content."""
        write_return(self.output.writer, self.number, code, text, message, self.frame_bytes_max)
        self.note_reply(BASIC_RETURN)
        self.output.note_answered(message.origin, len(message.raw))

    # -- answers ---------------------------------------------------------------------------------

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

    def answer_publishes(self) -> None:
        confirms = self.publisher.confirms
        if confirms is None or not confirms.is_dirty:
            return
        write_confirms(self.output.writer, self.number, confirms)
        self.output.mark()

    def unanswered(self) -> i64:
        confirms = self.publisher.confirms
        if confirms is None or self.is_closed:
            return 0
        # As Confirms.span, which is not called for every turn.
        return len(confirms.waiting) - confirms.head + len(confirms.early)

    # -- settling --------------------------------------------------------------------------------

    def settle_one(self, tag: i64) -> None:
        """Acknowledge one delivery. Raises: ChannelFault 406 for a tag nobody waits for."""
        delivery = self.table.take(tag)
        if delivery is None:
            raise unknown_tag(tag, 80)
        sink = self.sink
        if delivery.consumer is not None:
            sink.unacked_count -= 1
            sink.unacked_bytes -= i64(delivery.message.body_size)
        delivery.queue.settle(delivery)
        if sink.waiting:
            sink.serve_waiting()

    def take_many(self, tag: i64, method_id: int) -> list[Delivery]:
        """Deliveries up to `tag` (0: all), no longer remembered. Raises: ChannelFault 406."""
        if tag != 0 and not self.table.is_known(tag):
            raise unknown_tag(tag, method_id)
        return self.table.take_up_to(tag)

    def settle_all(
        self, deliveries: list[Delivery], action: int, what: str, method_id: int
    ) -> None:
        """Some of what a method has named, the rest in turns. Raises: as `settle`."""
        if len(deliveries) <= settled_at_once(action):
            self.settle(deliveries, action, what, method_id)
            return
        self.settling = Settling(deliveries, action, what, method_id)
        self.inbox.is_parked = True
        self.settle_some()
        self.wake()

    def settle_some(self) -> None:
        """The next of those that are being settled. Raises: ConnectionFault 540, see `settle`."""
        settling = self.settling
        assert settling is not None, "its caller has looked"
        some = settling.next()
        if not settling.left:
            self.settling = None
            self.inbox.unpark()
        self.settle(some, settling.action, settling.what, settling.method_id)

    def settle(self, deliveries: list[Delivery], action: int, what: str, method_id: int) -> None:
        """action: ACK, REQUEUE, DROP, or GIVE_BACK: nobody is there to hear a fault. Raises:
        ConnectionFault 540 if a stream has made one of `deliveries` that are to be requeued or
        dropped: it takes nothing back."""
        if action == ACK:
            self.settle_many(deliveries)
            return
        if action == GIVE_BACK:
            self.requeue_many(deliveries)
            return
        try:
            for delivery in deliveries:
                delivery.queue.check_verb(what, 60, method_id)
        except ConnectionFault:
            # The connection ends, and what it held goes back to the queues that take it.
            self.requeue_many(deliveries)
            raise
        if action == REQUEUE:
            self.requeue_many(deliveries)
        else:
            self.settle_many(deliveries, action == DROP)

    def settle_many(self, deliveries: list[Delivery], is_discard: bool = False) -> None:
        """Forget deliveries: acknowledged, or with `is_discard` rejected for good."""
        sink = self.sink
        for delivery in deliveries:
            if delivery.consumer is not None:
                sink.unacked_count -= 1
                sink.unacked_bytes -= i64(delivery.message.body_size)
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

    def offer_consumers(self, at_once: i64 = OFFERED_AT_ONCE) -> i64:
        """Something all consumers of the channel share has changed, other than by an answer. Up to
        `at_once` of them are asked now, those of very many in turns; how many may still be."""
        self.sink.serve_waiting()
        if self.offering is not None:
            self.offering.is_again = True
            return at_once
        count: i64 = len(self.consumers)
        if count == 0:
            return at_once
        self.offering = Offering(self, at_once)
        self.line.errands.begin(self.offering)
        return at_once - count if count < at_once else 0

    def consumers_in_turn(self) -> list[Consumer]:
        """The first to be asked last."""
        consumers = list(self.consumers.values())
        at: i64 = self.first % len(consumers) if consumers else 0
        in_turn = consumers[at:] + consumers[:at]
        in_turn.reverse()
        return in_turn

    def add_consumer(self, consumer: Consumer, queue: QueueActor) -> None:
        """`consumer` takes from `queue` from now on."""
        if self.consumers is NO_CONSUMERS:
            self.consumers, self.queues_of = {}, {}
        self.consumers[consumer.tag] = consumer
        self.queues_of[consumer.tag] = queue

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
            unsent = Unsent(self.unsent_least, self.unsent_most)
            if self.unsent is NO_UNSENT:
                self.unsent = {}
            self.unsent[queue_name] = unsent
        return unsent

    def _forget_unsent(self) -> None:
        """Drop the counts of queues that nothing is consumed from and nothing waits to be sent."""
        for name, unsent in list(self.unsent.items()):
            if not unsent.consumers and unsent.count == 0:
                del self.unsent[name]

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
        self.verbs.closing(self)
        self._repay_all()
        self._unstall()
        self.publisher.close()
        self.answer_publishes()
        self.publisher.tell_nobody()
        self.inbox.clear()
        self.parking.clear_entrance()
        self.transaction = None
        self.sink.is_flow_active = False
        settling, self.settling = self.settling, None
        if settling is not None:
            self.line.errands.begin(Ending(self, settling))
        if self.table.count > 0:
            rest = Settling(self.table.take_up_to(0), GIVE_BACK, "", 0)
            self.line.errands.begin(Ending(self, rest))
        self.is_alive = len(self.parking.lines) > 0
        if self.parking.opened:
            # No gate opens for these again.
            self.wake()

    def let_go(self, is_sending: bool) -> None:
        """Of the closed channel nothing is left to do, and nothing of it leads back to it: it is
        freed when the last one has forgotten it, without the collector. is_sending: what it has
        answered last may still be sent."""
        if self.is_alive:
            return
        self.gate.observer = NOBODY
        if self.ledger is not None:
            self.ledger.parked = None
        self.sink.face = ENDED
        self.publisher.let_go()
        if not is_sending or not self.answering.is_listed:
            self.answering.channel = None
