"""The depth mark of a queue: what lies in it above which its senders get no more credit.

    held > mark                        the gate closes for "depth": grants are deferred
    held <= a band below the mark      grants worth the room up to the mark are released
    that much drained, or used, since  again, until nothing is deferred
    held <= an eighth of the mark      everybody goes on, because what is owed to those who pause
                                       must not keep the others waiting at an empty queue

With `fair_bytes` what is released is shared out (flow/gate, `ration`); without it everything is
released at once, as in RabbitMQ. While grants are still kept the gate stays closed, because it is
still the consumers who hold the senders: a ration can only be as large as what they took out.
Source: flow-semantics 16 (W18); scenario 116.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Line
from penstock.broker.queue.intake import LaneIntake
from penstock.broker.queue.queue_paging import NO_PAGING, QueuePaging
from penstock.flow.strategy import Strategy

DEPTH_BAND_BYTES: Final = 1_048_576
EMPTY_PARTS: Final = 8


class DepthMark(LaneIntake):
    """depth_bytes: the mark, 0 for none; open_bytes: what is held where the next ration is due;
    ration_bytes: the last one; page_above: held in memory, above which `paging` is asked at the end
    of a turn, ALWAYS once the queue has paged; paging: its way out of memory, None in memory."""

    __slots__ = (
        "depth_bytes",
        "is_deep",
        "open_bytes",
        "page_above",
        "paging",
        "ration_bytes",
        "unacked_bytes",
        "unacked_count",
    )

    def __init__(self, identity: str, strategy: Strategy, line: Line, depth_bytes: int) -> None:
        super().__init__(identity, strategy, line)
        self.depth_bytes: i64 = depth_bytes
        self.is_deep = False
        self.open_bytes: i64 = 0
        self.ration_bytes: i64 = 0
        self.unacked_count: i64 = 0
        self.unacked_bytes: i64 = 0
        self.page_above: i64 = NO_PAGING
        self.paging: QueuePaging | None = None

    def keep_to_target(self) -> None:
        """Page what is above the target, if there is so much."""
        held: i64 = self.messages.bytes_ready + self.unacked_bytes
        if held > self.page_above and self.paging is not None:
            self.paging.turn_ended(self)

    def measure_depth(self) -> None:
        """Close or open the gate for the depth mark."""
        held: i64 = self.messages.bytes_ready + self.unacked_bytes
        if self.ruling is not None:
            held += self.ruling.held_bytes()
        if self.is_deep:
            self._drained(held)
        elif held > self.depth_bytes:
            self.is_deep = True
            self.open_bytes = self._low_bytes()
            self.ration_bytes = 0
            self.gate.close(self.consumers_id(), "depth")

    def _drained(self, held: i64) -> None:
        """A deep queue looks whether it has room for more."""
        if held * EMPTY_PARTS <= self.depth_bytes:
            self.end_depth()
            return
        # A ration that was used shows in what is held; one that was not has to drain first.
        due: i64 = held - self.ration_bytes
        if due > self.open_bytes:
            low: i64 = self._low_bytes()
            self.open_bytes = due if due < low else low
        if held > self.open_bytes:
            return
        room: i64 = self.depth_bytes - held
        if self.fair_bytes == 0:
            self.end_depth()
        elif self.gate.ration(self.consumers_id(), "depth", room, self.fair_bytes):
            self.is_deep = False
        else:
            self.ration_bytes = room
            self.open_bytes = held - room

    def end_depth(self) -> None:
        """Everybody goes on."""
        self.is_deep = False
        self.gate.open(self.consumers_id(), "depth")

    def _low_bytes(self) -> i64:
        """Where a deep queue takes publishes again: a quarter, or DEPTH_BAND_BYTES, below its mark.

        The band keeps the gate from flapping with every message; a wider one would make publishers
        of a large queue stop for as long as consumers need to drain it."""
        band: i64 = self.depth_bytes // 4
        return self.depth_bytes - (band if band < DEPTH_BAND_BYTES else DEPTH_BAND_BYTES)

    def consumers_id(self) -> str:
        """Who holds a queue that has too much in it: all its consumers together."""
        return "consumers:" + self.identity[6:]
