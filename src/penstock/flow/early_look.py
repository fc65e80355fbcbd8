"""An early look at a resource, when much of what is left of it may have been used since the last.

    allowed = the room to the next mark / divisor, at least `lowest_bytes`
A timer alone assumes how fast a resource is used up; what is faster would have passed the mark long
before the next look (reliability F18). So bytes are counted where they come in: for the disk those
that a store writes, for memory those that are read from clients. After a look there is none for
PAUSE times as long as it took, PAUSE_NS_MAX at most, whatever passes meanwhile. COMPILED.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.base.clock import Clock
from penstock.flow.due import DueLine, Timer

WRITE_BYTES_MIN: Final = 1_048_576
INTAKE_BYTES_MIN: Final = 262_144
UNLIMITED: Final = 1 << 62
PAUSE: Final = 10
PAUSE_NS_MAX: Final = 50_000_000
WRITE_DIVISOR: Final = 2
INTAKE_DIVISOR: Final = 4
"""Of small messages a byte read is several bytes of memory."""


class EarlyLook:
    """left_bytes: may pass before the next look; look: looks, and says by `allow` how much may pass
    then. divisor: the part of the room that may pass unseen, 1.. ; lowest_bytes: may always."""

    __slots__ = (
        "_clock",
        "_divisor",
        "_dues",
        "_lowest_bytes",
        "_rested_ns",
        "_timer",
        "left_bytes",
        "look",
    )

    def __init__(self, dues: DueLine, clock: Clock, divisor: int, lowest_bytes: int) -> None:
        self._dues = dues
        self._clock = clock
        self._divisor = divisor
        self._lowest_bytes = lowest_bytes
        self._rested_ns = 0
        self.left_bytes: i64 = UNLIMITED
        self.look: Callable[[], object] | None = None
        self._timer = Timer(self._look_now)

    def allow(self, room_bytes: int) -> None:
        """There is so much room to the next mark, below 0 while nothing that passes could matter:
        then no early look is needed."""
        if room_bytes < 0:
            self.left_bytes = UNLIMITED
        else:
            self.left_bytes = max(self._lowest_bytes, room_bytes // self._divisor)

    def passed(self, size_bytes: i64) -> None:
        """So much more has been read, or is about to be written."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0 and self.look is not None and self._timer.due_ns < 0:
            # Not at once: this is the turn of an actor, and an alarm touches many of them.
            self._dues.put(self._timer, max(self._clock.monotonic_ns(), self._rested_ns))

    def _look_now(self, now_ns: int) -> None:
        if self.look is None:
            return
        began_ns = self._clock.monotonic_ns()
        self.look()
        ended_ns = self._clock.monotonic_ns()
        self._rested_ns = ended_ns + min(PAUSE_NS_MAX, PAUSE * (ended_ns - began_ns))
