"""Giving memory back to the system: collect garbage, and have the allocator return free pages.

Free memory that the process keeps is counted as used by the system, so a memory alarm would go on
after everything has been consumed (flow-semantics 11.2). Both block the loop, while consumers are
to go on as fast as before: collecting may take one part in a hundred of the time, returning pages,
which is what ends alarms, one in fifty.
"""

import ctypes
import gc
import time
from collections.abc import Callable

COLLECT_SHARE = 100
TRIM_SHARE = 50


class Reclaimer:
    """is_trimming: whether the C library can return pages (glibc can)."""

    def __init__(self) -> None:
        self.collect_after_ns = 0
        self.trim_after_ns = 0
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._trim: Callable[[int], int] | None = trim
        self.is_trimming = trim is not None

    def run(self) -> bool:
        """Reclaim what the shares of the time allow; whether anything was done."""
        begin_ns = time.monotonic_ns()
        now_ns = begin_ns
        has_worked = False
        if now_ns >= self.collect_after_ns:
            gc.collect()
            now_ns = time.monotonic_ns()
            self.collect_after_ns = now_ns + (now_ns - begin_ns) * COLLECT_SHARE
            has_worked = True
        if self._trim is not None and now_ns >= self.trim_after_ns:
            self._trim(0)
            end_ns = time.monotonic_ns()
            self.trim_after_ns = end_ns + (end_ns - now_ns) * TRIM_SHARE
            has_worked = True
        return has_worked
