"""Measuring a store and compacting it to the end, also when that is cut short."""

import pytest

from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.check.offline import compact_all, files_bytes, store_stats
from penstock.storage.check.overlay import OverlayDirectory
from penstock.storage.layout.stored import Stored
from penstock.storage.log.compaction import Compactor
from penstock.storage.recovery.recovery import Recovered, recover
from tests.unit.storage.log.test_compaction import emptied
from tests.unit.storage.making import NOW_MS, fill, flush, fresh, positions, read

LEFT = list(range(5, 61, 5))


def found(disk: SimDisk) -> Recovered:
    return recover(OverlayDirectory(disk), Dice(1), 2048, {1})


def test_stats() -> None:
    disk = SimDisk()
    log = fresh(disk, 4096)
    one, two = log.open_queue(1), log.open_queue(2)
    log.open_queue(3)
    fill(log, one, 40)
    fill(log, two, 10)
    for position in range(1, 41):
        if position % 4:
            log.settle(one, position)
    log.take_last_batch().run()
    recovered = recover(OverlayDirectory(disk), Dice(1), 4096, {1, 2, 3})
    stats = store_stats(recovered.log, disk)
    assert [row.messages for row in stats.queues] == [10, 10, 0]
    assert [row.oldest_ms for row in stats.queues] == [NOW_MS, NOW_MS, 0]
    assert stats.queues[0].live_bytes == stats.queues[1].live_bytes > 0
    assert stats.queues[0].disk_bytes > stats.queues[1].disk_bytes
    assert stats.messages == 20
    assert stats.disk_bytes == sum(len(data) for data in disk.contents().values())
    assert stats.disk_bytes == files_bytes(disk)
    assert stats.segments == len(recovered.log.segments)
    assert 0.3 < stats.garbage_share < 0.8
    assert store_stats(recovered.log).queues[0].oldest_ms == 0, "without reading anything"


def test_stats_of_nothing() -> None:
    assert store_stats(fresh(), SimDisk()).garbage_share == 0


def test_compacting_to_the_end() -> None:
    disk = SimDisk()
    flush(emptied(disk))
    before = files_bytes(disk)
    recovered = recover(disk, Dice(2), 2048, {1})
    assert compact_all(recovered.log) == []
    assert files_bytes(disk) < before / 2
    again = found(disk)
    assert positions(read(again.log, again.queues[1])) == LEFT
    # What is left is worth no further copying.
    size = files_bytes(disk)
    assert compact_all(recover(disk, Dice(3), 2048, {1}).log) == []
    assert files_bytes(disk) <= size + 200


@pytest.mark.parametrize("seed", range(2))
def test_cut_short_by_a_loss_of_power_at_any_operation(seed: int) -> None:
    """Everything is there; what was acknowledged may come again, as after any crash."""
    disk = SimDisk()
    emptied(disk).take_last_batch().run()
    second = SimDisk(disk.contents())
    compact_all(recover(second, Dice(seed), 2048, {1}).log)
    replay = Replay(second)
    dice = Dice(seed)
    count = 0
    while replay.step():
        for image in list(replay.states(dice, 1))[:: 7 + seed]:
            count += 1
            after = found(SimDisk(image))
            there = positions(read(after.log, after.queues[1]))
            assert set(LEFT) <= set(there) <= set(range(1, 61))
            assert there == sorted(there)
            assert not after.report.lost
    assert count > 30


def test_a_segment_that_cannot_be_read_whole_is_left_alone() -> None:
    disk = SimDisk()
    emptied(disk).take_last_batch().run()
    image = disk.contents()
    name = "0000000001.log"
    broken = bytearray(image[name])
    broken[broken.find(b"14......")] ^= 1
    disk = SimDisk(image | {name: bytes(broken)})
    recovered = recover(disk, Dice(2), 2048, {1})
    assert compact_all(recovered.log) == [1]
    assert disk.contents()[name] == bytes(broken)
    again = found(disk)
    job = read(again.log, again.queues[1])
    assert (positions(job), job.damaged) == ([one for one in LEFT if one != 15], [15])


def test_what_one_queue_of_several_refers_to_is_no_garbage() -> None:
    """Told without the records, from footers."""
    disk = SimDisk()
    log = fresh(disk, 4096)
    one, two = log.open_queue(1), log.open_queue(2)
    for _ in range(60):
        (sent,) = fill(log, one, 1, 200)
        assert isinstance(sent.stored, Stored)
        sent.stored.join(2)
        log.append(two, sent, NOW_MS)
    log.settle_below(one, 61)
    log.take_last_batch().run()
    recovered = recover(SimDisk(disk.contents()), Dice(2), 4096, {1, 2})
    assert store_stats(recovered.log, disk).garbage_share < 0.35
    assert Compactor(recovered.log).plan() is None
