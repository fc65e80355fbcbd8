"""lab/slow_disk: a confirm waits for the disk, batches share its syncs, and writing takes time."""

from dataclasses import replace

import pytest

from penstock.lab.result import Result
from penstock.lab.run import simulate
from penstock.lab.workload import ConsumerSpec, DiskSpec, PublisherSpec, QueueSpec, Target, Workload

KEEPING = PublisherSpec(
    "keeping", (Target("", "kept"),), 5000, confirms_max=10, size_bytes_lowest=1024,
    size_bytes_highest=1024, is_persistent=True,
)  # fmt: skip


def found(publisher: PublisherSpec, disk: DiskSpec, profile: str = "penstock") -> Result:
    workload = Workload(
        "disk", "for tests", (QueueSpec("kept", is_durable=True),), (publisher,),
        (ConsumerSpec("kept"),), seconds=0.6, warm_up_s=0.1, disk=disk,
    )  # fmt: skip
    return simulate(workload, profile, 1, None)


def test_a_confirm_takes_a_sync_at_least_and_two_at_most() -> None:
    one = found(KEEPING, DiskSpec(sync_ms=20, write_us_per_kib=0))
    assert 20 <= one.confirm.p50_ms <= 45
    assert one.confirm.p99_ms <= 45
    assert one.throughput_per_s == pytest.approx(10 / 0.021, rel=0.15)


def test_publishers_share_the_syncs() -> None:
    disk = DiskSpec(sync_ms=20, write_us_per_kib=0)
    many = found(replace(KEEPING, count=10), disk)
    assert many.throughput_per_s >= 5 * found(KEEPING, disk).throughput_per_s


def test_a_disk_that_writes_slowly_takes_bytes_at_its_rate() -> None:
    """2 ms a KiB. Nobody is given a message before it is on the disk but the consumer: what it has
    acknowledged by then need not be written."""
    one = found(replace(KEEPING, confirms_max=2), DiskSpec(sync_ms=0, write_us_per_kib=2000))
    assert 300 <= one.throughput_per_s <= 1000


def test_what_is_not_persistent_does_not_wait() -> None:
    fleeting = replace(KEEPING, is_persistent=False)
    assert found(fleeting, DiskSpec(sync_ms=50, write_us_per_kib=0)).confirm.p99_ms < 5
