"""A tiny broker's role made from the same protocol room, and both ends wired without a socket."""

from collections.abc import Sequence

from penstock.client.events import ClientEvent
from penstock.client.session import ClientSession
from penstock.client.url import BrokerUrl
from penstock.protocol import methods as m
from penstock.protocol.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from penstock.protocol.content import EVENT_ACK, EVENT_HEARTBEAT, Message, make_content
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.methods.codec import decode_method, encode_method, method_frame
from penstock.protocol.properties import Properties, encode_header_payload

START_NS = 1_000_000_000
FRAME_BYTES_MAX = 4096

_ANSWERS: dict[type[m.Method], m.Method] = {
    m.ConnectionOpen: m.ConnectionOpenOk(),
    m.ConnectionClose: m.ConnectionCloseOk(),
    m.ChannelOpen: m.ChannelOpenOk(),
    m.ChannelClose: m.ChannelCloseOk(),
    m.ConfirmSelect: m.ConfirmSelectOk(),
    m.BasicQos: m.BasicQosOk(),
    m.BasicConsume: m.BasicConsumeOk("tag"),
    m.QueueDeclare: m.QueueDeclareOk("queue", 3, 1),
    m.QueuePurge: m.QueuePurgeOk(7),
    m.BasicGet: m.BasicGetEmpty(),
}


class ScriptedBroker:
    """Answers the opening and simple requests by itself while `answers`; notes all it hears."""

    def __init__(self, heartbeat_s: int = 60) -> None:
        self.heard: list[tuple[int, m.Method]] = []
        self.published: list[Message] = []
        self.heartbeats = 0
        self.answers = True
        self.heartbeat_s = heartbeat_s
        self._header = b""
        self._parser = FrameParser(FRAME_BYTES_MAX, 1 << 20)
        self._received = Received()
        self._output: list[bytes] = []

    def output(self) -> bytes:
        data = b"".join(self._output)
        self._output = []
        return data

    def say(self, channel: int, method: m.Method) -> None:
        self._output.append(method_frame(channel, method))

    def beat(self) -> None:
        self._output.append(HEARTBEAT_FRAME)

    def say_content(self, channel: int, method: m.Method, body: bytes) -> None:
        header = encode_header_payload(len(body), Properties(content_type="text/plain"))
        content = make_content(channel, encode_method(method), header, body, FRAME_BYTES_MAX)
        self._output.append(method_frame(channel, method) + content.raw)

    def feed(self, data: bytes) -> None:
        if len(self._header) < len(PROTOCOL_HEADER):
            missing = len(PROTOCOL_HEADER) - len(self._header)
            self._header += data[:missing]
            data = data[missing:]
            if len(self._header) == len(PROTOCOL_HEADER):
                assert self._header == PROTOCOL_HEADER
                self.say(0, m.ConnectionStart())
        self._parser.feed(data)
        while self._parser.next(self._received):
            self._take()

    def _take(self) -> None:
        message = self._received.message
        if message is not None:
            self.published.append(message)
            return
        event = self._received.event
        assert event is not None
        if event.kind == EVENT_HEARTBEAT:
            self.heartbeats += 1
            return
        channel = int(event.channel)
        method: m.Method = m.BasicAck(int(event.tag), event.flag)
        if event.kind != EVENT_ACK:
            method = decode_method(event.payload)
        self.heard.append((channel, method))
        if isinstance(method, m.ConnectionStartOk):
            self.say(0, m.ConnectionTune(2047, FRAME_BYTES_MAX, self.heartbeat_s))
        elif self.answers and type(method) in _ANSWERS:
            self.say(channel, _ANSWERS[type(method)])


class Wire:
    """A session and a broker, bytes carried over `step` at a time; 0 carries all at once."""

    def __init__(
        self, step: int = 0, url: BrokerUrl | None = None, broker: ScriptedBroker | None = None
    ) -> None:
        self.now_ns = START_NS
        self.session = ClientSession(url or BrokerUrl(), "test", self.now_ns)
        self.broker = broker or ScriptedBroker()
        self.events: list[ClientEvent] = []
        self._step = step

    def pump(self) -> list[ClientEvent]:
        """Carry bytes until both are quiet; the events of this round."""
        events: list[ClientEvent] = []
        while True:
            sent = self.session.output(self.now_ns)
            for piece in self._pieces(sent):
                self.broker.feed(piece)
            said = self.broker.output()
            for piece in self._pieces(said):
                events += self.session.feed(piece, self.now_ns)
            if not sent and not said:
                self.events += events
                return events

    def open(self) -> None:
        self.pump()
        assert self.session.agreed is not None

    def channel(self) -> int:
        number, _ = self.session.open_channel()
        self.pump()
        return number

    def _pieces(self, data: bytes) -> Sequence[bytes]:
        step = self._step or max(1, len(data))
        return [data[at : at + step] for at in range(0, len(data), step)]


def open_wire(step: int = 0) -> Wire:
    wire = Wire(step)
    wire.open()
    return wire
