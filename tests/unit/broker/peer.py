"""A broker in memory and scripted AMQP peers: real protocol bytes, no socket, no real time."""

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from penstock.base.chance import Chance
from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.broker.actors.output import Output, OutputLine, Shell
from penstock.broker.broker import Broker, Log
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.content import EVENT_ACK, EVENT_HEARTBEAT, make_content
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.methods.codec import decode_method, encode_method, method_frame
from penstock.protocol.values import Table, encode_table

MS = 1_000_000
READ_BYTES = 65_536
ALL_CAPABILITIES = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "publisher_confirms",
)

T = TypeVar("T", bound=m.Method)


class SeededChance(Chance):
    """The same names in every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)


class LogBook(Log):
    """Keeps what was logged. `errors`: internal errors, which no test expects."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.errors: list[tuple[str, BaseException]] = []

    def info(self, text: str) -> None:
        self.lines.append(text)

    def warning(self, text: str) -> None:
        self.lines.append(text)

    def error(self, text: str, error: BaseException) -> None:
        self.errors.append((text, error))


class PeerOutput(Output):
    """The broker's writer: bytes go into `sent` as long as `room_bytes` lasts, -1 for ever."""

    def __init__(self, line: OutputLine, high_bytes: int) -> None:
        super().__init__(line, high_bytes)
        self.sent = bytearray()
        self.pending = b""
        self.room_bytes = -1
        self.is_closing = False
        self.pending_bytes_max = 0
        self.shell: PeerShell | None = None

    def _send(self) -> None:
        self.pending += self.writer.getvalue()
        self.writer.truncate(0)
        self.pending_bytes_max = max(self.pending_bytes_max, len(self.pending))
        count = (
            len(self.pending) if self.room_bytes < 0 else min(self.room_bytes, len(self.pending))
        )
        self.sent += self.pending[:count]
        self.pending = self.pending[count:]
        if self.room_bytes >= 0:
            self.room_bytes -= count
        self.held_bytes = len(self.pending)
        if self.is_closing and not self.pending and self.shell is not None:
            self.shell.hang_up()


class PeerShell(Shell):
    """The broker's end of the socket. `resumes`: how often reading was asked for again."""

    def __init__(self, output: PeerOutput) -> None:
        self.output = output
        self.bed: Bed | None = None
        self.connection: Connection | None = None
        self.is_closed = False
        self.resumes = 0

    def resume(self) -> None:
        self.resumes += 1

    def close_after_output(self) -> None:
        self.output.is_closing = True
        self.output.mark()

    def hang_up(self) -> None:
        """The socket ends, whoever ended it."""
        if self.is_closed:
            return
        self.is_closed = True
        self.output.close()
        assert self.bed is not None and self.connection is not None, "wired by Bed.connect"
        self.bed.broker.lost(self.connection)
        # As a real one, which leaves no ring of objects behind.
        self.connection = self.output.shell = None


class TickingClock(ManualClock):
    """A nanosecond later at every look, so that a short slice ends."""

    def monotonic_ns(self) -> int:
        self.advance(1)
        return super().monotonic_ns()


