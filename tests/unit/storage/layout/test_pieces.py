"""Pieces: the same bytes in the same order, small ones together, large ones without a copy."""

import pytest

from penstock.base.wire import BytesWriter
from penstock.storage.layout.pieces import KEPT_BYTES, PIECE_BYTES, Pieces


@pytest.mark.parametrize("size", [1, 1000, KEPT_BYTES - 1, KEPT_BYTES, PIECE_BYTES])
def test_everything_is_there_in_its_order(size: int) -> None:
    pieces = Pieces(BytesWriter())
    wanted = [bytes([number]) * (size + number) for number in range(100)]
    for data in wanted:
        pieces.add(data)
    pieces.finish()
    assert b"".join(pieces.parts) == b"".join(wanted)
    assert len(pieces.fresh) == 0


def test_small_ones_share_a_piece() -> None:
    pieces = Pieces(BytesWriter())
    for _ in range(PIECE_BYTES // 64 * 3):
        pieces.add(bytes(64))
    pieces.finish()
    assert [len(part) for part in pieces.parts] == [PIECE_BYTES] * 3


def test_large_ones_are_not_copied() -> None:
    pieces = Pieces(BytesWriter())
    large = bytes(KEPT_BYTES)
    for data in (b"before", large, b"behind"):
        pieces.add(data)
    pieces.finish()
    pieces.finish()
    assert pieces.parts == [b"before", large, b"behind"]
    assert pieces.parts[1] is large
