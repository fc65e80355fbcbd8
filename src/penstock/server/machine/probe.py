"""The machine as the alarm watch asks for it: process and group memory, the disk, the reserve.

The memory of this process's control group, version 1 or 2: what it uses and may use.

    v2   /proc/self/cgroup "0::/a/b"          /sys/fs/cgroup/a/b/memory.{max,current,stat}
    v1   /proc/self/cgroup "4:memory:/a/b"    /sys/fs/cgroup/memory/a/b/memory.limit_in_bytes ...
A limit of any group above counts too. In a container the path may be the host's and not be there:
then the root of the mount is the group. Page cache that the kernel can drop is not use.

Memory is given back to the system: free memory that the process keeps is counted as used, so a
memory alarm would go on after everything has been consumed (flow-semantics 11.2). Collecting and
returning pages both block the loop, while consumers are to go on as fast as before: collecting may
take one part in a hundred of the time, returning pages, which is what ends alarms, one in fifty.
"""

import ctypes
import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import ENODATA
from pathlib import Path

from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.admin.alarm_watch import MachineProbe
from penstock.server.machine.machine import memory_total_bytes, resident_bytes
from penstock.server.machine.reserve_file import ReserveFile

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

    def run(self, looks: bool = True) -> bool:
        """Reclaim what the shares of the time allow; whether anything was done. looks: also for
        objects that only refer to one another, which takes time that grows with all there are."""
        begin_ns = time.monotonic_ns()
        now_ns = begin_ns
        has_worked = False
        if looks and now_ns >= self.collect_after_ns:
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


UNLIMITED_BYTES = 1 << 60
"""v1 writes `no limit` as a huge number."""


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """Of one version: names of files in a group's folder, and of the droppable part in stat."""

    limit: str
    used: str
    cache: str


V2 = GroupFiles("memory.max", "memory.current", "inactive_file")
V1 = GroupFiles("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


class MemoryGroup:
    """Found once; read as often as wanted. limit_bytes: the tightest on the way to the root, 0 for
    none. cgroup, mounts: /proc/self/cgroup and /sys/fs/cgroup, or a test's own."""

    def __init__(
        self,
        cgroup: Path = Path("/proc/self/cgroup"),
        mounts: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self.folder: Path | None = None
        self.files = V2
        self.limit_bytes = 0
        for root, path, files in _places(cgroup, mounts):
            for folder in _upwards(root, path):
                limit = _number(folder / files.limit)
                if 0 < limit < UNLIMITED_BYTES and (
                    self.limit_bytes == 0 or limit < self.limit_bytes
                ):
                    self.folder, self.files, self.limit_bytes = folder, files, limit

    def used_bytes(self) -> int:
        """What the group whose limit counts uses and cannot drop; 0 if there is none."""
        if self.folder is None:
            return 0
        used = _number(self.folder / self.files.used)
        return max(0, used - self._cache_bytes())

    def _cache_bytes(self) -> int:
        assert self.folder is not None, "only asked where there is a group"
        try:
            text = (self.folder / "memory.stat").read_text(encoding="ascii")
        except OSError:
            return 0
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == self.files.cache and value.isdigit():
                return int(value)
        return 0


def _places(cgroup: Path, mounts: Path) -> list[tuple[Path, str, GroupFiles]]:
    """(root of the mount, path below it, files) of the memory controller of both versions."""
    try:
        lines = cgroup.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    places = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and controllers == "":
            places.append((mounts, path, V2))
        elif "memory" in controllers.split(","):
            places.append((mounts / "memory", path, V1))
    return places


def _upwards(root: Path, path: str) -> list[Path]:
    """The folder of the group and of every group above it that exist."""
    folders = [root]
    for part in path.strip("/").split("/"):
        if part not in ("", ".", ".."):
            folders.append(folders[-1] / part)
    return [folder for folder in reversed(folders) if folder.is_dir()]


def _number(path: Path) -> int:
    """The number in `path`; 0 if it is not there or says `max`."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


class SystemProbe(MachineProbe):
    """run_soon: have ready actors take their turns; others: processes of the same node, whose
    memory counts as well; lowest_bytes: the least that this process has used, and each of them."""

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
        self.others: tuple[int, ...] = ()
        self.lowest_bytes = 0
        self.lowest_of: dict[int, int] = {}
        self.grown: list[int] = []

    def memory_total_bytes(self) -> int:
        return memory_total_bytes(self.group.limit_bytes)

    def memory_used_bytes(self) -> int:
        with suppress(OSError):
            # Without a free handle the last value stands.
            self.resident_bytes = resident_bytes()
        own = self.resident_bytes
        self.lowest_bytes = min(own, self.lowest_bytes or own)
        used: dict[int, int] = {}
        for pid in self.others:
            # One may have ended meanwhile.
            with suppress(OSError):
                used[pid] = resident_bytes(str(pid))
        # One that was full when this process started began as this one did.
        self.lowest_of = {
            pid: min(one, self.lowest_of.get(pid, one), self.lowest_bytes)
            for pid, one in used.items()
        }
        self.grown = [one - self.lowest_of[pid] for pid, one in used.items()]
        return own + sum(used.values())

    def others_bytes(self) -> list[int]:
        return self.grown

    def group_bytes(self) -> tuple[int, int]:
        return self.group.used_bytes(), self.group.limit_bytes

    def reclaim(self, looks: bool = True) -> None:
        self.reclaimer.run(looks)

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
