"""What a crash has left twice while a segment was compacted counts once, at any later start."""

import pytest

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.format import SLOT_BYTES, acks_name, log_name
from penstock.storage.log.compaction import Compactor
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery.older_copies import OlderCopies
from penstock.storage.recovery.recovery import Recovered, recover
from tests.unit.storage.making import fill, flush, fresh, positions, read

SEGMENT_BYTES = 2048
COUNTING = [*range(4, 61, 4)]
COPIED = [4, 8]
OLD = 1


class Rig:
    """A log whose first segment is being compacted: COPIED are in segment `newer` as well, and
    another that counts is not."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.log: MessageLog = fresh(self.disk, SEGMENT_BYTES)
        self.index = self.log.open_queue(1)
        fill(self.log, self.index, 60)
        flush(self.log)
        for position in range(1, 61):
            if position not in COUNTING:
                self.log.settle(self.index, position)
        flush(self.log)
        compactor = Compactor(self.log)
        job = compactor.plan(150)
        assert job is not None
        job.run()
        compactor.copy(job)
        flush(self.log)
        copying = compactor.copying
        assert copying is not None and not copying.is_read
        assert copying.segment.number == OLD and copying.segment.copies is not None
        (places,) = copying.segment.copies.values()
        assert [*places] == COPIED
        (self.newer,) = {int(run.table.segment.number) for run in places.values()}


def start(image: Image) -> tuple[SimDisk, Recovered, list[int]]:
    """A start, its disk, and what the queue has."""
    disk = SimDisk(image)
    found = recover(disk, Dice(3), SEGMENT_BYTES, {1})
    return disk, found, positions(read(found.log, found.queues[1]))


def test_it_does_not_come_back_when_the_newer_copies_have_left() -> None:
    rig = Rig()
    disk, found, there = start(rig.disk.contents())
    assert there == COUNTING
    for position in COPIED:
        found.log.settle(found.queues[1], position)
    flush(found.log)
    found.log.take_last_batch().run()
    names = disk.contents()
    assert log_name(rig.newer) not in names and log_name(OLD) in names
    assert start(names)[2] == COUNTING[2:]


def test_one_lost_acknowledgement_of_two_is_none_at_any_start() -> None:
    """A killed broker has written that of the newer copy alone, or a loss of power has kept it."""
    rig = Rig()
    before = rig.disk.contents()[acks_name(OLD)]
    for position in COPIED:
        rig.log.settle(rig.index, position)
    flush(rig.log)
    image = {**rig.disk.contents(), acks_name(OLD): before}
    for _ in range(3):
        disk, _, there = start(image)
        assert there == COUNTING[2:]
        image = disk.contents()


def test_what_counts_between_them_stays() -> None:
    """No acknowledgement reaches over it: another crash may leave the older segment alone."""
    rig = Rig()
    disk, _, there = start(rig.disk.contents())
    assert there == COUNTING
    image = disk.contents()
    for name in (log_name(rig.newer), acks_name(rig.newer)):
        image.pop(name, None)
    assert start(image)[2] == COUNTING[2:]


@pytest.mark.parametrize("has_left", [False, True])
def test_a_start_that_is_cut_short_decides_nothing(has_left: bool) -> None:
    """In every state of a start that loses power, all that counts is there once."""
    rig = Rig()
    if has_left:
        for position in COPIED:
            rig.log.settle(rig.index, position)
        rig.log.wants_ack_sync = True
        flush(rig.log)
    disk, _, there = start(rig.disk.contents())
    replay = Replay(disk)
    while True:
        assert start(replay.certain())[2] == there
        if not replay.step():
            break


@pytest.mark.parametrize(("gone", "slots"), [((4, 8), 1), ((4, 12), 2), ((4, 8, 12, 16), 1)])
def test_no_acknowledgement_reaches_over_what_counts(gone: tuple[int, ...], slots: int) -> None:
    rig = Rig()
    image = rig.disk.contents()
    for name in (log_name(rig.newer), acks_name(rig.newer)):
        image.pop(name, None)
    disk, found, _ = start(image)
    segment = found.log.segments[OLD]
    older = OlderCopies()
    for position in gone:
        run = found.queues[1].find(position)
        assert run is not None
        if run.table.segment is segment:
            run.clear(position)
            older.note(segment, 1, position)
    assert list(older.settle([])) == [segment]
    assert segment.acks is not None and len(segment.acks) == slots * SLOT_BYTES
    found.log.acking[segment] = None
    flush(found.log)
    there = start(disk.contents())[2]
    assert there == [one for one in COUNTING if one not in gone or one > 12]
