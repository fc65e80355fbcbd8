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

from collections.abc import Callable
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

    size: bytes it counts for; reason: CREDIT, ALARM, RATE, or another word of a gate; since_ns:
    when the turn began in which it came; route, lanes: None and [] until it is routed.
    """

    __slots__ = ("lanes", "message", "reason", "route", "since_ns", "size")

    def __init__(self, message: Message, reason: str, since_ns: i64) -> None:
        self.message = message
        self.reason = reason
        self.since_ns: i64 = since_ns
        self.size: i64 = len(message.raw)
        self.route: Route | None = None
        self.lanes: list[Lane] = []


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
        self._enter(entry)
        return True

    def first(self) -> ParkedPublish | None:
        """The oldest one at the entrance."""
        return self.entrance[0] if self.entrance else None

    def take_first(self) -> None:
        """The oldest one at the entrance goes on. Raises: IndexError when there is none."""
        entry = self.entrance.pop(0)
        self.lot.bytes -= entry.size
        self._leave(entry)

    def clear_entrance(self) -> None:
        """The channel is gone, and what was not routed with it."""
        while self.entrance:
            self.take_first()
        self.overflow = None

    def overflows(self, message: Message, reason: str, now_ns: i64) -> None:
        """`message` has no place: it is kept, and nothing behind it may come."""
        assert self.overflow is None, "because nothing is read behind one"
        self.overflow = ParkedPublish(message, reason, now_ns)

    def take_overflow(self) -> Message:
        """The one that had no place is looked at again."""
        entry = self.overflow
        assert entry is not None, "because the reading was stopped for it"
        self.overflow = None
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
            line = self.lines.get(lane)
            if line is None:
                self.lines[lane] = [entry]
                self.lanes.append(lane)
            else:
                line.append(entry)
        self._enter(entry)

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
        self._leave(entry)
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
        for peer, reason in lane.sender_gate.reasons:
            self.waits_for = peer
            self.waits_on = reason
            return

    # -- counting --------------------------------------------------------------------------------

    def _enter(self, entry: ParkedPublish) -> None:
        self.bytes += entry.size

    def _leave(self, entry: ParkedPublish) -> None:
        self.bytes -= entry.size
