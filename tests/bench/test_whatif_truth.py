"""Scoring of what-if against truth, and the program in smoke mode on a real broker."""

import json
from pathlib import Path

import pytest

from bench.outside.whatif_loads import LOADS, QueueTruth, Truth, at_share
from bench.outside.whatif_truth import (
    Cell,
    Figure,
    Verdict,
    is_at_start,
    judged,
    kept_cells,
    options_of,
    parse_arguments,
    report,
    trend_of,
)
from tests.bench.programs import output_of, refuses


def truth(p99_ms: float) -> Truth:
    seen = QueueTruth(409.0, 400.0, 260.0, 250.0, 270.0)
    return Truth(20.0, {"work": seen}, 100.0, p99_ms, 8000)


CELL = Cell("pressed", "load=2", "x.pflow", truth(1000.0), truth(1500.0), {"queue:/work": 0.97})


def said(trend: str, is_sure: bool) -> dict[str, object]:
    rows = [
        ("queue:/work", "in", 346.0, 382.0),
        ("queue:/work", "held time", 0.9, 1.0),
        ("", "confirm p99, ms", 350.0, 450.0),
        ("", "delivery p99, ms", 1.0, 2.0),
    ]
    return {
        "predictions": [
            {"queue": queue, "measure": name, "low": low, "high": high, "before": 1000.0,
             "after": 400.0, "is_sure": is_sure, "trend": trend if "p99" in name else ""}
            for queue, name, low, high in rows
        ]
    }  # fmt: skip


def test_five_loads_have_twenty_changes_that_differ() -> None:
    assert len(LOADS) == 5
    assert all(len(set(load.changes)) == 4 for load in LOADS)


def test_a_figure_outside_its_band_counts_unless_the_forecast_was_unsure() -> None:
    found = judged(CELL, said("falls", True))
    assert [(one.measure, one.is_inside()) for one in found.figures] == [
        ("in", False),
        ("held time", True),
        ("confirm p99, ms", False),
    ]
    assert not found.is_right()
    assert not any(one.is_sure for one in judged(CELL, said("unsure", False)).figures)


def test_a_direction_is_right_when_it_is_what_happened() -> None:
    def verdict(stated: str, before_ms: float, after_ms: float) -> bool:
        return Verdict("a", "b", (), stated, before_ms, after_ms).is_right()

    assert verdict("rises", 100, 140) and not verdict("falls", 100, 140)
    assert verdict("falls", 100, 60) and not verdict("rises", 100, 60)
    assert Verdict("a", "b", (), "same", 5.0, 40.0, noise_ms=30.0).is_right()
    assert verdict("same", 100, 110) and verdict("same", 1, 4) and not verdict("same", 100, 140)


def test_a_forecast_without_a_direction_is_taken_at_its_figures() -> None:
    assert trend_of(100.0, 110.0) == trend_of(0.5, 3.0) == "same"
    assert (trend_of(100.0, 150.0), trend_of(100.0, 50.0)) == ("rises", "falls")


def test_the_goals_are_missed_by_whoever_is_unsure_of_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = Figure("queue:/work", "in", 390.0, 410.0, 400.0, is_sure=True)
    doubt = Figure("queue:/work", "in", 390.0, 410.0, 400.0, is_sure=False)
    assert report([Verdict("a", "b", (good, good), "rises", 100.0, 150.0)])
    assert not report([Verdict("a", "b", (good, doubt, doubt), "rises", 100.0, 150.0)])
    assert not report([Verdict("a", "b", (good, good), "falls", 100.0, 150.0)])
    assert "WRONG" in capsys.readouterr().out


def test_what_only_a_start_can_change_is_an_option_of_the_broker() -> None:
    assert is_at_start("consumers=2 queue_depth=1MiB") and not is_at_start("prefetch=3")
    assert options_of(LOADS[0], "queue_depth=1MiB profile=adaptive") == (
        "--queue-depth", "1048576", "--profile", "adaptive",
    )  # fmt: skip


def test_a_percentile_of_nothing_is_0() -> None:
    assert at_share([], 0.99) == 0.0
    assert at_share([0.001 * n for n in range(101)], 0.99) == pytest.approx(99.0)


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "--only nonsense", "--seconds 1", "--settle -1")


@pytest.mark.slow
def test_a_load_is_recorded_foretold_and_changed(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    output_of("outside/whatif_truth.py", "--smoke", "--keep", str(tmp_path), "--out", str(out))
    verdict = json.loads(out.read_text())[0]
    measures = {one["measure"] for one in verdict["figures"]}
    assert measures >= {"in", "out", "held time", "confirm p50, ms", "confirm p99, ms"}
    seconds, cells = kept_cells(tmp_path)
    assert seconds == 3.0
    # The consumer takes 400 a second before and after, or nothing was measured.
    for one in (cells[0].before, cells[0].after):
        assert one.queues["work"].out_per_s == pytest.approx(400.0, rel=0.2)
        assert one.confirms > 0
