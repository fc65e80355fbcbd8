"""Tests of the lab's programs: how fast they publish, what they count, what they forget."""

import pytest

from penstock.lab.model import INTERPRETED, LOOPBACK
from penstock.lab.peers import CATCH_UP_NS, TARGET_BITS, URL, PublishingPeer, publishers_of
from penstock.lab.result import BIN_NS, PeerTally, Result
from penstock.lab.run import simulate
from penstock.lab.workload import (
    PARK,
    UNPARK,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
    WorkloadEvent,
)
from penstock.simulation.machine.dice import Dice

TO_Q = (Target("", "q"),)


def run(publishers: PublisherSpec, consumers: ConsumerSpec, *events: WorkloadEvent) -> Result:
    workload = Workload(
        "w", "for tests", (QueueSpec("q"),), (publishers,), (consumers,), events, seconds=0.5,
        warm_up_s=0.1,
    )  # fmt: skip
    return simulate(workload, "penstock", 1, None, INTERPRETED, LOOPBACK)


@pytest.mark.parametrize("is_paced", [True, False])
def test_a_publisher_that_is_not_held_keeps_its_rate(is_paced: bool) -> None:
    found = run(PublisherSpec("p", TO_Q, 1000, is_paced=is_paced), ConsumerSpec("q"))
    assert sum(found.lines["sent"]) == pytest.approx(600, abs=3)
    assert found.throughput_per_s == pytest.approx(1000, rel=0.01)


def test_bursts_fall_due_together() -> None:
    found = run(PublisherSpec("p", TO_Q, 1000, burst=50, is_paced=True), ConsumerSpec("q"))
    busy = [count for count in found.lines["sent"] if count > 0]
    assert sum(busy) % 50 == 0
    assert len(busy) <= 2 * sum(busy) // 50


def test_a_consumer_is_as_slow_as_it_says() -> None:
    found = run(PublisherSpec("p", TO_Q, 1000, is_paced=True), ConsumerSpec("q", 200, prefetch=5))
    assert found.throughput_per_s == pytest.approx(200, rel=0.03)


def test_a_paced_publisher_makes_up_for_a_stop_and_its_latency_shows_it() -> None:
    events = (WorkloadEvent(0.2, PARK, "q"), WorkloadEvent(0.6, UNPARK, "q"))
    paced = run(
        PublisherSpec("p", TO_Q, 1000, confirms_max=10, is_paced=True), ConsumerSpec("q"), *events
    )
    free = run(PublisherSpec("p", TO_Q, 1000, confirms_max=10), ConsumerSpec("q"), *events)
    assert sum(paced.lines["sent"]) == pytest.approx(600, abs=5)
    missed = 0.2 * 1000 - 10 - CATCH_UP_NS / 1e6
    assert sum(free.lines["sent"]) == pytest.approx(600 - missed, abs=10)
    # Ten of five hundred waited all the time; the others had not been published.
    assert free.confirm.p99_ms == pytest.approx(200, rel=0.1)
    assert free.confirm.p50_ms < 5 < paced.confirm.p99_ms


def test_mixed_sizes_are_as_often_small_as_large() -> None:
    spec = PublisherSpec("p", TO_Q, 2000, size_bytes_lowest=16, size_bytes_highest=65_536)
    found = run(spec, ConsumerSpec("q"))
    mean = found.bytes_per_s / found.throughput_per_s
    # The mean of a logarithmic scale from a to b is (b - a) / ln(b / a).
    assert mean == pytest.approx((65_536 - 16) / 8.318, rel=0.15)


def test_every_publisher_has_its_number_and_its_own_moment() -> None:
    workload = Workload(
        "w", "for tests", (QueueSpec("q"),),
        (PublisherSpec("a", TO_Q, 10, count=3), PublisherSpec("b", TO_Q, 10)), (),
    )  # fmt: skip
    found = publishers_of(workload, Dice(1), PeerTally(), 0)
    assert [one.number for one in found] == [0, 1, 2, 3]
    assert len({one.phase for one in found}) == 4


def test_what_is_never_confirmed_has_waited_until_the_end() -> None:
    tally = PeerTally()
    tally.begin(0, 100, 1000)
    publisher = PublishingPeer(PublisherSpec("p", TO_Q, 10), 0, 0.0, URL, tally, Dice(1), 0)
    publisher.open = {(500 << TARGET_BITS): 2, (50 << TARGET_BITS): 1, (1000 << TARGET_BITS): 1}
    publisher.give_up(2000)
    assert list(tally.confirm_ns) == [1500, 1500, 1950]


def test_rate_lines_are_counted_in_bins_from_the_start() -> None:
    tally = PeerTally()
    tally.begin(1000, 1000, 1 << 60)
    tally.count("sent", 1000 + 2 * BIN_NS, 3)
    tally.count("sent", 999, 9)
    assert tally.lines["sent"] == [0, 0, 3]


def test_innocent_deliveries_are_no_publisher_s_share() -> None:
    tally = PeerTally()
    tally.begin(0, 100, 1000)
    tally.note_received(120, 150, 10, 7, True)
    tally.note_received(120, 160, 10, 8, False)
    tally.note_received(120, 1000, 10, 8, False)
    assert (tally.received, tally.received_bytes, tally.innocent) == (2, 20, 1)
    assert tally.arrived == {8: 1}
    assert list(tally.innocent_ns) == [30]
