"""How long this process has lived, so that "ready in" counts from its very start."""

import os
import time
from pathlib import Path

START_FIELD = 19
"""Of /proc/self/stat behind the name of the program, counted from 0: when the process started, in
clock ticks since the machine did (proc(5), field 22)."""


def process_age_s() -> float:
    """Seconds since the process was created; 0.0 where the system does not say.

    Both times are taken from the clock that counts from the start of the machine: the time of day
    may have been set since then, which made an age of it wrong by hours. Linux only, to 10 ms.
    """
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[START_FIELD])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
