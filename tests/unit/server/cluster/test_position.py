"""A position survives every torn write, and is that of the last whole one."""

from pathlib import Path
from zlib import crc32

import pytest

from penstock.base.errors import OperatorError
from penstock.server.cluster.position import SECTOR_BYTES, SLOT_BYTES, PositionFile, Stored


def test_it_comes_back(tmp_path: Path) -> None:
    file = PositionFile(tmp_path)
    assert file.read() is None
    for seq in range(1, 6):
        file.write(3, seq, seq % 2 == 0)
        assert PositionFile(tmp_path).read() == Stored(3, seq, seq % 2 == 0)
    file.close()
    again = PositionFile(tmp_path)
    assert again.read() == Stored(3, 5, False)
    again.write(4, 2, True, must_sync=False)
    again.close()
    assert PositionFile(tmp_path).read() == Stored(4, 2, True)


def test_a_torn_write_leaves_the_one_before(tmp_path: Path) -> None:
    file = PositionFile(tmp_path)
    for seq in range(1, 4):
        file.write(1, seq, True)
        before = file.path.read_bytes()
        file.write(1, seq + 1, True)
        after = file.path.read_bytes()
        for cut in range(SECTOR_BYTES * 2):
            torn = after[:cut] + before[cut:]
            if torn in (before, after) and cut % 512:
                continue
            file.path.write_bytes(torn)
            assert PositionFile(tmp_path).read() in (Stored(1, seq, True), Stored(1, seq + 1, True))
        file.path.write_bytes(after)
    file.close()


def test_one_of_which_nothing_is_left_is_not_whole(tmp_path: Path) -> None:
    file = PositionFile(tmp_path)
    file.write(1, 7, True)
    file.close()
    file.path.write_bytes(bytes(SECTOR_BYTES * 2))
    assert PositionFile(tmp_path).read() == Stored(0, 0, False)
    file.path.write_bytes(b"")
    assert PositionFile(tmp_path).read() == Stored(0, 0, False)


def test_one_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    file = PositionFile(tmp_path)
    file.write(1, 7, True)
    file.close()
    data = bytearray(file.path.read_bytes())
    for at in (0, SECTOR_BYTES):
        data[at + 4] = 9
        body = data[at : at + SLOT_BYTES - 4]
        data[at + SLOT_BYTES - 4 : at + SLOT_BYTES] = crc32(body).to_bytes(4, "big")
    file.path.write_bytes(bytes(data))
    with pytest.raises(OperatorError, match="version 9"):
        PositionFile(tmp_path).read()
