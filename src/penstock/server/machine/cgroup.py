"""The memory of this process's control group, version 1 or 2: what it uses and may use.

    v2   /proc/self/cgroup "0::/a/b"          /sys/fs/cgroup/a/b/memory.{max,current,stat}
    v1   /proc/self/cgroup "4:memory:/a/b"    /sys/fs/cgroup/memory/a/b/memory.limit_in_bytes ...
A limit of any group above counts too. In a container the path may be the host's and not be there:
then the root of the mount is the group. Page cache that the kernel can drop is not use.
"""

from dataclasses import dataclass
from pathlib import Path

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
