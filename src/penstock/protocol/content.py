"""A message as it travels: the content frames exactly as they came in, plus a few annotations.

Layout of `raw` (everything a delivery needs, envelopes included):

    header frame                                  body frames, none when body_bytes is 0
    | 1 | channel | size | payload ...     | CE | | 3 | channel | size | payload ... | CE | ...
      1      2       4      header_bytes     1

Most messages are never looked into: a delivery writes `raw` again and only patches the channel
number or re-splits the body where the receiver's negotiation differs.
"""

from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.base.wire import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be

EVENT_METHOD: Final = 1
EVENT_HEARTBEAT: Final = 3
EVENT_ACK: Final = 4


@mypyc_attr(acyclic=True)
class Address:
    """Where a message was published to. `suffix`: exchange and routing key as two short strings,
    closed by the frame end octet, ready for basic.deliver; `method`: the payload of the method that
    came with the message, b"" where none did; is_shared: what came last went to several queues, so
    the next one will probably be a SharedMessage."""

    __slots__ = ("exchange", "is_shared", "method", "routing_key", "suffix")

    def __init__(self, exchange: str, routing_key: str) -> None:
        self.method = b""
        self.exchange = exchange
        self.routing_key = routing_key
        self.suffix = names_suffix(exchange, routing_key)
        self.is_shared = False


@mypyc_attr(acyclic=True)
class RawAddress(Address):
    """As a parser makes it: nothing but the method's payload, until `read_as`. Messages of one
    publisher share it."""

    __slots__ = ()

    def __init__(self, method: bytes) -> None:
        self.method = method
        self.exchange = ""
        self.routing_key = ""
        self.suffix = b""
        self.is_shared = False


def names_suffix(exchange: str, routing_key: str) -> bytes:
    """See Address.suffix."""
    e = exchange.encode()
    k = routing_key.encode()
    return bytes([len(e)]) + e + bytes([len(k)]) + k + b"\xce"


@mypyc_attr(acyclic=True)
class Event:
    """One thing the peer said. `kind`: EVENT_*; `payload`: a method's bytes, class id first.

    For EVENT_ACK, `tag` and `flag` are basic.ack's delivery tag and multiple bit; `count`: so many
    of them, the tag of each one higher than that of the one before (FrameParser.more_acks).
    `after`: content events of this channel handed over before this one (set by the reader).
    """

    __slots__ = ("after", "channel", "count", "flag", "kind", "payload", "tag")

    def __init__(self, kind: i64, channel: i64, payload: bytes, tag: i64, flag: bool) -> None:
        self.kind: i64 = kind
        self.channel: i64 = channel
        self.payload = payload
        self.tag: i64 = tag
        self.flag = flag
        self.after: i64 = 0
        self.count: i64 = 1


@mypyc_attr(acyclic=True, allow_interpreted_subclasses=True)
class Resting:
    """Where a message lies on the disk. Nominal base; see storage/layout/stored."""

    __slots__ = ()


NO_ADDRESS: Final = Address("", "")
NO_CAUSE: Final = Cause("nobody")
UNNUMBERED: Final = -1
"""In place of a publish sequence: nobody waits for a confirm."""
REFUSED: Final = -2
"""In place of a publish sequence: the channel answers it with basic.nack."""
FRAMED: Final = -3
"""In place of a publish sequence: it was built for its only receiver, and its frames are as large
as he takes them."""


@mypyc_attr(acyclic=True)
class Message:
    """One published message; shared by every queue it was routed to, so never changed after that.
    It has few fields, because a queue may hold millions: what `raw` says is read there. For the
    same reason it is kept from the garbage collector (acyclic): its references lead to leaves once
    its connection has ended, see Connection.finish.

    raw: see above; body_size: bytes of the payload in its body frames; sequence: the lower bits of
    the publish sequence of a confirming channel (channel/publish), or one of the above; origin:
    the account that pays; stored: its place in the log of a durable queue, None while it has none.
    """

    __slots__ = ("address", "body_size", "origin", "raw", "sequence", "stored")

    def __init__(self, raw: bytes, body_bytes: i64, address: Address = NO_ADDRESS) -> None:
        self.raw = raw
        self.body_size: i32 = i32(body_bytes)
        self.sequence: i32 = UNNUMBERED
        self.address = address
        self.origin = NO_CAUSE
        self.stored: Resting | None = None

    @property
    def body_bytes(self) -> i64:
        """`body_size`, ready to be summed."""
        return i64(self.body_size)

    @property
    def header_bytes(self) -> i64:
        """The size of the content header's payload."""
        return i64(read_i32_be(self.raw, 3))

    @property
    def channel(self) -> i64:
        """The number in its envelopes, 0..65535."""
        return i64(read_i16_be(self.raw, 1)) & 0xFFFF

    def header(self) -> bytes:
        """The content header's payload: class, weight, body size, property flags and values."""
        return self.raw[7 : 7 + self.header_bytes]

    def body(self) -> bytes:
        """The body, joined from its frames; 0..body_bytes_max bytes."""
        raw = self.raw
        at: i64 = self.header_bytes + 8
        end: i64 = len(raw)
        parts: list[bytes] = []
        while at < end:
            size: i64 = i64(read_i32_be(raw, at + 3))
            parts.append(raw[at + 7 : at + 7 + size])
            at += size + 8
        return parts[0] if len(parts) == 1 else b"".join(parts)


@mypyc_attr(acyclic=True)
class Stub(Message):
    """What stands in a queue for a message whose frames are on the disk: it has no `raw`, and is
    counted and repaid like the message."""

    __slots__ = ("header_size",)

    def __init__(self, header_bytes: i64, body_bytes: i64) -> None:
        super().__init__(b"", body_bytes)
        self.header_size: i64 = header_bytes

    @property
    def header_bytes(self) -> i64:
        return self.header_size


