"""The actor of one connection: reads while its gate is open, and stops between two events.

Only here does anything wait (law 9). What a content event meets:

    alarm set              the publish is held; connection.blocked goes out; reading continues
    hop closed, parking    the publish is held beside its channel, one each; reading continues
    otherwise held already the event that would be the second is kept, the gate closes, and the
                           socket is not read until the hop opens or the alarm clears
    hop closed, no parking the gate is the hop's own sender gate: nothing more is parsed
Methods, heartbeats and acknowledgements are handled whatever waits, as long as they can be read.
States are RabbitMQ's words: running, flow, blocking, blocked (flow-semantics section 3).
"""

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.base.limits import PARKED_BYTES
from penstock.broker.actor import BLOCKED, IDLE, Actor, Line
from penstock.broker.channel import Channel, ChannelHost
from penstock.broker.lane import Lane
from penstock.broker.output import Output, OutputOwner
from penstock.broker.shell import Shell
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.strategy import Strategy
from penstock.protocol.content import EVENT_HEARTBEAT, Event, Message
from penstock.protocol.frames import FrameParser, Received

PHASE_HEADER = 0
PHASE_NEGOTIATING = 1
PHASE_OPEN = 2
PHASE_CLOSING = 3
PHASE_CLOSED = 4

STANDSTILL_NS = 100_000_000
"""How long a stopped connection with unanswered deliveries waits before it is let on."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionVerbs:
    """The cold side of a connection: greeting, negotiation, channel 0, opening and closing
    channels. See broker/negotiate. Nominal base."""

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

    def blocked(self, connection: "Connection") -> None:
        """An alarm holds a publish: connection.blocked if the client knows it."""
        raise NotImplementedError

    def unblocked(self, connection: "Connection") -> None:
        """The last alarm cleared after `blocked`."""
        raise NotImplementedError

    def report(self, error: BaseException, where: str) -> None:
        """A bug of ours: put it into the log."""
        raise NotImplementedError

    def ended(self, connection: "Connection") -> None:
        """The connection is gone from the broker."""
        raise NotImplementedError


class ReaderHost(ChannelHost):
    """The connection as its channels see it."""

    __slots__ = ("connection",)

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def release_held(self, channel: Channel) -> None:
        self.connection.release_held(channel)

    def channel_failed(self, channel: Channel, fault: ChannelFault) -> None:
        self.connection.verbs.close_channel(self.connection, channel, fault)

    def fail(self, fault: PeerError) -> None:
        self.connection.fail(fault)

    def report(self, error: BaseException, where: str) -> None:
        self.connection.verbs.report(error, where)

    def is_alarmed(self, channel: Channel) -> bool:
        return self.connection.stop_behind_alarm(channel)

    def output_full(self) -> None:
        self.connection.stop_for_output()


class ReaderOutputOwner(OutputOwner):
    """The connection as its output sees it."""

    __slots__ = ("connection",)

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def output_changed(self, is_open: bool) -> None:
        for channel in list(self.connection.channels.values()):
            channel.sink.is_output_open = is_open
            if is_open:
                channel.offer_consumers()

    def output_has_room(self) -> None:
        self.connection.go_on_with_output()


class HopGateObserver(GateObserver):
    """Hears when one channel's hop opens again (parking profiles)."""

    __slots__ = ("channel", "connection")

    def __init__(self, connection: "Connection", channel: Channel) -> None:
        self.connection = connection
        self.channel = channel

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        if gate.is_open:
            self.connection.hop_opened(self.channel)


