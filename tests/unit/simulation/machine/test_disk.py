"""The disk in memory: what a process sees, and its faults."""

from errno import EIO, ENOSPC

import pytest

from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.files import write_fully


def test_what_is_written_is_read() -> None:
    disk = SimDisk()
    file = disk.create("a")
    assert file.write(0, b"hello") == 5
    assert file.write(8, b"!") == 1
    assert file.read(0, 100) == b"hello\0\0\0!"
    file.truncate(3)
    assert (file.size(), disk.contents()) == (3, {"a": b"hel"})


def test_names() -> None:
    disk = SimDisk({"old": b"1"})
    with pytest.raises(FileExistsError):
        disk.create("old")
    with pytest.raises(FileNotFoundError):
        disk.open("new")
    disk.rename("old", "new")
    assert disk.names() == ["new"]
    disk.remove("new")
    assert disk.names() == []
    with pytest.raises(FileNotFoundError):
        disk.remove("new")


def test_short_writes() -> None:
    disk = SimDisk()
    disk.write_max = 3
    file = disk.create("a")
    assert file.write(0, b"abcdef") == 3
    write_fully(file, 0, b"abcdef")
    assert file.read(0, 10) == b"abcdef"


def test_a_full_disk() -> None:
    disk = SimDisk()
    file = disk.create("a")
    disk.room = 4
    assert file.write(0, b"abcdef") == 4
    with pytest.raises(OSError) as caught:
        file.write(4, b"ef")
    assert caught.value.errno == ENOSPC
    disk.remove("a")
    assert disk.room == 4


def test_a_sync_that_fails_goes_on_failing() -> None:
    disk = SimDisk()
    file = disk.create("a")
    disk.failing_sync = 2
    file.sync()
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.sync()
        assert caught.value.errno == EIO


def test_a_closed_file_does_nothing() -> None:
    file = SimDisk().create("a")
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.write(0, b"a")
