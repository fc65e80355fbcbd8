"""A client's connection through a node that does not lead, so kept that the next leader can go on.

What both sides say is looked at and passed on. When the broker is gone, the client hears nothing of
it: `attach` logs in again with the client's own words, declares what was transient, opens its
channels, starts its consumers, and sends again what nobody has confirmed. What cannot be kept ends
the connection as it would without all this.
"""

from collections import Counter, deque
from typing import Final

from penstock.base.errors import ConnectionFault, PenstockError
from penstock.base.limits import FRAME_BYTES_BEFORE_OPEN
from penstock.forwarding.asked import ANSWERS, Share, number_of
from penstock.forwarding.frame_cutter import HEARTBEAT, METHOD, Frame, FrameCutter, FrameUnread
from penstock.forwarding.kept_channel import CannotKeep, KeptChannel
from penstock.forwarding.topology import Topology
from penstock.protocol.constants import PROTOCOL_HEADER, SHUTDOWN_TEXT
from penstock.protocol.handshake import GOES_ON
from penstock.protocol.methods import table as m
from penstock.protocol.methods.base import Method
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.replication.seen import NOTHING, REFERENCE_BYTES, Answer, Run

_BUSY: Final = (403, 405)
"""An exclusive queue or consumer is still that of the connection which was lost."""
_OPEN: Final = number_of(m.ChannelOpen)
_CLOSE: Final = number_of(m.ChannelClose)
_CLOSE_OK: Final = number_of(m.ChannelCloseOk)
_FIRST: Final = 1
"""A channel that every client may have, and none has at a broker that is asked again."""
TOKEN_BYTES: Final = REFERENCE_BYTES - 4
_UNKNOWN: Final = 16_384
"""Runs that a leader is asked for: one for each channel, and each broker it has lost."""
SAID_AT_ONCE: Final = 256
_DECLARED: Final = 64
"""Declarations on their way, so that few are said twice when one of them is refused."""


class AttachFault(PenstockError):
    """This broker does not take the connection now; it may later, or another one."""


