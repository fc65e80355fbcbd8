"""Files of the machine: what is written in parts is there as if it was written at once."""

import os
import time
from pathlib import Path

import pytest

from penstock.server.disk.disk_files import PARTS_MAX, DiskDirectory
from penstock.storage.layout.files import write_all


@pytest.mark.parametrize("count", [0, 1, 2, PARTS_MAX, PARTS_MAX + 1])
def test_parts_are_written_one_behind_the_other(tmp_path: Path, count: int) -> None:
    file = DiskDirectory(str(tmp_path)).create("a")
    parts = [bytes([number & 255]) * (number % 5) for number in range(count)]
    write_all(file, 3, parts)
    file.close()
    whole = b"".join(parts)
    assert (tmp_path / "a").read_bytes() == (b"\0\0\0" + whole if whole else b"")


def test_the_system_takes_as_many_parts_as_are_given_to_it() -> None:
    assert os.sysconf("SC_IOV_MAX") >= PARTS_MAX


def test_the_syncs_of_files_are_counted_and_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = DiskDirectory(str(tmp_path))
    totals = directory.sync_totals()
    assert totals is not None
    seen: list[int] = []

    def slow(fd: int) -> None:
        seen.append(totals.began_ns)
        time.sleep(0.01)

    monkeypatch.setattr(os, "fdatasync", slow)
    for name in ("a", "b"):
        file = directory.create(name)
        file.sync()
        file.close()
    again = directory.open("a")
    again.sync()
    again.close()
    assert totals.count == 3
    assert totals.ns >= 3 * 10_000_000
    assert all(began_ns > 0 for began_ns in seen)
    assert totals.began_ns == -1
