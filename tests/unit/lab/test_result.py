"""Tests of lab/result: every figure against a sum done by hand."""

import pytest

from penstock.lab.result import (
    fair_shares,
    is_growing,
    jain,
    percentile,
    rank_correlation,
    ranks,
    recovery_s,
)


def test_percentile_is_the_smallest_value_with_the_share_below_it() -> None:
    values = list(range(1, 101))
    assert [percentile(values, share) for share in (0.5, 0.99, 0.999, 1.0)] == [50, 99, 100, 100]
    assert percentile([7], 0.001) == 7
    assert percentile([], 0.5) == 0


def test_jain_is_one_for_equals_and_one_nth_for_a_monopoly() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain([1.0, 3.0]) == pytest.approx(0.8)
    assert jain([]) == jain([0.0, 0.0]) == 1.0


def test_fair_shares_give_nobody_more_than_asked_and_the_rest_equally() -> None:
    assert fair_shares([1.0, 10.0, 10.0], 9.0) == [1.0, 4.0, 4.0]
    assert fair_shares([2.0, 3.0], 100.0) == [2.0, 3.0]
    assert fair_shares([], 5.0) == []


def test_recovery_is_the_time_until_nine_tenths_of_the_rate_before() -> None:
    bins = [10] * 20 + [0] * 10 + [4] * 5 + [10] * 20
    assert recovery_s(bins, 0.1, 2.0, 3.0) == pytest.approx(0.5)
    assert recovery_s([10] * 55, 0.1, 2.0, 3.0) == 0.0


def test_recovery_is_unknown_when_the_rate_never_comes_back_or_never_was() -> None:
    assert recovery_s([10] * 20 + [0] * 30, 0.1, 2.0, 3.0) is None
    assert recovery_s([0] * 50, 0.1, 2.0, 3.0) is None


def test_memory_grows_only_if_its_highest_is_at_the_end_and_well_above() -> None:
    assert is_growing(list(range(100)), 0)
    assert not is_growing([*range(50), *([50] * 50)], 0)
    assert not is_growing([10, 90, 100, 20, 10] * 20, 0)
    assert not is_growing([100, *([1] * 98), 105], 0)
    assert not is_growing([1, 2, 3], 0)


def test_only_what_is_measured_counts_for_growth() -> None:
    assert is_growing([1000, *range(1, 101)], 1)
    assert not is_growing([1000, *range(1, 101)], 0)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks([5.0, 1.0, 5.0, 0.0]) == [3.5, 2.0, 3.5, 1.0]


def test_rank_correlation_looks_at_order_only() -> None:
    assert rank_correlation([1.0, 2.0, 3.0], [10.0, 200.0, 3000.0]) == pytest.approx(1.0)
    assert rank_correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert rank_correlation([1.0, 1.0], [1.0, 2.0]) == rank_correlation([], []) == 0.0
