"""Writing and reading all of something, however little a file takes or gives at a time."""

from errno import EIO, ENOENT, ENOSPC

import pytest

from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.files import File, read_fully, write_all, write_fully


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


@pytest.mark.parametrize("step", [1, 3, 4, 9, 100])
def test_all_parts_arrive_one_behind_the_other(step: int) -> None:
    file = Stubborn(step)
    write_all(file, 2, [b"0123", b"", b"456789"])
    assert file.file.read(0, 100) == b"\0\0" + b"0123456789"


class Flaky(Stubborn):
    """Reads fail with `number` the first `failures` times."""

    def __init__(self, number: int, failures: int) -> None:
        super().__init__(100)
        self.number = number
        self.failures = failures

    def read(self, at: int, count: int) -> bytes:
        if self.failures > 0:
            self.failures -= 1
            raise OSError(self.number, "it cannot be read")
        return super().read(at, count)


def test_a_read_that_fails_once_is_no_damage() -> None:
    file = Flaky(EIO, 1)
    write_fully(file, 0, b"0123456789")
    assert read_fully(file, 0, 10) == b"0123456789"
    for number, failures in ((EIO, 2), (ENOENT, 1)):
        with pytest.raises(OSError) as caught:
            read_fully(Flaky(number, failures), 0, 10)
        assert caught.value.errno == number


def test_a_file_that_takes_nothing_is_full() -> None:
    with pytest.raises(OSError) as caught:
        write_fully(Stubborn(0), 0, b"0123456789")
    assert caught.value.errno == ENOSPC
    with pytest.raises(OSError) as caught:
        write_all(Stubborn(0), 0, [b"01234", b"56789"])
    assert caught.value.errno == ENOSPC
