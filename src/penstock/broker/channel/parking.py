"""Publishes of one channel that wait: where, why, since when, and with how many bytes.

    entrance   not routed yet: the hop to the channel is closed ("credit"), or an alarm ("alarm") or
               a rate limit of the connection ("rate") holds it
    overflow   the one for which the entrance had no place: nothing more is read until it has
    lines      numbered and routed, one line for each queue that takes nothing now; a long one may
               have its middle on the disk (parked_line). Of a fan-out every queue that is open has
               its copy at once, the others when they open

Publishes for other queues go past the lines, and every queue gets its own in the order they were
sent. What waits is on the lot of its connection (parking_lot), and on the account that pays for it;
every way in and out counts there. Nothing of a transaction is parked: its commit waits instead.
Source: docs/flow.md, docs/strategies.md; scenarios 26-29. COMPILED.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.parked_line import CREDIT as CREDIT
from penstock.broker.channel.parked_line import NO_LINES, ParkedLine, parked_books, parked_size
from penstock.broker.channel.parking_lot import ParkingLot
from penstock.flow.gate import Gate
from penstock.protocol.content import Message
from penstock.telemetry.accounting import BlockLedger

ALARM: Final = "alarm"
RATE: Final = "rate"
PARKED: Final = "parked"
"""Why a connection's publishes wait: a channel of it has parked them."""

ENTRANCE_MAX: Final = 1


class ParkedAt(Enum):
    """Where a publish is that its connection holds."""

    MOVING = "on its way"
    ENTRANCE = "at the entrance"
    OVERFLOW = "in front of a full entrance"


class ParkingEvent(Enum):
    """What happens to one publish."""

    HELD = "the hop to the channel, an alarm or a rate limit holds it"
    NO_PLACE = "it is held, and the entrance is full: nothing more is read"
    LOOKED_AT = "the entrance may have room"
    TAKEN = "nothing holds it there any more, or it is forced"
    ENDED = "the channel ends"


TRANSITIONS: Final[Mapping[tuple[ParkedAt, ParkingEvent], ParkedAt]] = MappingProxyType(
    {
        (ParkedAt.MOVING, ParkingEvent.HELD): ParkedAt.ENTRANCE,
        (ParkedAt.MOVING, ParkingEvent.NO_PLACE): ParkedAt.OVERFLOW,
        (ParkedAt.ENTRANCE, ParkingEvent.TAKEN): ParkedAt.MOVING,
        (ParkedAt.ENTRANCE, ParkingEvent.ENDED): ParkedAt.MOVING,
        (ParkedAt.OVERFLOW, ParkingEvent.LOOKED_AT): ParkedAt.MOVING,
        (ParkedAt.OVERFLOW, ParkingEvent.ENDED): ParkedAt.MOVING,
    }
)
"""What is not here is a bug, and raises KeyError."""


class ParkedPublish:
    """One publish at the entrance or in front of it.

    at: see TRANSITIONS; size: bytes it counts for; reason: CREDIT, ALARM, RATE, or another word of
    a gate; since_ns: when the turn began in which it came.
    """

    __slots__ = ("at", "message", "reason", "since_ns", "size")

    def __init__(self, message: Message, reason: str, since_ns: i64) -> None:
        self.at = ParkedAt.MOVING
        self.message = message
        self.reason = reason
        self.since_ns: i64 = since_ns
        self.size: i64 = parked_size(message)

    def move(self, event: ParkingEvent) -> None:
        """Raises: KeyError for what cannot happen where it is."""
        self.at = TRANSITIONS[self.at, event]


NONE_PARKED: Final[list[ParkedPublish]] = []
NONE_OPENED: Final[list[ParkedLine]] = []
"""What all channels share that have never parked anything."""


