"""The machine as the broker sees it: its clocks, its chance, and its memory."""

import os
import secrets
import time
from pathlib import Path

import psutil

from penstock.base.chance import Chance
from penstock.base.clock import Clock

WATERMARK_SHARE = 0.4
"""Of the machine's or the cgroup's memory, when no absolute watermark is configured."""


class SystemClock(Clock):
    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()


class SystemChance(Chance):
    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)


def memory_total_bytes() -> int:
    """What this process may use: its cgroup's limit, or all of the machine's memory."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and 0 < int(text) < total:
            return int(text)
    return total


def memory_high_bytes(configured: int) -> int:
    """The memory watermark: `configured`, or the default share of what there is."""
    return configured or int(memory_total_bytes() * WATERMARK_SHARE)


def resident_bytes() -> int:
    """Resident memory of this process; cheap enough for once a second."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
