"""Tests of the fluid model: its books, and that it says what the event simulator says."""

from dataclasses import replace

import pytest

pytest.importorskip("numpy")

import numpy as np

from penstock.sweep.choices import EVENTS, FLUID
from penstock.sweep.fluid import UNLIMITED, Crowd, Fluid, Queues, Rules
from penstock.sweep.fluid_latency import IDLE_MS
from penstock.sweep.grid import Grid, points_of
from penstock.sweep.point import Row
from penstock.sweep.run import run_point
from penstock.sweep.show import bands


def full(value: float, count: int = 4) -> "np.typing.NDArray[np.float64]":
    return np.full(count, value)


def fluid(rules: Rules, service: float = UNLIMITED, drain: float = 100.0) -> Fluid:
    """Four publishers of 100 messages/s each for one queue with a mark of 50."""
    crowd = Crowd(
        full(100.0), full(0.0), full(1.0), full(0.02), full(30.0), full(UNLIMITED),
        np.zeros(4, dtype=np.int64),
    )  # fmt: skip
    queues = Queues(
        full(service, 1), full(drain, 1), full(0.0, 1), full(50.0, 1),
        full(1000.0, 1),
    )  # fmt: skip
    return Fluid(crowd, queues, rules, np.arange(4))


@pytest.mark.parametrize("is_parking", [True, False])
@pytest.mark.parametrize("service", [UNLIMITED, 80.0])
def test_no_credit_is_lost_and_none_comes_from_nowhere(is_parking: bool, service: float) -> None:
    rules = Rules(20.0, 10.0, is_parking)
    world = fluid(rules, service)
    for _ in range(600):
        world.step(0.005, is_publishing=True)
        for hop in (world.first, world.second):
            total = hop.balance + hop.in_flight + hop.done + hop.deferred
            assert np.allclose(total, 20.0)
            assert (hop.in_flight >= -1e-6).all() and (hop.deferred >= -1e-6).all()
    sent = world.written - world.socket - world.first.in_flight - world.second.in_flight
    assert np.allclose(world.confirmed, sent)
    assert world.taken[0] == pytest.approx(world.rest[0] + world.gone[0])
    assert world.gone[0] == pytest.approx(min(service, 100.0) * 3, rel=0.03)


def test_what_is_held_is_bounded_by_mark_and_windows() -> None:
    world = fluid(Rules(20.0, 10.0, True))
    for _ in range(600):
        world.step(0.005, is_publishing=True)
        assert world.held()[0] <= 50 + 4 * 20 + 1e-6
    assert world.held()[0] > 50 + 4 * 10


def test_without_credit_nothing_is_bounded() -> None:
    world = fluid(Rules(UNLIMITED, UNLIMITED, False))
    for _ in range(600):
        world.step(0.005, is_publishing=True)
    assert world.held()[0] == pytest.approx((400 - 100) * 3, rel=0.02)


def test_publishers_of_one_queue_get_equal_parts() -> None:
    world = fluid(Rules(20.0, 10.0, True), service=80.0)
    for _ in range(600):
        world.step(0.005, is_publishing=True)
    assert world.confirmed.max() < 1.05 * world.confirmed.min()


def grid(*profiles: str) -> Grid:
    """Overloaded: with less, what the model leaves out, waiting by chance, is all there is."""
    names = ("chain-consumer", "chain-queue")
    return Grid(names, profiles, (FLUID,), connections=(4,), loads=(2.0,), seconds=1.5)


def both(points: Grid) -> list[Row]:
    found = points_of(points)
    return [run_point(replace(one, engine=name)) for one in found for name in (EVENTS, FLUID)]


def test_it_says_what_the_events_say() -> None:
    """The bound is the band that docs/sweep.md states, and a little more for a small sample."""
    found = {one.name: one for one in bands(both(grid("static-50", "rabbitmq-4")))}
    assert abs(found["throughput"].worst) < 0.01
    assert abs(found["peak memory"].worst) < 0.08
    assert abs(found["confirm p50"].worst) < 0.12
    assert abs(found["confirm p99"].worst) < 0.15


def test_many_connections_are_many_times_few() -> None:
    few, many = (
        run_point(
            points_of(
                Grid(("chain-consumer",), ("static-50",), (FLUID,), (count,), (2.0,), seconds=0.5)
            )[0]
        )
        for count in (4000, 8000)
    )
    for name, factor in (("throughput_per_s", 2.0), ("memory_bytes_max", 2.0)):
        one, other = few[name], many[name]
        assert isinstance(one, int | float) and isinstance(other, int | float)
        assert other == pytest.approx(factor * one, rel=0.02)
    assert isinstance(many["confirm_p50_ms"], float) and many["confirm_p50_ms"] > IDLE_MS
