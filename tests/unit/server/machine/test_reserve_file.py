"""The reserve takes real blocks, goes at once, and says why it cannot be made."""

from pathlib import Path

from penstock.server.machine.reserve_file import NAME, ReserveFile

SIZE = 1 << 20


def test_it_takes_blocks_and_gives_them_back(tmp_path: Path) -> None:
    reserve = ReserveFile(tmp_path, SIZE)
    assert reserve.missing_bytes() == SIZE
    reserve.make()
    assert (tmp_path / NAME).stat().st_blocks * 512 >= SIZE
    assert reserve.missing_bytes() == 0 and reserve.trouble == ""
    reserve.remove()
    reserve.remove()
    assert not (tmp_path / NAME).exists() and reserve.missing_bytes() == SIZE


def test_a_file_with_holes_is_filled(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(SIZE)
    reserve = ReserveFile(tmp_path, SIZE)
    assert reserve.missing_bytes() > 0
    reserve.make()
    assert reserve.missing_bytes() == 0


def test_none_is_made_where_none_is_wanted(tmp_path: Path) -> None:
    reserve = ReserveFile(tmp_path, 0)
    reserve.make()
    reserve.remove()
    assert list(tmp_path.iterdir()) == [] and reserve.missing_bytes() == 0


def test_trouble_is_kept_and_leaves_nothing_behind(tmp_path: Path) -> None:
    reserve = ReserveFile(tmp_path / "absent", SIZE)
    reserve.make()
    assert "No such file" in reserve.trouble
    too_much = ReserveFile(tmp_path, 1 << 60)
    too_much.make()
    assert too_much.trouble != "" and list(tmp_path.iterdir()) == []
