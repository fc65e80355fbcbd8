"""What a connection writes to: one growing buffer, emptied once per turn of the loop.

Decisions write into `writer` and mark the output dirty; the shell's subclass sends. Deliveries in
the buffer count as unsent until the socket has taken all of it; above the high mark the
connection's consumers are given nothing more.

What waits here is paid for by its causes, as debt all the way to the socket:

    sum of the runs <= bytes the socket has not taken        (after every send)
Deliveries of one cause in a row are one run: it is charged once, and repaid when the socket has
taken it, or when the socket closes. The buffer is sent in order, so a run is known to have gone
when what came after it is all that can still be waiting. Source: seed S4; scenario 101. COMPILED.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.base.limits import SOCKET_ANSWERS_BYTES
from penstock.base.wire import BytesWriter
from penstock.protocol.content import NO_CAUSE
from penstock.queues.consumers import Unsent
from penstock.telemetry.answer_times import AnswerTimes

FULL_FACTOR: Final = 4
"""Times the high mark: what a peer that takes nothing may pile up in answers with content."""


class DebtRun:
    """Deliveries in a row that one cause was charged for."""

    __slots__ = ("bytes_", "messages", "origin")

    def __init__(self, origin: Cause, messages: i64, bytes_: i64) -> None:
        self.origin = origin
        self.messages: i64 = messages
        self.bytes_: i64 = bytes_


NO_RUNS: Final[list[DebtRun]] = []
"""What all outputs share that nobody owes anything for."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Shell:
    """What a connection asks of whoever owns its socket. Nominal base."""

    __slots__ = ()

    def resume(self) -> None:
        """Input may be read again."""

    def tuned(self, heartbeat_s: int) -> None:
        """The heartbeat is agreed, seconds, 0 for none: it says how long to wait for a peer."""

    def close_after_output(self) -> None:
        """Close the socket once everything written has been sent."""

    def hand_over(self, worker: int, record: bytes) -> None:
        """Give the socket to another process once everything written has been sent."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Answering:
    """Who has answers to write before the next send: a channel with confirms. Nominal base."""

    __slots__ = ("is_listed",)

    def __init__(self) -> None:
        self.is_listed = False

    def answer(self) -> None:
        """Write them into the buffer."""
        raise NotImplementedError

    def unasked(self) -> None:
        """Nothing more is sent: it is not asked for what it was about to write."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OutputOwner(Answering):
    """The connection as its output sees it. Nominal base."""

    __slots__ = ()

    def output_changed(self, is_open: bool) -> None:
        """The buffer falls below the high mark (True), or passes it."""

    def output_filled(self, is_full: bool) -> None:
        """The peer does not take its answers: read nothing more until it does (False)."""