SHARED_BYTES: Final = 112
"""Of the 130 bytes that a waiting message takes beside its frames (queues/queue), those that queues
share: the object, and the head of its bytes. The rest is its place in each queue."""


@mypyc_attr(acyclic=True)
class SharedMessage(Message):
    """One that may rest in several queues at once: they share it, and memory has it once.

    Each queue charges the whole of it to `origin` as if it had it alone; `joined` and `left` tell
    the origin how much of that is there once only. holders: queues that have it whole in memory;
    is_dead_letter: the broker published it, because another died, and its x-death is true. That is
    no class of its own: with three kinds of messages a look at the type tells them apart, which is
    taken wherever a message comes out of a list; with more of them it is a call."""

    __slots__ = ("holders", "is_dead_letter")

    def __init__(self, raw: bytes, body_bytes: i64, address: Address = NO_ADDRESS) -> None:
        super().__init__(raw, body_bytes, address)
        self.holders: i64 = 0
        self.is_dead_letter = False

    def joined(self) -> None:
        """A queue more has it, and has charged it."""
        self.holders += 1
        if self.holders > 1:
            self.origin.share(len(self.raw) + SHARED_BYTES)

    def left(self) -> None:
        """A queue is about to repay it, because it has left it or its body went to the disk. One
        that was read from the disk was never joined: each queue reads its own."""
        if self.holders == 0:
            return
        self.holders -= 1
        if self.holders > 0:
            self.origin.share(-len(self.raw) - SHARED_BYTES)


def join_all(messages: list[Message], origin: Cause) -> i64:
    """As `joined` of each that is shared, without a call for each, and their bytes, of all. origin:
    of most of them."""
    bytes_: i64 = 0
    shared: i64 = 0
    for message in messages:
        size: i64 = len(message.raw)
        bytes_ += size
        if isinstance(message, SharedMessage):
            if message.origin is not origin:
                message.joined()
                continue
            holders: i64 = message.holders
            if holders > 0:
                shared += size + SHARED_BYTES
            message.holders = holders + 1
    if shared > 0:
        origin.share(shared)
    return bytes_


def shared_of(message: Message) -> SharedMessage:
    """`message` for several queues. It has no place in a log yet."""
    shared = SharedMessage(message.raw, message.body_bytes, message.address)
    shared.sequence = message.sequence
    shared.origin = message.origin
    return shared


def dead_letter(raw: bytes, body_bytes: i64, address: Address = NO_ADDRESS) -> SharedMessage:
    """One that the broker publishes because another died."""
    letter = SharedMessage(raw, body_bytes, address)
    letter.is_dead_letter = True
    return letter


def is_dead_letter(message: Message) -> bool:
    """Whether the broker published it because another died, so that its x-death is true."""
    return isinstance(message, SharedMessage) and message.is_dead_letter


def write_content(
    writer: BytesWriter, message: Message, channel: i64, frame_bytes_max: i64
) -> None:
    """Append the content frames of `message` for `channel`, re-split to `frame_bytes_max`.

    frame_bytes_max: bytes, the receiver's negotiated maximum with envelope, 0 for no limit.
    """
    raw = message.raw
    size: i64 = len(raw)
    fits = frame_bytes_max == 0 or size <= frame_bytes_max
    if fits and message.channel == channel:
        writer.write(raw)
        return
    if not fits:
        fits = _largest_frame(raw) <= frame_bytes_max
        if fits and message.channel == channel:
            writer.write(raw)
            return
    if fits:
        _write_patched(writer, raw, channel)
    else:
        _write_split(writer, message.header(), message.body(), channel, frame_bytes_max)


def _largest_frame(raw: bytes) -> i64:
    at: i64 = 0
    end: i64 = len(raw)
    largest: i64 = 0
    while at < end:
        size: i64 = i64(read_i32_be(raw, at + 3)) + 8
        if size > largest:
            largest = size
        at += size
    return largest


def _write_patched(writer: BytesWriter, raw: bytes, channel: i64) -> None:
    at: i64 = 0
    end: i64 = len(raw)
    while at < end:
        size: i64 = i64(read_i32_be(raw, at + 3)) + 8
        writer.append(raw[at])
        write_i16_be(writer, as_i16(channel))
        writer.write(raw[at + 3 : at + size])
        at += size


def _write_split(
    writer: BytesWriter, header: bytes, body: bytes, channel: i64, frame_bytes_max: i64
) -> None:
    """A content header frame, and body frames of at most `frame_bytes_max` with envelope."""
    writer.append(2)
    write_i16_be(writer, as_i16(channel))
    write_i32_be(writer, len(header))
    writer.write(header)
    writer.append(0xCE)
    at: i64 = 0
    end: i64 = len(body)
    step: i64 = frame_bytes_max - 8
    while at < end:
        piece = body[at : at + step]
        writer.append(3)
        write_i16_be(writer, as_i16(channel))
        write_i32_be(writer, len(piece))
        writer.write(piece)
        writer.append(0xCE)
        at += step


def as_i16(number: i64) -> int:
    """An unsigned 16-bit number as the signed one with the same bits."""
    return number - 65536 if number >= 32768 else number


def make_content(
    channel: int, method: bytes, header: bytes, body: bytes, frame_bytes_max: int
) -> Message:
    """A message built here rather than received: `header` and `body` are payloads.

    frame_bytes_max: bytes, at most this per body frame with its envelope.
    """
    writer = BytesWriter()
    _write_split(writer, header, body, channel, frame_bytes_max)
    return Message(writer.getvalue(), len(body), RawAddress(method) if method else NO_ADDRESS)
