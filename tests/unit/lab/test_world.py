"""Tests of the lab's world: work costs time, networks take time, slow queues are fair."""

from dataclasses import replace

import pytest

from penstock.lab.model import INTERPRETED, LOOPBACK, Network, WorkClock
from penstock.lab.run import config_of, simulate
from penstock.lab.workload import ConsumerSpec, PublisherSpec, QueueSpec, Target, Workload
from penstock.lab.world import LabWire, LabWorld

TO_Q = (Target("", "q"),)


def workload(publishers: PublisherSpec, queue: QueueSpec, consumers: ConsumerSpec) -> Workload:
    return Workload(
        "w", "for tests", (queue,), (publishers,), (consumers,), seconds=0.5, warm_up_s=0.1
    )


def test_a_broker_with_costly_work_is_the_bottleneck() -> None:
    # Large bodies, so that one read of a socket holds few of them.
    large = PublisherSpec("p", TO_Q, 2000, size_bytes_lowest=8192, size_bytes_highest=8192)
    busy = workload(large, QueueSpec("q"), ConsumerSpec("q"))
    costs = replace(INTERPRETED, parse_ns=1_000_000)
    slow = simulate(busy, "penstock", 1, None, costs)
    assert 500 < slow.throughput_per_s < 1050
    assert simulate(busy, "penstock", 1, None).throughput_per_s == pytest.approx(2000, rel=0.01)


def test_a_confirm_takes_two_trips_and_the_work_between() -> None:
    calm = workload(PublisherSpec("p", TO_Q, 50, is_paced=True), QueueSpec("q"), ConsumerSpec("q"))
    far = replace(LOOPBACK, trip_ns=10_000_000)
    near = simulate(calm, "penstock", 1, None).confirm
    assert 2 * LOOPBACK.trip_ns / 1e6 < near.p50_ms < 1.0
    assert simulate(calm, "penstock", 1, None, INTERPRETED, far).confirm.p50_ms == pytest.approx(
        near.p50_ms + 2 * (10_000_000 - LOOPBACK.trip_ns) / 1e6, abs=0.01
    )


def test_bytes_wait_for_those_before_them() -> None:
    wire = LabWire(Network(trip_ns=1000, byte_ns=2.0, up_bytes=1, down_bytes=1))
    assert wire.arrives_ns(0, 100) == 1200
    assert wire.arrives_ns(0, 100) == 1400
    assert wire.arrives_ns(10_000, 1) == 11_002


def test_a_slow_queue_serves_its_senders_in_rotation() -> None:
    crowd = workload(
        PublisherSpec("p", TO_Q, 500, count=20),
        QueueSpec("q", service_us=1000, commit_ms=5),
        ConsumerSpec("q"),
    )
    found = simulate(crowd, "penstock", 1, None)
    assert found.throughput_per_s == pytest.approx(1000, rel=0.05)
    assert found.fairness > 0.99


def test_a_queue_that_commits_takes_messages_in_groups() -> None:
    grouping = workload(
        PublisherSpec("p", TO_Q, 1000, is_paced=True),
        QueueSpec("q", commit_ms=40),
        ConsumerSpec("q"),
    )
    found = simulate(grouping, "penstock", 1, None)
    # Bins are 20 ms wide: at least every other one is empty.
    empty = [count for count in found.lines["received"] if count == 0]
    assert len(empty) >= 10
    assert found.throughput_per_s == pytest.approx(1000, rel=0.1)
    assert 10 < found.confirm.p50_ms < 30


def test_a_queue_slow_by_the_byte_takes_bytes_at_its_rate() -> None:
    heavy = workload(
        PublisherSpec("p", TO_Q, 500, size_bytes_lowest=10_240, size_bytes_highest=10_240),
        QueueSpec("q", service_us_per_kib=500),
        ConsumerSpec("q"),
    )
    found = simulate(heavy, "penstock", 1, None)
    assert found.bytes_per_s == pytest.approx(2000 * 1024, rel=0.05)


def test_events_outside_happen_in_their_order_and_at_their_time() -> None:
    calm = workload(PublisherSpec("p", TO_Q, 1), QueueSpec("q"), ConsumerSpec("q"))
    world = LabWorld(1, config_of(calm, "none"), WorkClock(INTERPRETED), LOOPBACK)
    start_ns = world.clock.now_ns
    seen: list[tuple[str, int]] = []
    world.at(start_ns + 20, lambda now_ns: seen.append(("late", now_ns - start_ns)))
    world.at(start_ns + 10, lambda now_ns: seen.append(("first", now_ns - start_ns)))
    world.at(start_ns + 10, lambda now_ns: seen.append(("second", now_ns - start_ns)))
    world.run_until(start_ns + 15, lambda: False)
    assert seen == [("first", 10), ("second", 10)]
    assert world.clock.now_ns == start_ns + 15
