"""Tests of lab/workload and workloads: every description is sound and can be derived."""

import pytest

from penstock.lab.peers import STAMP, TARGET_BITS
from penstock.lab.workload import (
    ALARM,
    PARK,
    WORKLOADS,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
    WorkloadEvent,
)
from tests.architecture.house import REPOSITORY


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda one: one.name)
def test_a_workload_names_only_queues_and_exchanges_it_declares(workload: Workload) -> None:
    queues = {one.name for one in workload.queues}
    fanouts = {one.fanout for one in workload.queues if one.fanout}
    for spec in workload.publishers:
        assert STAMP.size <= spec.size_bytes_lowest <= spec.size_bytes_highest
        assert len(spec.targets) < 1 << TARGET_BITS
        for target in spec.targets:
            assert target.exchange in fanouts if target.exchange else target.key in queues
    for consumers in workload.consumers:
        assert consumers.queue in queues
        assert consumers.forward_to == "" or consumers.forward_to in queues
    for event in workload.events:
        assert 0 <= event.at <= 1
        assert event.what == ALARM or event.queue in queues


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda one: one.name)
def test_every_workload_has_innocent_traffic_and_something_slow(workload: Workload) -> None:
    assert workload.has_innocents()
    is_slow = any(one.is_slow() for one in workload.queues)
    is_slow = is_slow or workload.disk is not None
    assert is_slow or any(one.rate_per_s for one in workload.consumers)


def small() -> Workload:
    return Workload(
        "small",
        "for tests",
        (QueueSpec("slow", service_us=1000), QueueSpec("free")),
        (
            PublisherSpec("both", (Target("", "slow"), Target("", "free", is_innocent=True)), 100),
            PublisherSpec("crowd", (Target("", "slow"),), 5, count=200),
        ),
        (ConsumerSpec("slow"), ConsumerSpec("free", is_innocent=True)),
        (WorkloadEvent(0.25, PARK, "slow"), WorkloadEvent(0.5, ALARM)),
        seconds=4.0,
        warm_up_s=1.0,
    )


def test_alone_only_the_innocent_part_is_left_at_its_rate() -> None:
    alone = small().alone()
    assert [one.queue for one in alone.consumers] == ["free"]
    assert [(one.name, one.rate_per_s) for one in alone.publishers] == [("both", 50.0)]
    assert alone.publishers[0].targets == (Target("", "free", is_innocent=True),)
    assert alone.events == ()


def test_quick_has_a_tenth_of_a_crowd_at_the_same_total_rate() -> None:
    both, crowd = small().quick().publishers
    assert (both.count, both.rate_per_s) == (1, 100)
    assert (crowd.count, crowd.rate_per_s) == (20, 50)


def test_events_are_shares_of_the_measured_stretch() -> None:
    assert small().disturbance_s() == (2.0, 3.0)
    assert small().lasting(8.0).disturbance_s() == (3.0, 5.0)
    assert small().alone().disturbance_s() is None


def test_the_pages_know_all_of_them() -> None:
    """They said eight of ten."""
    assert len(WORKLOADS) == 10
    for page, words in (
        ("README.md", "`penstock lab` runs ten workloads"),
        ("docs/sweep.md", "the ten of the lab"),
        *(("docs/lab.md", f"| `{name}` | ") for name in WORKLOADS),
    ):
        assert words in (REPOSITORY / page).read_text(encoding="utf-8"), page
