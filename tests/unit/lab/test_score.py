"""Tests of lab/score: who wins, what is left out, and what a verdict says."""

from dataclasses import replace

import pytest

from penstock.lab.result import LIVE, SIMULATED, LatencyMs, Result
from penstock.lab.score import (
    LATENCY_FLOOR_MS,
    MEMORY_FLOOR_BYTES,
    Ratio,
    Verdict,
    overall,
    scores,
    summary,
    verdicts,
)

ZERO = LatencyMs(0.0, 0.0, 0.0)


def result(
    profile: str,
    throughput: float = 1000.0,
    p99_ms: float = 100.0,
    memory: int = 1_000_000,
    where: str = SIMULATED,
    is_growing: bool = False,
) -> Result:
    return Result(
        "w", profile, where, 1, 1.0, throughput, 0.0, 0.0, LatencyMs(1.0, p99_ms, p99_ms), ZERO,
        ZERO, memory, 0, 1.0, is_growing,
    )  # fmt: skip


def only(found: list[Verdict]) -> Verdict:
    assert len(found) == 1
    return found[0]


def test_the_best_in_everything_scores_one_and_others_the_geometric_mean() -> None:
    found = scores([result("a"), result("b", 500.0, 400.0, 1_000_000)])
    assert found["a"] == 1.0
    assert found["b"] == pytest.approx((0.5 * 0.25 * 1.0) ** (1 / 3), abs=1e-4)


def test_below_the_floors_all_are_equal() -> None:
    found = scores(
        [
            result("a", p99_ms=LATENCY_FLOOR_MS / 100, memory=MEMORY_FLOOR_BYTES // 100),
            result("b", p99_ms=LATENCY_FLOOR_MS, memory=MEMORY_FLOOR_BYTES),
        ]
    )
    assert found == {"a": 1.0, "b": 1.0}


def test_who_still_grows_has_no_score_and_is_no_measure_for_the_others() -> None:
    found = scores([result("none", 9000.0, 0.1, is_growing=True), result("a")])
    assert found == {"none": 0.0, "a": 1.0}


def test_nobody_wins_when_all_still_grow() -> None:
    verdict = only(verdicts([result("none", is_growing=True), result("a", is_growing=True)]))
    assert verdict.winner == ""
    assert "still rising under every strategy" in verdict.text()


def test_ours_are_compared_with_the_best_static_setting() -> None:
    verdict = only(
        verdicts(
            [
                result("static-50", p99_ms=200.0),
                result("static-400", p99_ms=100.0),
                result("adaptive", p99_ms=102.0),
                result("penstock", p99_ms=800.0),
            ]
        )
    )
    assert verdict.winner == verdict.best_static == "static-400"
    text = verdict.text()
    assert "adaptive as good as the best static, static-400 (0.99" in text
    assert "penstock below the best static, static-400 (0.50" in text


def test_ours_without_a_score_are_not_compared() -> None:
    found = verdicts([result("static-50"), result("penstock", is_growing=True)])
    assert "penstock has no score, its memory was still rising" in only(found).text()


def test_a_winner_that_harms_the_innocent_is_told_so() -> None:
    harmful = replace(result("a", p99_ms=1.0), innocent_share=0.38)
    text = only(verdicts([harmful, replace(result("b"), innocent_share=1.0)])).text()
    assert "a wins, but leaves innocent traffic 38 %" in text


def test_the_summary_counts_workloads_and_names_the_others() -> None:
    found = verdicts(
        [
            result("static-50", p99_ms=100.0),
            result("adaptive", p99_ms=50.0),
            replace(result("static-50", p99_ms=10.0), workload="x"),
            replace(result("adaptive", p99_ms=50.0), workload="x"),
            result("static-50", p99_ms=10.0, where=LIVE),
            result("adaptive", p99_ms=50.0, where=LIVE),
        ]
    )
    assert summary(found) == [
        "adaptive (sim): as good as the best static window or better in 1 of 2 workloads; not in x",
        "adaptive (live): as good as the best static window or better in 0 of 1 workloads; "
        "not in w",
        "simulator and live broker agree on the winner in 0 of 1 workloads; not in w",
    ]


def test_the_live_broker_agrees_or_is_quoted() -> None:
    simulated = [result("a", p99_ms=10.0), result("b", p99_ms=100.0)]
    agreeing = [result("a", p99_ms=20.0, where=LIVE), result("b", p99_ms=90.0, where=LIVE)]
    first, second = verdicts([*simulated, *agreeing])
    assert (first.where, second.where) == (SIMULATED, LIVE)
    assert first.is_agreed() and first.correlation == pytest.approx(1.0)
    assert "the live broker agrees" in first.text()
    other = [result("a", p99_ms=90.0, where=LIVE), result("b", p99_ms=20.0, where=LIVE)]
    against = verdicts([*simulated, *other])[0]
    assert not against.is_agreed()
    close = [result("a", p99_ms=21.0, where=LIVE), result("b", p99_ms=20.0, where=LIVE)]
    tied = verdicts([*simulated, *close])[0]
    assert tied.is_agreed() and tied.live_winner == "b"
    assert "the live broker says b, which is within 5 %" in tied.text()
    assert "the live broker says b (rank correlation -1.00)" in against.text()


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