class Bed:
    """A broker in memory. settings: fields of Config."""

    def __init__(self, memory_high_bytes: int = 1 << 30, **settings: object) -> None:
        self.clock = ManualClock()
        self.log = LogBook()
        config = Config(**settings)  # type: ignore[arg-type]  # tests name fields of Config
        self.broker = Broker(config, self.clock, SeededChance(1), self.log, memory_high_bytes)

    def run(self) -> None:
        """Until nothing is ready."""
        while self.broker.scheduler.run(MS):
            self.clock.advance(1)

    def later(self, ns: int) -> None:
        """So much time passes, and what falls due in it is done."""
        self.clock.advance(ns)
        self.broker.dues.fire(self.clock.monotonic_ns())
        self.run()

    def actor(self, name: str) -> QueueActor:
        """The queue called so in the virtual host `/`."""
        return self.broker.vhosts["/"].queues[name]

    def connect(self, name: str = "peer", host: str = "127.0.0.1", **settings: object) -> "Peer":
        """A peer that has not said anything yet."""
        peer = Peer(self, name, host)
        peer.open(**settings)  # type: ignore[arg-type]  # tests name arguments of Peer.open
        return peer

    def settle(self) -> None:
        """At rest: the ledger is balanced, every hop keeps law 1, no internal error was logged."""
        self.run()
        assert self.log.errors == []
        assert self.broker.node_account.total_messages() == 0
        assert self.broker.node_account.total_bytes() == 0
        for vhost in self.broker.vhosts.values():
            for actor in vhost.queues.values():
                for lane in actor.lanes:
                    lane.check()
        for connection in self.broker.connections.values():
            for channel in connection.channels.values():
                if channel.upstream is not None:
                    channel.upstream.check()


class Heard(NamedTuple):
    """One thing the broker said. `header`: a content header's payload, b"" without content."""

    channel: int
    method: m.Method
    header: bytes = b""
    body: bytes = b""


class Peer:
    """One connection to a Bed. Bytes it sends wait in `unread` while the broker does not read."""

    def __init__(self, bed: Bed, name: str, host: str = "127.0.0.1") -> None:
        self.bed = bed
        broker = bed.broker
        self.output = PeerOutput(broker.scheduler.outputs, broker.config.socket_output_high_bytes)
        self.shell = PeerShell(self.output)
        self.output.shell = self.shell
        self.connection = broker.accept(host, name, self.output, self.shell)
        self.shell.bed = bed
        self.shell.connection = self.connection
        self.unread = b""
        self.greeting = b""
        self.heartbeats = 0
        self._parser = FrameParser(0, 1 << 40)
        self._received = Received()

    # -- speaking --------------------------------------------------------------------------------

    def open(
        self,
        channels: int = 1,
        frame_bytes_max: int = 131_072,
        channel_max: int = 2047,
        heartbeat_s: int = 0,
        capabilities: Sequence[str] = ALL_CAPABILITIES,
        vhost: str = "/",
    ) -> None:
        """The whole handshake, and channels 1..`channels`."""
        self.send(PROTOCOL_HEADER)
        self.one(m.ConnectionStart)
        self.say(0, start_ok(capabilities))
        self.one(m.ConnectionTune)
        self.say(0, m.ConnectionTuneOk(channel_max, frame_bytes_max, heartbeat_s))
        self.say(0, m.ConnectionOpen(vhost))
        self.one(m.ConnectionOpenOk)
        for number in range(1, channels + 1):
            self.say(number, m.ChannelOpen())
            self.one(m.ChannelOpenOk)

    def send(self, *pieces: bytes) -> None:
        """Bytes, read in portions as a socket gives them; everything they cause is done."""
        self.unread += b"".join(pieces)
        self.read_on()

    def read_on(self) -> None:
        """Let the broker read what waits, as far as it wants to."""
        self.bed.run()
        while self.unread and not self.shell.is_closed and self.connection.can_receive():
            self.connection.receive(self.unread[:READ_BYTES])
            self.unread = self.unread[READ_BYTES:]
            self.bed.run()

    def say(self, channel: int, *said: m.Method) -> None:
        """Methods, in one piece."""
        self.send(*(method_frame(channel, one) for one in said))

    def call(self, channel: int, method: m.Method, kind: type[T]) -> T:
        """A method and its answer, which must be all there is to hear."""
        self.say(channel, method)
        return self.one(kind)

    def publish(self, key: str, *bodies: bytes, channel: int = 1, exchange: str = "") -> None:
        """Publishes in one piece."""
        self.send(*(publish(channel, exchange, key, body) for body in bodies))

    def take(self, room_bytes: int = -1) -> None:
        """The peer's socket takes `room_bytes` more, -1 for everything from now on."""
        self.output.room_bytes = room_bytes
        self.output.mark()
        self.read_on()

    def hang_up(self) -> None:
        """The peer's socket is gone, without a word."""
        self.shell.hang_up()
        self.bed.run()

    # -- hearing ---------------------------------------------------------------------------------

    def heard(self) -> list[Heard]:
        """Everything the broker has said since the last call."""
        data = bytes(self.output.sent)
        self.output.sent.clear()
        if data.startswith(b"AMQP"):
            self.greeting, data = data[:8], data[8:]
        self._parser.feed(data)
        found: list[Heard] = []
        while self._parser.next(self._received):
            message = self._received.message
            event = self._received.event
            if message is not None:
                method = decode_method(message.address.method)
                found.append(Heard(int(message.channel), method, message.header(), message.body()))
            elif event is not None and event.kind == EVENT_ACK:
                ack = m.BasicAck(int(event.tag), event.flag)
                found.append(Heard(int(event.channel), ack))
            elif event is not None and event.kind == EVENT_HEARTBEAT:
                self.heartbeats += 1
            elif event is not None:
                found.append(Heard(int(event.channel), decode_method(event.payload)))
        return found

    def one(self, kind: type[T]) -> T:
        """The only thing heard, of this kind."""
        found = self.heard()
        assert len(found) == 1, f"expected one {kind.__name__}, heard {found}"
        method = found[0].method
        assert isinstance(method, kind), f"expected {kind.__name__}, heard {method}"
        return method

    def bodies(self) -> list[bytes]:
        """The bodies of all that is heard, which must be contents only."""
        found = self.heard()
        assert all(one.header for one in found), found
        return [one.body for one in found]

    def confirmed(self) -> dict[int, str]:
        """Publish sequences answered by what is heard: "ack" or "nack"; `multiple` is spread out.

        Only numbers not answered earlier in the same hearing count, as a client would see it."""
        answers: dict[int, str] = {}
        for one in self.heard():
            assert isinstance(one.method, m.BasicAck | m.BasicNack), one
            word = "ack" if isinstance(one.method, m.BasicAck) else "nack"
            tag = one.method.delivery_tag
            for sequence in range(1, tag + 1) if one.method.multiple else (tag,):
                answers.setdefault(sequence, word)
        return answers