class Parking:
    """The publishes of one channel that wait; see the head of this file.

    entrance: oldest first; lines: by the lane to the queue; opened: lines that may go on, in this
    order; waits_for, waits_on: who holds the line looked at last, and the gate's reason; committer:
    the channel, while its tx.commit waits.
    Bounds: ENTRANCE_MAX, and what its lot says. Owner: the channel.
    """

    __slots__ = (
        "committer",
        "entrance",
        "lines",
        "lot",
        "opened",
        "overflow",
        "waits_for",
        "waits_on",
    )

    def __init__(self, lot: ParkingLot) -> None:
        self.lot = lot
        self.entrance: list[ParkedPublish] = NONE_PARKED
        self.overflow: ParkedPublish | None = None
        self.lines: dict[Lane, ParkedLine] = NO_LINES
        self.opened: list[ParkedLine] = NONE_OPENED
        self.waits_for = ""
        self.waits_on = CREDIT
        self.committer: Actor | None = None

    def messages(self) -> list[Message]:
        """All that wait in memory; of a fan-out each copy."""
        found: list[Message] = []
        for line in self.lines.values():
            found.extend(line.in_memory())
        for entry in self.entrance:
            found.append(entry.message)
        if self.overflow is not None:
            found.append(self.overflow.message)
        return found

    # -- entrance --------------------------------------------------------------------------------

    def park(self, message: Message, reason: str, now_ns: i64) -> bool:
        """Let `message` wait at the entrance; False if there is no place for it."""
        if not self.has_place(message):
            return False
        entry = ParkedPublish(message, reason, now_ns)
        entry.move(ParkingEvent.HELD)
        if self.entrance is NONE_PARKED:
            self.entrance = []
        self.entrance.append(entry)
        self.lot.charge(1, entry.size)
        return True

    def has_place(self, message: Message) -> bool:
        """Whether it may wait at the entrance."""
        if len(self.entrance) >= ENTRANCE_MAX:
            return False
        return self.lot.has_place(parked_size(message))

    def first(self) -> ParkedPublish | None:
        """The oldest one at the entrance."""
        return self.entrance[0] if self.entrance else None

    def take_first(self, event: ParkingEvent = ParkingEvent.TAKEN) -> None:
        """The oldest one at the entrance goes on. Raises: IndexError when there is none."""
        entry = self.entrance.pop(0)
        entry.move(event)
        self.lot.repay(1, entry.size)
        self.lot.note_freed()

    def clear_entrance(self) -> None:
        """The channel is gone, and what was not routed with it."""
        while self.entrance:
            self.take_first(ParkingEvent.ENDED)
        if self.overflow is not None:
            self.overflow.move(ParkingEvent.ENDED)
            self.overflow = None
        if self.committer is not None:
            self.note_commit(self.committer, False)

    def overflows(self, message: Message, reason: str, now_ns: i64) -> None:
        """`message` has no place: it is kept, and nothing behind it may come."""
        assert self.overflow is None, "because nothing is read behind one"
        self.overflow = ParkedPublish(message, reason, now_ns)
        self.overflow.move(ParkingEvent.NO_PLACE)
        self.lot.wait_for_node()

    def overflow_has_place(self) -> bool:
        """Whether the one that had no place has one now; if not, it is asked again when the node
        has more room."""
        entry = self.overflow
        if entry is None:
            return False
        if self.has_place(entry.message):
            return True
        self.lot.wait_for_node()
        return False

    def take_overflow(self) -> Message:
        """The one that had no place is looked at again."""
        entry = self.overflow
        assert entry is not None, "because the reading was stopped for it"
        self.overflow = None
        entry.move(ParkingEvent.LOOKED_AT)
        return entry.message

    # -- lines -----------------------------------------------------------------------------------

    def join(self, owner: Actor, lane: Lane, message: Message, now_ns: i64) -> ParkedLine:
        """Let `message` of the channel `owner`, which is numbered, wait for `lane`; its line."""
        line = self.lines.get(lane)
        if line is None:
            if self.lines is NO_LINES:
                self.lines = {}
                self.opened = []
            line = ParkedLine(owner, lane, self.opened, now_ns)
            self.lines[lane] = line
            if self.lot.lines is NO_LINES:
                self.lot.lines = {}
            self.lot.lines[lane] = line
            self.note_waiting(lane, len(message.raw))
            line.reason = self.waits_on
            self._begin(line, now_ns)
        size: i64 = parked_size(message)
        line.add(message, size)
        self.lot.charge(1, size)
        return line

    def lane_opened(self, lane: Lane) -> bool:
        """`lane` takes again, or is gone; whether anything waits for it."""
        line = self.lines.get(lane)
        return line is not None and line.open()

    def next_opened(self) -> ParkedLine | None:
        """The line that is served next: one that has something in memory and whose queue takes it,
        one whose queue is gone, or one that has come to its end."""
        while self.opened:
            line = self.opened[0]
            lane = line.lane
            if not lane.receiving.is_alive or line.is_empty():
                return line
            if not lane.is_closed and line.has_front():
                return line
            line.is_opened = False
            if lane.is_closed:
                self.note_waiting(lane, line.next_bytes())
            held_by = self._holder(line)
            if held_by != line.held_by:
                self._count(line, held_by, line.owner.line.turn_ns)
            self.opened.pop(0)
        return None

    def left(self, line: ParkedLine, messages: i64, bytes_: i64) -> None:
        """The first `messages` of the front of `line` have gone on; a line that is empty ends."""
        line.took(messages, bytes_)
        self.lot.repay(messages, bytes_)
        line.close_up()
        if line.is_empty():
            del self.lines[line.lane]
            del self.lot.lines[line.lane]
            if line.is_opened:
                self.opened.remove(line)
            self._end(line)
        elif line.pieces and self.lot.spill is not None:
            self.lot.spill.ahead(line)

    def _begin(self, line: ParkedLine, now_ns: i64) -> None:
        """The time of `line` counts from now on; of a queue that is stopped, from when the oldest
        publish came that lies in front of it."""
        lane = line.lane
        since_ns: i64 = now_ns
        if lane.is_listed and not lane.receiver_gate.is_open:
            since_ns = lane.listed_ns
        owner = line.owner
        if len(self.lines) == 1 and owner.line.is_accounting:
            books = parked_books(self._lot_books(), int(now_ns))
            books.begin(owner.identity, PARKED, int(since_ns), int(now_ns))
        self._count(line, self._holder(line), since_ns)

    def _lot_books(self) -> BlockLedger:
        """Those of the connection, which it has from now on."""
        lot = self.lot
        if lot.books is None:
            assert lot.host is not None, "nothing is parked on a connection that has ended"
            lot.books = lot.host.books()
        return lot.books

    def _holder(self, line: ParkedLine) -> tuple[str, str]:
        """For whom `line` waits, and why. What came before it counts: while that lies in front of a
        queue which is stopped, a rate limit of the queue is not what it waits for."""
        lane = line.lane
        if lane.in_flight > 0 and not lane.receiver_gate.is_open:
            return (lane.receiver, CREDIT)
        if line.held_by in lane.sender_gate.reasons:
            return line.held_by
        return (self.waits_for, self.waits_on)

    def _count(self, line: ParkedLine, held_by: tuple[str, str], since_ns: i64) -> None:
        """`line` waits for this peer, for this reason, and for no other any more."""
        owner = line.owner
        if not owner.line.is_accounting:
            return
        now_ns: i64 = owner.line.turn_ns
        books = parked_books(owner.books(), int(now_ns))
        before = line.held_by
        line.held_by = held_by
        books.begin(held_by[0], held_by[1], int(since_ns), int(now_ns))
        if before[0] != "":
            books.end(before[0], before[1], int(now_ns))

    def _end(self, line: ParkedLine) -> None:
        """The time of `line` counts no longer."""
        owner = line.owner
        now_ns = int(owner.line.turn_ns)
        peer, reason = line.held_by
        books = None if owner.ledger is None else owner.ledger.parked
        if books is not None and peer != "":
            books.end(peer, reason, now_ns)
        whole = None if self.lot.books is None else self.lot.books.parked
        if whole is not None and not self.lines:
            whole.end(owner.identity, PARKED, now_ns)

    def note_waiting(self, lane: Lane, bytes_: i64) -> None:
        """Who keeps `lane` closed for a publish of `bytes_`, and why, is what this channel waits
        for."""
        lane.ask(bytes_)
        for peer, reason in lane.sender_gate.reasons:
            self.waits_for = peer
            self.waits_on = reason
            return

    def keeps_commit(self, own: Gate, lanes: dict[str, Lane]) -> bool:
        """Whether a rule keeps one of `lanes` closed (hop.HELD_*): a tx.commit of this channel
        waits for that. Such a rule lets go whatever the client does. own: the gate of the channel,
        which keeps grants back where hops have no gates of their own."""
        for lane in lanes.values():
            if lane.held == 0 or lane.sender_gate is own:
                continue
            for peer, reason in lane.sender_gate.reasons:
                if reason != CREDIT:
                    self.waits_for = peer
                    self.waits_on = reason
                    return True
        return False

    def note_commit(self, owner: Actor, is_kept: bool) -> bool:
        """Whether the tx.commit that is next on the channel `owner` waits, which is `is_kept`: to
        its connection its publishes are parked for as long."""
        if is_kept != (self.committer is not None):
            self.committer = owner if is_kept else None
            if owner.line.is_accounting:
                now_ns = int(owner.line.turn_ns)
                books = parked_books(self._lot_books(), now_ns)
                if is_kept:
                    books.begin(owner.identity, PARKED, now_ns, now_ns)
                else:
                    books.end(owner.identity, PARKED, now_ns)
        return is_kept

    def note_full(self) -> None:
        """There is no room: this channel waits for whoever holds the most of it."""
        largest: ParkedLine | None = None
        for line in self.lot.lines.values():
            if largest is None or line.bytes > largest.bytes:
                largest = line
        if largest is not None:
            self.note_waiting(largest.lane, largest.next_bytes())
