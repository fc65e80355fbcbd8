"""Files of the machine: what is written in parts is there as if it was written at once."""

import os
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
