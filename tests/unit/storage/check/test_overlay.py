"""An overlay is the same as the directory it lies over, until it is changed."""

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.check.overlay import OverlayDirectory
from penstock.storage.layout.files import Directory
from penstock.storage.recovery.recovery import recover
from tests.crash.histories import HISTORIES


def contents(directory: Directory) -> dict[str, bytes]:
    found = {}
    for name in directory.names():
        file = directory.open(name)
        found[name] = file.read(0, file.size())
    return found


@pytest.mark.parametrize("name", HISTORIES)
def test_recovery_leaves_the_same_behind(name: str) -> None:
    """Everything recovery does, done to a disk and to an overlay of it."""
    rig = HISTORIES[name]()
    image = rig.disk.contents()
    newest = max(one for one in image if one.endswith(".log"))
    image[newest] += b"torn"
    real, base = SimDisk(image), SimDisk(image)
    overlay = OverlayDirectory(base)
    queues = rig.expected().queues
    one = recover(real, Dice(1), 700, queues)
    other = recover(overlay, Dice(1), 700, queues)
    assert contents(overlay) == real.contents()
    assert other.report.cut_bytes == one.report.cut_bytes
    assert base.contents() == image and not base.ops


def test_a_file_that_is_cut_and_written_behind_the_cut() -> None:
    base = SimDisk({"a": b"0123456789"})
    overlay = OverlayDirectory(base)
    file = overlay.open("a")
    file.truncate(4)
    assert file.write(4, b"xyz") == 3
    file.write(9, b"!")
    assert (file.size(), file.read(0, 99), file.read(2, 4)) == (10, b"0123xyz\0\0!", b"23xy")
    assert overlay.open("a").read(4, 1) == b"x"
    file.truncate(5)
    assert file.read(0, 99) == b"0123x"
    assert base.contents() == {"a": b"0123456789"}


def test_names() -> None:
    overlay = OverlayDirectory(SimDisk({"a": b"1", "b": b"2"}))
    overlay.rename("a", "c")
    overlay.remove("b")
    overlay.create("d").write(0, b"4")
    assert contents(overlay) == {"c": b"1", "d": b"4"}
    with pytest.raises(FileNotFoundError):
        overlay.open("a")
    with pytest.raises(FileNotFoundError):
        overlay.remove("b")
    with pytest.raises(FileNotFoundError):
        overlay.rename("a", "b")
    with pytest.raises(FileExistsError):
        overlay.create("c")
