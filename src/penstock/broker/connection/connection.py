"""The actor of one connection: reads while its gate is open, and stops between two events.

Only here does anything wait (law 9). What a publish meets:

    alarm set              it is parked; connection.blocked goes out; reading continues, with
                           parking
    hop closed, no tokens  it is parked at its channel's entrance; reading continues, with parking,
                           so acks and methods are handled
    no place there         it overflows: the gate closes, and the socket is not read until the hop
                           opens, there are tokens, or the alarm clears
    hop closed, no parking the gate is the hop's own sender gate: nothing more is parsed
Methods, heartbeats and acknowledgements are handled whatever waits, as long as they can be read. A
method that may not overtake a parked publish waits with it; what is forced past (a channel or the
connection is closed) is paid for all the same at a rate limit: the next ones wait longer.

What an alarm does to a publish is the connection's alarm_action, unless a policy (`alarm-action`)
says otherwise of a queue that it is for. Of several queues the most drastic one counts: close
before nack, nack before block; a queue without a policy counts as the connection does.

    block   park it, tell connection.blocked (the default)
    nack    on a confirming channel answer basic.nack, in the publish's place; otherwise block
    close   connection.close 320 with the alarm's reason

Without parking (RabbitMQ's profiles) block stops the socket at a content frame (scenario 69).
States are RabbitMQ's words: running, flow, blocking, blocked (flow-semantics section 3). COMPILED.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.broker.actors.actor import BLOCKED, IDLE, Line
from penstock.broker.actors.lane import Lane
from penstock.broker.actors.output import Output, Shell
from penstock.broker.channel.channel import METHOD_COST, OFFERED_AT_ONCE, Channel, ChannelHost
from penstock.broker.channel.lot_host import LotHost
from penstock.broker.channel.node_parking import NodeParking
from penstock.broker.channel.parking import ALARM, CREDIT, RATE
from penstock.broker.channel.parking_lot import ParkingLot
from penstock.broker.connection.alarm_action import (
    ACTION_BLOCK,
    ACTION_CLOSE,
    ACTION_NACK,
    action_for,
)
from penstock.broker.connection.notifier import Notifier
from penstock.broker.connection.phases import (
    PHASE_CLOSED,
    PHASE_CLOSING,
    PHASE_HEADER,
    PHASE_OPEN,
    PUT_AWAY,
    TRANSITIONS,
)
from penstock.broker.connection.rate_hold import RateHold
from penstock.broker.connection.reading_stop import ReadingStop
from penstock.broker.connection.unfinished import NodeUnfinished, Unfinished
from penstock.flow.account import REASON as DEBT
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.gate import Gate
from penstock.flow.rate import Meter, RatePayer, RateWaiter
from penstock.protocol.content import EVENT_ACK, EVENT_HEARTBEAT, REFUSED, Event, Message
from penstock.protocol.frames import FrameParser
from penstock.telemetry.accounting import BlockLedger


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionVerbs:
    """The cold side of a connection: greeting, negotiation, channel 0, opening and closing
    channels. A base although only broker/session/negotiate derives from it: the session is made of
    connections."""

    __slots__ = ()

    def greet(self, connection: "Connection", header: bytes) -> None:
        """The first eight bytes are here."""
        raise NotImplementedError

    def control(self, connection: "Connection", event: Event) -> None:
        """A method on channel 0. Raises: ConnectionFault."""
        raise NotImplementedError

    def without_channel(self, connection: "Connection", event: Event) -> None:
        """A method on a channel that is not open. Raises: ConnectionFault."""
        raise NotImplementedError

    def close_channel(
        self, connection: "Connection", channel: Channel, fault: ChannelFault
    ) -> None:
        """A channel failed: tell the peer and discard until it has answered."""
        raise NotImplementedError

    def close(self, connection: "Connection", fault: PeerError) -> None:
        """The connection failed: tell the peer and wait for its answer."""
        raise NotImplementedError

    def alarm_reason(self) -> str:
        """Why publishing is held, as clients are told."""
        raise NotImplementedError

    def report(self, error: BaseException, where: str) -> None:
        """A bug of ours: put it into the log."""
        raise NotImplementedError

    def ended(self, connection: "Connection") -> None:
        """The connection is gone from the broker."""
        raise NotImplementedError


NO_ALARMS: Final[dict[str, str]] = {}
"""What all connections share that no alarm has held."""


class ConnectionWaiter(RateWaiter):
    """The connection as a meter sees it."""

    __slots__ = ("connection",)

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def rate_due(self, now_ns: int) -> None:
        self.connection.rate_due(now_ns)


class ConnectionAnswering(LotHost):
    """The connection as its output and lot see it; it answers for channels that are not open."""

    __deletable__ = ("connection",)
    __slots__ = ("connection",)

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self.connection = connection

    def answer(self) -> None:
        connection = self.connection
        times = connection.output.times
        if times.reply != 0:
            times.answered(times.reply, 1, times.unanswered, connection.line.turn_ns)

    def output_changed(self, is_open: bool) -> None:
        self.connection.output_changed(is_open)

    def output_filled(self, is_full: bool) -> None:
        self.connection.output_filled(is_full)

    def books(self) -> BlockLedger:
        return self.connection.books()

    def room_freed(self) -> None:
        self.connection.room_freed()


class Connection(ChannelHost):
    """One connection of a client.

    name: unique, readable; phase: one of PHASE_*; verbs: its cold side
    channels: open ones by number; last_channel: of the publish that came last; parser, output: the
    two directions; is_deaf: a second fault has come, nothing is looked at any more; first: whose
    consumers are asked first when the output has room again, another channel's each time
    lot: how much its channels may park; stop: the publish that has no place and stops the reading
    alarms: source to text; alarm_action: of ACTIONS; is_told_blocked: an alarm holds a publish,
    blocked_by that alarm; notifier: tells the client
    rated: what rate limits hold, None without any; unfinished: what has come in part.
    """

    __slots__ = (
        "account",
        "alarm_action",
        "alarms",
        "answering",
        "blocked_by",
        "channels",
        "first",
        "frame_bytes_max",
        "is_deaf",
        "is_parking",
        "is_told_blocked",
        "last_channel",
        "lot",
        "name",
        "notifier",
        "output",
        "parser",
        "phase",
        "rated",
        "receive_count",
        "shell",
        "stop",
        "strategy",
        "unfinished",
        "verbs",
    )

    def __init__(
        self,
        name: str,
        verbs: ConnectionVerbs,
        strategy: Strategy,
        is_parking: bool,
        node_parking: NodeParking,
        node_unfinished: NodeUnfinished,
        parent: Account | None,
        parser: FrameParser,
        output: Output,
        shell: Shell,
        line: Line,
    ) -> None:
        super().__init__("conn:" + name, line)
        self.is_parking = is_parking
        self.is_deaf = False
        self.is_told_blocked = False
        self.name = name
        self.verbs = verbs
        self.strategy = strategy
        self.parser = parser
        self.output = output
        self.shell = shell
        self.account = Account(self.identity, parent, self.gate, 0)
        self.channels: dict[int, Channel] = {}
        self.last_channel: Channel | None = None
        self.receive_count: i64 = 0
        self.phase: i64 = PHASE_HEADER
        self.frame_bytes_max: i64 = 0
        self.first: i64 = 0
        self.answering = ConnectionAnswering(self)
        self.lot = ParkingLot(self.account, node_parking, self.answering)
        self.unfinished = Unfinished(self.account, self.gate, node_unfinished)
        self.stop = ReadingStop(self.gate)
        self.alarms: dict[str, str] = NO_ALARMS
        self.alarm_action = ACTION_BLOCK
        self.blocked_by = ""
        self.rated: RateHold | None = None
        self.notifier = Notifier()
        output.owner = self.answering

    # -- input -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the peer; call only while `can_receive`."""
        if not self.is_deaf:
            self.parser.feed(data)
            intake = self.line.intake
            if intake is not None:
                intake.left_bytes -= len(data)
                if intake.left_bytes < 0:
                    intake.passed(0)
            self.wake()

    def can_receive(self) -> bool:
        """False while the gate is closed or fed bytes still wait to be parsed."""
        if self.phase == PHASE_CLOSED or not self.gate.is_open or self.is_ready:
            return False
        self.strategy.before_read(self.account)
        return self.gate.is_open

    def turn(self, budget: i64) -> bool:
        if self.phase == PHASE_CLOSED:
            return False
        try:
            has_more = self._parse(budget)
        except ChannelFault as fault:
            channel = self.channels.get(self.parser.faulty_channel)
            if channel is None:
                self.fail(ConnectionFault(504, "expected 'channel.open'", 60, 40))
            else:
                self.parser.discard(int(channel.number))
                channel.end_with(fault)
            return True
        except PeerError as fault:
            self._failed(fault)
            has_more = False
        except Exception as error:
            self.verbs.report(error, self.identity)
            self._failed(ConnectionFault(541, "internal error"))
            has_more = False
        parser = self.parser
        kept: i64 = parser.kept + parser.unread_bytes()
        if kept != self.unfinished.bytes and not has_more:
            self._kept(kept)
        self.output.times.is_sending = has_more or parser.is_cut()
        if not has_more and self.gate.is_open:
            self.shell.resume()
        return has_more

    def _failed(self, fault: PeerError) -> None:
        """The first fault closes the connection; after another one frames cannot be told apart."""
        if self.phase < PHASE_CLOSING:
            self.fail(fault)
            return
        self.is_deaf = True
        self.parser.forget()

    def _parse(self, budget: i64) -> bool:
        if self.phase == PHASE_HEADER:
            header = self.parser.buffer
            if len(header) < 8:
                return False
            self.parser.offset = 8
            self.verbs.greet(self, header[:8])
        parser = self.parser
        received = self.line.received
        gate = self.gate
        stopped = self.stop.channel
        if stopped is not None and gate.is_open:
            self.stop.channel = None
            self._content(stopped, stopped.parking.take_overflow())
        while gate.is_open:
            if budget <= 0:
                return True
            if not parser.next(received):
                if parser.begun:
                    self._drop_contents()
                if parser.offset >= len(parser.buffer):
                    # The last read is not kept while the connection is idle.
                    parser.buffer = b""
                    parser.offset = 0
                return False
            budget -= 1
            message = received.message
            if message is not None:
                if self.phase < PHASE_CLOSING:
                    self._arrive(received.channel, message)
                    if parser.last_bytes > 0 and parser.offset < len(parser.buffer) and budget > 1:
                        budget -= self._arrive_run(message, budget)
                continue
            event = received.event
            if event is not None:
                if event.kind != EVENT_ACK:
                    budget -= METHOD_COST
                elif self.phase == PHASE_OPEN and parser.offset < len(parser.buffer):
                    budget -= parser.more_acks(event, budget)
                self.hear(event)
                if self.phase == PHASE_CLOSED:
                    return False
        return False

    def _drop_contents(self) -> None:
        """A body is kept for an open channel only. Raises: ConnectionFault 504."""
        is_closing = self.phase >= PHASE_CLOSING
        for number in self.parser.take_begun():
            if is_closing:
                self.parser.discard(number)
            elif number not in self.channels:
                raise ConnectionFault(504, "expected 'channel.open'", 60, 40)

    def _kept(self, bytes_: i64) -> None:
        """So much of messages has come in part. An alarm lets one body come to its end."""
        has_grown = self.unfinished.settle(bytes_, self.line.clock.monotonic_ns())
        one_body: i64 = self.parser.body_bytes_max + self.frame_bytes_max
        if has_grown and self.alarms and self.stop.by is None and bytes_ > one_body:
            source = next(iter(self.alarms))
            self._note_alarm(source)
            self.stop.begin(source, ALARM)

    def hear(self, event: Event) -> None:
        """The peer has said it, now or while its login was being checked."""
        if event.kind == EVENT_HEARTBEAT:
            return
        if event.channel == 0:
            self.verbs.control(self, event)
            return
        channel = self.channels.get(event.channel)
        if channel is None or self.phase != PHASE_OPEN:
            self._without_channel(event)
            return
        channel.told(event)
        if (channel.inbox.is_parked or channel.inbox.is_kept) and channel.inbox.is_crowded():
            channel.inbox.stop(self.gate, channel.identity)

    def _without_channel(self, event: Event) -> None:
        output, line = self.output, self.line
        before: i64 = len(output.writer)
        self.verbs.without_channel(self, event)
        if len(output.writer) > before and line.is_accounting:
            output.times.heard(line.heard_ns, line.turn_ns, line.flushed_ns)
            output.times.reply = event.tag
            output.note_answering(self.answering)

    def _arrive(self, number: i64, message: Message) -> None:
        self.receive_count += 1
        channel = self.last_channel
        if channel is None or channel.number != number:
            channel = self.channels.get(number)
            if channel is None:
                raise ConnectionFault(504, "expected 'channel.open'", 60, 40)
            self.last_channel = channel
        channel.inbox.arrived += 1
        self._content(channel, message)

    def _arrive_run(self, first: Message, most: i64) -> i64:
        """Publishes like `first`, which has just arrived and stands before them, are handed to its
        channel together, `most` of them at most, where nothing but a closed hop could hold them and
        none of them closes it; how many these were."""
        channel = self.last_channel
        if channel is None or self.alarms or self.rated is not None or not self.gate.is_open:
            return 0
        lane = channel.upstream
        if lane is None or lane.is_closed or channel.parking.entrance:
            return 0
        account = self.account
        count, bytes_ = self.strategy.spare(lane, account)
        if count > most:
            count = most
        if count < 2:
            return 0
        parser = self.parser
        run = parser.next_run(first, account, count, bytes_)
        count = len(run)
        if count > 0:
            self.receive_count += count
            channel.inbox.arrived += count
            lane.items.extend(run)
            self.strategy.charge(lane, account, count, parser.run_bytes)
            if not lane.is_listed:
                channel.offered(lane)
        return count

    # -- publishes -------------------------------------------------------------------------------

    def _content(self, channel: Channel, message: Message) -> None:
        """Hand a publish to its channel, or hold it."""
        lane = channel.upstream
        if lane is None:
            return
        if self.alarms and not self._is_refused(channel, message):
            self._park_for_alarm(channel, lane, message)
        elif self.rated is not None and self.rated.holds(channel, lane, message, self.is_parking):
            self._hold_for_rate(self.rated, channel, message)
        elif self.is_parking and (lane.is_closed or channel.parking.entrance):
            self._park(channel, message, channel.identity, CREDIT)
        else:
            self._hand_over(channel, lane, message)

    def _hand_over(self, channel: Channel, lane: Lane, message: Message) -> None:
        message.origin = self.account
        lane.items.append(message)
        self.strategy.charge(lane, self.account, 1, len(message.raw))
        if not lane.is_listed:
            channel.offered(lane)

    def _park(self, channel: Channel, message: Message, peer: str, reason: str) -> None:
        """Park the publish at its channel's entrance, or stop reading when there is no place."""
        self.notifier.publish_held(channel)
        if channel.parking.park(message, reason, self.line.turn_ns):
            return
        self.stop.behind(channel, message, peer, reason, self.line.turn_ns)

    def room_freed(self) -> None:
        """The lot may have room for the publish that stopped the reading."""
        stopped, on = self.stop.channel, self.stop.by
        is_waiting = on is not None and on[1] == CREDIT
        if is_waiting and stopped is not None and stopped.parking.overflow_has_place():
            self._go_on()

    def hop_opened(self, channel: Channel, gate: Gate) -> None:
        """A channel takes publishes again: first what is parked, then reading goes on."""
        if not gate.is_open or not self._may_go(channel, channel.identity, CREDIT):
            return
        lane = channel.upstream
        by = self.stop.by
        is_waited_for = by is not None and by[0] == channel.identity
        # With its place free the publish that stopped the reading can be parked as well: what is
        # behind it, acknowledgements above all, need not wait for another grant.
        has_place = not channel.parking.entrance
        if is_waited_for and lane is not None and (has_place or not lane.is_closed):
            self._go_on()

    def _may_go(self, channel: Channel, peer: str, reason: str) -> bool:
        """`peer`, which held the publishes at the entrance of `channel` for `reason`, does not any
        more, and they go; False if an alarm holds them from now on."""
        parked = channel.parking.first()
        if self.alarms and parked is not None and not self._can_refuse(channel, parked.message):
            source = next(iter(self.alarms))
            parked.reason = ALARM
            self._note_alarm(source)
            self.stop.pass_on(peer, reason, source, ALARM)
            return False
        self._release(channel, False)
        return True

    def release_parked(self, channel: Channel) -> None:
        self._release(channel, True)
        if self.stop.channel is not channel:
            return
        self.stop.channel = None
        message = channel.parking.take_overflow()
        lane = channel.upstream
        if lane is not None:
            if self.rated is not None:
                self.rated.pay_anyway(channel, message, False)
            self._hand_over(channel, lane, message)
        self._go_on()

    def _release(self, channel: Channel, is_forced: bool) -> None:
        """Hand over what waits at the entrance of `channel`, as far as it may go."""
        lane = channel.upstream
        parking = channel.parking
        rated = self.rated
        while lane is not None and parking.entrance and (is_forced or not lane.is_closed):
            parked = parking.entrance[0]
            if rated is not None:
                if is_forced:
                    rated.pay_anyway(channel, parked.message, True)
                elif not rated.pays(channel, parked):
                    return
            parking.take_first()
            self._hand_over(channel, lane, parked.message)

    def _go_on(self) -> None:
        by = self.stop.end()
        if self.is_told_blocked and by == (self.blocked_by, ALARM):
            # The channel that stopped the reading has ended; the alarm still holds the rest.
            self.note_held(self.blocked_by, ALARM, self.line.clock.monotonic_ns())

    # -- alarms ----------------------------------------------------------------------------------

    def set_alarm(self, source: str, reason: str) -> None:
        """`source`, for example alarm:memory, stops this connection's publishes from now on."""
        if self.alarms is NO_ALARMS:
            self.alarms = {}
        self.alarms[source] = reason
        self.notifier.alarms_changed()

    def clear_alarm(self, source: str) -> None:
        """`source` is over; when it was the last, publishes go on."""
        if self.alarms.pop(source, None) is None:
            return
        self._blame(next(iter(self.alarms), ""))
        if self.alarms:
            return
        if self.is_told_blocked:
            self.is_told_blocked = False
            self.notifier.unblocked_by_alarm()
        self.notifier.alarms_changed()
        for channel in list(self.channels.values()):
            self._release(channel, False)
            channel.wake()
        self._go_on()

    def _blame(self, source: str) -> None:
        """From now on the alarm `source` holds what another alarm held; "" for none."""
        before = self.blocked_by
        if before == "" or before == source:
            return
        now_ns = self.line.clock.monotonic_ns()
        self.blocked_by = source
        self.note_freed(before, ALARM, now_ns)
        if source != "":
            self.note_held(source, ALARM, now_ns)
            self.stop.pass_on(before, ALARM, source, ALARM)

    def _is_refused(self, channel: Channel, message: Message) -> bool:
        """Whether the publish goes on to be answered basic.nack. Raises: ConnectionFault 320, when
        that is the action: what clients that reconnect by themselves take for a passing trouble."""
        action = action_for(channel, message, self.alarm_action)
        if action == ACTION_BLOCK:
            return False
        if action == ACTION_CLOSE:
            raise ConnectionFault(
                320, f"broker forced connection closure with reason '{self.verbs.alarm_reason()}'"
            )
        return self._can_refuse(channel, message)

    def _can_refuse(self, channel: Channel, message: Message) -> bool:
        """Mark `message` to be answered basic.nack, if that is the action and the channel confirms;
        also one that was held for credit before the alarm."""
        confirms = channel.publisher.confirms
        if confirms is None or confirms.commits is not None:
            return False
        if action_for(channel, message, self.alarm_action) != ACTION_NACK:
            return False
        message.sequence = REFUSED
        return True

    def _note_alarm(self, source: str) -> bool:
        """The alarm `source` holds a publish; True, and the client is told, if it is the first."""
        if self.is_told_blocked:
            return False
        self.is_told_blocked = True
        self.notifier.blocked_by_alarm(self.verbs.alarm_reason())
        self.blocked_by = source
        self.note_held(source, ALARM, self.line.clock.monotonic_ns())
        return True

    def _park_for_alarm(self, channel: Channel, lane: Lane, message: Message) -> None:
        source = next(iter(self.alarms))
        is_first = self._note_alarm(source)
        if self.is_parking:
            self._park(channel, message, source, ALARM)
        elif is_first and message.body_bytes == 0:
            self._hand_over(channel, lane, message)
            self.stop.begin(source, ALARM)
        else:
            self.stop.behind(channel, message, source, ALARM, self.line.turn_ns)

    def stop_behind_parked(self, channel: Channel) -> bool:
        parked = channel.parking.first()
        if parked is None:
            return False
        rated = self.rated
        if self.alarms and not self._can_refuse(channel, parked.message):
            by, reason = next(iter(self.alarms)), ALARM
        elif rated is not None and int(channel.number) in rated.payer.held:
            by, reason = rated.payer.holder, RATE
        else:
            return False
        if self.stop.by is None:
            self.stop.begin(by, reason)
        return True

    # -- rate limits -----------------------------------------------------------------------------

    def set_meters(self, meters: list[Meter]) -> None:
        """From now on publishes pay at these; [] for no limit. What waits is asked again."""
        rated = self.rated
        if rated is None:
            if meters:
                payer = RatePayer(meters, ConnectionWaiter(self))
                self.rated = RateHold(self, payer, self.stop)
            return
        payer = rated.payer
        payer.leave()
        payer.meters = meters
        payer.paid = 0
        if meters:
            self.rate_due(self.line.clock.monotonic_ns())
            return
        holder = payer.holder
        rated.blame("")
        self.rated = None
        numbers = list(payer.held)
        # Empty before the reading goes on: what is still held waits for a hop or an alarm.
        payer.held.clear()
        for number in numbers:
            channel = self.channels.get(number)
            if channel is not None:
                self._may_go(channel, holder, RATE)
        self._go_on_after_rate(payer)

    def _hold_for_rate(self, rated: RateHold, channel: Channel, message: Message) -> None:
        if self.is_parking:
            self._park(channel, message, rated.payer.holder, RATE)
            rated.parked(channel)
        else:
            self.stop.behind(channel, message, rated.payer.holder, RATE, self.line.turn_ns)

    def rate_due(self, now_ns: int) -> None:
        """There are tokens: one publish may go, and the reading of others, if it was stopped."""
        rated = self.rated
        if rated is None:
            return
        payer = rated.payer
        payer.served_by = payer.waits_at
        payer.waits_at = None
        channel = rated.next_channel(self.channels)
        while channel is not None and not self._may_go(channel, payer.holder, RATE):
            payer.paid = 0
            del payer.held[int(channel.number)]
            channel = rated.next_channel(self.channels)
        if channel is not None:
            channel.wake()
        payer.served_by = None
        self._go_on_after_rate(payer)
        by = self.stop.by
        if payer.held:
            rated.wait(now_ns)
        elif by is None or by[1] != RATE:
            rated.blame("")

    def _go_on_after_rate(self, payer: RatePayer) -> None:
        by, channel = self.stop.by, self.stop.channel
        if by is None or by[1] != RATE:
            return
        if channel is None or int(channel.number) not in payer.held:
            self._go_on()

    def is_held_by_rate(self) -> bool:
        """Whether a publish waits for tokens now."""
        return self.rated is not None and self.rated.payer.is_waiting()

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        # Holding for a rate is on record from the first held publish on, read on or not.
        if reason != RATE:
            super().gate_closed(gate, peer, reason, now_ns)

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        if reason != RATE:
            super().gate_opened(gate, peer, reason, now_ns)
            if reason == DEBT:
                self.lot.wake_lines()
        elif gate.is_open:
            self.wake()

    # -- output ----------------------------------------------------------------------------------

    def output_filled(self, is_full: bool) -> None:
        """Until it is not full any more nothing is read, and no answer with content is made."""
        if is_full:
            self.gate.close("socket:" + self.name, "socket")
            return
        self.gate.open("socket:" + self.name, "socket")
        for channel in list(self.channels.values()):
            channel.wake()

    def output_changed(self, is_open: bool) -> None:
        """The output's high mark was passed, or the buffer fell below it."""
        channels = list(self.channels.values())
        for channel in channels:
            channel.sink.is_output_open = is_open
        count: i64 = len(channels)
        if not is_open or count == 0:
            return
        self.first = (self.first + 1) % count
        channels[self.first].first += 1
        left: i64 = OFFERED_AT_ONCE
        for index in range(count):
            left = channels[(self.first + index) % count].offer_consumers(left)

    # -- state -----------------------------------------------------------------------------------

    def rest_state(self) -> int:
        is_held = not self.gate.is_open or self.is_told_blocked or self.is_held_by_rate()
        return BLOCKED if is_held else IDLE

    def state(self, now_ns: int) -> str:
        """RabbitMQ's word for what the connection does now."""
        if self.phase == PHASE_CLOSED:
            return "closed"
        if self.phase == PHASE_CLOSING:
            return "closing"
        if self.phase != PHASE_OPEN:
            return "starting"
        if self.alarms:
            return "blocked" if self.is_told_blocked else "blocking"
        return "flow" if self.is_held_by_rate() else self.gate.state(now_ns)

    # -- life ------------------------------------------------------------------------------------

    def move(self, what: str) -> None:
        """`what` of broker/connection/phases has happened: on to the next phase."""
        self.phase = TRANSITIONS[int(self.phase), what]

    def add_channel(self, channel: Channel, lane: Lane) -> None:
        """`channel` is open, and takes its publishes from `lane`."""
        channel.upstream = lane
        channel.sink.is_output_open = self.output.is_open
        self.channels[int(channel.number)] = channel
        if len(self.channels) > 1:
            self.lot.share()

    def remove_channel(self, channel: Channel) -> None:
        """The channel is closed: what is held for it goes, and reading goes on."""
        self.channels.pop(int(channel.number), None)
        if self.last_channel is channel:
            self.last_channel = None
        if channel.parking.entrance:
            channel.parking.clear_entrance()
            if self.rated is not None:
                self.rated.left(int(channel.number))
        channel.close()
        channel.times.note_unanswered(0)
        lane = channel.upstream
        if lane is not None:
            self.strategy.forget(lane, self.account)
            lane.sender_gate.forget(channel.identity)
            channel.upstream = None
        if self.stop.channel is channel:
            self.stop.channel = None
            self._go_on()
        channel.let_go(self.phase != PHASE_CLOSED)

    def channel_failed(self, channel: Channel, fault: ChannelFault) -> None:
        self.verbs.close_channel(self, channel, fault)

    def report(self, error: BaseException, where: str) -> None:
        self.verbs.report(error, where)

    def fail(self, fault: PeerError) -> None:
        """The peer broke a rule that ends the connection."""
        if self.phase < PHASE_CLOSING:
            self.unfinished.let_go()
            self.verbs.close(self, fault)
            self.parser.discard_begun()
            self._kept(self.parser.kept + self.parser.unread_bytes())

    def finish(self) -> None:
        """The connection ends, however: its channels close, its page leaves the ledger."""
        if self.phase == PHASE_CLOSED:
            return
        self.move(PUT_AWAY)
        self.is_alive = False
        for channel in list(self.channels.values()):
            self.remove_channel(channel)
        self.stop.channel = None
        self._go_on()
        if self.rated is not None:
            self.rated.end()
            self.rated = None
        self.output.close()
        self.output.owner = None
        self.lot.close()
        self.account.close()
        # Messages that outlive it in queues must not keep it alive, nor may it keep what it read.
        self.account.gate = None
        self.lot.wake_lines()  # What is left on the disk waits for no debt any more.
        self.parser.forget()
        self.unfinished.close()
        self.verbs.ended(self)
