"""The actor of one connection: reads while its gate is open, and stops between two events.

Only here does anything wait (law 9). What a content event meets:

    alarm set              the publish is held; connection.blocked goes out; reading continues, with
                           parking; other actions than holding: see broker/connection/holding
    hop closed, parking    the publish is held beside its channel, one each; reading continues
    otherwise held already the event that would be the second is kept, the gate closes, and the
                           socket is not read until the hop opens or the alarm clears
    hop closed, no parking the gate is the hop's own sender gate: nothing more is parsed
Methods, heartbeats and acknowledgements are handled whatever waits, as long as they can be read.
States are RabbitMQ's words: running, flow, blocking, blocked (flow-semantics section 3).
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.broker.actors.actor import BLOCKED, IDLE, Line
from penstock.broker.actors.lane import Lane
from penstock.broker.actors.output import Answering, Output, OutputOwner
from penstock.broker.actors.shell import Shell
from penstock.broker.channel.channel import Channel, ChannelHost
from penstock.broker.connection.rated import RatedConnection
from penstock.flow.account import Account
from penstock.flow.strategy import Strategy
from penstock.protocol.content import EVENT_HEARTBEAT, Event, Message
from penstock.protocol.frames import FrameParser, Received

PHASE_HEADER: Final = 0
PHASE_NEGOTIATING: Final = 1
PHASE_OPEN: Final = 2
PHASE_CLOSING: Final = 3
PHASE_CLOSED: Final = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionVerbs:
    """The cold side of a connection: greeting, negotiation, channel 0, opening and closing
    channels. See broker/session/negotiate. Nominal base."""

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
        connection = self.connection
        return connection.stop_behind_alarm(channel) or connection.stop_behind_rate(channel)

    def output_full(self) -> None:
        self.connection.stop_for_output()


class ReaderAnswering(Answering):
    """Answers to methods of channels that are not open, as the output sees them."""

    __slots__ = ("connection",)

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self.connection = connection

    def answer(self) -> None:
        connection = self.connection
        times = connection.output.times
        if times.reply != 0:
            times.answered(times.reply, 1, times.unanswered, connection.line.turn_ns)


class ReaderOutputOwner(OutputOwner):
    """The connection as its output sees it. first: whose consumers are asked first when there is
    room again, another channel's each time."""

    __slots__ = ("connection", "first")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.first: i64 = 0

    def output_changed(self, is_open: bool) -> None:
        channels = list(self.connection.channels.values())
        for channel in channels:
            channel.sink.is_output_open = is_open
        count: i64 = len(channels)
        if not is_open or count == 0:
            return
        self.first = (self.first + 1) % count
        channels[self.first].first += 1
        for index in range(count):
            channels[(self.first + index) % count].offer_consumers()

    def output_has_room(self) -> None:
        self.connection.go_on_with_output()


class Connection(RatedConnection):
    """name: unique, readable; channels: open ones by number; parser, output: the two directions."""

    __slots__ = (
        "answering",
        "cold",
        "frame_bytes_max",
        "host",
        "is_deaf",
        "output",
        "parser",
        "phase",
        "receive_count",
        "received",
        "shell",
        "verbs",
    )

    def __init__(
        self,
        name: str,
        verbs: ConnectionVerbs,
        strategy: Strategy,
        is_parking: bool,
        parent: Account | None,
        parser: FrameParser,
        output: Output,
        shell: Shell,
        cold: object,
        line: Line,
    ) -> None:
        super().__init__(name, strategy, is_parking, parent, line)
        self.verbs = verbs
        self.parser = parser
        self.output = output
        self.output.owner = ReaderOutputOwner(self)
        self.shell = shell
        self.cold = cold
        self.received = Received()
        self.receive_count: i64 = 0
        self.host = ReaderHost(self)
        self.answering = ReaderAnswering(self)
        self.phase: i64 = PHASE_HEADER
        self.frame_bytes_max: i64 = 0
        self.is_deaf = False

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
        if not self.gate.is_open or self.is_ready:
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
        parser = self.parser
        self.output.times.is_sending = has_more or parser.offset < len(parser.buffer)
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
        self.parser.forget()

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
            self._without_channel(event)
            return
        channel.told(event)
        if channel.inbox.is_crowded():
            channel.inbox.stop(self.gate, channel.identity)

    def _without_channel(self, event: Event) -> None:
        output, line = self.output, self.line
        before: i64 = len(output.writer)
        self.verbs.without_channel(self, event)
        if len(output.writer) > before and line.is_accounting:
            output.times.heard(line.heard_ns, line.turn_ns, line.flushed_ns)
            output.times.reply = event.tag
            output.note_answering(self.answering)

    def _arrive(self, message: Message) -> None:
        self.receive_count += 1
        channel = self.last_channel
        if channel is None or channel.number != message.channel:
            channel = self.channels.get(message.channel)
            if channel is None:
                raise ConnectionFault(504, "expected 'channel.open'", 60, 40)
            self.last_channel = channel
        channel.inbox.arrived += 1
        self._content(message)

    def alarm_reason(self) -> str:
        return self.verbs.alarm_reason()

    # -- state -----------------------------------------------------------------------------------

    def rest_state(self) -> int:
        if not self.gate.is_open or self.is_told_blocked or self.is_held_by_rate():
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
        return "flow" if self.is_held_by_rate() else self.gate.state(now_ns)

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
            self.leave_rate(channel)
        channel.close()
        channel.times.note_unanswered(0)
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
        self.end_rate()
        self.output.close()
        self.account.close()
        # Messages outlive their connection in queues; they must not keep all of it alive.
        self.account.gate = None
        # Nor may the rest of it, until the garbage collector comes, keep what it has read.
        self.parser.forget()
        self.received = Received()
        self.verbs.ended(self)
