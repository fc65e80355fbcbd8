"""The machine as the alarm watch asks for it: process and group memory, the disk, the reserve."""

import os
from collections.abc import Callable
from contextlib import suppress
from errno import ENODATA
from pathlib import Path

from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.admin.alarm_watch import Surroundings
from penstock.server.machine.cgroup import MemoryGroup
from penstock.server.machine.machine import memory_total_bytes, resident_bytes
from penstock.server.machine.reclaim import Reclaimer
from penstock.server.machine.reserve_file import ReserveFile


class MachineSurroundings(Surroundings):
    """run_soon: have ready actors take their turns."""

    def __init__(self, config: Config, log: Log, run_soon: Callable[[], None]) -> None:
        # In memory nothing is stored anywhere, and the current directory stands for it.
        folder = Path(config.disk_dir or config.data_dir or Path.cwd())
        self.disk_dir = str(folder)
        self.log = log
        self.run_soon = run_soon
        self.group = MemoryGroup()
        self.reclaimer = Reclaimer()
        self.reserve = ReserveFile(folder, config.disk_reserve_bytes)
        self.resident_bytes = 0

    def memory_total_bytes(self) -> int:
        return memory_total_bytes(self.group.limit_bytes)

    def memory_used_bytes(self) -> int:
        with suppress(OSError):
            # Without a free handle the last value stands.
            self.resident_bytes = resident_bytes()
        return self.resident_bytes

    def group_bytes(self) -> tuple[int, int]:
        return self.group.used_bytes(), self.group.limit_bytes

    def reclaim(self) -> None:
        self.reclaimer.run()

    def disk_free_bytes(self) -> int:
        found = os.statvfs(self.disk_dir)
        if found.f_blocks == 0:
            # File systems that know no sizes say 0 of everything, which is not a full disk.
            raise OSError(ENODATA, "it does not say how large it is", self.disk_dir)
        return found.f_bavail * found.f_frsize

    def reserve_missing_bytes(self) -> int:
        return self.reserve.missing_bytes()

    def keep_reserve(self) -> None:
        before = self.reserve.trouble
        self.reserve.make()
        if self.reserve.trouble not in ("", before):
            self.log.warning(
                f"cannot keep the disk reserve {self.reserve.path}: {self.reserve.trouble}; "
                "tried again at every look at the disk"
            )

    def give_up_reserve(self) -> None:
        before = self.reserve.trouble
        self.reserve.remove()
        if self.reserve.trouble not in ("", before):
            self.log.warning(
                f"cannot remove the disk reserve {self.reserve.path}: {self.reserve.trouble}"
            )

    def changed(self) -> None:
        self.run_soon()