class KeptConnection:
    """to_client, to_broker: bytes to be written, taken by whoever writes them.

    is_raw: bytes are passed on and not looked at; is_over: either side has said that it closes;
    offered_bytes: of a frame, by the first broker, 0 for no bound; is_attached: the broker knows
    all that it has to, so the client may be read; sessions: brokers so far; is_closing: channels
    that were closed in the broker's place and the session of that, until the client has answered;
    references: that were made of the token; seen: publishes that the log of this broker holds;
    dropped: publishes that were not sent again because of that; unsaid: channels of which the
    broker has not been asked everything; is_moving: the broker that has the virtual host is being
    asked for it, after the one that has heard the login; greetings: that the client has heard, of
    connection.start and connection.tune.
    """

    __slots__ = (
        "broker",
        "channels",
        "client",
        "consumers",
        "declared_at",
        "declared_to",
        "declaring",
        "dropped",
        "greetings",
        "head",
        "held_bytes",
        "is_attached",
        "is_blocked",
        "is_closing",
        "is_known",
        "is_leaving",
        "is_moving",
        "is_over",
        "is_raw",
        "is_renewing",
        "offered_bytes",
        "open",
        "owed",
        "references",
        "seen",
        "sessions",
        "share",
        "start_ok",
        "to_broker",
        "to_client",
        "token",
        "topology",
        "tune_ok",
        "unsaid",
    )

    def __init__(self, share: Share, payload_max: int, token: bytes) -> None:
        """payload_max: bytes of a frame that any broker may allow; token: TOKEN_BYTES that nobody
        else has, and nobody can guess."""
        self.share = share
        self.token = token
        self.references = 0
        self.seen = NOTHING
        self.dropped = 0
        self.held_bytes = 0
        self.owed = 0
        # As much as the broker takes of a stranger, until it has let the client in.
        self.client = FrameCutter(min(payload_max, FRAME_BYTES_BEFORE_OPEN.default))
        self.broker = FrameCutter(payload_max)
        self.head = b""
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.is_raw = False
        self.is_over = False
        self.is_attached = True
        self.is_known = False
        self.is_leaving = False
        self.is_moving = False
        self.sessions = 1
        self.channels: dict[int, KeptChannel] = {}
        self.is_closing: dict[int, int] = {}
        self.consumers: Counter[str] = Counter()
        self.topology = Topology(share)
        self.start_ok = b""
        self.offered_bytes = 0
        self.greetings = 0
        self.tune_ok = m.ConnectionTuneOk()
        self.open = b""
        self.is_blocked = False
        self.is_renewing = False
        self.declaring: list[Method] = []
        self.declared_at = 0
        self.declared_to = 0
        self.unsaid: deque[KeptChannel] = deque()

    def consumer_left(self, queue: str) -> None:
        """A consumer is gone, and with the last one a queue that deletes itself."""
        self.consumers[queue] -= 1
        if self.consumers[queue] <= 0:
            del self.consumers[queue]
            self.topology.deserted(queue)

    @property
    def can_be_told(self) -> bool:
        """Whether a method may be put between what the broker says."""
        is_between = not any(one.is_passing for one in self.channels.values())
        is_tuned = self.is_known or self.is_moving
        return is_tuned and is_between and not self.is_over and not self.is_raw

    @property
    def can_move(self) -> bool:
        """Whether the client has asked for its virtual host, and another broker may be asked for
        it in the place of this one."""
        is_asked = self.open != b"" and not self.is_known
        if any(one.is_ending or one.is_tx for one in self.channels.values()):
            # Said right behind it: the broker that hears it passes the client on itself.
            return False
        return is_asked and not (self.is_raw or self.is_over or self.share.why_not)

    @property
    def vhost(self) -> str:
        """That the client has asked for, "" before."""
        asked = decode_method(self.open[7:-1]) if self.open else None
        return asked.virtual_host if isinstance(asked, m.ConnectionOpen) else ""

    # -- from the client ---------------------------------------------------------------------------

    def from_client(self, data: bytes) -> None:
        """Only while `is_attached`. Raises: CannotKeep, when what comes cannot be passed on."""
        if len(self.head) < len(PROTOCOL_HEADER) and not self.is_raw:
            self.head += data
            if len(self.head) < len(PROTOCOL_HEADER):
                return
            data = self.head[len(PROTOCOL_HEADER) :]
            self.head = self.head[: len(PROTOCOL_HEADER)]
            self.to_broker.append(self.head)
            if self.head != PROTOCOL_HEADER:
                self.is_raw = True
        if self.is_raw:
            self.to_broker.append(data)
            return
        try:
            frames = self.client.feed(data)
        except FrameUnread:
            self._go_raw(b"", b"")
            return
        for at, frame in enumerate(frames):
            try:
                self._client_frame(frame)
            except ConnectionFault:
                self._go_raw(b"".join(one[3] for one in frames[at:]), b"")
                break

    def _go_raw(self, for_broker: bytes, for_client: bytes) -> None:
        """The broker is to judge what cannot be read here, and what comes behind it."""
        self.is_raw = True
        self.to_broker += (for_broker, bytes(self.client.rest))
        for channel in self.channels.values():
            self.to_client += channel.held
        self.to_client += (for_client, bytes(self.broker.rest))
        self.client.forget()
        self.broker.forget()

    def _client_frame(self, frame: Frame) -> None:
        _, number, ids, data = frame
        if number == 0:
            self._client_says(frame)
            return
        channel = self.channels.get(number)
        if channel is None and number in self.is_closing:
            if self.is_closing[number] == self.sessions:
                self.to_broker.append(data)
            if ids == _CLOSE_OK:
                del self.is_closing[number]
            return
        if channel is None and ids == _OPEN:
            channel = self.channels[number] = KeptChannel(self, number)
        if channel is None:
            self.to_broker.append(data)
        else:
            channel.from_client(frame)

    def _client_says(self, frame: Frame) -> None:
        kind, _, _, data = frame
        if kind == METHOD:
            match decode_method(data[7:-1]):
                case m.ConnectionStartOk():
                    self.start_ok = data
                case m.ConnectionSecureOk():
                    self.share.refuse("its login takes more than one step")
                case m.ConnectionTuneOk() as agreed:
                    self.tune_ok = agreed
                case m.ConnectionOpen():
                    self.open = data
                case m.ConnectionUpdateSecret(new_secret=secret):
                    self.is_renewing = True
                    self._renew(secret)
                case m.ConnectionClose():
                    self.is_over = True
        self.to_broker.append(data)

    def _renew(self, secret: bytes) -> None:
        old = decode_method(self.start_ok[7:-1])
        assert isinstance(old, m.ConnectionStartOk), "it was looked at when it came"
        if old.mechanism != "PLAIN":
            self.share.refuse(f"its login by {old.mechanism} was renewed")
            return
        old.response = old.response.rpartition(b"\x00")[0] + b"\x00" + secret
        self.start_ok = method_frame(0, old)

    # -- from the broker ---------------------------------------------------------------------------

    def from_broker(self, data: bytes) -> None:
        """Raises: AttachFault; CannotKeep."""
        if self.is_raw:
            self.to_client.append(data)
            return
        if not self.is_known and not self.broker.rest and data[:4] == b"AMQP":
            # It refuses the client's version by naming its own.
            self.is_raw = True
            self.to_client.append(data)
            return
        try:
            frames = self.broker.feed(data)
        except FrameUnread:
            self._go_raw(b"", b"")
            return
        for at, frame in enumerate(frames):
            try:
                self._broker_frame(frame)
            except ConnectionFault:
                self._go_raw(b"", b"".join(one[3] for one in frames[at:]))
                break

    def _broker_frame(self, frame: Frame) -> None:
        _, number, ids, data = frame
        if number == 0:
            self._broker_says(frame)
            return
        if self.declaring:
            self._declared(frame)
            return
        channel = self.channels.get(number)
        if channel is None:
            if ids == _CLOSE_OK:
                self.is_closing.pop(number, None)
            self.to_client.append(data)
        elif ids == _CLOSE:
            self._closed(channel, data)
        else:
            channel.from_broker(frame)
            if ids == _CLOSE_OK:
                self._over(channel)
        if not self.is_attached:
            self._look()

    def _closed(self, channel: KeptChannel, data: bytes) -> None:
        """The broker closes a channel."""
        if not self.is_attached:
            method = decode_method(data[7:-1])
            assert isinstance(method, m.ChannelClose), "its ids say so"
            if method.reply_code in _BUSY and channel.owed:
                raise AttachFault(method.reply_text)
        self.is_closing[channel.number] = self.sessions
        self._over(channel)
        self.to_client.append(data)

    def _over(self, channel: KeptChannel) -> None:
        channel.let_go()
        del self.channels[channel.number]
        if channel in self.unsaid:
            self.unsaid.remove(channel)

    def _broker_says(self, frame: Frame) -> None:
        kind, _, _, data = frame
        if kind == HEARTBEAT:
            self.to_client.append(data)
            return
        method = decode_method(data[7:-1])
        match method:
            case m.ConnectionClose(reply_code=320, reply_text=text) if (
                self.is_known and not self.is_over and text == SHUTDOWN_TEXT
            ):
                self.is_leaving = True
                self.to_broker.append(method_frame(0, m.ConnectionCloseOk()))
                return
            case m.ConnectionClose() | m.ConnectionCloseOk():
                self.is_over = True
            case m.ConnectionSecure():
                self.share.refuse("its login takes more than one step")
            case m.ConnectionBlocked():
                self.is_blocked = True
            case m.ConnectionUnblocked():
                self.is_blocked = False
            case m.ConnectionUpdateSecretOk():
                self.is_renewing = False
        if (self.is_known or self.is_moving) and not self.is_attached and not self.is_over:
            self._opening(method)
            return
        if isinstance(method, m.ConnectionStart | m.ConnectionTune):
            self._greet(method)
            return
        if isinstance(method, m.ConnectionOpenOk):
            self._opened()
        self.to_client.append(data)

    def _greet(self, method: m.ConnectionStart | m.ConnectionTune) -> None:
        """The client hears each once. Who has said everything at once may have asked for his
        virtual host before the first broker has said any: he hears those of the second one."""
        number = 2 if isinstance(method, m.ConnectionTune) else 1
        if self.greetings >= number:
            return
        self.greetings = number
        self.to_client.append(method_frame(0, method))
        if isinstance(method, m.ConnectionTune):
            self.offered_bytes = method.frame_max

    def _opened(self) -> None:
        """The client is in its virtual host."""
        self.is_known = True
        self.is_moving = False
        agreed = [one for one in (self.offered_bytes, self.tune_ok.frame_max) if one]
        self.client.payload_max = min(agreed, default=self.broker.payload_max)

    # -- from one broker to the next ---------------------------------------------------------------

    def resume(self, login: bytes, tuned: m.ConnectionTuneOk, said: bytes) -> bool:
        """A client that another broker of this node has heard up to connection.open: its login and
        what it has agreed on, and the bytes from connection.open on. False: it cannot be kept."""
        self.head = PROTOCOL_HEADER
        self.start_ok = login
        self.tune_ok = tuned
        self.greetings = 2
        self.from_client(said)
        if not self.can_move:
            return False
        self.move()
        return True

    def move(self) -> None:
        """Another broker has the virtual host: it is asked for it by `attach`, and this one hears
        nothing more. Only while `can_move`."""
        self.is_moving = True
        self.lost()

    def lost(self) -> None:
        """The broker is gone. What can be had again will be, after `attach`; what cannot is told to
        the client. Raises: CannotKeep, when the client's connection ends as well."""
        if self.is_over:
            raise CannotKeep("it was being closed")
        if self.is_raw or not (self.is_known or self.is_moving):
            raise CannotKeep("it had not opened a virtual host")
        if self.share.why_not:
            raise CannotKeep(self.share.why_not)
        self.is_attached = False
        self.is_leaving = False
        self.broker.forget()
        self.declaring = []
        self.unsaid.clear()
        for channel in list(self.channels.values()):
            if not channel.lost():
                del self.channels[channel.number]
        if self.is_blocked:
            self.is_blocked = False
            self.to_client.append(method_frame(0, m.ConnectionUnblocked()))
        if self.is_renewing:
            self.is_renewing = False
            self.to_client.append(method_frame(0, m.ConnectionUpdateSecretOk()))

    def unknown(self) -> list[Run]:
        """Publishes of which the next leader is to say which of them its log holds."""
        return [run for one in self.channels.values() for run in one.unknown()][:_UNKNOWN]

    def next_reference(self) -> bytes:
        """For the publishes of one channel at one broker."""
        self.references += 1
        return self.token + (self.references & 0xFFFFFFFF).to_bytes(4, "big")

    def attach(self, seen: Answer = NOTHING) -> None:
        """Begin with another broker, or with the same one anew. seen: publishes that its log
        holds, of those that were asked for."""
        self.seen = seen
        self.sessions += 1
        self.to_broker.clear()
        self.to_broker.append(PROTOCOL_HEADER)

    def _opening(self, method: Method) -> None:
        match method:
            case m.ConnectionStart():
                self._greet(method)
                self.to_broker.append(self._login_again())
            case m.ConnectionTune(channel_max=channels, frame_max=frame_bytes):
                self._greet(method)
                own = self.tune_ok
                for offered, taken in ((channels, own.channel_max), (frame_bytes, own.frame_max)):
                    if offered and (taken == 0 or taken > offered):
                        raise CannotKeep("the next broker allows less than it was promised")
                self.to_broker += (method_frame(0, own), self.open)
            case m.ConnectionOpenOk():
                if self.is_moving:
                    self._opened()
                    self.to_client.append(method_frame(0, method))
                self.declaring = list(self.topology.declared.values())
                self.declared_at = 0
                if self.declaring:
                    self._declare()
                else:
                    self._ask_channels()

    def _login_again(self) -> bytes:
        method = decode_method(self.start_ok[7:-1])
        assert isinstance(method, m.ConnectionStartOk), "it was looked at when it came"
        said = method.client_properties.get("capabilities")
        known = said if isinstance(said, dict) else {}
        method.client_properties["capabilities"] = known | {GOES_ON: True}
        return method_frame(0, method)

    def _declare(self) -> None:
        """On a channel that is closed again before the client's are opened, because he may use all
        that he has: what is left of it, some at a time."""
        self.to_broker.append(method_frame(_FIRST, m.ChannelOpen()))
        self._declare_some()

    def _declare_some(self) -> None:
        at = self.declared_at
        self.declared_to = min(at + _DECLARED, len(self.declaring))
        some = self.declaring[at : self.declared_to]
        self.to_broker += (method_frame(_FIRST, one) for one in some)
        if at == self.declared_to:
            self.to_broker.append(method_frame(_FIRST, m.ChannelClose()))

    def _declared(self, frame: Frame) -> None:
        _, number, ids, data = frame
        if ids == _CLOSE_OK:
            self.declaring = []
            self._ask_channels()
        elif ids == _CLOSE:
            method = decode_method(data[7:-1])
            assert isinstance(method, m.ChannelClose), "its ids say so"
            if method.reply_code in _BUSY:
                raise AttachFault(method.reply_text)
            # Somebody else has made it otherwise, or its other end is gone.
            self.to_broker.append(method_frame(number, m.ChannelCloseOk()))
            self.declared_at += 1
            self._declare()
        elif self.declared_at < self.declared_to:
            asked = self.declaring[self.declared_at]
            if ids in ANSWERS[number_of(type(asked))]:
                self.declared_at += 1
                if self.declared_at == self.declared_to:
                    self._declare_some()

    def _ask_channels(self) -> None:
        for channel in self.channels.values():
            channel.ask_again(self.seen)
            self.unsaid.append(channel)
        self._look()

    def say_some(self, count: int = SAID_AT_ONCE) -> bool:
        """A piece of what the broker is asked again: so many publishes and requests. False: there
        was nothing left."""
        if not self.unsaid:
            return False
        if not self.unsaid[0].say_some(count):
            self.unsaid.popleft()
            self._look()
        return True

    def _look(self) -> None:
        if not self.declaring and not self.owed and not self.unsaid:
            self.is_attached = True
