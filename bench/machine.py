"""What a measurement was taken on: processor, memory, kernel, versions, time, disk, load."""

import os
import platform
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path


def first_line(path: str, key: str) -> str:
    """What stands after the colon in the first line of `path` that starts with `key`."""
    try:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except OSError:
        return "unknown"
    return "unknown"


def compiler_version() -> str:
    """The first line of gcc --version."""
    try:
        asked = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return asked.stdout.splitlines()[0] if asked.stdout else "unknown"


def describe() -> dict[str, object]:
    """The machine at this moment."""
    return {
        "processor": first_line("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": first_line("/proc/meminfo", "MemTotal"),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": compiler_version(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg(),
    }


def available_mb() -> float:
    """Memory that could be used without swapping, MiB; 4096 when the kernel does not say."""
    words = first_line("/proc/meminfo", "MemAvailable").split()
    return int(words[0]) / 1024 if words and words[0].isdigit() else 4096.0


def sync_us(count: int = 50) -> float:
    """Median microseconds of appending 1 KB and fdatasync where temporary files lie.

    Persistent rows mean little without it: this figure varies tenfold between disks and hours.
    """
    taken: list[float] = []
    with tempfile.TemporaryFile() as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"x" * 1024)
            file.flush()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def file_system(place: str) -> str:
    """The file system that `place` lies on, with its device: "/tmp on ext4 (/dev/sda1)"."""
    found = ("", "an unknown file system", "")
    path = os.path.realpath(place)
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        device, mount, kind = line.split()[:3]
        is_above = path == mount or path.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(found[0]):
            found = (mount, kind, device)
    return f"{place} on {found[1]} ({found[2]})" if found[2] else f"{place} on {found[1]}"
