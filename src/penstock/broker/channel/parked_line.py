"""What a channel has parked for one queue: in memory at both ends, on the disk between them.

    front    messages, oldest first: what the queue gets next
    pieces   behind it; a piece is written, then on the disk, then read, and its messages go to the
             front
    back     messages behind those, newest last; empty while there are no pieces

A piece whose turn has come before it was written goes on from memory. COMPILED.
"""

from collections.abc import Mapping
from enum import Enum
from struct import pack, unpack
from types import MappingProxyType
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.parking_disk import PIECE_OVERHEAD_BYTES, ParkedFile
from penstock.protocol.content import Address, Message
from penstock.queues.ring import BLANK
from penstock.storage.log.parked import PieceOnDisk, record_bytes
from penstock.telemetry.accounting import BlockLedger, ParkedLedger

CREDIT: Final = "credit"

PARKED_OVERHEAD_BYTES: Final = 240
"""What a parked publish costs beside its frames: the message, its place, and its number among the
unconfirmed ones."""


def parked_size(message: Message) -> i64:
    """Bytes that `message` counts for while it is parked in memory."""
    size: i64 = len(message.raw)
    return size + PARKED_OVERHEAD_BYTES


def parked_books(books: BlockLedger, now_ns: int) -> ParkedLedger:
    """Where the time of parked publishes counts, of the actor that has these `books`."""
    found = books.parked
    if found is None:
        found = ParkedLedger(books, now_ns)
        books.parked = found
    return found


class PieceAt(Enum):
    """Where a piece is."""

    WRITING = "in memory, and being written"
    RESTING = "on the disk"
    READING = "on the disk, and being read"
    GONE = "no part of its line any more"


class PieceEvent(Enum):
    """What happens to it."""

    WRITTEN = "it is on the disk"
    FAILED = "it could not be written: its messages stay in memory"
    TAKEN = "its turn came before it was written"
    WANTED = "its turn comes soon"
    AGAIN = "it could not be read, and is tried again later"
    READ = "its messages are in memory again, or lost"
    DROPPED = "its queue is gone"


TRANSITIONS: Final[Mapping[tuple[PieceAt, PieceEvent], PieceAt]] = MappingProxyType(
    {
        (PieceAt.WRITING, PieceEvent.WRITTEN): PieceAt.RESTING,
        (PieceAt.WRITING, PieceEvent.FAILED): PieceAt.GONE,
        (PieceAt.WRITING, PieceEvent.TAKEN): PieceAt.GONE,
        (PieceAt.RESTING, PieceEvent.WANTED): PieceAt.READING,
        (PieceAt.RESTING, PieceEvent.DROPPED): PieceAt.GONE,
        (PieceAt.READING, PieceEvent.AGAIN): PieceAt.RESTING,
        (PieceAt.READING, PieceEvent.READ): PieceAt.GONE,
        (PieceAt.READING, PieceEvent.DROPPED): PieceAt.GONE,
    }
)
"""What is not here is a bug, and raises KeyError."""


class ParkedPiece:
    """Publishes of one line that go to the disk together.

    messages: while they are in memory; count: how many; first_bytes: of the frames of the first;
    bytes: what they count for in memory;
    file, place: where they go on the disk; disk_bytes: what they take there; numbers: of a
    confirming channel, 4 bytes each; origins: who pays for them, [] if the channel's own account
    pays for all.
    """

    __slots__ = (
        "at",
        "bytes",
        "count",
        "disk_bytes",
        "file",
        "first_bytes",
        "line",
        "messages",
        "numbers",
        "origins",
        "place",
    )

    def __init__(
        self,
        line: "ParkedLine",
        messages: list[Message],
        bytes_: i64,
        disk_bytes: i64,
        payer: Cause,
    ) -> None:
        self.at = PieceAt.WRITING
        self.line = line
        self.messages = messages
        self.count: i64 = len(messages)
        self.first_bytes: i64 = len(messages[0].raw)
        self.bytes: i64 = bytes_
        self.disk_bytes: i64 = disk_bytes
        self.file: ParkedFile | None = None
        self.place: PieceOnDisk | None = None
        self.numbers = b""
        self.origins: list[Cause] = []
        # What came before confirm.select has none.
        if messages[-1].sequence >= 0:
            sequences = [int(message.sequence) for message in messages]
            self.numbers = pack(f"={len(sequences)}i", *sequences)
        for message in messages:
            if message.origin is not payer:
                self.origins = [message.origin for message in messages]
                break

    def move(self, event: PieceEvent) -> None:
        """Raises: KeyError for what cannot happen where it is."""
        self.at = TRANSITIONS[self.at, event]

    def overhead_bytes(self) -> i64:
        """What it takes in memory while its messages are on the disk."""
        size: i64 = PIECE_OVERHEAD_BYTES
        return size + len(self.numbers) + 8 * len(self.origins)

    def sequences(self) -> list[int]:
        """The numbers of those of its publishes that have one."""
        found = unpack(f"={len(self.numbers) // 4}i", self.numbers)
        return [number for number in found if number >= 0]


