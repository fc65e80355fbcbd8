"""Files of removed segments that are written over: when they are kept, used, given back."""

from errno import EMFILE

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import CREATE, REMOVE, RENAME, SYNC_DIRECTORY, SimDisk
from penstock.storage.layout.checksum import VERSION
from penstock.storage.layout.files import File
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.log import MessageLog
from penstock.storage.log.recycled import GiveBack
from penstock.storage.recovery.recovery import empty, recover
from tests.unit.storage.making import fill, flush, positions, read


def begun(disk: SimDisk, spares_max: int = 2, **options: bool) -> tuple[MessageLog, QueueIndex]:
    log = MessageLog(disk, Dice(1), 1024, spares_max=spares_max, **options)
    return log, log.open_queue(1)


def life(log: MessageLog, index: QueueIndex, count: int = 8, size: int = 40) -> None:
    """`count` messages come and go, about a segment of them, in batches of their own."""
    fill(log, index, count, size)
    flush(log)
    log.settle_below(index, int(index.next_position))
    flush(log)


def spares_of(disk: SimDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith(".spare")]


def emptied(spares_max: int = 2, lives: int = 6) -> tuple[SimDisk, MessageLog, QueueIndex]:
    disk = SimDisk()
    log, index = begun(disk, spares_max)
    for _ in range(lives):
        life(log, index)
    return disk, log, index


def test_a_store_that_is_written_to_makes_no_new_files() -> None:
    disk, log, index = emptied(spares_max=4, lives=20)
    before = len(disk.ops)
    taken = log.spares.taken_count
    for _ in range(6):
        life(log, index)
    assert log.spares.taken_count > taken + 3
    made = [op.name for op in disk.ops[before:] if op.kind == CREATE and op.name.endswith(".log")]
    assert made == []
    fill(log, index, 5)
    flush(log)
    assert len(read(log, index).found) == 5


def test_none_is_kept_without_the_setting() -> None:
    disk, log, _ = emptied(spares_max=0)
    assert not spares_of(disk) and log.spares.taken_count == 0


def test_no_more_than_the_bound_is_kept() -> None:
    disk = SimDisk()
    log, index = begun(disk)
    life(log, index, 60)
    assert len(spares_of(disk)) == 2
    sizes = {name: len(data) for name, data in disk.contents().items()}
    assert log.spares.kept_bytes == sum(sizes[name] for name in spares_of(disk)) > 0


def test_a_file_is_written_over_only_when_its_name_is_safe() -> None:
    """Until the directory was synced a loss of power may bring the old name back."""
    disk = SimDisk()
    log, index = begun(disk)
    for _ in range(3):
        life(log, index, 24)
    safe: set[str] = set()
    loose: set[str] = set()
    used = 0
    for op in disk.ops:
        if op.kind == SYNC_DIRECTORY:
            safe |= loose
            loose.clear()
        elif op.kind == RENAME and op.new_name.endswith(".spare"):
            loose.add(op.new_name)
        elif op.kind == RENAME:
            assert op.name in safe, "the old name could come back"
            used += 1
    assert used > 0


@pytest.mark.parametrize("size", [2, 1200])
def test_small_and_large_files_are_removed(size: int) -> None:
    """What would have to grow again, and what a single message has made larger than others."""
    disk = SimDisk()
    log, index = begun(disk)
    fill(log, index, 1, size)
    flush(log)
    log.close_active()
    log.settle(index, 1)
    flush(log)
    assert disk.names() == []


def test_a_file_of_an_earlier_format_is_removed() -> None:
    """Its footer has no number, so that it could be taken for that of another segment."""
    disk = SimDisk()
    log, index = begun(disk)
    log.version = VERSION
    life(log, index, 40)
    assert spares_of(disk) == []


def test_nothing_is_kept_where_nothing_is_synced() -> None:
    disk = SimDisk()
    log, index = begun(disk, is_scratch=True)
    life(log, index, 40)
    assert spares_of(disk) == []
    disk = SimDisk()
    log, index = begun(disk)
    log.make_lazy()
    life(log, index, 40)
    assert spares_of(disk) == []


def test_a_full_segment_ends_where_its_footer_ends() -> None:
    """The file was longer; without the cut the footer would not be found at its end."""
    disk, log, index = emptied()
    fill(log, index, 60)
    flush(log)
    sealed = [one for one in log.segments.values() if one.is_sealed and one.was_used]
    assert sealed
    again = recover(SimDisk(disk.contents()), Dice(3), 1024, {1})
    for segment in sealed:
        assert again.log.segments[int(segment.number)].is_sealed
    assert positions(read(again.log, again.queues[1])) == positions(read(log, index))