class Connection(Actor):
    """name: unique, readable; channels: open ones by number; parser, output: the two directions."""

    __slots__ = (
        "account",
        "alarms",
        "blocked_by",
        "channels",
        "cold",
        "frame_bytes_max",
        "host",
        "is_deaf",
        "is_parking",
        "is_told_blocked",
        "last_channel",
        "name",
        "output",
        "parked_bytes",
        "parser",
        "phase",
        "receive_count",
        "received",
        "shell",
        "stopped",
        "stopped_on",
        "strategy",
        "verbs",
    )

    def __init__(
        self,
        name: str,
        verbs: ConnectionVerbs,
        strategy: Strategy,
        is_parking: bool,
        account_high_bytes: int,
        parent: Account | None,
        parser: FrameParser,
        output: Output,
        shell: Shell,
        cold: object,
        line: Line,
    ) -> None:
        super().__init__("conn:" + name, line)
        self.name = name
        self.verbs = verbs
        self.strategy = strategy
        self.is_parking = is_parking
        self.account = Account(self.identity, parent, self.gate, account_high_bytes)
        self.parser = parser
        self.output = output
        self.output.owner = ReaderOutputOwner(self)
        self.shell = shell
        self.cold = cold
        self.received = Received()
        self.receive_count: i64 = 0
        self.channels: dict[int, Channel] = {}
        self.last_channel: Channel | None = None
        self.host = ReaderHost(self)
        self.phase: i64 = PHASE_HEADER
        self.frame_bytes_max: i64 = 0
        self.alarms: dict[str, str] = {}
        self.is_told_blocked = False
        self.is_deaf = False
        self.blocked_by = ""
        self.stopped: Message | None = None
        self.stopped_on: tuple[str, str] | None = None
        self.parked_bytes: i64 = 0

    # -- input -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the peer; call only while `can_receive`."""
        if not self.is_deaf:
            self.parser.feed(data)
            self.wake()

    def can_receive(self) -> bool:
        """False while the gate is closed or fed bytes still wait to be parsed."""
        if self.phase == PHASE_CLOSED:
            return False
        return self.gate.is_open and not self.is_ready

    def turn(self, budget: i64) -> bool:
        if self.phase == PHASE_CLOSED:
            return False
        try:
            has_more = self._parse(budget)
        except ChannelFault as fault:
            channel = self.channels.get(self.parser.faulty_channel)
            if channel is not None:
                channel.finish_inbox()
                if not channel.is_closed:
                    self.verbs.close_channel(self, channel, fault)
            return True
        except PeerError as fault:
            self._failed(fault)
            has_more = False
        except Exception as error:
            self.verbs.report(error, self.identity)
            self._failed(ConnectionFault(541, "internal error"))
            has_more = False
        if not has_more and self.gate.is_open:
            self.shell.resume()
        return has_more

    def _failed(self, fault: PeerError) -> None:
        """The first fault closes the connection. After another one nothing is looked at any more:
        frames can no longer be told apart, and what cannot be parsed must not pile up."""
        if self.phase < PHASE_CLOSING:
            self.fail(fault)
            return
        self.is_deaf = True
        self.parser.buffer = b""
        self.parser.offset = 0
        self.parser.assemblies.clear()

    def _parse(self, budget: i64) -> bool:
        if self.phase == PHASE_HEADER:
            header = self.parser.buffer
            if len(header) < 8:
                return False
            self.parser.offset = 8
            self.verbs.greet(self, header[:8])
        parser = self.parser
        received = self.received
        gate = self.gate
        kept = self.stopped
        if kept is not None and gate.is_open:
            self.stopped = None
            self._content(kept)
        while gate.is_open:
            if budget <= 0:
                return True
            if not parser.next(received):
                if parser.assemblies:
                    self._check_assemblies()
                if parser.offset >= len(parser.buffer):
                    # The last read is not kept while the connection is idle.
                    parser.buffer = b""
                    parser.offset = 0
                return False
            budget -= 1
            message = received.message
            if message is not None:
                if self.phase < PHASE_CLOSING:
                    self._arrive(message)
                continue
            event = received.event
            if event is not None:
                self._event(event)
                if self.phase == PHASE_CLOSED:
                    return False
        return False

    def _check_assemblies(self) -> None:
        """A body is kept for an open channel only. Raises: ConnectionFault 504."""
        for number in list(self.parser.assemblies):
            if number not in self.channels:
                if self.phase < PHASE_CLOSING:
                    raise ConnectionFault(504, "expected 'channel.open'", 60, 40)
                self.parser.discard(number)

    def _event(self, event: Event) -> None:
        if event.kind == EVENT_HEARTBEAT:
            return
        if event.channel == 0:
            self.verbs.control(self, event)
            return
        channel = self.channels.get(event.channel)
        if channel is None or self.phase != PHASE_OPEN:
            self.verbs.without_channel(self, event)
            return
        channel.told(event)

    def _arrive(self, message: Message) -> None:
        self.receive_count += 1
        channel = self.last_channel
        if channel is None or channel.number != message.channel:
            channel = self.channels.get(message.channel)
            if channel is None:
                raise ConnectionFault(504, "expected 'channel.open'", 60, 40)
            self.last_channel = channel
        channel.arrived += 1
        self._content(message)

    def _content(self, message: Message) -> None:
        """Hand a publish to its channel, or hold it."""
        channel = self.last_channel
        if channel is None or channel.number != message.channel:
            channel = self.channels.get(message.channel)
            if channel is None:
                return
            self.last_channel = channel
        lane = channel.upstream
        if lane is None:
            return
        if self.alarms:
            self._hold_for_alarm(channel, message)
        elif self.is_parking and (lane.is_closed or channel.held is not None):
            self._hold(channel, message, channel.identity, "credit")
        else:
            self._hand_over(channel, lane, message)

    def _hand_over(self, channel: Channel, lane: Lane, message: Message) -> None:
        message.origin = self.account
        lane.items.append(message)
        self.strategy.charge(lane, self.account, 1, len(message.raw))
        if not lane.is_listed:
            channel.offered(lane)

    def _hold(self, channel: Channel, message: Message, peer: str, reason: str) -> None:
        """Keep the publish beside its channel, or stop reading when one is kept there already."""
        size: i64 = len(message.raw)
        if channel.held is None and self.parked_bytes + size <= PARKED_BYTES.default:
            channel.held = message
            self.parked_bytes += size
            return
        self.stopped = message
        self.stopped_on = (peer, reason)
        self.gate.close(peer, reason)

    def hop_opened(self, channel: Channel) -> None:
        """A channel takes publishes again: first the one that is held, then reading goes on."""
        if self.alarms:
            return
        self._release(channel, False)
        lane = channel.upstream
        is_waited_for = self.stopped_on is not None and self.stopped_on[0] == channel.identity
        if is_waited_for and lane is not None and not lane.is_closed:
            self._go_on()

    def release_held(self, channel: Channel) -> None:
        """Hand over what waits here for `channel`, its hop closed or not."""
        self._release(channel, True)
        kept = self.stopped
        if kept is not None and kept.channel == channel.number:
            self.stopped = None
            lane = channel.upstream
            if lane is not None:
                self._hand_over(channel, lane, kept)
            self._go_on()

    def _release(self, channel: Channel, is_forced: bool) -> None:
        held = channel.held
        lane = channel.upstream
        if held is None or lane is None or (lane.is_closed and not is_forced):
            return
        channel.held = None
        self.parked_bytes -= len(held.raw)
        self._hand_over(channel, lane, held)

    def _go_on(self) -> None:
        stopped_on = self.stopped_on
        if stopped_on is not None:
            self.stopped_on = None
            self.gate.open(stopped_on[0], stopped_on[1])

    # -- alarms ----------------------------------------------------------------------------------

    def set_alarm(self, source: str, reason: str) -> None:
        """`source`, for example alarm:memory, stops this connection's publishes from now on."""
        self.alarms[source] = reason

    def clear_alarm(self, source: str) -> None:
        """`source` is over; when it was the last, publishes go on."""
        if self.alarms.pop(source, None) is None:
            return
        self._blame(next(iter(self.alarms), ""))
        if self.alarms:
            return
        if self.is_told_blocked:
            self.is_told_blocked = False
            self.verbs.unblocked(self)
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
        self.note_freed(before, "alarm", now_ns)
        if source != "":
            self.note_held(source, "alarm", now_ns)
            if self.stopped_on == (before, "alarm"):
                self.stopped_on = (source, "alarm")
                self.gate.close(source, "alarm")
                self.gate.open(before, "alarm")

    def _hold_for_alarm(self, channel: Channel, message: Message) -> None:
        source = next(iter(self.alarms))
        if not self.is_told_blocked:
            self.is_told_blocked = True
            self.verbs.blocked(self)
            self.blocked_by = source
            self.note_held(source, "alarm", self.line.clock.monotonic_ns())
        self._hold(channel, message, source, "alarm")

    def stop_behind_alarm(self, channel: Channel) -> bool:
        """A method that no publish may be overtaken by has arrived: if an alarm holds a publish of
        `channel` read nothing more until it is over, and say True."""
        if not self.alarms or channel.held is None:
            return False
        if self.stopped_on is None:
            source = next(iter(self.alarms))
            self.stopped_on = (source, "alarm")
            self.gate.close(source, "alarm")
        return True

    # -- output ----------------------------------------------------------------------------------

    def stop_for_output(self) -> None:
        """The peer does not take its answers: read nothing more that would make others."""
        self.gate.close("socket:" + self.name, "socket")

    def go_on_with_output(self) -> None:
        self.gate.open("socket:" + self.name, "socket")
        for channel in list(self.channels.values()):
            channel.wake()

    def break_standstill(self, now_ns: int) -> None:
        """Liveness (law 6): a socket that is not read may hold the very acks that would let the
        queue drain. A connection that has unanswered deliveries and has been stopped for a whole
        period lets its waiting publishes through, one lane's window per period and channel, and is
        counted. A full hop is one channel's matter; debt is owed by all that are stalled."""
        if self.gate.is_open or self.alarms:
            return
        if now_ns - self.gate.blocked_at_ns < STANDSTILL_NS:
            return
        for channel in list(self.channels.values()):
            if channel.table.count > 0:
                break
        else:
            return
        holder = "" if self.stopped_on is None else self.stopped_on[0]
        for channel in list(self.channels.values()):
            if channel.identity == holder or (holder == "" and channel.is_stalled):
                channel.force_now()

    # -- state -----------------------------------------------------------------------------------

    def rest_state(self) -> int:
        if not self.gate.is_open or self.is_told_blocked:
            return BLOCKED
        return IDLE

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
        return self.gate.state(now_ns)

    # -- life ------------------------------------------------------------------------------------

    def add_channel(self, channel: Channel, lane: Lane) -> None:
        channel.upstream = lane
        channel.sink.is_output_open = self.output.is_open
        self.channels[int(channel.number)] = channel

    def remove_channel(self, channel: Channel) -> None:
        """The channel is closed: what is held for it goes, and reading goes on."""
        self.channels.pop(int(channel.number), None)
        if self.last_channel is channel:
            self.last_channel = None
        held = channel.held
        if held is not None:
            self.parked_bytes -= len(held.raw)
        channel.close()
        lane = channel.upstream
        if lane is not None:
            self.strategy.forget(lane, self.account)
            lane.sender_gate.forget(channel.identity)
            channel.upstream = None
        kept = self.stopped
        if kept is not None and kept.channel == channel.number:
            self.stopped = None
            self._go_on()

    def fail(self, fault: PeerError) -> None:
        """The peer broke a rule that ends the connection."""
        if self.phase < PHASE_CLOSING:
            self.verbs.close(self, fault)

    def finish(self) -> None:
        """The connection ends, however: its channels close, its page leaves the ledger."""
        if self.phase == PHASE_CLOSED:
            return
        self.phase = PHASE_CLOSED
        self.is_alive = False
        for channel in list(self.channels.values()):
            self.remove_channel(channel)
        self.stopped = None
        self._go_on()
        self.output.close()
        self.account.close()
        # Messages outlive their connection in queues; they must not keep all of it alive.
        self.account.gate = None
        self.verbs.ended(self)
