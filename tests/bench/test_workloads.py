"""Rows and targets: names are unique, bounds are ordered, a verdict is the worst of its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workloads import (
    RESOURCE_BOUNDS,
    RESOURCE_QUESTIONS,
    ROW_NAMES,
    UNCOMPILED,
    UNCOMPILED_PACED,
    WORKLOADS,
    Bound,
    bounds_of,
    reach,
    verdict,
)

ALL_BOUNDS = [
    *(bound for workload in WORKLOADS for bound in workload.bounds),
    *(bound for bounds in RESOURCE_BOUNDS.values() for bound in bounds),
]
RANK = {"below": 0, "floor": 1, "stretch": 2}


def test_row_names_are_unique() -> None:
    assert len(set(ROW_NAMES)) == len(ROW_NAMES)
    assert set(RESOURCE_BOUNDS) == set(RESOURCE_QUESTIONS)


@pytest.mark.parametrize("bound", ALL_BOUNDS, ids=lambda bound: str(bound.metric))
def test_a_stretch_is_harder_than_its_floor(bound: Bound) -> None:
    if bound.stretch is not None:
        assert (bound.stretch < bound.floor) == bound.is_ceiling
        assert bound.stretch != bound.floor


@given(
    st.sampled_from(ALL_BOUNDS),
    st.floats(0, 1e7, allow_nan=False),
    st.floats(0, 1e7, allow_nan=False),
)
def test_a_better_number_never_reaches_less(bound: Bound, one: float, other: float) -> None:
    worse, better = sorted((one, other), reverse=bound.is_ceiling)
    assert RANK[reach(bound, worse)] <= RANK[reach(bound, better)]


def test_the_bound_itself_is_reached() -> None:
    assert reach(Bound("rate_ratio", 10, 20), 10) == "floor"
    assert reach(Bound("rate_ratio", 10, 20), 20) == "stretch"
    assert reach(Bound("cpu_us", 0.4, 0.25), 0.4) == "floor"
    assert reach(Bound("cpu_us", 0.4, 0.25), 0.41) == "below"


def test_a_verdict_is_the_worst_of_its_bounds() -> None:
    bounds = (Bound("rate_ratio", 10, 20), Bound("cpu_us", 0.4, 0.25))
    assert verdict(bounds, {"rate_ratio": 30, "cpu_us": 0.1}) == "stretch"
    assert verdict(bounds, {"rate_ratio": 30, "cpu_us": 0.3}) == "floor"
    assert verdict(bounds, {"rate_ratio": 9, "cpu_us": 0.1}) == (
        "below floor (rate_ratio 9, asked >= 10)"
    )


def test_what_was_not_measured_is_not_judged() -> None:
    bounds = (Bound("rate_ratio", 10, 20), Bound("cpu_us", 0.4))
    assert verdict(bounds, {"cpu_us": 0.1}) == "stretch (1 of 2 bounds not judged)"
    assert verdict(bounds, {}) == "not judged"


def test_a_row_with_half_a_rate_names_another_that_finds_its_own() -> None:
    rows = {workload.name: workload for workload in WORKLOADS}
    halves = [workload for workload in WORKLOADS if workload.half_of]
    assert halves
    for workload in halves:
        assert workload.is_paced and not rows[workload.half_of].is_paced
        assert rows[workload.half_of].options == workload.options


def test_an_interpreted_broker_is_only_asked_not_to_lose() -> None:
    for workload in WORKLOADS:
        assert bounds_of(workload, True) == workload.bounds
        asked = bounds_of(workload, False)
        assert asked == (UNCOMPILED_PACED if workload.is_paced else UNCOMPILED)
