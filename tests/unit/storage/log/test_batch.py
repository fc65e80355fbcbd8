"""Batches on a disk that is full, or fails."""

from errno import EIO, ENOSPC

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import CREATE, SYNC, SYNC_DIRECTORY, WRITE, SimDisk
from penstock.storage.layout.files import SyncFailed
from penstock.storage.recovery.recovery import recover
from tests.unit.storage.making import brought_back, fill, filled, flush, fresh, positions, read


def test_f03_short_writes_are_carried_on() -> None:
    """Reliability F3."""
    disk = SimDisk()
    disk.write_max = 7
    log = fresh(disk)
    index = log.open_queue(1)
    made = fill(log, index, 5)
    flush(log)
    assert [found.message.raw for found in read(log, index).found] == [one.raw for one in made]


@pytest.mark.parametrize("room", range(0, 900, 37))
def test_f17_a_full_disk_is_waited_for(room: int) -> None:
    """Reliability F17: the same batch, run again when there is room, is whole."""
    disk = SimDisk()
    log = fresh(disk)
    index = log.open_queue(1)
    fill(log, index, 8)
    log.settle(index, 3)
    batch = log.take_batch(True)
    assert batch is not None
    disk.room = room
    with pytest.raises(OSError) as caught:
        batch.run()
    assert caught.value.errno == ENOSPC
    disk.room = -1
    batch.run()
    log.done(batch)
    assert brought_back(disk) == [1, 2, 4, 5, 6, 7, 8]


def test_a_full_disk_gets_room_from_what_is_settled() -> None:
    disk, log, index = filled(40, 1024)
    log.settle_below(index, 30)
    fill(log, index, 5)
    disk.room = 0
    flush(log)
    assert disk.room > 0
    assert len(read(log, index).found) == 16


@pytest.mark.parametrize("settled", [16, 41, 46])
def test_f17_a_batch_that_waits_gets_room_from_what_is_settled_meanwhile(settled: int) -> None:
    """F17: it is run again without what nobody needs by then, but never without what it writes."""
    disk, log, index = filled(40, 1024)
    batch = fill(log, index, 5) and log.take_batch(True)
    assert batch
    disk.room = 0
    with pytest.raises(OSError, match="28"):
        batch.run()
    log.settle_below(index, settled)
    log.give_room(batch)
    log.give_room(batch)
    batch.run()
    log.done(batch)
    disk.room = -1
    flush(log)
    left = list(range(settled, 46))
    assert positions(read(log, index)) == left
    again = recover(SimDisk(disk.contents()), Dice(2), 1024, {1})
    assert positions(read(again.log, again.queues[1])) == left
    assert not again.report.lost


def test_f04_a_failed_sync_is_the_end() -> None:
    """Reliability F4: no second try, and nothing is written any more."""
    disk = SimDisk()
    log = fresh(disk)
    index = log.open_queue(1)
    fill(log, index, 1)
    disk.failing_sync = 1
    batch = log.take_batch(True)
    assert batch is not None
    with pytest.raises(SyncFailed) as caught:
        batch.run()
    assert caught.value.errno == EIO
    disk.failing_sync = 0
    before = len(disk.ops)
    with pytest.raises(SyncFailed):
        batch.run()
    fill(log, index, 1)
    later = log.take_batch(True)
    assert later is not None
    with pytest.raises(SyncFailed):
        later.run()
    assert len(disk.ops) == before


def test_a_batch_without_acknowledgements_leaves_them_to_a_later_one() -> None:
    disk, log, index = filled(8)
    log.settle(index, 3)
    fill(log, index, 1)
    batch = log.take_batch(True, False)
    assert batch is not None and not batch.acks
    batch.run()
    log.done(batch)
    assert log.has_work(), "somebody has to come back for it"
    before = recover(SimDisk(disk.contents()), Dice(2), 4096, {1})
    assert positions(read(before.log, before.queues[1])) == list(range(1, 10))
    flush(log)
    after = recover(SimDisk(disk.contents()), Dice(2), 4096, {1})
    assert positions(read(after.log, after.queues[1])) == [1, 2, 4, 5, 6, 7, 8, 9]


def test_a_file_goes_together_with_the_acknowledgements_of_its_time() -> None:
    """What was copied out of it and settled since would otherwise come back."""
    _, log, index = filled(40, 1024)
    log.settle_below(index, 30)
    log.settle(index, 40)
    batch = log.take_batch(True, False)
    assert batch is not None and batch.removals and batch.acks


def test_after_a_clean_stop_every_acknowledgement_is_safe() -> None:
    """Those of earlier batches too: a start that calls the stop clean would not mark them."""
    disk, log, index = filled(60, 2048)
    for position in range(1, 31, 2):
        log.settle(index, position)
    flush(log)
    log.settle(index, 60)
    log.take_last_batch().run()
    names = {op.node: op.name for op in disk.ops if op.kind == CREATE}
    unsafe = {}
    for op in disk.ops:
        if op.kind == WRITE:
            unsafe[op.node] = names[op.node]
        elif op.kind == SYNC:
            unsafe.pop(op.node, None)
    assert len([name for name in disk.files if name.endswith(".acks")]) > 1
    assert not [name for name in unsafe.values() if name.endswith(".acks")]


def test_what_a_footer_makes_safe_has_its_name_safe_too() -> None:
    """A batch that is not synced secures full segments; a file may go for copies in them."""
    disk = SimDisk()
    log = fresh(disk, 1024)
    index = log.open_queue(1)
    fill(log, index, 40)
    flush(log, must_sync=False)
    full = [segment for segment in log.segments.values() if segment.is_sealed]
    assert full and all(segment.synced_to == segment.end for segment in full)
    assert SYNC_DIRECTORY in [op.kind for op in disk.ops]


def test_a_batch_that_removes_what_it_acknowledges_owes_nothing_for_it() -> None:
    disk, log, index = filled(40, 1024)
    log.settle(index, 1)
    batch = log.take_batch(True)
    assert batch is not None and len(batch.acks) == 1
    segment = log.segments[1]
    log.settle_below(index, int(segment.tables[0].last) + 1)
    assert log.dead == [segment]
    log.dead.clear()
    batch.removals.append(segment)
    batch.run()
    log.done(batch)
    log.take_last_batch().run()
    assert not [name for name in disk.files if name.startswith("0000000001")]
