"""A raw AMQP 0-9-1 peer: sends exactly the frames a test says, and reports how it was answered.

The ready-made clients check what they send, so most protocol errors cannot be provoked with them.
This one only borrows pamqp's encoding. The idea of every table-driven test is
`outcome(broker, steps)`: open a connection and a channel, send the steps one by one, and give the
reply code and text with which the broker ended it (`OK` if it did not).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from pamqp import base, body, commands, constants, exceptions, frame, header, heartbeat

from tests.conformance.live import Broker
from tests.patience import PATIENCE_S

FRAME_BYTES_MAX = 131072
CHANNEL = 1
CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}

T = TypeVar("T")
Frame = base.Frame | header.ContentHeader | body.ContentBody | heartbeat.Heartbeat


class Outcome(NamedTuple):
    """How a script ended: `scope` is "ok", "channel", "connection" or "gone" (socket closed);
    `method`: class and method that channel.close names."""

    scope: str
    code: int = 0
    text: str = ""
    method: tuple[int, int] = (0, 0)


OK = Outcome("ok")
GONE = Outcome("gone")


class Closed(Exception):
    """The broker closed the channel, the connection or the socket."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class Content(NamedTuple):
    """A whole message, to publish or as it was received; as a step it is sent as it stands."""

    method: base.Frame
    body: bytes = b""
    properties: commands.Basic.Properties | None = None


class On(NamedTuple):
    """A step for another channel than the first."""

    channel: int
    step: Step


Step = base.Frame | Content | bytes | On


