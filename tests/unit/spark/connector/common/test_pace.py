"""The size of batches on simulated sinks: it reaches the target, stays there, and follows."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.connector.common.planner import FIRST_ROWS, BatchPace, PaceWatch

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