NONE_UNSENT: Final[list[Unsent]] = []
NONE_ANSWERING: Final[list[Answering]] = []
NO_PIECES: Final[list[bytes]] = []
"""What all outputs share that have nothing to send."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Output:
    """Nominal base of the socket's writer and the simulator's. `owner`: whoever has to know of its
    marks, None once nobody has; `held_bytes`: sent to the shell and not yet taken by the
    socket; `high_bytes`: see limits.SOCKET_OUTPUT_HIGH_BYTES; `written_bytes`: content
    written since the last send; `is_full`: FULL_FACTOR times the
    high mark is reached, so nothing that makes more content (basic.get, basic.return) is
    begun, or `answers_max` by all but deliveries; `times`: how long the client waits for
    answers.

    Who pays: `origin`, `run_messages`, `run_bytes`: of the run that is being written and not
    charged yet; `is_indebted`: there may be one; `runs`: those charged, oldest first,
    `charged_bytes` together."""

    __slots__ = (
        "answering",
        "answers_max",
        "charged_bytes",
        "held_bytes",
        "high_bytes",
        "is_dirty",
        "is_full",
        "is_idle",
        "is_indebted",
        "is_open",
        "line",
        "origin",
        "owner",
        "pieces",
        "run_bytes",
        "run_messages",
        "runs",
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
        self.answers_max: i64 = max(SOCKET_ANSWERS_BYTES.default, high_bytes * FULL_FACTOR)
        self.held_bytes: i64 = 0
        self.written_bytes: i64 = 0
        self.owner: OutputOwner | None = None
        self.origin = NO_CAUSE
        self.run_messages: i64 = 0
        self.run_bytes: i64 = 0
        self.runs: list[DebtRun] = NO_RUNS
        self.charged_bytes: i64 = 0
        self.unsent: list[Unsent] = NONE_UNSENT
        self.answering: list[Answering] = NONE_ANSWERING
        self.pieces: list[bytes] = NO_PIECES
        self.times = AnswerTimes(None)
        # Side by side, because each takes a byte and no place of its own.
        self.takes_pieces = False
        self.is_idle = False
        self.is_dirty = False
        self.is_open = True
        self.is_full = False
        self.is_indebted = False

    def mark(self) -> None:
        """Something was written: send it at the end of this turn of the loop."""
        if not self.is_dirty:
            self.is_dirty = True
            self.line.dirty.append(self)

    def write_piece(self, piece: bytes) -> None:
        """Write a large byte string without copying it; only where `takes_pieces`."""
        if self.pieces is NO_PIECES:
            self.pieces = []
        if len(self.writer) > 0:
            self.pieces.append(self.writer.getvalue())
            self.writer.truncate(0)
        self.pieces.append(piece)

    def note_answering(self, answering: Answering) -> None:
        """`answering` writes its answers together, just before the next send."""
        if not answering.is_listed:
            answering.is_listed = True
            if self.answering is NONE_ANSWERING:
                self.answering = []
            self.answering.append(answering)
            if not self.is_dirty:
                self.mark()

    def note_delivered(self, origin: Cause, bytes_: i64) -> None:
        """A delivery with `bytes_` of content is in the buffer: at the high mark no more follow
        before the next send, however many deliveries the consumers have left. `origin` is charged
        when `OutputLine.charge_all` is called, which is before it is repaid for the delivery."""
        if origin is not self.origin:
            self._begin_run(origin)
        self.run_messages += 1
        self.run_bytes += bytes_
        written: i64 = self.written_bytes + bytes_
        self.written_bytes = written
        if self.is_open and self.held_bytes + written >= self.high_bytes:
            self._set_open(False)

    def note_run(self, origin: Cause, messages: i64, bytes_: i64) -> None:
        """As `note_delivered` of so many `messages` that cost `origin` `bytes_` together."""
        if origin is not self.origin:
            self._begin_run(origin)
        self.run_messages += messages
        self.run_bytes += bytes_
        self.written_bytes += bytes_
        if self.is_open and self.held_bytes + self.written_bytes >= self.high_bytes:
            self._set_open(False)

    def note_answered(self, origin: Cause, bytes_: i64) -> None:
        """An answer with `bytes_` of content is in the buffer, and `origin` is charged for it."""
        self.mark()
        self._begin_run(origin)
        self.run_messages += 1
        self.run_bytes += bytes_
        self.charge()
        self.written_bytes += bytes_
        if self.held_bytes + self.written_bytes >= self.high_bytes * FULL_FACTOR:
            self._set_full(True)

    def _begin_run(self, origin: Cause) -> None:
        """The next delivery is caused by `origin`."""
        self.charge()
        self.origin = origin
        if not self.is_indebted:
            self.is_indebted = True
            self.line.indebted.append(self)

    def charge(self) -> None:
        """Charge for the run that was being written."""
        messages: i64 = self.run_messages
        if messages == 0:
            return
        bytes_: i64 = self.run_bytes
        origin = self.origin
        self.run_messages = 0
        self.run_bytes = 0
        self.charged_bytes += bytes_
        if self.runs is NO_RUNS:
            self.runs = []
        self.runs.append(DebtRun(origin, messages, bytes_))
        origin.charge(messages, bytes_)

    def repay_down_to(self, waiting_bytes: i64) -> None:
        """The socket has taken all but `waiting_bytes`."""
        runs = self.runs
        count: i64 = len(runs)
        if waiting_bytes == 0:
            self.runs = NO_RUNS
            self.charged_bytes = 0
        else:
            left: i64 = self.charged_bytes
            gone: i64 = 0
            while gone < count and left - runs[gone].bytes_ >= waiting_bytes:
                left -= runs[gone].bytes_
                gone += 1
            if gone == 0:
                return
            count = gone
            self.charged_bytes = left
            self.runs = runs[count:]
        index: i64 = 0
        while index < count:
            run = runs[index]
            run.origin.repay(run.messages, run.bytes_)
            index += 1

    def debt_by_origin(self) -> dict[Cause, tuple[int, int]]:
        """(messages, bytes) that wait for the socket, by who pays for them."""
        sums: dict[Cause, tuple[int, int]] = {}
        for run in self.runs:
            messages, bytes_ = sums.get(run.origin, (0, 0))
            sums[run.origin] = (messages + int(run.messages), bytes_ + int(run.bytes_))
        return sums

    def note_unsent(self, unsent: Unsent) -> None:
        """`unsent` has a delivery in the buffer."""
        if not unsent.is_listed:
            unsent.is_listed = True
            if self.unsent is NONE_UNSENT:
                self.unsent = []
            self.unsent.append(unsent)

    def flush(self) -> None:
        """Hand the buffer to the peer as far as it takes it. Shells override `_send`."""
        if self.answering:
            listed = self.answering
            self.answering = NONE_ANSWERING
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
        """Called once a period: a buffer not used for a whole one gives its memory back."""
        if self.is_idle and len(self.writer) == 0:
            self.writer = BytesWriter()
        self.is_idle = True

    def settle(self) -> None:
        """Tell the connection what the last send changed, and repay who paid for what was sent."""
        if self.runs:
            self.repay_down_to(self.held_bytes + self.written_bytes)
        if self.held_bytes > 0:
            self._note_stuck()
        elif self.unsent:
            listed = self.unsent
            self.unsent = NONE_UNSENT
            for unsent in listed:
                unsent.is_listed = False
                if unsent.taken():
                    for consumer in list(unsent.consumers):
                        consumer.queue.consumer_changed(consumer)
        is_open = self.held_bytes < self.high_bytes
        if is_open != self.is_open:
            self._set_open(is_open)
        if not self.is_full and self.held_bytes - self.charged_bytes >= self.answers_max:
            self._set_full(True)
        if self.is_full and self.held_bytes < self.high_bytes * FULL_FACTOR:
            self._set_full(False)

    def _set_full(self, is_full: bool) -> None:
        self.is_full = is_full
        if self.owner is not None:
            self.owner.output_filled(is_full)

    def _set_open(self, is_open: bool) -> None:
        self.is_open = is_open
        if self.owner is not None:
            self.owner.output_changed(is_open)

    def _note_stuck(self) -> None:
        """The socket has not taken everything: those it was too much for are told, once."""
        for unsent in self.unsent:
            if unsent.kept():
                for consumer in list(unsent.consumers):
                    consumer.queue.consumer_changed(consumer)

    def _send(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more will be sent. What is kept of a closed connection until the garbage
        collector finds it (it is a cycle of objects) must not be large: the buffer goes at once."""
        self.run_messages = 0
        self.run_bytes = 0
        self.repay_down_to(0)
        self.unsent = NONE_UNSENT
        for answering in self.answering:
            answering.is_listed = False
            answering.unasked()
        self.answering = NONE_ANSWERING
        self.pieces = NO_PIECES
        self.writer = BytesWriter()


class OutputLine:
    """The outputs with something to send this turn; owner: the scheduler. indebted: those
    with deliveries that no cause was charged for yet; delivered_bytes: of content, handed to
    sockets so far."""

    __slots__ = ("delivered_bytes", "dirty", "indebted")

    def __init__(self) -> None:
        self.delivered_bytes: i64 = 0
        self.dirty: list[Output] = []
        self.indebted: list[Output] = []

    def charge_all(self) -> None:
        """Charge for everything written until now."""
        indebted = self.indebted
        if indebted:
            self.indebted = []
            for output in indebted:
                output.is_indebted = False
                output.charge()
                output.origin = NO_CAUSE

    def flush_all(self) -> None:
        """Send everything: deliveries before confirms, so that of a publisher and a consumer who
        answer equally fast the consumer is not the one who falls behind (consumer bias, 5.2)."""
        # A turn that failed has charged nobody for what it wrote, and it is sent all the same.
        if self.indebted:
            self.charge_all()
        dirty = self.dirty
        self.dirty = []
        for output in dirty:
            if output.unsent:
                output.flush()
        for output in dirty:
            if output.is_dirty:
                output.flush()
