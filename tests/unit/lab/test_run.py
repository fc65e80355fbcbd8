"""Tests of the simulated lab as a whole: it is repeatable, and it shows what it must show."""

from functools import cache

import pytest

from penstock.lab.result import Result
from penstock.lab.run import simulate, simulate_alone
from penstock.lab.workload import (
    ALARM,
    KIB,
    PARK,
    UNPARK,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
    WorkloadEvent,
)

INNOCENT = Target("", "innocent", is_innocent=True)
OVERLOAD = Workload(
    "overload",
    "three times what a slow queue takes, beside innocent traffic on the same connection",
    (QueueSpec("slow", service_us=1000, commit_ms=5), QueueSpec("innocent")),
    (
        PublisherSpec(
            "both", (Target("", "slow"), INNOCENT), 2000, confirms_max=200, is_paced=True
        ),
        PublisherSpec("pressing", (Target("", "slow"),), 3000, confirms_max=2000),
    ),
    (ConsumerSpec("slow"), ConsumerSpec("innocent", is_innocent=True)),
    seconds=0.4,
    warm_up_s=0.1,
)


BOUNDED = ("penstock", "rabbitmq-4", "syndicate", "static-50")


@cache
def overload(profile: str) -> Result:
    return simulate(OVERLOAD, profile, 1, simulate_alone(OVERLOAD, 1))


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert simulate(OVERLOAD, "penstock", 1, None) == simulate(OVERLOAD, "penstock", 1, None)


def test_another_seed_gives_others() -> None:
    first, second = (simulate(OVERLOAD, "penstock", seed, None) for seed in (1, 2))
    assert first.lines != second.lines


def test_without_flow_control_memory_is_the_largest_and_rising() -> None:
    """What is parked of clients that limit themselves by confirms costs a little more each."""
    most = overload("none").memory_bytes_max
    for name in BOUNDED:
        parks = name in ("penstock", "static-50")
        assert overload(name).memory_bytes_max < most * (1.3 if parks else 1.0), name
    assert overload("none").is_growing


def test_penstock_harms_innocent_traffic_least_of_all_that_bound_memory() -> None:
    shares = {name: overload(name).innocent_share or 0.0 for name in BOUNDED}
    assert shares["penstock"] == max(shares.values())
    assert shares["penstock"] == pytest.approx(1.0, abs=0.02)
    assert shares["static-50"] == pytest.approx(1.0, abs=0.02), "it parks as well"
    assert shares["syndicate"] < 0.9


def test_a_slow_queue_takes_what_its_service_time_lets_it() -> None:
    alone = Workload(
        "rate",
        "one queue, one publisher",
        (QueueSpec("slow", service_us=2000),),
        (PublisherSpec("p", (Target("", "slow"),), 2000, confirms_max=500),),
        (ConsumerSpec("slow"),),
        seconds=1.0,
    )
    assert simulate(alone, "penstock", 1, None).throughput_per_s == pytest.approx(500, rel=0.03)


def test_a_parked_queue_stops_and_comes_back() -> None:
    parked = Workload(
        "parked",
        "a queue is stopped and let on",
        (QueueSpec("q"),),
        (PublisherSpec("p", (Target("", "q"),), 1000, is_paced=True),),
        (ConsumerSpec("q"),),
        (WorkloadEvent(0.4, PARK, "q"), WorkloadEvent(0.6, UNPARK, "q")),
        seconds=1.0,
        warm_up_s=0.0,
    )
    found = simulate(parked, "penstock", 1, None)
    stopped = found.lines["received"][21:29]
    assert sum(stopped) == 0
    assert found.is_disturbed and found.recovery_s is not None and found.recovery_s < 0.1


def test_an_alarm_stops_the_sender_and_not_the_receiver() -> None:
    alarmed = Workload(
        "alarmed",
        "the watermark is lowered below what is held",
        (QueueSpec("q"),),
        (PublisherSpec("p", (Target("", "q"),), 3000),),
        (ConsumerSpec("q", rate_per_s=1000, prefetch=20),),
        (WorkloadEvent(0.4, ALARM, limit_bytes=64 * KIB), WorkloadEvent(0.8, ALARM)),
        seconds=1.0,
        warm_up_s=0.0,
    )
    found = simulate(alarmed, "rabbitmq-4", 1, None)
    assert found.alarm_s > 0.3
    assert sum(found.lines["sent"][22:38]) == 0
    assert sum(found.lines["received"][22:38]) == pytest.approx(0.32 * 1000, rel=0.1)
    assert sum(found.lines["sent"][42:50]) > 100