class ParkedLine:
    """What a channel has parked for one queue; see the head of this file.

    owner: the channel; front: from `head`; front_bytes, bytes: of the front, and of all in memory;
    disk_messages, disk_bytes: given to the disk, or on it; since_ns: when the line began; reason:
    of the gate, then; held_by: the peer and reason it waits for now; is_opened: the queue takes
    again, or is gone, and it stands in `opened`, the channel's list of those.
    """

    __slots__ = (
        "back",
        "bytes",
        "disk_bytes",
        "disk_messages",
        "front",
        "front_bytes",
        "head",
        "held_by",
        "is_opened",
        "lane",
        "opened",
        "owner",
        "pieces",
        "reason",
        "since_ns",
    )

    def __init__(self, owner: Actor, lane: Lane, opened: "list[ParkedLine]", since_ns: i64) -> None:
        self.owner = owner
        self.lane = lane
        self.opened = opened
        self.front: list[Message] = []
        self.head: i64 = 0
        self.front_bytes: i64 = 0
        self.pieces: list[ParkedPiece] = []
        self.back: list[Message] = []
        self.bytes: i64 = 0
        self.disk_messages: i64 = 0
        self.disk_bytes: i64 = 0
        self.since_ns: i64 = since_ns
        self.reason = CREDIT
        self.held_by = ("", "")
        self.is_opened = False

    def count(self) -> i64:
        """Publishes in it."""
        found: i64 = len(self.front) - self.head
        if self.pieces:
            for piece in self.pieces:
                found += piece.count
            found += len(self.back)
        return found

    def has_front(self) -> bool:
        """Whether its first publish is in memory."""
        return self.head < len(self.front)

    def next_bytes(self) -> i64:
        """Of the frames of the first publish in it, wherever it is; 0 if there is none."""
        if self.head < len(self.front):
            return len(self.front[self.head].raw)
        return self.pieces[0].first_bytes if self.pieces else 0

    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return self.head == len(self.front) and not self.pieces

    def in_memory(self) -> list[Message]:
        """What is not on the disk alone, oldest first."""
        found = self.front[self.head :]
        for piece in self.pieces:
            found.extend(piece.messages)
        found.extend(self.back)
        return found

    def open(self) -> bool:
        """The queue takes again, or is gone, or what it gets next is in memory again."""
        if not self.is_opened:
            self.is_opened = True
            self.opened.append(self)
        return True

    def add(self, message: Message, size: i64) -> None:
        """The newest one. size: see `parked_size`."""
        self.bytes += size
        if self.pieces:
            self.back.append(message)
        else:
            self.front.append(message)
            self.front_bytes += size

    def took(self, messages: i64, bytes_: i64) -> None:
        """The first `messages` of the front have gone on."""
        self.head += messages
        self.bytes -= bytes_
        self.front_bytes -= bytes_
        count: i64 = len(self.front)
        if self.head == count:
            self.front = []
            self.head = 0
        elif self.head >= 512 and self.head * 2 >= count:
            del self.front[: self.head]
            self.head = 0
        else:
            # Nothing is charged for what has gone, so it must not be kept either.
            at: i64 = self.head - messages
            while at < self.head:
                self.front[at] = BLANK
                at += 1

    # -- to the disk -----------------------------------------------------------------------------

    def part(self, keep_bytes: i64) -> None:
        """Let the front have one publish and `keep_bytes` at least, and the rest go to the back: a
        line that is about to have pieces."""
        front = self.front
        end: i64 = len(front)
        at: i64 = self.head
        bytes_: i64 = 0
        while at < end and (bytes_ < keep_bytes or at == self.head):
            bytes_ += parked_size(front[at])
            at += 1
        self.back = front[at:]
        del front[at:]
        self.front_bytes = bytes_

    def cut(self, bytes_min: i64, bytes_max: i64, room: i64, payer: Cause) -> ParkedPiece | None:
        """The oldest of the back as a piece of so many bytes in memory, or one publish that has
        more; None while the back has less, or the disk no room for the first."""
        back = self.back
        end: i64 = len(back)
        if end == 0 or record_bytes(back[0], None) > room:
            return None
        at: i64 = 0
        bytes_: i64 = 0
        disk_bytes: i64 = 0
        before: Address | None = None
        while at < end:
            message = back[at]
            size: i64 = parked_size(message)
            disk_size: i64 = record_bytes(message, before)
            if at > 0 and (bytes_ + size > bytes_max or disk_bytes + disk_size > room):
                break
            bytes_ += size
            disk_bytes += disk_size
            before = message.address
            at += 1
        if bytes_ < bytes_min:
            return None
        piece = ParkedPiece(self, back[:at], bytes_, disk_bytes, payer)
        del back[:at]
        self.pieces.append(piece)
        self.disk_messages += piece.count
        self.disk_bytes += piece.disk_bytes
        return piece

    def written(self, piece: ParkedPiece) -> None:
        """`piece` is on the disk, and in memory no more."""
        piece.move(PieceEvent.WRITTEN)
        piece.messages = []
        self.bytes += piece.overhead_bytes() - piece.bytes

    def not_written(self, piece: ParkedPiece) -> None:
        """`piece`, the last there is, stays in memory."""
        piece.move(PieceEvent.FAILED)
        assert self.pieces[-1] is piece, "because those behind it came back before"
        self.pieces.pop()
        self._left_disk(piece)
        self.back = piece.messages + self.back
        self.close_up()

    def _left_disk(self, piece: ParkedPiece) -> None:
        self.disk_messages -= piece.count
        self.disk_bytes -= piece.disk_bytes

    def close_up(self) -> None:
        """What comes next needs nothing from the disk: it stands in the front."""
        while not self.has_front() and self.pieces and self.pieces[0].at is PieceAt.WRITING:
            piece = self.pieces.pop(0)
            piece.move(PieceEvent.TAKEN)
            self._left_disk(piece)
            self.front.extend(piece.messages)
            self.front_bytes += piece.bytes
            piece.messages = []
        if not self.pieces and self.back:
            self.front.extend(self.back)
            self.back = []
            self.front_bytes = self.bytes

    # -- from the disk ---------------------------------------------------------------------------

    def next_on_disk(self) -> ParkedPiece | None:
        """The piece to be read next; None while one is being read, or there is none."""
        if not self.pieces or self.pieces[0].at is not PieceAt.RESTING:
            return None
        return self.pieces[0]

    def came(self, piece: ParkedPiece, messages: list[Message], payer: Cause) -> None:
        """`piece`, the first, was read; what it counts for in memory is charged already."""
        self._end_first(piece, PieceEvent.READ)
        for message in messages:
            message.origin = payer
        for index in range(len(piece.origins)):
            messages[index].origin = piece.origins[index]
        self.front.extend(messages)
        self.front_bytes += piece.bytes
        self.bytes += piece.bytes
        self.close_up()

    def drop(self, piece: ParkedPiece, event: PieceEvent) -> None:
        """`piece`, the first, ends on the disk."""
        self._end_first(piece, event)
        self.close_up()

    def _end_first(self, piece: ParkedPiece, event: PieceEvent) -> None:
        piece.move(event)
        assert self.pieces[0] is piece, "because a line is read in its order"
        self.pieces.pop(0)
        self._left_disk(piece)
        self.bytes -= piece.overhead_bytes()


NO_LINES: Final[dict[Lane, ParkedLine]] = {}
"""What all channels share that have never parked anything."""