def test_what_stood_in_the_file_before_is_no_torn_end() -> None:
    """It is told apart, because there may be megabytes of it after every crash."""
    disk, log, index = emptied()
    log.close_active()
    fill(log, index, 1)
    flush(log)
    again = recover(SimDisk(disk.contents()), Dice(3), 1024, {1})
    assert (again.report.cut_bytes, again.report.lost) == (0, {})
    assert again.report.old_bytes > 300
    assert len(read(again.log, again.queues[1]).found) == 1


def test_a_start_and_a_clean_stop_leave_none() -> None:
    disk, log, _ = emptied()
    assert spares_of(disk)
    left = SimDisk(disk.contents())
    recover(left, Dice(3), 1024, {1})
    assert left.names() == []
    log.take_last_batch().run()
    assert disk.names() == []


def test_a_scratch_log_begins_without_them() -> None:
    disk, _, _ = emptied()
    empty(disk)
    assert disk.names() == []


def test_they_are_given_back_when_asked_for() -> None:
    disk, log, index = emptied()
    log.spares.is_wanted = False
    GiveBack(log.spares).run()
    assert not spares_of(disk) and log.spares.kept_bytes == 0
    life(log, index, 40)
    assert not spares_of(disk)
    log.spares.is_wanted = True
    life(log, index, 40)
    assert spares_of(disk)


def test_one_that_somebody_has_removed_is_not_missed() -> None:
    disk, log, index = emptied()
    fill(log, index, 1)
    flush(log)
    for name in spares_of(disk):
        disk.remove(name)
    life(log, index, 40)
    fill(log, index, 3)
    flush(log)
    assert len(read(log, index).found) == 3
    for name in spares_of(disk):
        disk.remove(name)
    GiveBack(log.spares).run()


def test_f17_a_full_disk_takes_them_before_anybody_waits() -> None:
    """F17: the batch that finds no room ends with what they had taken; none is kept on the way."""
    disk = SimDisk()
    log, index = begun(disk, 4)
    life(log, index, 60)
    assert len(spares_of(disk)) == 4
    kept = int(log.spares.kept_bytes)
    disk.room = 200
    fill(log, index, 9)
    flush(log)
    assert not spares_of(disk)
    assert disk.room < kept, "some of it was used"
    assert len(read(log, index).found) == 9
    assert not log.spares.has_no_room, "it was written in the end"


def test_the_directory_is_synced_for_new_names_only() -> None:
    """Files that go, and new ones of acknowledgements, are no reason to let a confirm wait."""
    disk, log, index = emptied()
    before = len(disk.ops)
    for _ in range(30):
        life(log, index, 1)
    kinds = [op.kind for op in disk.ops[before:]]
    begun_count = sum(
        (op.kind == CREATE and op.name.endswith(".log")) or op.new_name.endswith(".log")
        for op in disk.ops[before:]
    )
    assert begun_count > 2
    assert kinds.count(SYNC_DIRECTORY) <= begun_count + 1


def test_acknowledgements_outlive_their_log_by_little() -> None:
    """They wait for the next sync of the directory, but not for ever, and only while there is
    somebody who would have to wait for them."""
    disk, log, index = emptied()
    for _ in range(40):
        life(log, index)
        assert len([name for name in disk.names() if name.endswith(".acks")]) <= 18
    log.settle_below(index, int(index.next_position))
    log.close_active()
    flush(log, must_sync=False)
    assert not [name for name in disk.names() if name.endswith(".acks")]


def test_acknowledgements_never_go_before_the_name_of_their_log_is_safely_gone() -> None:
    """A loss of power may keep one change of names and undo another: what was settled for good
    would be back."""
    disk = SimDisk()
    log, index = begun(disk)
    fill(log, index, 30)
    flush(log)
    first = min(log.segments)
    for position in positions(read(log, index, count=3)):
        log.settle(index, position)
    log.wants_ack_sync = True
    flush(log)
    before = len(disk.ops)
    log.settle_below(index, int(index.next_position) - 1)
    flush(log, must_sync=False)
    changes = [(op.kind, op.name) for op in disk.ops[before:]]
    renamed = changes.index((RENAME, f"{first:010d}.log"))
    removed = changes.index((REMOVE, f"{first:010d}.acks"))
    assert SYNC_DIRECTORY in [kind for kind, _ in changes[renamed:removed]]


class Crowded(SimDisk):
    """Where no handle is to be had for a spare."""

    def open(self, name: str) -> File:
        if name.endswith(".spare"):
            raise OSError(EMFILE, "too many open files", name)
        return super().open(name)


def test_a_file_is_kept_where_handles_are_scarce() -> None:
    disk = Crowded()
    log, index = begun(disk)
    life(log, index, 60)
    assert len(spares_of(disk)) == 2 and log.spares.kept_bytes > 0
    fill(log, index, 1)
    flush(log)
    assert not log.handles.is_broken
