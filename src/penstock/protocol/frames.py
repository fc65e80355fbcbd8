"""Bytes in, events out: frames are cut, checked and joined into methods and messages.

Sans-IO and pulled: `feed` keeps bytes, `next` gives one event or None when more bytes are needed,
so the caller may stop between any two events and nothing behind that point has been looked at.
Sizes are checked before anything is kept; at most one frame and one content per channel is held.
The same class serves both roles: basic.publish, return, deliver and get-ok all carry content.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.base.wire import read_i16_be, read_i32_be, read_i64_be
from penstock.protocol.content import (
    EVENT_ACK,
    EVENT_HEARTBEAT,
    EVENT_METHOD,
    NO_ADDRESS,
    Address,
    Event,
    Message,
    RawAddress,
    SharedMessage,
)

PUBLISH: Final = 0x3C0028
RETURN: Final = 0x3C0032
DELIVER: Final = 0x3C003C
GET_OK: Final = 0x3C0047
ACK: Final = 0x3C0050
ACK_BYTES: Final = 21
"""The frame of a basic.ack."""
ACK_END: Final = 0xCE
"""Its last two bytes, of one that is not for several."""
METHOD_KEPT_BYTES: Final = 519
"""The longest basic.publish: two names of 255 bytes. A longer method is not one."""


class Received:
    """What `FrameParser.next` found: exactly one of `message`, of `channel`, and `event` is set."""

    __slots__ = ("channel", "event", "message")

    def __init__(self) -> None:
        self.event: Event | None = None
        self.message: Message | None = None
        self.channel: i64 = 0


class Assembly:
    """A content on its way: its method, then its header, then the body frames still missing.
    kept: bytes of what is here."""

    __slots__ = ("frames", "has_header", "kept", "method", "missing", "total")

    def __init__(self, method: bytes) -> None:
        self.method = method
        self.kept: i64 = len(method)
        self.frames: list[bytes] = []
        self.has_header = False
        self.missing: i64 = 0
        self.total: i64 = 0


NO_ASSEMBLIES: Final[dict[int, Assembly]] = {}
"""What all parsers share to which no content has come in part."""
NO_NUMBERS: Final[list[int]] = []
"""What all parsers share in which no content has begun."""
NO_PIECES: Final[list[bytes]] = []
"""What all parsers share that do not wait for the end of a frame in pieces."""
NO_MESSAGES: Final[list[Message]] = []
"""What `next_run` gives where there is none."""
MISSES_MAX: Final = 5
PIECE_BYTES: Final = 4096
"""Smaller pieces are joined, because an object for each would take more memory than they do."""


@mypyc_attr(acyclic=True)
class FrameParser:
    """Cuts one connection's byte stream into events. Kept from the garbage collector: it refers to
    nothing that leads back to it.

    frame_bytes_max: bytes with envelope, 0 for no limit; may be changed between events (tuning).
    A payload may be as large as that too, as in RabbitMQ: some clients forget the envelope;
    body_bytes_max: bytes. A body announced larger is a ChannelFault 406 before any of it is kept.
    kept: bytes of contents on their way; pieces: of a frame of which `wanted` bytes are missing;
    begun: channels on which contents have begun since `take_begun`; last_bytes: of the content
    that was found last and ends at `offset`, with its method, else 0; missed: how often in a row
    nothing like it followed, so that the next `skips` are not looked at (`next_run`, run_bytes).
    Owner: the reader. Raises ConnectionFault 501, 505 and ChannelFault 406 from `next` only.
    Source: AMQP 0-9-1 section 4.2; RabbitMQ's rabbit_reader and rabbit_command_assembler.
    """

    __slots__ = (
        "assemblies",
        "begun",
        "body_bytes_max",
        "buffer",
        "discarding",
        "faulty_channel",
        "frame_bytes_max",
        "kept",
        "last_address",
        "last_bytes",
        "missed",
        "offset",
        "pieces",
        "pieces_bytes",
        "rest",
        "rest_at",
        "run_bytes",
        "skips",
        "wanted",
    )

    def __init__(self, frame_bytes_max: int, body_bytes_max: int) -> None:
        self.frame_bytes_max: i64 = frame_bytes_max
        self.body_bytes_max: i64 = body_bytes_max
        self.buffer = b""
        self.offset: i64 = 0
        self.rest = b""
        self.rest_at: i64 = 0
        self.pieces: list[bytes] = NO_PIECES
        self.pieces_bytes: i64 = 0
        self.wanted: i64 = 0
        self.assemblies: dict[int, Assembly] = NO_ASSEMBLIES
        self.begun: list[int] = NO_NUMBERS
        # Channels that failed and are not closed by the peer yet; None for none.
        self.discarding: set[int] | None = None
        self.faulty_channel: i64 = 0
        self.kept: i64 = 0
        self.last_address = NO_ADDRESS
        self.last_bytes: i64 = 0
        self.missed: i64 = 0
        self.run_bytes: i64 = 0
        self.skips: i64 = 0

    def feed(self, data: bytes) -> None:
        """Keep `data` behind what is still unread. At most one frame is carried over, and of `data`
        only what completes it is copied; a frame that comes in many pieces is joined once."""
        if self.wanted > 0:
            self._collect(data)
            return
        self._go_on()
        if self.offset >= len(self.buffer):
            self.buffer = data
        else:
            tail = self.buffer[self.offset :]
            missing: i64 = _missing(tail)
            if 0 < missing < len(data):
                self.buffer = tail + data[:missing]
                self.rest = data
                self.rest_at = missing
            else:
                self.wanted = self._missing_of_frame(tail) - len(data)
                if self.wanted > 0:
                    self.pieces = [tail, data]
                    self.pieces_bytes = len(tail) + len(data)
                    self.buffer = b""
                else:
                    self.wanted = 0
                    self.buffer = tail + data
        self.offset = 0

    def _missing_of_frame(self, tail: bytes) -> i64:
        """How many bytes complete the frame that `tail` begins with; 0 or less when they are there,
        or its size is not known yet, or refused by `next`."""
        if len(tail) < 8:
            return 0
        size: i64 = i64(read_i32_be(tail, 3))
        if size < 0 or (self.frame_bytes_max != 0 and size > self.frame_bytes_max):
            return 0
        return size + 8 - len(tail)

    def _collect(self, data: bytes) -> None:
        """One more piece of a frame, whose end may still be to come."""
        pieces = self.pieces
        if len(pieces[-1]) < PIECE_BYTES:
            pieces[-1] += data
        else:
            pieces.append(data)
        self.pieces_bytes += len(data)
        self.wanted -= len(data)
        if self.wanted <= 0:
            self.buffer = b"".join(pieces)
            self._drop_pieces()

    def _drop_pieces(self) -> None:
        self.pieces = NO_PIECES
        self.pieces_bytes = 0
        self.wanted = 0

    def _go_on(self) -> bool:
        """The buffer is at its end, but for a piece of a frame: go on with the rest, if any."""
        rest = self.rest
        if not rest:
            return False
        self.rest = b""
        if self.offset >= len(self.buffer):
            self.buffer = rest
            self.offset = self.rest_at
        else:
            self.buffer = self.buffer[self.offset :] + rest[self.rest_at :]
            self.offset = 0
        return True

    def forget(self) -> None:
        """Drop everything that was fed, and contents on their way."""
        self.buffer = b""
        self.offset = 0
        self.rest = b""
        self._drop_pieces()
        self.assemblies.clear()
        self.begun = NO_NUMBERS
        self.kept = 0
        self.last_bytes = 0

    def unread_bytes(self) -> int:
        """Bytes fed and not yet consumed by `next`."""
        unread: i64 = len(self.buffer) - self.offset + self.pieces_bytes
        if self.rest:
            unread += len(self.rest) - self.rest_at
        return int(unread)

    def unread(self) -> bytes:
        """The same bytes, copied."""
        parts = [self.buffer[self.offset :], *self.pieces]
        if self.rest:
            parts.append(self.rest[self.rest_at :])
        return b"".join(parts)

    def is_cut(self) -> bool:
        """Whether the last thing that was fed is not whole, once all else was looked at."""
        return self.offset < len(self.buffer) or self.wanted > 0

    def discard(self, channel: int) -> None:
        """Drop content of `channel` from now on, until `accept`: its channel was closed by us."""
        if self.discarding is None:
            self.discarding = set()
        self.discarding.add(channel)
        assembly = self.assemblies.pop(channel, None)
        if assembly is not None:
            self.kept -= assembly.kept

    def discard_begun(self) -> None:
        """`discard` on all channels on which a content is on its way."""
        for channel in list(self.assemblies):
            self.discard(channel)

    def take_begun(self) -> list[int]:
        """The channels on which contents have begun since the last time, and are on their way."""
        begun = self.begun
        self.begun = NO_NUMBERS
        return [channel for channel in begun if channel in self.assemblies]

    def accept(self, channel: int) -> None:
        """End `discard`: the peer has answered channel.close-ok or opened the channel anew."""
        if self.discarding is not None:
            self.discarding.discard(channel)
            if not self.discarding:
                self.discarding = None

    def is_discarding(self, channel: int) -> bool:
        """Whether content of `channel` is dropped."""
        return self.discarding is not None and channel in self.discarding

    def next(self, out: Received) -> bool:
        """Put one event into `out` and say True; False when more bytes are needed.

        Raises: ConnectionFault 501 or 505; ChannelFault 406 (see `faulty_channel`).
        """
        out.event = None
        out.message = None
        self.last_bytes = 0
        while True:
            buffer = self.buffer
            end: i64 = len(buffer)
            at: i64 = self.offset
            if end - at < 8:
                if not self._go_on():
                    return False
                continue
            size: i64 = i64(read_i32_be(buffer, at + 3))
            kind: i64 = i64(buffer[at])
            if size < 0 or (self.frame_bytes_max != 0 and size > self.frame_bytes_max):
                self._refuse_size(kind, at, size & 0xFFFFFFFF)
            if end - at < size + 8:
                if not self._go_on():
                    return False
                continue
            if buffer[at + 7 + size] != 0xCE:
                raise ConnectionFault(501, _frame_text(kind, buffer, at, size, "bad frame end"))
            channel: i64 = i64(read_i16_be(buffer, at + 1)) & 0xFFFF
            if kind == 1:
                if size < 4:
                    raise ConnectionFault(501, _frame_text(kind, buffer, at, size, "short method"))
                identity: i64 = i64(read_i32_be(buffer, at + 7))
                if self.assemblies and channel in self.assemblies:
                    raise ConnectionFault(505, self._expected(channel))
                if identity == 0x3C0028 or (
                    identity == 0x3C003C or identity == 0x3C0047 or identity == 0x3C0032
                ):
                    if self._content(out, buffer, at, end, size, channel):
                        return True
                    continue
                self.offset = at + size + 8
                if identity == 0x3C0050 and size == 13:
                    out.event = Event(
                        EVENT_ACK,
                        channel,
                        b"",
                        read_i64_be(buffer, at + 11),
                        (buffer[at + 19] & 1) != 0,
                    )
                    return True
                out.event = Event(
                    EVENT_METHOD, channel, buffer[at + 7 : at + 7 + size], identity, False
                )
                return True
            self.offset = at + size + 8
            if kind == 8:
                if channel != 0:
                    raise ConnectionFault(505, "heartbeat frame on a channel")
                if size != 0:
                    raise ConnectionFault(501, "heartbeat frame with a payload")
                out.event = Event(EVENT_HEARTBEAT, 0, b"", 0, False)
                return True
            if kind != 2 and kind != 3:
                raise ConnectionFault(501, _frame_text(kind, buffer, at, size, "unknown type"))
            if self.discarding is not None and channel in self.discarding:
                continue
            done = self._assemble(buffer, at, size, kind, channel)
            if done is not None:
                out.message = done
                out.channel = channel
                return True

    def _content(
        self, out: Received, buffer: bytes, at: i64, end: i64, size: i64, channel: i64
    ) -> bool:
        """A content-bearing method at `at`: whole in the buffer, or the start of an assembly."""
        header: i64 = at + size + 8
        if self.discarding is not None and channel in self.discarding:
            self.offset = header
            return False
        if end - header >= 22 and buffer[header] == 2:
            header_bytes: i64 = i64(read_i32_be(buffer, header + 3))
            body: i64 = header + header_bytes + 8
            if (
                14 <= header_bytes <= self.frame_bytes_max
                and body <= end
                and buffer[body - 1] == 0xCE
                and read_i32_be(buffer, header + 7) == 0x3C0000
                and (i64(read_i16_be(buffer, header + 1)) & 0xFFFF) == channel
            ):
                body_bytes: i64 = read_i64_be(buffer, header + 11)
                if body_bytes == 0:
                    address = self._address(buffer, at + 7, size)
                    if address.is_shared:
                        out.message = SharedMessage(buffer[header:body], 0, address)
                    else:
                        out.message = Message(buffer[header:body], 0, address)
                    out.channel = channel
                    self.offset = body
                    self.last_bytes = body - at
                    return True
                stop: i64 = body + body_bytes + 8
                if (
                    0 < body_bytes <= self.body_bytes_max
                    and body_bytes <= self.frame_bytes_max
                    and stop <= end
                    and buffer[body] == 3
                    and i64(read_i32_be(buffer, body + 3)) == body_bytes
                    and buffer[stop - 1] == 0xCE
                    and (i64(read_i16_be(buffer, body + 1)) & 0xFFFF) == channel
                ):
                    address = self._address(buffer, at + 7, size)
                    if address.is_shared:
                        out.message = SharedMessage(buffer[header:stop], body_bytes, address)
                    else:
                        out.message = Message(buffer[header:stop], body_bytes, address)
                    out.channel = channel
                    self.offset = stop
                    self.last_bytes = stop - at
                    return True
        self.offset = header
        if self.assemblies is NO_ASSEMBLIES:
            self.assemblies = {}
        if self.begun is NO_NUMBERS:
            self.begun = []
        self.begun.append(channel)
        self.assemblies[channel] = Assembly(buffer[at + 7 : at + 7 + size])
        self.kept += size
        return False

    def next_run(self, first: Message, origin: Cause, most: i64, most_bytes: i64) -> list[Message]:
        """The contents behind `first`, which `next` has just found, that have its channel, address
        and properties: `most` of them, and `most_bytes` of frames, at most, and `origin` is said to
        pay for them. It is what `next` would find one by one; each is found by comparing all that
        stands before the body, and where sizes differ all but the two that tell them.

        Where nothing like the one before follows it is looked for more and more rarely. run_bytes:
        frames of what was found.
        """
        run: list[Message] = NO_MESSAGES
        self.run_bytes = 0
        whole: i64 = self.last_bytes
        at: i64 = self.offset
        buffer = self.buffer
        if whole == 0 or len(buffer) - at < 8:
            return run
        if self.skips > 0:
            self.skips -= 1
            return run
        address = first.address
        size: i64 = len(first.raw)
        body_bytes: i64 = first.body_bytes
        method: i64 = whole - size
        same: i64 = whole - body_bytes - 1 if body_bytes > 0 else whole
        before: i64 = at - whole
        head = buffer[before : before + same]
        # Up to the size of the body, and from there to the size of the body's frame.
        begin = head[: method + 11]
        middle = head[method + 19 : same - 4] if body_bytes > 0 else b""
        left: i64 = most_bytes
        is_alike, is_other = True, False
        while most > 0:
            stop: i64 = at + whole
            if not is_alike or stop > len(buffer) or buffer[at : at + same] != head:
                found: i64 = self._body_behind(at, begin, middle)
                if found == 0:
                    is_other = True
                    break
                is_alike = found == body_bytes
                size += found - body_bytes
                whole += found - body_bytes
                body_bytes = found
                stop = at + whole
                if is_alike:
                    head = buffer[at : at + same]
            if size > left or buffer[stop - 1] != 0xCE:
                break
            raw = buffer[stop - size : stop]
            if address.is_shared:
                message: Message = SharedMessage(raw, body_bytes, address)
            else:
                message = Message(raw, body_bytes, address)
            message.origin = origin
            if run is NO_MESSAGES:
                run = []
            run.append(message)
            most -= 1
            left -= size
            at = stop
        if run is not NO_MESSAGES:
            self.offset = at
            self.missed = 0
            self.run_bytes = most_bytes - left
        elif is_other:
            self.missed = self.missed + 1 if self.missed < MISSES_MAX else MISSES_MAX
            self.skips = (1 << self.missed) - 1
        return run

    def _body_behind(self, at: i64, begin: bytes, middle: bytes) -> i64:
        """The size of the body of the content at `at`, if that is whole in the buffer and is as
        `begin` before that size and as `middle` between it and the size of the body's frame; 0 if
        it is anything else, or has no body."""
        buffer = self.buffer
        size_at: i64 = at + len(begin)
        again_at: i64 = size_at + 8 + len(middle)
        if (
            not middle
            or again_at + 5 > len(buffer)
            or buffer[at:size_at] != begin
            or buffer[size_at + 8 : again_at] != middle
        ):
            return 0
        size: i64 = read_i64_be(buffer, size_at)
        if (
            size <= 0
            or size > self.body_bytes_max
            or size > self.frame_bytes_max
            or again_at + 5 + size > len(buffer)
            or i64(read_i32_be(buffer, again_at)) != size
        ):
            return 0
        return size

    def more_acks(self, first: Event, most: i64) -> i64:
        """Frames behind `first`, a basic.ack that `next` has just found, which say the same of the
        next delivery and the next: `most` of them at most, which it stands for now as well; how
        many these were."""
        buffer = self.buffer
        at: i64 = self.offset
        if first.flag or at < ACK_BYTES:
            return 0
        begin: i64 = read_i64_be(buffer, at - ACK_BYTES)
        end: i64 = len(buffer) - ACK_BYTES
        tag: i64 = first.tag + 1
        count: i64 = 0
        while (
            count < most
            and at <= end
            and read_i64_be(buffer, at + 11) == tag
            and read_i64_be(buffer, at) == begin
            and i64(read_i32_be(buffer, at + 7)) == ACK
            and read_i16_be(buffer, at + 19) == ACK_END
        ):
            at += ACK_BYTES
            tag += 1
            count += 1
        self.offset = at
        first.count += count
        return count

    def _address(self, buffer: bytes, at: i64, size: i64) -> Address:
        """Of the method's payload at `at`: that of the last one when the bytes are the same, as
        they are while a publisher keeps to one address. Compared from the end, where keys differ;
        in words of eight bytes, of which the first two may overlap."""
        last = self.last_address.method
        if size >= 8 and size == len(last):
            index: i64 = size - 8
            while read_i64_be(buffer, at + index) == read_i64_be(last, index):
                if index == 0:
                    return self.last_address
                index = index - 8 if index > 8 else 0
        address = RawAddress(buffer[at : at + size])
        if size <= METHOD_KEPT_BYTES:
            self.last_address = address
        return address

    def _assemble(
        self, buffer: bytes, at: i64, size: i64, kind: i64, channel: i64
    ) -> Message | None:
        """Add a header or body frame to its channel's assembly; the message when it is whole."""
        assembly = self.assemblies.get(channel)
        if assembly is None:
            raise ConnectionFault(505, "expected method frame, got non method frame instead")
        if kind == 2:
            if assembly.has_header:
                raise ConnectionFault(505, self._expected(channel))
            self._take_header(assembly, buffer, at, size, channel)
        else:
            if not assembly.has_header:
                raise ConnectionFault(505, self._expected(channel))
            if size > assembly.missing:
                raise ConnectionFault(505, self._expected(channel))
            if size > 0:
                frames = assembly.frames
                if size < PIECE_BYTES and len(frames[-1]) < PIECE_BYTES:
                    frames[-1] += buffer[at : at + size + 8]
                else:
                    frames.append(buffer[at : at + size + 8])
                assembly.missing -= size
                assembly.kept += size + 8
                self.kept += size + 8
        if assembly.missing > 0:
            return None
        del self.assemblies[channel]
        self.kept -= assembly.kept
        frames = assembly.frames
        raw = frames[0] if len(frames) == 1 else b"".join(frames)
        return Message(raw, assembly.total, RawAddress(assembly.method))

    def _take_header(
        self, assembly: Assembly, buffer: bytes, at: i64, size: i64, channel: i64
    ) -> None:
        if size < 14:
            raise ConnectionFault(501, _frame_text(2, buffer, at, size, "short content header"))
        class_id: i64 = i64(read_i16_be(buffer, at + 7)) & 0xFFFF
        if class_id != 60:
            raise ConnectionFault(
                505,
                f"expected content header for class 60, got one for class {class_id} instead",
            )
        if read_i16_be(buffer, at + 9) != 0:
            raise ConnectionFault(505, self._expected(channel))
        total: i64 = read_i64_be(buffer, at + 11)
        if total < 0 or total > self.body_bytes_max:
            self.faulty_channel = channel
            self.discard(channel)
            shown = int(total) if total >= 0 else int(total) + (1 << 64)
            raise ChannelFault(
                406,
                f"message size {shown} is larger than configured max size {self.body_bytes_max}",
                60,
                40,
            )
        assembly.has_header = True
        assembly.missing = total
        assembly.total = total
        assembly.frames.append(buffer[at : at + size + 8])
        assembly.kept += size + 8
        self.kept += size + 8

    def _expected(self, channel: i64) -> str:
        """RabbitMQ's text for a frame that is not the next one of a content."""
        if self.assemblies[channel].has_header:
            return "expected content body, got non content body frame instead"
        return "expected content header for class 60, got non content header frame instead"

    def _refuse_size(self, kind: i64, at: i64, size: i64) -> None:
        if kind != 1 and kind != 2 and kind != 3 and kind != 8:
            raise ConnectionFault(501, f"unknown frame type {kind}")
        raise ConnectionFault(
            501,
            f"type {kind}, all octets = <<>>: "
            f"{{frame_too_large,{size},{self.frame_bytes_max - 8}}}",
        )


def _missing(tail: bytes) -> i64:
    """How many bytes complete the frame that `tail` begins with, or the whole content when it says
    how long that is; 0 or anything wrong when it does not say."""
    size: i64 = len(tail)
    if size < 11:
        return 0
    end: i64 = i64(read_i32_be(tail, 3)) + 8
    if tail[0] != 1:
        return end - size
    identity: i64 = i64(read_i32_be(tail, 7))
    if identity in (PUBLISH, DELIVER, GET_OK, RETURN):
        if end < 8 or size - end < 19 or tail[end] != 2:
            return 0
        body_bytes: i64 = read_i64_be(tail, end + 11)
        end += i64(read_i32_be(tail, end + 3)) + 8
        if body_bytes > 0:
            end += body_bytes + 8
    return end - size


def _frame_text(kind: i64, buffer: bytes, at: i64, size: i64, fault: str) -> str:
    """The faulty frame in words, without its payload: payloads never appear in errors."""
    channel: i64 = i64(read_i16_be(buffer, at + 1)) & 0xFFFF
    return f"type {kind}, channel {channel}, {size} octets: {fault}"
