"""Publishes of one channel that wait: where, why, since when, and with how many bytes.

    entrance   not routed yet: the hop to the channel is closed ("credit"), or an alarm ("alarm") or
               a rate limit of the connection ("rate") holds it
    overflow   the one for which the entrance had no place: nothing more is read until it has
    lines      numbered and routed; a queue it is for has no credit left, or no tokens. One line for
               each queue, and a fan-out stands in the lines of all its queues

An entry leaves the lines when it is the first in each of its own and all these queues are open, so
publishes for other queues go past it and every queue gets its own in the order they were sent.
Everything enters and leaves by `_enter` and `_leave`: there it is counted, and charged if anything
is. What is behind a full entrance, and behind full lines, waits in front of it.
Source: docs/flow.md. COMPILED.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from mypy_extensions import i64

from penstock.base.limits import PARKED_BYTES
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.route import Route
from penstock.flow.gate import Gate, GateObserver
from penstock.protocol.content import Message

CREDIT: Final = "credit"
ALARM: Final = "alarm"
RATE: Final = "rate"

ENTRANCE_MAX: Final = 1
LINES_MAX: Final = 1


class ParkedAt(Enum):
    """Where a publish is that a channel deals with."""

    MOVING = "on its way"
    ENTRANCE = "at the entrance"
    OVERFLOW = "in front of a full entrance"
    LINES = "in the lines of its queues"


class ParkingEvent(Enum):
    """What happens to one publish."""

    HELD = "the hop to the channel, an alarm or a rate limit holds it"
    NO_PLACE = "it is held, and the entrance is full: nothing more is read"
    LOOKED_AT = "the entrance may have room"
    TAKEN = "nothing holds it there any more, or it is forced"
    QUEUE_HELD = "it is numbered and routed, and a queue it is for has no credit or tokens"
    OPENED = "it is the first of its lines and their queues are open, or it is forced"
    ENDED = "the channel ends"


TRANSITIONS: Final[Mapping[tuple[ParkedAt, ParkingEvent], ParkedAt]] = MappingProxyType(
    {
        (ParkedAt.MOVING, ParkingEvent.HELD): ParkedAt.ENTRANCE,
        (ParkedAt.MOVING, ParkingEvent.NO_PLACE): ParkedAt.OVERFLOW,
        (ParkedAt.MOVING, ParkingEvent.QUEUE_HELD): ParkedAt.LINES,
        (ParkedAt.ENTRANCE, ParkingEvent.TAKEN): ParkedAt.MOVING,
        (ParkedAt.ENTRANCE, ParkingEvent.ENDED): ParkedAt.MOVING,
        (ParkedAt.OVERFLOW, ParkingEvent.LOOKED_AT): ParkedAt.MOVING,
        (ParkedAt.OVERFLOW, ParkingEvent.ENDED): ParkedAt.MOVING,
        (ParkedAt.LINES, ParkingEvent.OPENED): ParkedAt.MOVING,
    }
)
"""What is not here is a bug, and raises KeyError."""


class OpenedObserver(GateObserver):
    """Calls `opened` with a gate whenever one of the gate's reasons has gone."""

    __slots__ = ("opened",)

    def __init__(self, opened: Callable[[Gate], None]) -> None:
        self.opened = opened

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.opened(gate)


class ParkingLot:
    """What the channels of one connection have parked, and how much they may.

    bytes: at the entrances of all; entrance_max, lines_max: publishes of one channel.
    """

    __slots__ = ("bytes", "bytes_max", "entrance_max", "lines_max")

    def __init__(self) -> None:
        self.bytes: i64 = 0
        self.bytes_max: i64 = PARKED_BYTES.default
        self.entrance_max: i64 = ENTRANCE_MAX
        self.lines_max: i64 = LINES_MAX


class ParkedPublish:
    """One publish that waits.

    at: see TRANSITIONS; size: bytes it counts for; reason: CREDIT, ALARM, RATE, or another word of
    a gate; since_ns: when the turn began in which it came; route, lanes: None and [] until it is
    routed.
    """

    __slots__ = ("at", "lanes", "message", "reason", "route", "since_ns", "size")

    def __init__(self, message: Message, reason: str, since_ns: i64) -> None:
        self.at = ParkedAt.MOVING
        self.message = message
        self.reason = reason
        self.since_ns: i64 = since_ns
        self.size: i64 = len(message.raw)
        self.route: Route | None = None
        self.lanes: list[Lane] = []

    def move(self, event: ParkingEvent) -> None:
        """Raises: KeyError for what cannot happen where it is."""
        self.at = TRANSITIONS[self.at, event]