def start_ok(
    capabilities: Sequence[str] = ALL_CAPABILITIES,
    user: str = "guest",
    password: str = "guest",
    name: str = "",
) -> m.ConnectionStartOk:
    """connection.start-ok with PLAIN."""
    properties: Table = {"capabilities": dict.fromkeys(capabilities, True)}
    if name != "":
        properties["connection_name"] = name
    response = b"\0" + user.encode() + b"\0" + password.encode()
    return m.ConnectionStartOk(properties, "PLAIN", response, "en_US")


def header(body_bytes: int, flags: int = 0, values: bytes = b"") -> bytes:
    """A content header's payload. flags, values: the properties as on the wire."""
    return b"\x00\x3c\x00\x00" + body_bytes.to_bytes(8, "big") + flags.to_bytes(2, "big") + values


def headers_property(table: Table) -> tuple[int, bytes]:
    """Flags and value of the headers property."""
    return 0x2000, encode_table(table)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Any frame."""
    return (
        bytes([kind])
        + channel.to_bytes(2, "big")
        + len(payload).to_bytes(4, "big")
        + payload
        + b"\xce"
    )


def publish(
    channel: int,
    exchange: str,
    key: str,
    body: bytes,
    properties: tuple[int, bytes] = (0, b""),
    mandatory: bool = False,
    frame_bytes_max: int = 131_072,
) -> bytes:
    """The frames of a whole basic.publish."""
    method = encode_method(m.BasicPublish(exchange, key, mandatory, False))
    whole = make_content(channel, method, header(len(body), *properties), body, frame_bytes_max)
    return frame(1, channel, method) + whole.raw
