"""Laws of the histogram, against a naive twin: the sorted list of everything recorded."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.perf.meter import BUCKETS_MAX, SUB, Histogram, bucket_of, upper_edge

VALUES = st.lists(st.integers(0, 2**44) | st.integers(0, 300), min_size=1, max_size=60)


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(VALUES, st.floats(0.0, 1.0))
def test_a_percentile_is_at_most_one_bucket_above_the_truth(
    values: list[int], share: float
) -> None:
    truth = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    found = filled(values).percentile(share)
    assert truth <= found <= truth + truth / SUB


@given(VALUES)
def test_extremes_count_and_mean_are_exact(values: list[int]) -> None:
    histogram = filled(values)
    assert (histogram.lowest, histogram.highest) == (min(values), max(values))
    assert histogram.count == len(values)
    assert histogram.mean() == pytest.approx(sum(values) / len(values))
    assert histogram.percentile(1.0) == max(values)


@given(VALUES, VALUES, st.floats(0.0, 1.0))
def test_adding_is_recording_both(first: list[int], second: list[int], share: float) -> None:
    total = filled(first)
    total.add(filled(second))
    whole = filled(first + second)
    assert total.percentile(share) == whole.percentile(share)
    assert (total.lowest, total.highest, total.count) == (
        whole.lowest, whole.highest, whole.count
    )  # fmt: skip


@given(st.integers(0, 2**45 - 1))
def test_every_value_lies_in_its_bucket_and_above_the_one_before(value: int) -> None:
    index = bucket_of(value)
    assert 0 <= index < BUCKETS_MAX
    assert value <= upper_edge(index)
    assert index == 0 or value > upper_edge(index - 1)


def test_many_at_once_is_many_times_one() -> None:
    histogram = Histogram()
    histogram.record(5, 3)
    histogram.record(9)
    assert (histogram.count, histogram.total) == (4, 24)
    assert histogram.percentile(0.75) == 5


def test_what_is_off_the_scale_is_kept_in_the_last_bucket() -> None:
    histogram = filled([2**60, 2**70])
    assert histogram.count == 2
    assert histogram.highest == 2**70
    assert bucket_of(2**70) == BUCKETS_MAX - 1


def test_nothing_recorded_gives_zero_and_clearing_forgets() -> None:
    histogram = filled([7])
    histogram.clear()
    assert histogram.percentile(0.5) == 0 and histogram.mean() == 0.0
    histogram.add(Histogram())
    histogram.record(3)
    assert histogram.lowest == histogram.highest == 3
