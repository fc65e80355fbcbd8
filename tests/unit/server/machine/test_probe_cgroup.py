"""The memory limit of both versions of control groups, read from a tree of real files."""

from pathlib import Path

from penstock.server.machine.probe import MemoryGroup

MIB = 1 << 20


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(folder: Path, line: str) -> MemoryGroup:
    write(folder / "cgroup", line)
    return MemoryGroup(folder / "cgroup", folder / "fs")


def test_v2_takes_the_tightest_limit_on_the_way_up(tmp_path: Path) -> None:
    fs = tmp_path / "fs"
    write(fs / "a" / "memory.max", f"{512 * MIB}\n")
    write(fs / "a" / "memory.current", f"{100 * MIB}\n")
    write(fs / "a" / "memory.stat", f"anon 5\ninactive_file {30 * MIB}\n")
    write(fs / "a" / "b" / "memory.max", "max\n")
    found = group(tmp_path, "0::/a/b\n")
    assert found.limit_bytes == 512 * MIB
    assert found.used_bytes() == 70 * MIB, "without the cache that the kernel can drop"


def test_v1_in_its_own_mount(tmp_path: Path) -> None:
    folder = tmp_path / "fs" / "memory" / "app"
    write(folder / "memory.limit_in_bytes", f"{64 * MIB}\n")
    write(folder / "memory.usage_in_bytes", f"{50 * MIB}\n")
    write(tmp_path / "fs" / "memory" / "memory.limit_in_bytes", "9223372036854771712\n")
    found = group(tmp_path, "4:memory:/app\n3:cpuset:/\n0::/\n")
    assert (found.limit_bytes, found.used_bytes()) == (64 * MIB, 50 * MIB)


def test_in_a_container_the_root_of_the_mount_is_the_group(tmp_path: Path) -> None:
    write(tmp_path / "fs" / "memory.max", f"{MIB}\n")
    write(tmp_path / "fs" / "memory.current", f"{MIB // 2}\n")
    found = group(tmp_path, "0::/docker/1234\n")
    assert (found.limit_bytes, found.used_bytes()) == (MIB, MIB // 2)


def test_no_limit_no_group(tmp_path: Path) -> None:
    write(tmp_path / "fs" / "a" / "memory.max", "max\n")
    found = group(tmp_path, "0::/a\n")
    assert (found.limit_bytes, found.used_bytes()) == (0, 0)
    assert MemoryGroup(tmp_path / "absent", tmp_path / "fs").limit_bytes == 0
