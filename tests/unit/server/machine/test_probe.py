"""The real machine as the alarm watch sees it."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from penstock.base.config import Config
from penstock.server.machine.probe import SystemProbe
from penstock.server.machine.reserve_file import NAME
from tests.unit.broker.peer import LogBook

GROWTH_BYTES = 50_000_000
GROWS = f"print(flush=True); input(); held = b'x' * {GROWTH_BYTES}; print(flush=True); input()"


def surroundings(**settings: object) -> tuple[SystemProbe, LogBook, list[int]]:
    book = LogBook()
    runs: list[int] = []
    config = Config(**settings)  # type: ignore[arg-type]  # tests name fields of Config
    return SystemProbe(config, book, lambda: runs.append(1)), book, runs


def test_memory_is_what_this_process_may_and_does_use() -> None:
    around, _, runs = surroundings()
    assert 0 < around.memory_used_bytes() < around.memory_total_bytes()
    used, limit = around.group_bytes()
    assert limit == 0 or around.memory_total_bytes() <= limit
    assert used >= 0
    around.reclaim()
    around.changed()
    assert runs == [1]


def test_others_have_come_to_use_what_is_beyond_the_least_of_any() -> None:
    around, _, _ = surroundings()
    own = around.memory_used_bytes()
    assert around.others_bytes() == []
    with subprocess.Popen([sys.executable, "-c", GROWS], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        around.others = (child.pid, 1 << 22)
        around.memory_used_bytes()
        (before,) = around.others_bytes()
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        assert around.memory_used_bytes() > own + GROWTH_BYTES
        (after,) = around.others_bytes()
        assert after - before > GROWTH_BYTES * 0.9


def test_the_disk_is_that_of_the_directory(tmp_path: Path) -> None:
    around, _, _ = surroundings(disk_dir=str(tmp_path))
    found = os.statvfs(tmp_path)
    assert abs(around.disk_free_bytes() - found.f_bavail * found.f_frsize) < 1 << 30
    assert surroundings()[0].disk_dir == os.getcwd()
    with pytest.raises(OSError, match="No such file"):
        surroundings(disk_dir=str(tmp_path / "absent"))[0].disk_free_bytes()


def test_f19_a_file_system_that_knows_no_sizes_is_not_a_full_disk() -> None:
    """Those of the kernel itself say 0 of everything."""
    around, _, _ = surroundings(disk_dir="/proc")
    with pytest.raises(OSError, match="does not say how large"):
        around.disk_free_bytes()


def test_f19_a_reserve_that_cannot_be_removed_is_said_and_no_more(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    around, book, _ = surroundings(disk_dir=str(loop), disk_reserve_bytes=4096)
    around.give_up_reserve()
    around.give_up_reserve()
    assert len(book.lines) == 1 and "cannot remove the disk reserve" in book.lines[0]


def test_a_reserve_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    around, book, _ = surroundings(disk_dir=str(tmp_path), disk_reserve_bytes=4096)
    around.keep_reserve()
    assert (tmp_path / NAME).exists() and around.reserve_missing_bytes() == 0
    around.give_up_reserve()
    assert not (tmp_path / NAME).exists() and around.reserve_missing_bytes() == 4096
    assert book.lines == []
    absent, book, _ = surroundings(disk_dir=str(tmp_path / "absent"), disk_reserve_bytes=4096)
    absent.keep_reserve()
    absent.keep_reserve()
    assert len(book.lines) == 1 and "cannot keep the disk reserve" in book.lines[0]
