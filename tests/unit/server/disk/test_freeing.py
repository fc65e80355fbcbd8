"""Room of removed files: names go at once, handles are closed elsewhere, all in the end."""

import os
from pathlib import Path

import pytest

from penstock.base.limits import STORE_FREEING_FILES
from penstock.server.disk.disk_files import FREED_LATER_BYTES, DiskDirectory, FileReclaimer


class Stuck(FileReclaimer):
    """Frees nothing before it is closed, as if the disk was busy with one file."""

    def __init__(self) -> None:
        self.gate_read, self.gate_write = os.pipe()
        super().__init__()

    def _work(self) -> None:
        os.read(self.gate_read, 1)
        super()._work()

    def close(self) -> None:
        os.write(self.gate_write, b"!")
        super().close()
        os.close(self.gate_read)
        os.close(self.gate_write)


def handles_of(folder: Path) -> int:
    """How many handles this process has of files in `folder`, removed ones too."""
    count = 0
    for fd in Path("/proc/self/fd").iterdir():
        try:
            count += str(fd.readlink()).startswith(f"{folder}/")
        except OSError:
            continue
    return count


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles cannot be looked at")
def test_a_large_file_loses_its_name_at_once_and_its_room_elsewhere(tmp_path: Path) -> None:
    freeing = Stuck()
    directory = DiskDirectory(str(tmp_path), freeing)
    for name in ("large", "small"):
        directory.create(name).close()
    os.truncate(tmp_path / "large", FREED_LATER_BYTES)
    os.truncate(tmp_path / "small", FREED_LATER_BYTES - 1)
    directory.remove("small")
    assert handles_of(tmp_path) == 0
    directory.remove("large")
    assert directory.names() == []
    assert handles_of(tmp_path) == 1
    freeing.close()
    assert handles_of(tmp_path) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles cannot be looked at")
def test_at_the_bound_room_is_given_back_where_the_file_is_removed(tmp_path: Path) -> None:
    freeing = Stuck()
    directory = DiskDirectory(str(tmp_path), freeing)
    for number in range(STORE_FREEING_FILES.default + 5):
        directory.create(str(number)).close()
        os.truncate(tmp_path / str(number), FREED_LATER_BYTES)
        directory.remove(str(number))
    assert handles_of(tmp_path) == STORE_FREEING_FILES.default
    freeing.close()
    assert handles_of(tmp_path) == 0


@pytest.mark.parametrize("has_freeing", [True, False])
def test_what_is_not_there_cannot_be_removed(tmp_path: Path, has_freeing: bool) -> None:
    freeing = FileReclaimer()
    directory = DiskDirectory(str(tmp_path), freeing if has_freeing else None)
    with pytest.raises(FileNotFoundError):
        directory.remove("nothing")
    freeing.close()
