"""Writing and reading all of something, however little a file takes or gives at a time."""

from errno import ENOSPC

import pytest

from penstock.simulation.disk import SimDisk
from penstock.storage.files import File, read_fully, write_fully


class Stubborn(File):
    """Takes and gives `step` bytes at a time."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.file = SimDisk().create("a")

    def write(self, at: int, data: bytes) -> int:
        return self.file.write(at, data[: self.step])

    def read(self, at: int, count: int) -> bytes:
        return self.file.read(at, min(count, self.step))


def test_all_of_it_arrives() -> None:
    file = Stubborn(3)
    write_fully(file, 2, b"0123456789")
    assert read_fully(file, 2, 10) == b"0123456789"
    assert read_fully(file, 8, 100) == b"6789"
    assert read_fully(file, 50, 10) == b""


def test_a_file_that_takes_nothing_is_full() -> None:
    with pytest.raises(OSError) as caught:
        write_fully(Stubborn(0), 0, b"0123456789")
    assert caught.value.errno == ENOSPC
