"""Crash states: what was synced is in all of them, what was not in some."""

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk


def states(disk: SimDisk, random_count: int = 20) -> list[Image]:
    """Those at the end of what was done."""
    replay = Replay(disk)
    while replay.step():
        pass
    return list(replay.states(Dice(1), random_count))


def test_what_was_synced_is_always_there() -> None:
    disk = SimDisk()
    file = disk.create("a")
    file.write(0, b"x" * 200)
    file.sync()
    disk.sync()
    assert states(disk) == [{"a": b"x" * 200}]


def test_a_name_without_a_sync_of_the_directory_may_be_lost() -> None:
    disk = SimDisk()
    file = disk.create("a")
    file.write(0, b"x")
    file.sync()
    found = states(disk)
    assert {} in found
    assert {"a": b"x"} in found


def test_a_write_without_a_sync_may_be_there_in_pieces() -> None:
    disk = SimDisk({"a": b"start"})
    file = disk.open("a")
    file.write(5, b"y" * 100)
    found = [state["a"] for state in states(disk)]
    assert b"start" in found
    assert b"start" + b"y" * 100 in found
    assert b"start" + b"y" in found, "torn"
    assert any(data.startswith(b"start\0") for data in found), "zeros"
    assert b"start" + bytes(64) + b"y" * 36 in found, "without its first piece"
    assert all(data.startswith(b"start") for data in found)


def test_writes_may_come_in_any_order() -> None:
    disk = SimDisk({"a": b""})
    file = disk.open("a")
    file.write(0, b"1")
    file.write(1, b"2")
    assert {"a": b"\0" + b"2"} in states(disk)


def test_a_removed_file_may_still_be_there() -> None:
    disk = SimDisk({"a": b"1", "b": b"2"})
    disk.remove("a")
    disk.rename("b", "c")
    found = states(disk)
    for wanted in ({"a": b"1", "b": b"2"}, {"c": b"2"}, {"b": b"2"}, {"a": b"1", "c": b"2"}):
        assert wanted in found


def test_every_state_is_there_once() -> None:
    disk = SimDisk({"a": b""})
    disk.open("a").write(0, b"z" * 300)
    found = states(disk, 50)
    assert len(found) == len({state["a"] for state in found})
