"""Laws of the histogram, against a naive twin: the sorted list of everything recorded."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.perf.meter import (
    BUCKETS_MAX,
    HELD_US_MAX,
    OLDEST_NS,
    STAMP_BYTES,
    SUB,
    Histogram,
    bucket_of,
    read_stamp,
    upper_edge,
    write_stamp,
)

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


TIMES = st.integers(0, 2**62)


@given(TIMES, st.integers(0, 10**12), st.integers(0, 10**12), st.binary(max_size=5))
def test_both_latencies_come_back(
    intended_ns: int, held_ns: int, travel_ns: int, before: bytes
) -> None:
    sent_ns = intended_ns + held_ns
    raw = before + write_stamp(intended_ns, sent_ns) + b"filler"
    found = read_stamp(raw, len(before), sent_ns + travel_ns, OLDEST_NS)
    assert found is not None
    assert found[0] == held_ns + travel_ns
    assert 0 <= found[1] - travel_ns < 1000, "held time is kept in whole microseconds"


def test_holding_longer_than_the_field_is_kept_at_its_end() -> None:
    stamp = write_stamp(0, 2**62)
    assert stamp[8:] == HELD_US_MAX.to_bytes(4, "big")


@given(st.binary(max_size=STAMP_BYTES - 1))
def test_a_body_without_room_for_a_stamp_has_none(body: bytes) -> None:
    assert read_stamp(body, 0, 10**9, OLDEST_NS) is None


def test_another_clock_and_an_earlier_run_are_told_apart() -> None:
    assert read_stamp(write_stamp(2000, 2000), 0, 1000, OLDEST_NS) is None
    assert read_stamp(write_stamp(1000, 1000), 0, 5000, 3999) is None
    assert read_stamp(write_stamp(1000, 1000), 0, 5000, 4000) == (4000, 4000)