class Peer:
    """One connection to the broker, blocking, with every read bounded by `PATIENCE_S`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.socket = socket.create_connection(broker.address, timeout=PATIENCE_S)
        self._received = b""
        self.server_properties: dict[str, Any] = {}
        self.tuned: commands.Connection.Tune | None = None

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def start(self) -> commands.Connection.Start:
        """Send the protocol header and read connection.start."""
        self.send_bytes(b"AMQP\x00\x00\x09\x01")
        started = self.expect(commands.Connection.Start)
        self.server_properties = dict(started.server_properties or {})
        return started

    def log_in(
        self,
        response: str | None = None,
        mechanism: str = "PLAIN",
        capabilities: dict[str, bool] | None = None,
    ) -> commands.Connection.Tune:
        """Send start-ok and read connection.tune."""
        plain = f"\0{self.broker.user}\0{self.broker.password}"
        properties: dict[str, Any] = {
            "capabilities": CAPABILITIES if capabilities is None else capabilities
        }
        self.send(
            0,
            commands.Connection.StartOk(
                properties, mechanism, plain if response is None else response, "en_US"
            ),
        )
        self.tuned = self.expect(commands.Connection.Tune)
        return self.tuned

    def open(
        self,
        *,
        channels: int = 1,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        channel_max: int = 2047,
        heartbeat_s: int = 0,
        capabilities: dict[str, bool] | None = None,
    ) -> Peer:
        """Do the whole handshake and open channels 1..`channels`."""
        self.start()
        self.log_in(capabilities=capabilities)
        self.send(0, commands.Connection.TuneOk(channel_max, frame_bytes_max, heartbeat_s))
        self.send(0, commands.Connection.Open(self.broker.vhost))
        self.expect(commands.Connection.OpenOk)
        for number in range(1, channels + 1):
            self.call(commands.Channel.Open(), number)
        return self

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are; a broker that already hung up is noticed on the next read."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def send(self, channel: int, value: Frame) -> None:
        """Send one frame."""
        self.send_bytes(frame.marshal(value, channel))

    def publish(self, content: Content, channel: int = CHANNEL) -> None:
        """Send a method with its header and body frames, bodies cut at the negotiated size."""
        properties = content.properties or commands.Basic.Properties()
        self.send(channel, content.method)
        self.send(channel, header.ContentHeader(0, len(content.body), properties))
        size = FRAME_BYTES_MAX - 8
        for start in range(0, len(content.body), size):
            self.send(channel, body.ContentBody(content.body[start : start + size]))

    def receive(self) -> tuple[int, Frame]:
        """The next frame and its channel.

        Raises: Closed when it closes this channel or connection, or the socket ends; close-ok is
        sent first. TimeoutError after `PATIENCE_S`.
        """
        channel, value = self._next()
        if isinstance(value, commands.Connection.Close):
            self.send(0, commands.Connection.CloseOk())
            raise Closed(Outcome("connection", value.reply_code or 0, value.reply_text))
        if isinstance(value, commands.Channel.Close):
            self.send(channel, commands.Channel.CloseOk())
            method = (value.class_id or 0, value.method_id or 0)
            raise Closed(Outcome("channel", value.reply_code or 0, value.reply_text, method))
        return channel, value

    def expect(self, kind: type[T], channel: int | None = None) -> T:
        """The next frame but heartbeats: of `kind`, and of `channel` if given."""
        while True:
            number, value = self.receive()
            if not isinstance(value, heartbeat.Heartbeat) or kind is heartbeat.Heartbeat:
                break
        assert isinstance(value, kind), f"expected {kind.__name__}, got {value!r}"
        assert channel is None or number == channel, f"on channel {number}"
        return value

    def content(
        self, kind: type[base.Frame] = commands.Basic.Deliver, channel: int = CHANNEL
    ) -> Content:
        """The next frames, which must be a whole message carried by `kind`."""
        method = self.expect(kind, channel)
        properties = self.expect(header.ContentHeader, channel)
        data = b""
        while len(data) < properties.body_size:
            data += self.expect(body.ContentBody, channel).value
        return Content(method, data, properties.properties)

    def call(self, method: base.Frame, channel: int = CHANNEL) -> Any:
        """Send a synchronous method and read its reply, which must be a valid one."""
        self.send(channel, method)
        reply = self.expect(base.Frame, channel)
        valid = method.valid_responses
        assert reply.name in valid, f"{method.name}: expected one of {valid}, got {reply!r}"
        return reply

    def is_gone(self) -> bool:
        """Does the broker hang up now, without another byte? Waits up to `PATIENCE_S`."""
        try:
            return not self._received and not self.socket.recv(1)
        except ConnectionResetError:
            return True

    def run(self, step: Step, channel: int = CHANNEL) -> None:
        """Send one step; wait for the reply if its method has one."""
        if isinstance(step, On):
            self.run(step.step, step.channel)
        elif isinstance(step, bytes):
            self.send_bytes(step)
        elif isinstance(step, Content):
            self.publish(step, channel)
        elif step.synchronous and not getattr(step, "nowait", False):
            self.call(step, channel)
        else:
            self.send(channel, step)

    def _next(self) -> tuple[int, Frame]:
        while True:
            if len(self._received) >= constants.FRAME_HEADER_SIZE:
                if self._received.startswith(b"AMQP"):
                    raise Closed(GONE)
                size = struct.unpack_from(">I", self._received, 3)[0] + 8
                if len(self._received) >= size:
                    whole, self._received = self._received[:size], self._received[size:]
                    return decode_frame(whole)
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Closed(GONE)
            self._received += data


def decode_frame(whole: bytes) -> tuple[int, Frame]:
    """Channel and value of one whole frame; connection.update-secret-ok is unknown to pamqp."""
    try:
        _, channel, value = frame.unmarshal(whole)
    except exceptions.UnmarshalingException as error:
        raise AssertionError(f"not a frame: {whole[:64]!r}") from error
    assert not isinstance(value, header.ProtocolHeader)
    return channel, value


def outcome(broker: Broker, steps: Sequence[Step], owner: Sequence[Step] = ()) -> Outcome:
    """Run `steps` on a fresh connection and say how it ended.

    owner: run first, on a connection of its own that stays open meanwhile.

    After the last step a basic.qos is sent and awaited on channel 1, so that errors of methods
    without a reply are seen too; deliveries and confirms on the way are read over.
    """
    with Peer(broker) as other, Peer(broker) as peer:
        if owner:
            other.open()
        for step in owner:
            other.run(step)
        try:
            peer.open()
            for step in steps:
                peer.run(step)
            peer.send(CHANNEL, commands.Basic.Qos())
            while not isinstance(peer.receive()[1], commands.Basic.QosOk):
                continue
        except Closed as closed:
            return closed.outcome
    return OK
