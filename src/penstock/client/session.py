"""The client's half of one AMQP connection: bytes and wishes in, bytes and events out.

Sans-IO: the owner reads and writes the socket, brings the time, and acts on the events. Nothing
raises while feeding: a fault of the broker becomes connection.close in the output and one
ConnectionClosed event, and everything behind it is dropped.

    opening:  AWAIT_START -> AWAIT_TUNE -> AWAIT_OPEN_OK -> OPEN -> CLOSING -> CLOSED

Replies are matched per channel in the order of the requests, as the specification promises them.
Not handled: publishing while blocked is the owner's decision; `blocked_reason` tells.
Source: AMQP 0-9-1 sections 2.2.4 and 4; RabbitMQ extensions confirm, blocked, consumer cancel.
"""

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.base.limits import BODY_BYTES_MAX, FRAME_BYTES_MAX
from penstock.client.channel_state import Channels, ChannelState
from penstock.client.errors import ConnectionClosedError
from penstock.client.events import (
    Blocked,
    ClientEvent,
    ConnectionClosed,
    Opened,
    Unblocked,
)
from penstock.client.opening import Agreed, agree, start_ok
from penstock.client.publish_template import PublishTemplate
from penstock.client.url import BrokerUrl
from penstock.protocol.constants import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    CONNECTION_FORCED,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    REPLY_SUCCESS,
)
from penstock.protocol.content import EVENT_ACK, EVENT_HEARTBEAT, Event
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.heartbeat import Heartbeat
from penstock.protocol.methods import (
    BasicNack,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
)
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.protocol.properties import Properties
from penstock.protocol.replies import channel_close, connection_close
from penstock.protocol.values import Table

_ACK_FRAME: Final = struct.Struct(">BHIHHQBB")
_NO_PROPERTIES: Final = Properties()


class State(Enum):
    """Where the connection is in its life."""

    AWAIT_START = auto()
    AWAIT_TUNE = auto()
    AWAIT_OPEN_OK = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


