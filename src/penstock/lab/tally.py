"""What the peers of one run have seen, in numbers that can be added up over processes."""

from array import array
from dataclasses import dataclass, field
from typing import Final

LINES: Final = ("sent", "received", "innocent")
BIN_NS: Final = 20_000_000
"""Width of a bin of the rate lines."""


@dataclass(slots=True)
class Tally:
    """Times are nanoseconds of the run's clock. from_ns, to_ns: the measured stretch; lines: per
    name of LINES messages in bins of BIN_NS, the first of which begins at start_ns; confirm_ns:
    from publish to confirm, of all publishes whose wait has touched the measured stretch;
    delivery_ns: of what arrived in it; innocent_ns: the same of innocent traffic alone, whose
    confirms are not counted; arrived: by publisher, messages that reached a consumer."""

    start_ns: int = 0
    from_ns: int = 0
    to_ns: int = 1 << 62
    received: int = 0
    received_bytes: int = 0
    innocent: int = 0
    lines: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in LINES})
    confirm_ns: "array[int]" = field(default_factory=lambda: array("q"))
    delivery_ns: "array[int]" = field(default_factory=lambda: array("q"))
    innocent_ns: "array[int]" = field(default_factory=lambda: array("q"))
    arrived: dict[int, int] = field(default_factory=dict)

    def begin(self, start_ns: int, from_ns: int, to_ns: int) -> None:
        """The run begins: what is measured lies between `from_ns` and `to_ns`."""
        self.start_ns, self.from_ns, self.to_ns = start_ns, from_ns, to_ns

    def count(self, line: str, now_ns: int, messages: int) -> None:
        """`messages` more in a rate line."""
        at = (now_ns - self.start_ns) // BIN_NS
        if at < 0:
            return
        bins = self.lines[line]
        if at >= len(bins):
            bins.extend([0] * (at + 1 - len(bins)))
        bins[at] += messages

    def is_measured(self, now_ns: int) -> bool:
        return self.from_ns <= now_ns < self.to_ns

    def note_confirmed(self, meant_ns: int, now_ns: int) -> None:
        """A publish meant for `meant_ns` was confirmed, or will not be before the end."""
        # By its whole wait: of publishes held for longer than the stretch, few begin in it.
        if meant_ns < self.to_ns and now_ns >= self.from_ns:
            self.confirm_ns.append(max(0, now_ns - meant_ns))

    def note_received(
        self, meant_ns: int, now_ns: int, size_bytes: int, publisher: int, is_innocent: bool
    ) -> None:
        """A message reached the consumer it was for."""
        self.count("innocent" if is_innocent else "received", now_ns, 1)
        if not self.is_measured(now_ns):
            return
        self.received += 1
        self.received_bytes += size_bytes
        self.delivery_ns.append(max(0, now_ns - meant_ns))
        if is_innocent:
            self.innocent += 1
            self.innocent_ns.append(max(0, now_ns - meant_ns))
        else:
            self.arrived[publisher] = self.arrived.get(publisher, 0) + 1
