"""What a store keeps to write over is given back when nobody uses it, or when room runs out."""

import pytest

from penstock.base.clock import ManualClock
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.store.store_actor import IDLE_NS, RecyclingWatch
from penstock.flow.due import DueLine
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.log.job import Job
from tests.unit.broker.alarm_bed import MB, AlarmBed
from tests.unit.storage.log.test_recycled import emptied, life, spares_of
from tests.unit.storage.making import fill


class Straight(Disk):
    """Does everything at once."""

    def submit(self, job: Job, client: JobClient) -> None:
        job.run()
        client.job_done(job, None)


def test_an_idle_store_keeps_none() -> None:
    disk, log, index = emptied()
    clock = ManualClock()
    start_ns = clock.monotonic_ns()
    dues = DueLine()
    watch = RecyclingWatch(log.spares, Straight(), dues)
    fill(log, index, 1)
    batch = log.take_batch(True)
    assert batch is not None
    batch.run()
    log.done(batch)
    watch.look(batch, clock)
    dues.fire(start_ns + IDLE_NS - 1)
    assert len(spares_of(disk)) == 2, "not before its time"
    life(log, index, 24)
    dues.fire(start_ns + IDLE_NS)
    assert len(spares_of(disk)) == 2, "some were used since the last look"
    watch.look(batch, clock)
    dues.fire(start_ns + 2 * IDLE_NS)
    assert len(spares_of(disk)) == 1, "a little was written"
    dues.fire(start_ns + 3 * IDLE_NS)
    assert not spares_of(disk)
    assert len(dues) == 0
    watch.look(batch, clock)
    assert len(dues) == 0, "there is nothing to give back"


@pytest.mark.parametrize("is_readable", [True, False])
def test_they_go_before_the_disk_alarm_stops_anybody(is_readable: bool) -> None:
    bed = AlarmBed(disk_free_min="100MB")
    work = HandDisk()
    files = SimDisk()
    store = give_store(bed.broker, work, files, 1024, 4)
    life(store.log, store.log.open_queue(1), 60)
    assert spares_of(files)
    for sizes in (store.log.spares.ready, store.log.spares.fresh):
        for name in sizes:
            sizes[name] += 16 * MB
            store.log.spares.kept_bytes += 16 * MB
    bed.around.free_bytes = 90 * MB
    bed.around.is_readable = is_readable
    bed.watch.check_disk()
    work.work(1)
    assert bool(spares_of(files)) == (not is_readable)
    assert "alarm:disk" not in bed.broker.alarms
    bed.watch.check_disk()
    assert ("alarm:disk" in bed.broker.alarms) == is_readable, "now they are gone, and it is less"
    assert store.log.spares.is_wanted == (not is_readable)
    bed.around.is_readable = True
    bed.around.free_bytes = 500 * MB
    bed.watch.check_disk()
    assert store.log.spares.is_wanted