class ClientSession:
    """One connection, client side.

    url: where and as whom; name: shown by the broker; now_ns: monotonic nanoseconds; properties:
    of the client, beside those that it always has.
    `agreed` is None until the limits are tuned; `blocked_reason` is None while the broker reads.
    Owner: the owner of the socket; not to be shared between threads.
    """

    def __init__(
        self, url: BrokerUrl, name: str, now_ns: int, properties: Table | None = None
    ) -> None:
        self.url = url
        self.properties: Table = properties or {}
        self.name = name
        self.state = State.AWAIT_START
        self.agreed: Agreed | None = None
        self.blocked_reason: str | None = None
        self.frame_bytes_max = FRAME_BYTES_MAX.default
        self._server_properties: Table = {}
        self._closed: ConnectionClosedError | None = None
        self._parser = FrameParser(FRAME_BYTES_MAX.default, BODY_BYTES_MAX.highest)
        self._received = Received()
        self._output: list[bytes] = [PROTOCOL_HEADER]
        self._channels = Channels()
        self._now_ns = now_ns
        self._heartbeat = Heartbeat(0, now_ns)

    def server_name(self) -> str:
        """Product and version of the broker as it calls itself, "" before it has said anything."""
        said = (self._server_properties.get(key) for key in ("product", "version"))
        return " ".join(one for one in said if isinstance(one, str))

    def server_capabilities(self) -> frozenset[str]:
        """What the broker has said it can do; empty before it has said anything."""
        said = self._server_properties.get("capabilities")
        if not isinstance(said, dict):
            return frozenset()
        return frozenset(name for name, value in said.items() if value is True)

    def is_closed(self) -> bool:
        """Whether the connection has ended: nothing will come out of it any more."""
        return self.state is State.CLOSED

    # --- bytes and time -------------------------------------------------------------------

    def feed(self, data: bytes, now_ns: int) -> list[ClientEvent]:
        """Take bytes from the socket; what they meant, in order. Never raises."""
        events: list[ClientEvent] = []
        if self.is_closed():
            return events
        self._now_ns = now_ns
        self._heartbeat.received(now_ns)
        self._parser.feed(data)
        while not self.is_closed():
            try:
                if not self._parser.next(self._received):
                    break
                self._take(events)
            except ChannelFault as fault:
                self._refuse_channel(fault, events)
            except ConnectionFault as fault:
                self._fail(fault, events)
        return events

    def end_of_stream(self) -> list[ClientEvent]:
        """The socket has ended: by the broker without a word, or by an error."""
        if self.state is State.CLOSED:
            return []
        text = "the socket was closed without a reason"
        if self.state is not State.OPEN and self.state is not State.CLOSING:
            text += " while opening: not an AMQP 0-9-1 listener, or credentials refused"
        events: list[ClientEvent] = []
        self._end(CONNECTION_FORCED, text, False, events)
        return events

    def output(self, now_ns: int) -> bytes:
        """Everything to be written now; b"" when there is nothing. Written bytes count as sent."""
        parts = self._output
        if not parts:
            return b""
        self._heartbeat.sent(now_ns)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._output = []
        return data

    def tick(self, now_ns: int) -> list[ClientEvent]:
        """Keep the heartbeat: call when `next_tick_ns` has passed, more often does no harm."""
        if self.state is not State.OPEN:
            return []
        events: list[ClientEvent] = []
        if self._heartbeat.is_peer_dead(now_ns):
            assert self.agreed is not None, "cannot happen because heartbeats are agreed on"
            text = f"the broker was silent for two heartbeats of {self.agreed.heartbeat_s} s"
            self._end(CONNECTION_FORCED, text, False, events)
        elif self._heartbeat.is_send_due(now_ns):
            self._output.append(HEARTBEAT_FRAME)
        return events

    def unheard(self, now_ns: int) -> None:
        """Its owner does not read the socket now, so silence says nothing of the broker."""
        self._heartbeat.received(now_ns)

    def next_tick_ns(self) -> int | None:
        """When `tick` next has something to look at; None while there is no heartbeat."""
        return self._heartbeat.next_check_ns()

    # --- wishes ---------------------------------------------------------------------------

    def open_channel(self) -> tuple[int, Method]:
        """Open a channel: its number and the request that a Replied event will name.

        Raises: ConnectionClosedError; ClientError when every number is in use.
        """
        self._check_open()
        assert self.agreed is not None, "cannot happen because the connection is open"
        number, request, frame = self._channels.open(self.agreed.channels_max)
        self._parser.accept(number)
        self._output.append(frame)
        return number, request

    def request(self, channel: int, method: Method) -> None:
        """Say `method`; unless it has no reply or `no_wait`, a Replied event will name it.

        Raises: ChannelClosedError, ConnectionClosedError; ClientError at the bound of open
        requests; ValueError for what the wire cannot hold, and then nothing was said.
        """
        self._check_open()
        state = self._channels.get(channel)
        frame = method_frame(channel, method)
        state.ask(method)
        self._output.append(frame)

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: Properties = _NO_PROPERTIES,
        mandatory: bool = False,
    ) -> int:
        """Publish one message; its sequence on a confirming channel, else 0.

        Raises: as `publish_frames`; ValueError for what the wire cannot hold.
        """
        template = PublishTemplate(channel, exchange, routing_key, properties, mandatory)
        return self.publish_frames(channel, template.frames(body, self.frame_bytes_max), 0)

    def publish_frames(self, channel: int, frames: bytes, mark: int, count: int = 1) -> int:
        """Publish a message already in frames, or `count` of them back to back: the sequence of the
        first. `mark` comes back in the Confirmed event of each.

        Raises: ChannelClosedError, ConnectionClosedError; ClientError when unconfirmed_max
        publishes of the channel are open.
        """
        if self.state is not State.OPEN:
            self._check_open()
        sequence = self._channels.get(channel).note_publish(mark, count)
        self._output.append(frames)
        return sequence

    def ack(self, channel: int, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge a delivery, or all up to it. Raises: as `request`."""
        if self.state is not State.OPEN:
            self._check_open()
        self._channels.get(channel)
        self._output.append(_ACK_FRAME.pack(1, channel, 13, 60, 80, delivery_tag, multiple, 0xCE))

    def nack(
        self, channel: int, delivery_tag: int, multiple: bool = False, requeue: bool = True
    ) -> None:
        """Refuse a delivery, or all up to it. Raises: as `request`."""
        if self.state is not State.OPEN:
            self._check_open()
        self._channels.get(channel)
        self._output.append(method_frame(channel, BasicNack(delivery_tag, multiple, requeue)))

    def unconfirmed(self, channel: int) -> int:
        """Publishes of `channel` not yet confirmed. Raises: ChannelClosedError."""
        return self._channels.get(channel).unconfirmed_count()

    def close(self, code: int = REPLY_SUCCESS, text: str = "client closes") -> None:
        """Begin an orderly close; the ConnectionClosed event ends it. Idempotent."""
        if self.state is State.OPEN:
            self._output.append(method_frame(0, ConnectionClose(code, text)))
            self.state = State.CLOSING

    # --- events ---------------------------------------------------------------------------

    def _take(self, events: list[ClientEvent]) -> None:
        message = self._received.message
        if message is not None:
            if self.state is State.OPEN:
                self._known(int(self._received.channel)).on_content(message, events)
            return
        event = self._received.event
        assert event is not None, "cannot happen because the parser said there is one"
        kind = event.kind
        if kind == EVENT_HEARTBEAT:
            return
        channel = int(event.channel)
        if kind == EVENT_ACK:
            if self.state is State.OPEN:
                self._known(channel).on_confirm(int(event.tag), event.flag, True, events)
            return
        self._take_method(channel, event, events)

    def _take_method(self, channel: int, event: Event, events: list[ClientEvent]) -> None:
        method = decode_method(event.payload)
        if channel == 0:
            found = _TRANSITIONS.get((self.state, type(method)))
            if found is not None:
                self.state = found[0]
                found[1](self, method, events)
            elif self.state is not State.CLOSING:
                raise ConnectionFault(
                    COMMAND_INVALID,
                    f"unexpected {method.NAME} while {self.state.name.lower()}",
                    method.CLASS_ID,
                    method.METHOD_ID,
                )
        elif self.state is State.OPEN:
            state = self._known(channel)
            answer = state.on_method(method, events)
            if answer is not None:
                self._output.append(method_frame(channel, answer))
            if state.is_gone():
                self._channels.remove(channel)
        elif self.state is not State.CLOSING:
            raise ConnectionFault(CHANNEL_ERROR, f"channel {channel} used before open-ok")

    def _known(self, channel: int) -> ChannelState:
        state = self._channels.find(channel)
        if state is None:
            raise ConnectionFault(CHANNEL_ERROR, f"channel {channel} was never opened")
        return state

    def _on_start(self, method: Method, events: list[ClientEvent]) -> None:
        start = cast(ConnectionStart, method)
        self._server_properties = start.server_properties
        self._output.append(method_frame(0, start_ok(start, self.url, self.name, self.properties)))

    def _on_tune(self, method: Method, events: list[ClientEvent]) -> None:
        agreed = agree(cast(ConnectionTune, method), self.url)
        self.agreed = agreed
        self.frame_bytes_max = agreed.frame_bytes_max
        self._parser.frame_bytes_max = agreed.frame_bytes_max
        self._heartbeat = Heartbeat(agreed.heartbeat_s, self._now_ns)
        tune_ok = ConnectionTuneOk(agreed.channels_max, agreed.frame_bytes_max, agreed.heartbeat_s)
        self._output.append(method_frame(0, tune_ok))
        self._output.append(method_frame(0, ConnectionOpen(self.url.vhost)))

    def _on_open_ok(self, method: Method, events: list[ClientEvent]) -> None:
        events.append(Opened(self._server_properties))

    def _on_blocked(self, method: Method, events: list[ClientEvent]) -> None:
        self.blocked_reason = cast(ConnectionBlocked, method).reason
        events.append(Blocked(self.blocked_reason))

    def _on_unblocked(self, method: Method, events: list[ClientEvent]) -> None:
        self.blocked_reason = None
        events.append(Unblocked())

    def _on_close(self, method: Method, events: list[ClientEvent]) -> None:
        close = cast(ConnectionClose, method)
        self._output.append(method_frame(0, ConnectionCloseOk()))
        self._end(close.reply_code, close.reply_text, True, events)

    def _on_close_ok(self, method: Method, events: list[ClientEvent]) -> None:
        self._end(REPLY_SUCCESS, "closed by the client", False, events)

    # --- faults ---------------------------------------------------------------------------

    def _refuse_channel(self, fault: PeerError, events: list[ClientEvent]) -> None:
        channel = int(self._parser.faulty_channel)
        state = self._channels.find(channel)
        # The parser drops this channel's content from here on, until its number is opened anew.
        if state is not None and not state.is_closed():
            self._output.append(method_frame(channel, channel_close(fault)))
            state.fail(fault.code, fault.text, events)

    def _fail(self, fault: PeerError, events: list[ClientEvent]) -> None:
        text = fault.text
        if self.state is State.AWAIT_START:
            if self._parser.buffer.startswith(PROTOCOL_HEADER[:4]):
                text = "the peer speaks another version of AMQP; this client speaks 0-9-1"
            else:
                text = f"the peer is no AMQP 0-9-1 listener: {text}"
        else:
            self._output.append(method_frame(0, connection_close(fault)))
        self._end(fault.code, text, False, events)

    def _end(self, code: int, text: str, is_by_broker: bool, events: list[ClientEvent]) -> None:
        self.state = State.CLOSED
        self.blocked_reason = None
        self._heartbeat = Heartbeat(0, self._now_ns)
        self._closed = ConnectionClosedError(code, text, is_by_broker)
        events.append(ConnectionClosed(code, text, is_by_broker))

    def _check_open(self) -> None:
        if self._closed is not None:
            # A fresh exception each time: a raised one collects the tracebacks of all its raisers.
            closed = self._closed
            raise ConnectionClosedError(closed.code, closed.text, closed.is_by_broker)
        if self.state is not State.OPEN:
            raise ConnectionClosedError(
                CONNECTION_FORCED, f"it is {self.state.name.lower().replace('_', ' ')}", False
            )


_Action: TypeAlias = Callable[[ClientSession, Method, list[ClientEvent]], None]
_TRANSITIONS: Final[Mapping[tuple[State, type[Method]], tuple[State, _Action]]] = MappingProxyType(
    {
        (State.AWAIT_START, ConnectionStart): (State.AWAIT_TUNE, ClientSession._on_start),
        (State.AWAIT_TUNE, ConnectionTune): (State.AWAIT_OPEN_OK, ClientSession._on_tune),
        (State.AWAIT_TUNE, ConnectionClose): (State.CLOSED, ClientSession._on_close),
        (State.AWAIT_OPEN_OK, ConnectionOpenOk): (State.OPEN, ClientSession._on_open_ok),
        (State.AWAIT_OPEN_OK, ConnectionClose): (State.CLOSED, ClientSession._on_close),
        (State.OPEN, ConnectionBlocked): (State.OPEN, ClientSession._on_blocked),
        (State.OPEN, ConnectionUnblocked): (State.OPEN, ClientSession._on_unblocked),
        (State.OPEN, ConnectionClose): (State.CLOSED, ClientSession._on_close),
        (State.CLOSING, ConnectionClose): (State.CLOSED, ClientSession._on_close),
        (State.CLOSING, ConnectionCloseOk): (State.CLOSED, ClientSession._on_close_ok),
    }
)
