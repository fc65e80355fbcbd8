"""What a member's directory says of itself."""

from pathlib import Path

from penstock.replication.state import MemberState
from penstock.server.cluster.member_files import has_data, read_state, write_state
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
