"""What a channel writes most: deliveries, returns, and cancels by the broker.

Frames go straight into the connection's output buffer. The part of basic.deliver in front of the
delivery tag is the same for every message of one consumer and address, so it is kept.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.wire import BytesWriter, read_i16_be, write_i16_be, write_i64_be
from penstock.broker.actors.confirms import begin_method
from penstock.broker.actors.output import Answering, Output
from penstock.protocol.content import FRAMED, NO_ADDRESS, NO_CAUSE, Message, write_content
from penstock.queues.consumers import Consumer, DeliverySink
from penstock.queues.unacked import UnackedTable

PIECE_BYTES: Final = 8192
"""From here on content goes out as a piece of its own; below, copying is cheaper."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelFace(Answering):
    """A channel as its sink and its publishing side see it. Nominal base; this one is in the place
    of a channel that has ended."""

    __slots__ = ()

    def consumer_gone(self, consumer: Consumer) -> None:
        """The broker has ended `consumer`."""

    def give_back(self, message: Message, code: int, text: str) -> None:
        """Write basic.return with the content of `message`."""


ENDED: Final = ChannelFace()


class ChannelSink(DeliverySink):
    """Deliveries to one channel. face: hears of consumers that the broker has ended."""

    __slots__ = ("face", "frame_bytes_max", "number", "output", "table")

    def __init__(
        self,
        number: i64,
        table: UnackedTable,
        output: Output,
        frame_bytes_max: i64,
        face: ChannelFace,
    ) -> None:
        super().__init__()
        self.number: i64 = number
        self.table = table
        self.output = output
        self.frame_bytes_max: i64 = frame_bytes_max
        self.face = face

    def deliver(
        self, consumer: Consumer, message: Message, position: i64, redelivered: bool
    ) -> None:
        tag: i64 = 0
        if consumer.is_no_ack:
            tag = self.table.skip()
        else:
            tag = self.table.add(message, consumer.queue, consumer, position)
            self.unacked_count += 1
            self.unacked_bytes += i64(message.body_size)
        address = message.address
        suffix_bytes: i64 = len(address.suffix)
        if consumer.head_bytes != suffix_bytes:
            consumer.head_bytes = suffix_bytes
            consumer.head = delivery_head(self.number, consumer.tag, suffix_bytes)
        output = self.output
        writer = output.writer
        writer.write(consumer.head)
        write_i64_be(writer, tag)
        writer.append(1 if redelivered else 0)
        writer.write(address.suffix)
        shown = consumer.queue.shown(message) if redelivered else message
        raw = shown.raw
        number: i64 = i64(read_i16_be(raw, 1)) & 0xFFFF
        if number == self.number and len(raw) <= self.frame_bytes_max:
            if output.takes_pieces and len(raw) >= PIECE_BYTES:
                output.write_piece(raw)
            else:
                writer.write(raw)
        elif shown.sequence == FRAMED:
            if output.takes_pieces:
                output.write_piece(raw)
            else:
                writer.write(raw)
        else:
            write_content(writer, shown, self.number, self.frame_bytes_max)
        output.note_delivered(message.origin, len(message.raw))
        if not output.is_dirty:
            output.mark()
        if not consumer.unsent.is_listed:
            output.note_unsent(consumer.unsent)

    def deliver_run(self, consumer: Consumer, messages: list[Message], position: i64) -> i64:
        output = self.output
        writer = output.writer
        table = self.table
        number: i64 = self.number
        frame_bytes_max: i64 = self.frame_bytes_max
        if frame_bytes_max >= PIECE_BYTES:
            frame_bytes_max = PIECE_BYTES - 1
        is_no_ack = consumer.is_no_ack
        origin = NO_CAUSE
        address = NO_ADDRESS
        head = b""
        tail = b""
        room: i64 = output.high_bytes - output.held_bytes - output.written_bytes
        tag: i64 = table.next_tag
        given: i64 = 0
        unnoted: i64 = 0
        bytes_: i64 = 0
        body_bytes: i64 = 0
        for message in messages:
            raw = message.raw
            size: i64 = len(raw)
            if (i64(read_i16_be(raw, 1)) & 0xFFFF) != number or size > frame_bytes_max:
                break
            if message.origin is not origin:
                if unnoted > 0:
                    output.note_run(origin, unnoted, bytes_)
                    unnoted = 0
                    bytes_ = 0
                origin = message.origin
            if message.address is not address:
                address = message.address
                suffix_bytes: i64 = len(address.suffix)
                if consumer.head_bytes != suffix_bytes:
                    consumer.head_bytes = suffix_bytes
                    consumer.head = delivery_head(number, consumer.tag, suffix_bytes)
                head = consumer.head
                tail = b"\0" + address.suffix
            if not is_no_ack:
                tag = table.add(message, consumer.queue, consumer, position + given)
                body_bytes += i64(message.body_size)
            writer.write(head)
            write_i64_be(writer, tag)
            writer.write(tail)
            writer.write(raw)
            tag += 1
            given += 1
            unnoted += 1
            bytes_ += size
            room -= size
            if room <= 0:
                break
        if given == 0:
            return 0
        output.note_run(origin, unnoted, bytes_)
        if is_no_ack:
            table.skip_run(given)
        else:
            self.unacked_count += given
            self.unacked_bytes += body_bytes
        if not output.is_dirty:
            output.mark()
        if not consumer.unsent.is_listed:
            output.note_unsent(consumer.unsent)
        return given

    def cancelled_by_broker(self, consumer: Consumer) -> None:
        self.face.consumer_gone(consumer)


def delivery_head(number: i64, tag: str, suffix_bytes: i64) -> bytes:
    """basic.deliver's frame up to the delivery tag. suffix_bytes: see Address.suffix."""
    name = tag.encode()
    size: i64 = 4 + 1 + len(name) + 8 + 1 + suffix_bytes - 1
    writer = BytesWriter()
    begin_method(writer, number, size, 0x3C003C)
    writer.append(len(name))
    writer.write(name)
    return writer.getvalue()


def write_return(
    writer: BytesWriter, number: i64, code: int, text: str, message: Message, frame_bytes_max: i64
) -> None:
    """basic.return and the message's content."""
    note = text.encode()
    suffix = message.address.suffix
    begin_method(writer, number, 4 + 2 + 1 + len(note) + len(suffix) - 1, 0x3C0032)
    write_i16_be(writer, code)
    writer.append(len(note))
    writer.write(note)
    writer.write(suffix)
    write_content(writer, message, number, frame_bytes_max)


def write_cancel(writer: BytesWriter, number: i64, tag: str) -> None:
    """basic.cancel from the broker, which wants no answer."""
    name = tag.encode()
    begin_method(writer, number, 4 + 1 + len(name) + 1, 0x3C001E)
    writer.append(len(name))
    writer.write(name)
    writer.append(1)
    writer.append(0xCE)
