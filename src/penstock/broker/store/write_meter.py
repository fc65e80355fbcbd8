"""What the stores write since somebody looked at the disk: an early look when it is much.

    allowed = half of the room above the alarm's mark, at least ALLOWED_BYTES_MIN
A timer alone assumes how fast a disk can be filled; a faster one would be full before the next look
(reliability F18). So the alarm is set at the latest when the room was used up by two batches of
every store.
"""

from collections.abc import Callable
from typing import Final

from penstock.base.clock import Clock
from penstock.flow.due import DueLine, Timer

ALLOWED_BYTES_MIN: Final = 1_048_576
UNLIMITED: Final = 1 << 62


class WriteMeter:
    """left_bytes: may be written before the next look; look: looks, and says by `allow` how much
    may be written then."""

    __slots__ = ("_clock", "_dues", "_timer", "left_bytes", "look")

    def __init__(self, dues: DueLine, clock: Clock) -> None:
        self._dues = dues
        self._clock = clock
        self.left_bytes = UNLIMITED
        self.look: Callable[[], object] | None = None
        self._timer = Timer(self._look_now)

    def allow(self, room_bytes: int) -> None:
        """There is so much room above the mark, below 0 while the alarm is set: then nothing is
        published, and no early look is needed."""
        if room_bytes < 0:
            self.left_bytes = UNLIMITED
        else:
            self.left_bytes = max(ALLOWED_BYTES_MIN, room_bytes // 2)

    def will_write(self, size_bytes: int) -> None:
        """A store is about to write so much."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0 and self.look is not None and self._timer.due_ns < 0:
            # Not at once: this is the turn of an actor, and an alarm touches many of them.
            self._dues.put(self._timer, self._clock.monotonic_ns())

    def _look_now(self, now_ns: int) -> None:
        if self.look is not None:
            self.look()
