"""A fixed part of a processor for each of some processes, by control groups of the kernel.

Where a machine has few processors, a program that may use all of them says nothing of what two of
it can do. Limited to half a processor each, two have twice of what one has, and the rest is left to
whoever works beside them. Both versions of the kernel's groups will do; making some needs to be
root, and not to be in a container that has them read-only.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

OLD: Final = Path("/sys/fs/cgroup/cpu")
"""The groups of the processor alone, where groups are of version 1."""

NEW: Final = Path("/sys/fs/cgroup")
PERIOD_US: Final = 20_000
"""After which each has its part again. Shorter ones cost more, longer ones come in longer jerks."""

LEAST: Final = 0.05
"""Of a processor: the kernel gives no less than 1 ms."""


FIRST: Final = {"cpu.shares": "262144", "cpu.weight": "10000"}
"""What a group has of a processor that others want too: nearly all, up to its part."""


class NoShares(Exception):
    """Groups cannot be made here."""


@contextmanager
def limited(processes: Sequence[psutil.Process], share: float) -> Iterator[list[Path]]:
    """Each of `processes`, with those that it has started and will start, has `share` of a
    processor meanwhile, before all other programs of the machine: a group for each. share: LEAST or
    more, 0 for as much as there is. Raises: NoShares."""
    made: list[Path] = []
    try:
        for one in processes:
            made.append(_group(f"penstock-bench-{one.pid}", share))
            for process in (one, *one.children(recursive=True)):
                _move(process.pid, made[-1])
        yield made
    finally:
        for group in made:
            for pid in (group / "cgroup.procs").read_text().split():
                _move(int(pid), group.parent)
            group.rmdir()


def throttled_s(group: Path) -> float:
    """For how long threads of a group have waited because its part was used up, added up."""
    words = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    if "throttled_usec" in words:
        return int(words["throttled_usec"]) / 1e6
    return int(words["throttled_time"]) / 1e9


def _group(name: str, share: float) -> Path:
    """share: of a processor, 0 for as much as there is."""
    is_old = (OLD / "cgroup.procs").exists()
    group = (OLD if is_old else NEW) / name
    quota_us = round(PERIOD_US * share)
    try:
        if not is_old:
            (NEW / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        weight = "cpu.shares" if is_old else "cpu.weight"
        (group / weight).write_text(FIRST[weight])
        if quota_us and is_old:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        elif quota_us:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    except OSError as fault:
        raise NoShares(
            f"no part of a processor can be given to a process here ({fault}); it needs root and "
            "control groups that can be written"
        ) from fault
    return group


def _move(pid: int, group: Path) -> None:
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid))
