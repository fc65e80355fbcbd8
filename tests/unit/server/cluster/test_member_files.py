"""What a member's directory says of itself."""

from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.replication.state import MemberState
from penstock.server.cluster.member_files import has_data, leave, read_state, write_state
from penstock.server.cluster.position import PositionFile
from penstock.server.disk.data_directory import DataDirectory


def test_one_that_ended_before_it_had_joined_may_start_again(tmp_path: Path) -> None:
    assert not has_data(tmp_path, read_state(tmp_path))
    DataDirectory(tmp_path, "a").close()
    write_state(tmp_path, MemberState(identity="a1"))
    assert not has_data(tmp_path, read_state(tmp_path))


def test_a_brokers_directory_has_data_whether_a_member_looked_at_it_or_not(tmp_path: Path) -> None:
    DataDirectory(tmp_path, "a").close()
    (tmp_path / "vhosts").mkdir()
    assert has_data(tmp_path, read_state(tmp_path))
    write_state(tmp_path, MemberState(identity="a1"))
    assert has_data(tmp_path, read_state(tmp_path))


def member_of(directory: Path, *, is_whole: bool = True) -> Path:
    """A directory of a member that was stopped."""
    directory.mkdir(parents=True, exist_ok=True)
    DataDirectory(directory, "a").close()
    write_state(directory, MemberState("c1", "a1", is_whole=is_whole))
    position = PositionFile(directory)
    position.write(1, 7, is_whole)
    position.close()
    return directory


def test_all_workers_of_a_node_leave_its_cluster_or_none(tmp_path: Path) -> None:
    half = member_of(tmp_path / "workers" / "1", is_whole=False)
    member_of(tmp_path)
    with pytest.raises(OperatorError, match="workers/1 is half a copy"):
        leave(tmp_path)
    assert read_state(tmp_path) == MemberState("c1", "a1"), "it is a node's still, and can go on"
    member_of(half)
    lock = DataDirectory(half, "a")
    with pytest.raises(OperatorError, match="workers/1 is used by"):
        leave(tmp_path)
    lock.close()
    assert leave(tmp_path) == 2
    assert read_state(tmp_path) is None and read_state(half) is None
    with pytest.raises(OperatorError, match="belongs to no cluster"):
        leave(tmp_path)


def test_a_leave_that_was_ended_in_the_middle_goes_on(tmp_path: Path) -> None:
    other = member_of(tmp_path / "workers" / "1")
    member_of(other)
    leave(other)
    member_of(tmp_path)
    assert leave(tmp_path) == 2
    assert read_state(tmp_path) is None
