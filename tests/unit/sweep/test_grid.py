"""Tests of the grid: every combination once, only what an engine can run, bad values named."""

from dataclasses import replace

import pytest

from penstock.base.errors import OperatorError
from penstock.sweep.choices import EVENTS, FLUID
from penstock.sweep.grid import CONNECTIONS_MAX, Grid, points_of

SMALL = Grid(("slow-consumer",), ("penstock", "static-50"), seeds=(1, 2))


def test_every_combination_is_there_once_and_seeds_are_innermost() -> None:
    points = points_of(replace(SMALL, loads=(0.5, 2.0), depths_bytes=(0, 65_536)))
    assert len(points) == len(set(points)) == 2 * 2 * 2 * 2
    assert [point.seed for point in points[:4]] == [1, 2, 1, 2]
    assert points[0].setting() == points[1].setting()


def test_a_profile_without_credit_has_one_point_however_many_windows_there_are() -> None:
    points = points_of(Grid(("slow-consumer",), ("none", "penstock"), credits=("50/25", "100/50")))
    assert [point.credit for point in points if point.profile == "none"] == [""]
    assert sorted(point.credit for point in points if point.profile == "penstock") == [
        "100/50",
        "50/25",
    ]


def test_large_chains_are_run_by_the_fluid_model_only() -> None:
    grid = Grid(("chain-queue",), ("penstock",), (EVENTS, FLUID), connections=(8, CONNECTIONS_MAX))
    found = {(point.engine, point.connections) for point in points_of(grid)}
    assert found == {(EVENTS, 8), (FLUID, 8), (FLUID, CONNECTIONS_MAX)}


@pytest.mark.parametrize(
    ("workload", "profile", "memory_bytes"),
    [
        ("fan-out", "penstock", 0),
        ("deep-chain", "penstock", 0),
        ("memory-alarm", "penstock", 0),
        ("slow-disk", "penstock", 0),
        ("slow-disk-400", "penstock", 0),
        ("slow-consumer", "adaptive", 0),
        ("slow-consumer", "penstock", 1 << 20),
    ],
)
def test_what_the_fluid_model_cannot_express_is_refused(
    workload: str, profile: str, memory_bytes: int
) -> None:
    with pytest.raises(OperatorError, match="no engine of fluid can run"):
        points_of(Grid((workload,), (profile,), (FLUID,), memory_highs_bytes=(memory_bytes,)))


@pytest.mark.parametrize(
    ("grid", "text"),
    [
        (replace(SMALL, workloads=("nope",)), "workload 'nope' is unknown; one of: slow-queue"),
        (replace(SMALL, profiles=("nope",)), "flow profile 'nope' is unknown"),
        (replace(SMALL, credits=("25/50",)), "initial must be at least more_after"),
        (replace(SMALL, connections=(3,)), "3 connections; a chain has 4..1000000"),
        (replace(SMALL, loads=(0.0,)), "a load of 0; it is a factor above 0"),
    ],
)
def test_bad_values_are_refused_by_name(grid: Grid, text: str) -> None:
    with pytest.raises(OperatorError, match=text):
        points_of(grid)


def test_a_changed_workload_has_other_keys() -> None:
    point = points_of(SMALL)[0]
    assert point.model.count("-") == 1
    assert replace(point, model="other").key() != point.key()
