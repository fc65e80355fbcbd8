"""The rate limit of one queue: its lanes are closed for "rate" while it is used up.

To publishers it is a closed hop like any other, so in a parking profile publishes for other queues
go on past the one that waits; in the others the channel keeps its grants back.
"""

from typing import Final

from penstock.broker.actors.lane import Lane, Toll
from penstock.flow.rate import QUANTUM_NS, Meter, RateWaiter

LANE_NS: Final = 50_000
"""Opening and closing one lane may cost this share of the time between two openings."""


class MeterWaiter(RateWaiter):
    """The queue's lanes, as their meter sees them."""

    __slots__ = ("rate",)

    def __init__(self, rate: "QueueRate") -> None:
        self.rate = rate

    def rate_due(self, now_ns: int) -> None:
        self.rate.let_on()


class QueueRate(Toll):
    """meter: the limit; lanes: the queue's own list; is_shut: whether they are all held."""

    __slots__ = ("_first", "_waiter", "is_shut", "lanes", "meter")

    def __init__(self, meter: Meter, lanes: list[Lane]) -> None:
        self.meter = meter
        self.lanes = lanes
        self.is_shut = False
        self._first = 0
        self._waiter = MeterWaiter(self)
        for lane in lanes:
            lane.toll = self

    def joined(self, lane: Lane) -> None:
        lane.toll = self
        if self.is_shut:
            lane.hold(self.meter.name)

    def spend(self, size: int) -> None:
        meter = self.meter
        now_ns = meter.clock.monotonic_ns()
        meter.spend(size, now_ns)
        if self.is_shut or meter.has_room(now_ns):
            return
        self.is_shut = True
        meter.quantum_ns = max(QUANTUM_NS, LANE_NS * len(self.lanes))
        for lane in self.lanes:
            lane.hold(meter.name)
        meter.wait(self._waiter, now_ns)

    def let_on(self) -> None:
        """There are tokens: every lane opens, another one first each time, because the first to
        have its turn may use them all up."""
        self.is_shut = False
        count = len(self.lanes)
        if count == 0:
            return
        self._first = (self._first + 1) % count
        for index in range(count):
            self.lanes[(self._first + index) % count].let_on(self.meter.name)

    def end(self) -> None:
        """The limit or the queue is gone."""
        self.meter.leave(self._waiter)
        self.is_shut = False
        for lane in self.lanes:
            lane.toll = None
            lane.let_on(self.meter.name)
