"""Tests of lab/score: means over workloads, and who has none."""

import pytest

from penstock.lab.result import LIVE, SIMULATED
from penstock.lab.score import Ratio, Verdict, geometric_mean, overall


def verdict(workload: str, where: str = SIMULATED, **scores: float) -> Verdict:
    """Scores by profile, with _ for -."""
    named = {name.replace("_", "-"): score for name, score in scores.items()}
    return Verdict(workload, where, named, "", "", {}, {})


def test_the_mean_is_geometric_and_the_best_comes_first() -> None:
    (found,) = overall(
        [verdict("a", static_50=0.25, adaptive=1.0), verdict("b", static_50=1.0, adaptive=0.81)]
    )
    assert list(found.means) == ["adaptive", "static-50"]
    assert found.means["static-50"] == pytest.approx(0.5)
    assert found.means["adaptive"] == pytest.approx(0.9)
    assert found.ratios == [Ratio("adaptive", "static-50", 1.8, 2)]
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_who_has_no_score_in_one_workload_has_no_mean() -> None:
    """It is compared with in the others, and the text says in how many."""
    (found,) = overall(
        [verdict("a", static_50=0.0, adaptive=1.0), verdict("b", static_50=0.5, adaptive=0.6)]
    )
    assert list(found.means) == ["adaptive"]
    assert found.rising == {"static-50": 1}
    assert found.ratios == [Ratio("adaptive", "static-50", 1.2, 1)]
    assert found.lines() == [
        "mean score of 2 workloads (sim): adaptive 0.77",
        "no mean (sim), memory was still rising in some: static-50 (1)",
        "adaptive (sim) relative to each static window: static-50 1.20 in 1",
    ]


def test_nothing_in_common_is_not_compared() -> None:
    (found,) = overall(
        [verdict("a", static_50=0.0, adaptive=1.0), verdict("b", static_50=0.5, adaptive=0.0)]
    )
    assert found.means == {} and found.ratios == []


def test_each_place_has_its_own() -> None:
    found = overall([verdict("a", penstock=1.0), verdict("a", LIVE, penstock=0.5)])
    assert [(one.where, one.means) for one in found] == [
        (SIMULATED, {"penstock": 1.0}),
        (LIVE, {"penstock": 0.5}),
    ]


def test_one_workload_needs_no_mean() -> None:
    (found,) = overall([verdict("a", static_50=1.0, penstock=0.5)])
    assert found.lines() == []
