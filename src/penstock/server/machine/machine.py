"""The machine as the broker sees it: its chance, and its memory. Its clocks: see clock."""

import os
import secrets
import time
from hashlib import sha256
from pathlib import Path

import psutil

from penstock.base.chance import Chance

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


def machine_start() -> bytes:
    """Eight bytes that are of this start of the machine, and the same in all containers on it;
    zeros where the system does not say. Linux only."""
    try:
        return sha256(Path("/proc/sys/kernel/random/boot_id").read_bytes()).digest()[:8]
    except OSError:
        return bytes(8)


class SystemChance(Chance):
    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)


def memory_total_bytes(group_limit_bytes: int) -> int:
    """What this process may use: its control group's limit, 0 for none, or all there is."""
    total = int(psutil.virtual_memory().total)
    return min(total, group_limit_bytes) if group_limit_bytes > 0 else total


def resident_bytes(pid: str = "self") -> int:
    """Resident memory of this process, or of another one; cheap enough for once a second.
    Raises: OSError."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
