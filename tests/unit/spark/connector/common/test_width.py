"""How many tasks a batch is divided into: a small one 1, a large one by cores, or as asked."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.connector.common.planner import ROWS_PER_TASK, tasks_of


def test_small_batch_is_one_task_however_many_cores() -> None:
    assert tasks_of([1], 0, 64) == [1]
    assert tasks_of([2 * ROWS_PER_TASK - 1], 0, 64) == [1]


def test_large_batch_is_cut_by_rows_and_by_cores() -> None:
    assert tasks_of([2 * ROWS_PER_TASK], 0, 64) == [2]
    assert tasks_of([1_000_000], 0, 2) == [2]
    assert tasks_of([1_000_000], 0, 64) == [1_000_000 // ROWS_PER_TASK]
    assert tasks_of([1_000_000], 0, 1) == [1]


def test_number_that_was_asked_for_wins() -> None:
    assert tasks_of([1_000_000], 1, 64) == [1]
    assert tasks_of([1000], 8, 2) == [8]
    assert tasks_of([3], 8, 2) == [3]


def test_several_queues_share_the_tasks_by_their_rows() -> None:
    assert tasks_of([1_500_000, 0, 500_000], 0, 4) == [3, 0, 1]
    assert tasks_of([5, 5, 5], 0, 2) == [1, 1, 1]
    assert tasks_of([0, 0], 0, 2) == [0, 0]


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=6), st.integers(1, 128))
def test_nobody_is_left_out_and_no_task_is_without_rows(rows: list[int], cores: int) -> None:
    parts = tasks_of(rows, 0, cores)
    filled = sum(count > 0 for count in rows)
    assert all((part > 0) == (count > 0) for part, count in zip(parts, rows, strict=True))
    assert all(part <= count for part, count in zip(parts, rows, strict=True))
    assert sum(parts) <= max(filled, min(cores, sum(rows) // ROWS_PER_TASK))
