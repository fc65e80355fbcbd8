"""How one number of an actor went up, as the rounds of a history have seen it. Pure.

Between two rounds it is taken to have grown evenly.
"""

from dataclasses import dataclass

from penstock.telemetry.snapshots import NS_PER_S


@dataclass(frozen=True, slots=True)
class Reached:
    """When a number was reached: monotonic nanoseconds. is_latest: it may have been before that,
    of which nothing is known."""

    at_ns: int
    is_latest: bool


@dataclass(frozen=True, slots=True)
class Course:
    """points: (monotonic nanoseconds, value), times and values not going back; from_zero: it was 0
    at the first of them, because its actor began there."""

    points: list[tuple[int, float]]
    from_zero: bool = False

    def passed(self, value: float) -> Reached | None:
        """When it became greater than `value`; None for never, as far as is known."""
        before: tuple[int, float] | None = None
        for at_ns, now in self.points:
            if now > value:
                if before is None or value < 0:
                    return Reached(self.points[0][0], not self.from_zero or value < 0)
                share = (value - before[1]) / (now - before[1])
                return Reached(round(before[0] + share * (at_ns - before[0])), False)
            before = at_ns, now
        return None

    def per_second(self, since_ns: int) -> float:
        """How fast it grew since then, 0.0 while there are not two points."""
        points = [point for point in self.points if point[0] >= since_ns]
        if len(points) < 2:
            return 0.0
        (first_ns, first), (last_ns, last) = points[0], points[-1]
        return max(0.0, last - first) * NS_PER_S / max(1, last_ns - first_ns)
