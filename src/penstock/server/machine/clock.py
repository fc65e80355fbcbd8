"""The machine's clocks: read once or twice in every turn of every actor, and compiled for that."""

import time
from typing import Final

from penstock.base.clock import Clock

# Under names of their own, because compiled code looks a module's attribute up at every call.
_MONOTONIC_NS: Final = time.monotonic_ns
_WALL_NS: Final = time.time_ns


class SystemClock(Clock):
    """The clocks of the operating system."""

    __slots__ = ()

    def monotonic_ns(self) -> int:
        return _MONOTONIC_NS()

    def wall_ns(self) -> int:
        return _WALL_NS()
