"""A batch over several queues: worth one or not, divided by what waits, bounded as a whole."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.connector.common.lag import Told
from penstock.spark.connector.common.options import parse_source
from penstock.spark.connector.common.planner import (
    FIRST_ROWS,
    ROWS_PER_TASK,
    BatchPace,
    PaceWatch,
    plan_batch,
    share,
    tasks_of,
)

OPTIONS = parse_source({"queues": "a,b,c"})


class Shelf:
    """Rows that are there, up to `end`; each takes ten bytes."""

    def __init__(self, end: int, waited_ms: float = 0.0, is_full: bool = False) -> None:
        self.end = end
        self.waited = waited_ms
        self.is_full = is_full
        self.begun = -1
        self.bytes_max = 0

    def told(self) -> Told:
        return Told()

    def initial(self) -> int:
        return 0

    def first(self) -> int:
        return 0

    def prepare_available_now(self) -> None:
        self.is_full = True

    def begin(self, start: int) -> None:
        self.begun = start

    def available(self, start: int) -> int:
        assert self.begun == start, "what is done is settled before anything is looked at"
        return self.end - start

    def waited_ms(self) -> float:
        return self.waited

    def is_pressing(self) -> bool:
        return self.is_full

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        self.bytes_max = bytes_max
        return start + rows

    def tail(self) -> int | None:
        return self.end

    def stop(self) -> None:
        self.end = 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), min_size=3, max_size=3),
    st.integers(3, 4000),
)
def test_no_more_than_the_limit_and_everybody_something(
    queues: list[tuple[int, int]], limit: int
) -> None:
    shelves = [Shelf(start + waiting) for start, waiting in queues]
    starts = [start for start, _ in queues]
    ends = plan_batch(shelves, starts, limit, OPTIONS)
    rows = [end - start for start, end in zip(starts, ends, strict=True)]
    assert sum(rows) == min(limit, sum(waiting for _, waiting in queues))
    assert all(
        (count > 0) == (waiting > 0) for count, (_, waiting) in zip(rows, queues, strict=True)
    )


def test_few_rows_wait_for_more_unless_one_of_them_waited_long_or_no_more_can_come() -> None:
    patient = replace(OPTIONS, min_rows=100, max_delay_ms=1000)
    few = [Shelf(20), Shelf(20), Shelf(0)]
    assert plan_batch(few, [0, 0, 0], 1000, patient) == [0, 0, 0]
    together = [Shelf(60), Shelf(40), Shelf(0)]
    assert plan_batch(together, [0, 0, 0], 1000, patient) == [60, 40, 0]
    late = [Shelf(20), Shelf(20, waited_ms=1000.0), Shelf(0)]
    assert plan_batch(late, [0, 0, 0], 1000, patient) == [20, 20, 0]
    full = [Shelf(20), Shelf(20), Shelf(0, is_full=True)]
    assert plan_batch(full, [0, 0, 0], 1000, patient) == [20, 20, 0]


def test_bytes_are_divided_as_rows_are() -> None:
    shelves = [Shelf(300), Shelf(100), Shelf(0)]
    plan_batch(shelves, [0, 0, 0], 40, replace(OPTIONS, max_bytes=1000))
    assert [shelf.bytes_max for shelf in shelves] == [750, 250, 0]


BACKLOGS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12)


@given(BACKLOGS, st.integers(0, 10**7))
def test_all_of_it_is_given_out_and_no_more(backlogs: list[int], total: int) -> None:
    parts = share(total, backlogs)
    assert sum(parts) == min(total, sum(backlogs))
    assert all(0 <= part <= backlog for part, backlog in zip(parts, backlogs, strict=True))
    filled = sum(backlog > 0 for backlog in backlogs)
    if total >= filled:
        assert all(part > 0 for part, backlog in zip(parts, backlogs, strict=True) if backlog)


@given(BACKLOGS, st.integers(1000, 10**6))
def test_parts_are_in_proportion(backlogs: list[int], total: int) -> None:
    everything = sum(backlogs)
    if everything > total:
        for part, backlog in zip(share(total, backlogs), backlogs, strict=True):
            assert abs(part - total * backlog / everything) <= len(backlogs) + 1


def test_where_there_are_fewer_rows_than_queues_the_longest_come_first() -> None:
    assert share(2, [5, 100, 0, 50]) == [0, 1, 0, 1]


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


TARGET_MS = 2000


def play(
    pace: BatchPace, batches: int, fixed_ms: float, row_ms: float, noise: float = 0.0
) -> list[float]:
    """How long each batch took on a sink that takes fixed_ms + row_ms for each row."""
    chance = random.Random(5)
    times = []
    for _ in range(batches):
        rows = pace.rows()
        times.append((fixed_ms + row_ms * rows) * (1 + noise * chance.uniform(-1, 1)))
        pace.took(rows, times[-1])
    return times


@given(st.floats(0, 1500), st.floats(0.005, 5.0), st.integers(1, 50), st.floats(0, 0.2))
@settings(max_examples=150, deadline=None)
def test_a_batch_takes_what_was_wanted_or_is_as_large_as_it_may_be(
    fixed_ms: float, row_ms: float, lowest: int, noise: float
) -> None:
    pace = BatchPace(TARGET_MS, lowest, 100_000)
    times = play(pace, 60, fixed_ms, row_ms, noise)
    late = sum(times[40:]) / 20
    if fixed_ms + row_ms * 100_000 <= TARGET_MS * (1 - noise):
        assert pace.rows() == 100_000
    else:
        assert late == pytest.approx(TARGET_MS, rel=0.1 + noise)


def test_without_noise_the_target_is_passed_once_at_most() -> None:
    pace = BatchPace(TARGET_MS, 1, 1_000_000)
    times = play(pace, 40, 100, 0.5)
    crossings = sum(
        (a - TARGET_MS) * (b - TARGET_MS) < 0 and abs(b - TARGET_MS) > 1
        for a, b in itertools.pairwise(times)
    )
    assert crossings <= 1
    assert times[-1] == pytest.approx(TARGET_MS, rel=0.01)


def test_a_sink_that_becomes_slower_is_followed_in_a_few_batches() -> None:
    pace = BatchPace(TARGET_MS, 1, 1_000_000)
    play(pace, 30, 100, 0.1)
    before = pace.rows()
    assert play(pace, 8, 100, 1.0)[-1] == pytest.approx(TARGET_MS, rel=0.1)
    assert pace.rows() == pytest.approx(before / 10, rel=0.15)
    assert play(pace, 8, 100, 0.1)[-1] == pytest.approx(TARGET_MS, rel=0.1)


def test_where_only_fixed_costs_are_left_a_batch_does_not_become_one_row() -> None:
    """The target is out of reach; one row a batch would end the throughput for nothing."""
    pace = BatchPace(TARGET_MS, 1, 100_000)
    play(pace, 60, 3000, 0.1)
    share = 0.1 * pace.rows() / (3000 + 0.1 * pace.rows())
    assert 0.05 < share < 0.25


def test_a_trigger_longer_than_the_target_does_not_starve_the_query() -> None:
    """Every batch then seems to take an interval, whatever its size."""
    pace = BatchPace(TARGET_MS, 1, 100_000)
    for _ in range(60):
        pace.took(pace.rows(), max(10_000.0, pace.rows() * 1.0))
    assert pace.rows() > 2000


def test_a_batch_that_was_not_full_says_nothing_about_a_larger_one() -> None:
    pace = BatchPace(TARGET_MS, 1, 100_000)
    for _ in range(50):
        pace.took(10, 60.0)
    assert pace.rows() == FIRST_ROWS
    pace.took(10, 8 * TARGET_MS)
    assert pace.rows() == 5


def test_sizes_stay_in_their_range() -> None:
    pace = BatchPace(TARGET_MS, 50, 400)
    assert pace.rows() == 400
    play(pace, 20, 0, 1000.0)
    assert pace.rows() == 50


def test_time_runs_from_one_planned_batch_to_the_next_question() -> None:
    """The first batch is left out, and so is the time in which there was nothing to read."""
    ms = 1_000_000
    watch = PaceWatch(BatchPace(TARGET_MS, 1, 100_000))
    assert watch.asked(0) == FIRST_ROWS
    watch.planned(FIRST_ROWS, 0)
    assert watch.asked(60_000 * ms) == FIRST_ROWS, "the first batch started workers"
    watch.planned(0, 60_000 * ms)
    assert watch.asked(99_000 * ms) == FIRST_ROWS, "nothing was planned"
    watch.planned(FIRST_ROWS, 99_000 * ms)
    assert watch.asked(100_000 * ms) > FIRST_ROWS, "1 s of 2"
