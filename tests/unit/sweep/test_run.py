"""Tests of one point: a row follows from it, and settings with one seed meet the same programs."""

from dataclasses import replace

import pytest

from penstock.lab.peers import publishers_apart
from penstock.lab.result import PeerTally
from penstock.lab.workload import MIXED_SIZES
from penstock.sweep.grid import Grid, points_of
from penstock.sweep.load import CHAIN_CONSUMER, RATE_PER_S, chain, rates_of, workload_of
from penstock.sweep.point import SCHEMA, Point, Row, key_of, point_of
from penstock.sweep.run import broker_config, run_point


def point(workload: str = CHAIN_CONSUMER, profile: str = "static-50") -> Point:
    return points_of(Grid((workload,), (profile,), loads=(1.5,), seconds=0.3))[0]


def number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return float(value)


def test_a_row_follows_from_its_point() -> None:
    first, second = run_point(point()), run_point(point())
    assert first == second
    assert list(first) == list(SCHEMA)
    assert first["error"] == ""
    assert key_of(first) == point().key() and point_of(first) == point()
    assert run_point(replace(point(), seed=2)) != {**first, "seed": 2}


def test_the_settings_of_a_point_reach_the_broker() -> None:
    chosen = replace(
        point(), credit="20/10", depth_bytes=65_536, memory_high_bytes=1 << 20, seconds=0.7
    )
    workload = workload_of(chosen)
    config = broker_config(chosen, workload)
    assert config.queue_depth_bytes == 65_536
    assert config.credit_channel_queue == config.credit_connection_channel == "20/10"
    assert (workload.memory_high_bytes, workload.seconds) == (1 << 20, 0.7)


def test_smaller_windows_hold_less() -> None:
    wide = run_point(replace(point(), load=4.0, credit="100/50"))
    narrow = run_point(replace(point(), load=4.0, credit="10/5"))
    assert number(narrow, "memory_bytes_max") < 0.8 * number(wide, "memory_bytes_max")
    assert number(narrow, "throughput_per_s") == pytest.approx(number(wide, "throughput_per_s"))


def test_a_memory_mark_stops_publishers() -> None:
    held = run_point(replace(point("slow-consumer", "rabbitmq-4"), memory_high_bytes=262_144))
    free = run_point(point("slow-consumer", "rabbitmq-4"))
    assert number(held, "alarm_s") > 0 == number(free, "alarm_s")
    assert number(held, "memory_bytes_max") < number(free, "memory_bytes_max")


def test_load_is_on_the_guilty_only() -> None:
    light = workload_of(replace(point("slow-consumer"), load=1.0))
    heavy = workload_of(replace(point("slow-consumer"), load=3.0))
    rates = [
        (one.name, other.rate_per_s / one.rate_per_s)
        for one, other in zip(light.publishers, heavy.publishers, strict=True)
    ]
    assert rates == [("pressing", 3.0), ("innocent", 1.0)]


def test_sizes_of_one_publisher_do_not_depend_on_the_others() -> None:
    both = publishers_apart(MIXED_SIZES, 7, PeerTally(), 0)
    again = publishers_apart(MIXED_SIZES, 7, PeerTally(), 0)
    both[0].dice.bits()
    assert [one.phase for one in both] == [one.phase for one in again]
    assert [one.dice.bits() for one in both[1:]] == [one.dice.bits() for one in again[1:]]
    assert len({one.dice.bits() for one in both}) == len(both)


def test_a_chain_asks_for_its_load_in_unequal_parts() -> None:
    rates = rates_of(4000, 1.5, seed=3)
    assert sum(rates) == pytest.approx(1.5 * RATE_PER_S * 1000, rel=0.02)
    mean = 1.5 * RATE_PER_S / 4
    assert min(rates) >= 0.5 * mean and max(rates) <= 1.5 * mean
    few = chain(CHAIN_CONSUMER, 8, 1.5, 3)
    assert [one.rate_per_s for one in few.publishers] == rates_of(8, 1.5, 3) == rates[:8]
    assert len(few.queues) == len(few.consumers) == 2
