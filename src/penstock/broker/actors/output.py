"""What a connection writes to: one growing buffer, emptied once per turn of the loop.

Decisions write into `writer` and mark the output dirty; the shell's subclass sends. Deliveries in
the buffer count as unsent until the socket has taken all of it; above the high mark the
connection's consumers are given nothing more.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.base.wire import BytesWriter
from penstock.broker.actors.owed import Owed, OwingLine
from penstock.queues.consumers import Unsent
from penstock.telemetry.answer_times import AnswerTimes

FULL_FACTOR: Final = 4
"""Times the high mark: what a peer that takes nothing may pile up in answers with content."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Answering:
    """Who has answers to write before the next send: a channel with confirms. Nominal base."""

    __slots__ = ("is_listed",)

    def __init__(self) -> None:
        self.is_listed = False

    def answer(self) -> None:
        """Write them into the buffer."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Output:
    """Nominal base of the socket's writer and the simulator's. changed: called with True when the
    buffer falls below the high mark, with False when it passes it; has_room: when it was full and
    is not any more; both set by the connection. `held_bytes`: sent to the shell and
    not yet taken by the socket; `high_bytes`: see limits.SOCKET_OUTPUT_HIGH_BYTES;
    `written_bytes`: content written since the last send; `owed`: who pays for it; `is_full`:
    FULL_FACTOR times the high mark is reached, so nothing that makes more content (basic.get,
    basic.return) is begun; `times`: how long the client waits for answers."""

    __slots__ = (
        "answering",
        "changed",
        "has_room",
        "held_bytes",
        "high_bytes",
        "is_dirty",
        "is_full",
        "is_idle",
        "is_open",
        "line",
        "owed",
        "pieces",
        "takes_pieces",
        "times",
        "unsent",
        "writer",
        "written_bytes",
    )

    def __init__(self, line: "OutputLine", high_bytes: int) -> None:
        self.writer = BytesWriter()
        self.line = line
        self.high_bytes: i64 = high_bytes
        self.held_bytes: i64 = 0
        self.is_idle = False
        self.is_dirty = False
        self.written_bytes: i64 = 0
        self.is_open = True
        self.is_full = False
        self.changed: Callable[[bool], None] | None = None
        self.has_room: Callable[[], None] | None = None
        self.owed = Owed(line.owing)
        self.unsent: list[Unsent] = []
        self.answering: list[Answering] = []
        self.pieces: list[bytes] = []
        self.takes_pieces = False
        self.times = AnswerTimes(None)

    def mark(self) -> None:
        """Something was written: send it at the end of this turn of the loop."""
        if not self.is_dirty:
            self.is_dirty = True
            self.line.dirty.append(self)

    def write_piece(self, piece: bytes) -> None:
        """Write a large byte string without copying it; only where `takes_pieces`."""
        if len(self.writer) > 0:
            self.pieces.append(self.writer.getvalue())
            self.writer.truncate(0)
        self.pieces.append(piece)

    def note_answering(self, answering: Answering) -> None:
        """`answering` writes its answers together, just before the next send."""
        if not answering.is_listed:
            answering.is_listed = True
            self.answering.append(answering)
            if not self.is_dirty:
                self.mark()

    def note_delivered(self, origin: Cause, bytes_: i64) -> None:
        """A delivery with `bytes_` of content is in the buffer: at the high mark no more follow
        before the next send, however many deliveries the consumers have left. `origin` is charged
        when `OutputLine.charge_all` is called, which is before it is repaid for the delivery."""
        owed = self.owed
        if origin is not owed.origin:
            owed.begin(origin)
        owed.messages += 1
        owed.bytes_ += bytes_
        self.written_bytes += bytes_
        if self.is_open and self.held_bytes + self.written_bytes >= self.high_bytes:
            self._set_open(False)

    def note_answered(self, origin: Cause, bytes_: i64) -> bool:
        """An answer with `bytes_` of content is in the buffer, and `origin` is charged for it; True
        if the buffer is full now."""
        self.owed.begin(origin)
        self.owed.messages += 1
        self.owed.bytes_ += bytes_
        self.owed.charge()
        self.written_bytes += bytes_
        if self.held_bytes + self.written_bytes >= self.high_bytes * FULL_FACTOR:
            self.is_full = True
        return self.is_full

    def note_unsent(self, unsent: Unsent) -> None:
        """`unsent` has a delivery in the buffer."""
        if not unsent.is_listed:
            unsent.is_listed = True
            self.unsent.append(unsent)

    def flush(self) -> None:
        """Hand the buffer to the peer as far as it takes it. Shells override `_send`."""
        if self.answering:
            listed = self.answering
            self.answering = []
            for answering in listed:
                answering.is_listed = False
                answering.answer()
        self.is_dirty = False
        self._send()
        self.is_idle = False
        self.line.delivered_bytes += self.written_bytes
        self.written_bytes = 0
        self.settle()

    def rest(self) -> None:
        """Called once a period: a buffer that was not used for a whole one gives its memory back,
        which for thousands of idle connections is a lot, and costs a busy one nothing."""
        if self.is_idle and len(self.writer) == 0:
            self.writer = BytesWriter()
        self.is_idle = True

    def settle(self) -> None:
        """Tell the connection what the last send changed, and repay who paid for what was sent."""
        if self.owed.runs:
            self.owed.repay_down_to(self.held_bytes + self.written_bytes)
        if self.held_bytes > 0:
            self._note_stuck()
        elif self.unsent:
            listed = self.unsent
            self.unsent = []
            for unsent in listed:
                unsent.is_listed = False
                unsent.is_stuck = False
                was_full = unsent.count >= unsent.limit
                unsent.count = 0
                if was_full:
                    for consumer in unsent.consumers:
                        consumer.queue.consumer_changed(consumer)
        is_open = self.held_bytes < self.high_bytes
        if is_open != self.is_open:
            self._set_open(is_open)
        if self.is_full and self.held_bytes < self.high_bytes * FULL_FACTOR:
            self.is_full = False
            if self.has_room is not None:
                self.has_room()

    def _set_open(self, is_open: bool) -> None:
        self.is_open = is_open
        if self.changed is not None:
            self.changed(is_open)

    def _note_stuck(self) -> None:
        """The socket has not taken everything: those it was too much for are told, once."""
        for unsent in self.unsent:
            if not unsent.is_stuck and unsent.count >= unsent.limit:
                unsent.is_stuck = True
                for consumer in unsent.consumers:
                    consumer.queue.consumer_changed(consumer)

    def _send(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more will be sent. What is kept of a closed connection until the garbage
        collector finds it (it is a cycle of objects) must not be large: the buffer goes at once."""
        self.owed.repay_all()
        self.unsent.clear()
        self.answering.clear()
        self.pieces.clear()
        self.writer = BytesWriter()


class OutputLine:
    """The outputs with something to send this turn; owner: the scheduler. `owing`: where those
    stand that have deliveries nobody was charged for yet; delivered_bytes: of content, handed to
    sockets so far."""

    __slots__ = ("delivered_bytes", "dirty", "owing")

    def __init__(self) -> None:
        self.delivered_bytes: i64 = 0
        self.dirty: list[Output] = []
        self.owing = OwingLine()

    def flush_all(self) -> None:
        """Send everything: deliveries before confirms, so that of a publisher and a consumer who
        answer equally fast the consumer is not the one who falls behind (consumer bias, 5.2)."""
        # A turn that failed has charged nobody for what it wrote, and it is sent all the same.
        self.owing.charge_all()
        dirty = self.dirty
        self.dirty = []
        for output in dirty:
            if output.unsent:
                output.flush()
        for output in dirty:
            if output.is_dirty:
                output.flush()
