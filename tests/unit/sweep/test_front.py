"""Tests of summaries and fronts, on rows made up for it."""

from penstock.sweep.front import beats, ratios, summaries
from penstock.sweep.point import Point, Row, failed_row
from penstock.sweep.show import bands

BASE = Point("events", "w", 0, 1.0, "penstock", "", 0, 0, 1.0, 1, "m")


def row(
    profile: str, throughput: float, p99: float, memory: int, *, seed: int = 1, load: float = 1.0,
    engine: str = "events", is_growing: bool = False,
) -> Row:  # fmt: skip
    point = Point(engine, "w", 0, load, profile, "", 0, 0, 1.0, seed, "m")
    return {
        **failed_row(point, ""),
        "throughput_per_s": throughput,
        "confirm_p50_ms": p99 / 2,
        "confirm_p99_ms": p99,
        "delivery_p99_ms": p99,
        "memory_bytes_max": memory,
        "is_growing": is_growing,
    }


def test_to_beat_is_to_be_better_in_one_and_worse_in_none() -> None:
    assert beats((10.0, 5.0, 100.0), (10.0, 6.0, 100.0))
    assert not beats((10.0, 5.0, 101.0), (10.0, 6.0, 100.0))
    assert not beats((10.0, 5.0, 100.0), (10.0, 5.01, 100.0)), "within the noise"
    assert beats((1.0, 5.0, 100.0), (0.0, 5.0, 100.0))


def test_the_front_is_who_nobody_beats() -> None:
    found = summaries(
        [
            row("fast", 1000, 50, 9_000_000),
            row("small", 1000, 90, 1_000_000),
            row("worse", 1000, 95, 2_000_000),
            row("rising", 1000, 10, 500_000, is_growing=True),
        ]
    )
    assert [one.setting[0] for one in found if one.is_front] == ["fast", "small"]


def test_seeds_become_means_with_a_spread() -> None:
    found = summaries([row("a", 100, 40, 100_000), row("a", 100, 60, 100_000, seed=2)])
    assert len(found) == 1
    assert (found[0].runs, found[0].p99_ms, found[0].spread) == (2, 50.0, 0.2)


def test_what_failed_is_counted_and_on_no_front() -> None:
    found = summaries([failed_row(BASE, "LawBroken: x"), row("other", 100, 50, 100_000)])
    assert [(one.failed, one.is_front) for one in found] == [(1, False), (0, True)]


def test_ratios_are_of_settings_that_were_bounded_everywhere() -> None:
    found = summaries(
        [
            row("a", 100, 20, 1_000_000),
            row("a", 100, 20, 1_000_000, load=2.0),
            row("b", 100, 10, 1_000_000),
            row("b", 100, 40, 1_000_000, load=2.0),
            row("c", 100, 10, 1_000_000),
            row("c", 100, 10, 1_000_000, load=2.0, is_growing=True),
        ]
    )
    by_name = {one.setting[0]: one for one in ratios(found)}
    assert set(by_name) == {"a", "b"}
    assert round(by_name["a"].p99, 3) == round(by_name["b"].p99, 3) == 1.414
    assert ratios(found[:1]) == []


def test_the_band_is_of_points_that_both_engines_have_run() -> None:
    rows = [
        row("a", 100, 50, 1_000_000),
        row("a", 110, 40, 1_000_000, engine="fluid"),
        row("b", 100, 1.0, 1_000, load=3.0),
        row("b", 100, 0.1, 50_000, load=3.0, engine="fluid"),
        row("alone", 100, 50, 1_000_000),
    ]
    found = {one.name: one for one in bands(rows)}
    assert found["throughput"].pairs == 2
    assert round(found["throughput"].worst, 3) == 0.1
    assert round(found["confirm p99"].worst, 3) == -0.2
    assert found["peak memory"].worst == 0.0, "below what anybody can tell apart"
    assert "-20.0% (w load 1 a)" in found["confirm p99"].text()
    assert bands(rows[-1:]) == []
