"""Deliveries that are gathered: the same rows, in fewer batches."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.connector.common import decode
from penstock.spark.connector.common.decode import Gathered, Shape
from tests.unit.spark.connector.wire import at_offset

SHAPE = Shape("s", chosen=("body", "offset"))


def body(offset: int) -> bytes:
    return b"row %d" % offset


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=12))
def test_every_row_comes_once_with_its_number(pieces: list[tuple[int, int]]) -> None:
    """pieces: rows that are missing before each, and rows in it."""
    gathered, at = Gathered(SHAPE), 0
    batches: list[Any] = []
    offsets: list[int] = []
    for gap, count in pieces:
        at += gap
        raw = b"".join(at_offset(offset, body(offset)) for offset in range(at, at + count))
        batches += gathered.add(raw, at, count)
        offsets += range(at, at + count)
        at += count
    batches += gathered.rest()
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"body": body(offset), "offset": offset} for offset in offsets]
    assert len(batches) <= 1 + sum(gap > 0 for gap, _ in pieces)
    assert list(gathered.rest()) == []


@pytest.mark.parametrize(("name", "bound"), [("ROWS_PER_ARROW_BATCH", 3), ("GATHERED_BYTES", 250)])
def test_what_is_held_back_is_bounded(
    monkeypatch: pytest.MonkeyPatch, name: str, bound: int
) -> None:
    monkeypatch.setattr(decode, name, bound)
    size = len(at_offset(0, body(0)))
    assert 2 * size < 250 <= 3 * size
    gathered = Gathered(SHAPE)
    counts = []
    for offset in range(7):
        counts.append(
            sum(b.num_rows for b in gathered.add(at_offset(offset, body(offset)), offset, 1))
        )
    assert counts == [0, 0, 3, 0, 0, 3, 0]
