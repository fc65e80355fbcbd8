"""Rates are differences of counts over differences of time, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.rates import NS_PER_S, RateHistory, per_second

READINGS = st.lists(
    st.tuples(st.integers(1, 3 * NS_PER_S), st.integers(0, 1000)), min_size=2, max_size=20
)


@given(READINGS, st.integers(0, 10 * NS_PER_S), st.integers(2, 20))
def test_a_rate_comes_from_two_readings_that_were_kept(
    readings: list[tuple[int, int]], window_ns: int, points_max: int
) -> None:
    history = RateHistory(points_max)
    points: list[tuple[int, int]] = []
    now_ns = total = 0
    for step_ns, count in readings:
        now_ns += step_ns
        total += count
        points.append((now_ns, total))
        history.push(now_ns, total)
    kept = points[-points_max:]
    old_enough = [point for point in kept if now_ns - point[0] >= window_ns]
    base = old_enough[-1] if old_enough else kept[0]
    assert history.over(window_ns) == per_second(total - base[1], now_ns - base[0])


def test_without_two_readings_there_is_no_rate() -> None:
    history = RateHistory(3)
    assert history.over(NS_PER_S) == 0.0
    history.push(0, 5)
    assert history.over(NS_PER_S) == 0.0
    assert per_second(5, 0) == 0.0


def test_a_counter_that_went_back_starts_over() -> None:
    history = RateHistory(10)
    history.push(0, 1000)
    history.push(NS_PER_S, 10)
    history.push(2 * NS_PER_S, 30)
    assert history.over(10 * NS_PER_S) == 20.0


def test_a_second_reading_at_one_instant_replaces_the_first() -> None:
    history = RateHistory(10)
    history.push(0, 0)
    history.push(NS_PER_S, 10)
    history.push(NS_PER_S, 20)
    assert history.over(NS_PER_S) == 20.0


def test_refusals() -> None:
    with pytest.raises(AssertionError, match="two readings"):
        RateHistory(1)
    history = RateHistory(2)
    history.push(5, 0)
    with pytest.raises(AssertionError, match="never goes back"):
        history.push(4, 0)
