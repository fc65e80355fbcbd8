"""Ranges of a stream: exactly the rows asked for, or an error with numbers."""

from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.options import parse_source
from penstock.spark.connector.common.ranges import split
from penstock.spark.connector.stream.stream_read import cut_runs
from tests.unit.spark.connector.wire import at_offset, delivery

BASE = 2**33
STRICT = parse_source({"queue": "s", "mode": "stream"})
LAX = replace(STRICT, fails_on_data_loss=False)


def laid_out(offsets: list[int]) -> tuple[bytes, list[int]]:
    raw, ends = b"", []
    for offset in offsets:
        raw += at_offset(offset)
        ends.append(len(raw))
    return raw, ends


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=15),
    st.integers(0, 10),
    st.integers(0, 20),
)
def test_rows_of_the_range_and_no_others(gaps: list[int], first: int, rows: int) -> None:
    """Against a naive twin; gaps of 0 are neighbours, others are holes."""
    offsets, at = [], 0
    for gap in gaps:
        at += gap
        offsets.append(at)
        at += 1
    stop = first + rows
    raw, ends = laid_out(offsets)
    expected = [offset for offset in offsets if first <= offset < stop]
    found: list[int] = []
    reached = BASE + first
    if first < stop:
        for start, run, after in cut_runs(raw, ends, BASE + first, BASE + stop, LAX):
            reached = after
            count = len(run) // len(at_offset(0)) if run else 0
            found += range(start - BASE, start - BASE + count)
            if run:
                assert run == b"".join(at_offset(n) for n in found[-count:])
    assert found == expected
    assert reached - BASE >= max([first, *(offset + 1 for offset in expected)])


def test_a_hole_is_loss_with_numbers() -> None:
    raw, ends = laid_out([4, 5, 9])
    with pytest.raises(OperatorError, match=rf"{BASE + 6}\.\.{BASE + 8} \(3 rows\) are gone"):
        list(cut_runs(raw, ends, BASE + 4, BASE + 20, STRICT))
    # Holes behind the range are somebody else's.
    assert len(list(cut_runs(raw, ends, BASE + 4, BASE + 6, STRICT))) == 1


def test_an_ordinary_queue_is_no_stream() -> None:
    raw = delivery(1, b"x")
    with pytest.raises(OperatorError, match="is no stream"):
        list(cut_runs(raw, [len(raw)], 0, 5, STRICT))


@given(st.integers(0, 1000), st.integers(0, 50), st.integers(1, 9))
def test_ranges_cover_the_batch_once(start: int, rows: int, count: int) -> None:
    parts = split(start, start + rows, count)
    assert [n for first, stop in parts for n in range(first, stop)] == [*range(start, start + rows)]
    assert len(parts) == min(count, rows)
