"""The machine as the broker sees it: its chance, and its memory. Its clocks: see clock."""

import os
import secrets

import psutil

from penstock.base.chance import Chance


class SystemChance(Chance):
    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)


def memory_total_bytes(group_limit_bytes: int) -> int:
    """What this process may use: its control group's limit, 0 for none, or all there is."""
    total = int(psutil.virtual_memory().total)
    return min(total, group_limit_bytes) if group_limit_bytes > 0 else total


def resident_bytes() -> int:
    """Resident memory of this process; cheap enough for once a second."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