class Parking:
    """The publishes of one channel that wait; see the head of this file.

    entrance, routed: oldest first; lines: of `routed`, by the lane to the queue, and these lanes;
    waits_for, waits_on: who holds the line looked at last, and the gate's reason; bytes: of all but
    `overflow`.
    Bounds: entrance_max, lines_max and bytes_max of its lot. Owner: the channel.
    """

    __slots__ = (
        "bytes",
        "entrance",
        "lanes",
        "lines",
        "lot",
        "overflow",
        "routed",
        "waits_for",
        "waits_on",
    )

    def __init__(self, lot: ParkingLot) -> None:
        self.lot = lot
        self.entrance: list[ParkedPublish] = []
        self.overflow: ParkedPublish | None = None
        self.routed: dict[ParkedPublish, None] = {}
        self.lines: dict[Lane, list[ParkedPublish]] = {}
        self.lanes: list[Lane] = []
        self.bytes: i64 = 0
        self.waits_for = ""
        self.waits_on = CREDIT

    def entries(self) -> list[ParkedPublish]:
        """All that wait, oldest first."""
        found = [*self.routed, *self.entrance]
        if self.overflow is not None:
            found.append(self.overflow)
        return found

    # -- entrance --------------------------------------------------------------------------------

    def park(self, message: Message, reason: str, now_ns: i64) -> bool:
        """Let `message` wait at the entrance; False if there is no place for it."""
        lot = self.lot
        size: i64 = len(message.raw)
        if len(self.entrance) >= lot.entrance_max or lot.bytes + size > lot.bytes_max:
            return False
        entry = ParkedPublish(message, reason, now_ns)
        self.entrance.append(entry)
        lot.bytes += size
        self._enter(entry, ParkingEvent.HELD)
        return True

    def first(self) -> ParkedPublish | None:
        """The oldest one at the entrance."""
        return self.entrance[0] if self.entrance else None

    def take_first(self, event: ParkingEvent = ParkingEvent.TAKEN) -> None:
        """The oldest one at the entrance goes on. Raises: IndexError when there is none."""
        entry = self.entrance.pop(0)
        self.lot.bytes -= entry.size
        self._leave(entry, event)

    def clear_entrance(self) -> None:
        """The channel is gone, and what was not routed with it."""
        while self.entrance:
            self.take_first(ParkingEvent.ENDED)
        if self.overflow is not None:
            self.overflow.move(ParkingEvent.ENDED)
            self.overflow = None

    def overflows(self, message: Message, reason: str, now_ns: i64) -> None:
        """`message` has no place: it is kept, and nothing behind it may come."""
        assert self.overflow is None, "because nothing is read behind one"
        self.overflow = ParkedPublish(message, reason, now_ns)
        self.overflow.move(ParkingEvent.NO_PLACE)

    def take_overflow(self) -> Message:
        """The one that had no place is looked at again."""
        entry = self.overflow
        assert entry is not None, "because the reading was stopped for it"
        self.overflow = None
        entry.move(ParkingEvent.LOOKED_AT)
        return entry.message

    # -- lines -----------------------------------------------------------------------------------

    def has_line(self) -> bool:
        """Whether any more may be parked behind the hop."""
        return len(self.routed) < self.lot.lines_max

    def join(self, message: Message, route: Route, lanes: list[Lane], now_ns: i64) -> None:
        """Let `message`, which is numbered and goes to `lanes`, wait for them."""
        entry = ParkedPublish(message, self.waits_on, now_ns)
        entry.route = route
        entry.lanes = lanes
        self.routed[entry] = None
        for lane in lanes:
            lane.ask()
            line = self.lines.get(lane)
            if line is None:
                self.lines[lane] = [entry]
                self.lanes.append(lane)
            else:
                line.append(entry)
        self._enter(entry, ParkingEvent.QUEUE_HELD)

    def next_routed(self, is_forced: bool) -> ParkedPublish | None:
        """One that may be handed over now, or with `is_forced` the oldest; it has left its
        lines. None if there is none."""
        if is_forced:
            for entry in self.routed:
                return self._left(entry)
            return None
        for line in self.lines.values():
            if self._may_go(line[0]):
                return self._left(line[0])
        return None

    def _left(self, entry: ParkedPublish) -> ParkedPublish:
        del self.routed[entry]
        for lane in entry.lanes:
            line = self.lines[lane]
            line.remove(entry)
            if not line:
                del self.lines[lane]
                self.lanes.remove(lane)
        self._leave(entry, ParkingEvent.OPENED)
        return entry

    def _may_go(self, entry: ParkedPublish) -> bool:
        for lane in entry.lanes:
            if not lane.receiving.is_alive:
                continue
            if lane.is_closed:
                self.note_waiting(lane)
                return False
            if self.lines[lane][0] is not entry:
                return False
        return True

    def note_waiting(self, lane: Lane) -> None:
        """Who keeps `lane` closed, and why, is what this channel waits for."""
        lane.ask()
        for peer, reason in lane.sender_gate.reasons:
            self.waits_for = peer
            self.waits_on = reason
            return

    # -- counting --------------------------------------------------------------------------------

    def _enter(self, entry: ParkedPublish, event: ParkingEvent) -> None:
        entry.move(event)
        self.bytes += entry.size

    def _leave(self, entry: ParkedPublish, event: ParkingEvent) -> None:
        entry.move(event)
        self.bytes -= entry.size
