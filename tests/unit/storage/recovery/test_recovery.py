"""What comes back after a stop or a crash."""

import pytest

from penstock.base.errors import OperatorError
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.acks import write_slot
from penstock.storage.layout.checksum import extend_of
from penstock.storage.layout.format import SETTLED, U32, header
from penstock.storage.layout.stored import Stored
from penstock.storage.recovery.recovery import Recovered, empty, recover
from tests.crash.life import message
from tests.unit.storage.making import (
    append_at,
    brought_back,
    fill,
    filled,
    flush,
    fresh,
    positions,
    read,
)


def again(disk: SimDisk, *queues: int) -> Recovered:
    return recover(SimDisk(disk.contents()), Dice(5), 4096, set(queues))


def stopped(disk: SimDisk, count: int = 6, size: int = 40) -> None:
    log = fresh(disk, 1024)
    fill(log, log.open_queue(1), count, size)
    batch = log.take_last_batch()
    batch.run()
    log.done(batch)


def test_nothing_is_there_at_first() -> None:
    recovered = again(SimDisk(), 1, 2)
    assert set(recovered.queues) == {1, 2}
    assert not recovered.log.segments
    assert not recovered.log.has_work()


def test_f23_only_what_is_persistent_comes_back() -> None:
    """Reliability F23."""
    disk = SimDisk()
    log = fresh(disk)
    index = log.open_queue(1)
    for position in range(1, 7):
        append_at(log, index, position, message(b"m"), is_persistent=position % 2 == 0)
    flush(log)
    assert positions(read(log, index)) == [1, 2, 3, 4, 5, 6]
    assert brought_back(disk) == [2, 4, 6]


def test_what_was_settled_stays_away() -> None:
    disk, log, index = filled(6)
    for position in (2, 5):
        log.settle(index, position)
    flush(log, must_sync=False)
    recovered = again(disk, 1)
    assert positions(read(recovered.log, recovered.queues[1])) == [1, 3, 4, 6]
    assert recovered.queues[1].next_position == 7


@pytest.mark.parametrize("is_clean", [True, False])
def test_f09_what_was_only_paged_may_be_acknowledged(is_clean: bool) -> None:
    """Reliability F9: an acknowledgement is strange only if nothing it speaks of was ever there."""
    disk = SimDisk()
    log = fresh(disk)
    index = log.open_queue(1)
    for position in range(1, 9):
        append_at(log, index, position, message(b"m"), is_persistent=position > 4)
    flush(log)
    for position in (2, 4, 6):
        log.settle(index, position)
    write_slot(log.segments[1], SETTLED, 1, 20, 21)
    log.acking[log.segments[1]] = None
    if is_clean:
        log.take_last_batch().run()
    else:
        flush(log)
    recovered = again(disk, 1)
    assert positions(read(recovered.log, recovered.queues[1])) == [5, 7, 8]
    assert recovered.report.ignored_acks == 1


def test_what_was_delivered_is_redelivered() -> None:
    disk = SimDisk()
    log = fresh(disk)
    index = log.open_queue(1)
    fill(log, index, 4)
    log.note_delivered(index, 3)
    flush(log)
    recovered = again(disk, 1)
    found = read(recovered.log, recovered.queues[1]).found
    assert [each.is_redelivered for each in found] == [True, True, False, False]


def test_files_of_deleted_queues_go() -> None:
    disk = SimDisk()
    stopped(disk)
    later = SimDisk(disk.contents())
    recover(later, Dice(5), 4096, {2})
    assert later.names() == []


def test_f05_a_torn_end_is_cut_and_told() -> None:
    """Reliability F5."""
    disk = SimDisk()
    log = fresh(disk)
    fill(log, log.open_queue(1), 3)
    flush(log)
    name = "0000000001.log"
    whole = disk.contents()[name]
    for cut in (1, 20, 60):
        torn = SimDisk(disk.contents() | {name: whole[:-cut]})
        recovered = recover(torn, Dice(5), 4096, {1})
        assert positions(read(recovered.log, recovered.queues[1])) == [1, 2]
        assert recovered.report.cut_bytes > 0
        assert not recovered.report.lost
    zeros = SimDisk(disk.contents() | {name: whole + bytes(5000)})
    recovered = recover(zeros, Dice(5), 4096, {1})
    assert recovered.report.cut_bytes == 5000
    assert positions(read(recovered.log, recovered.queues[1])) == [1, 2, 3]


def quiet(count: int = 3) -> SimDisk:
    """A log that was quiet for a while, so that it says how far it is safe."""
    disk, log, _ = filled(count)
    log.mark_safe()
    flush(log, must_sync=False)
    assert not log.has_work()
    log.mark_safe()
    assert not log.has_work(), "once is enough"
    return disk


def test_damage_in_what_was_written_last_is_told_when_the_log_was_quiet() -> None:
    """Issue 18, 3: without a later record nothing in the log itself tells it from a torn write."""
    disk = quiet()
    name = "0000000001.log"
    whole = disk.contents()[name]
    at = whole.rindex(b"REC")
    for bit in range(at * 8, len(whole) * 8):
        spoilt = SimDisk(disk.contents())
        spoilt.flip(name, bit)
        recovered = again(spoilt, 1)
        back = positions(read(recovered.log, recovered.queues[1]))
        is_lost = sum(recovered.report.lost.values()) == 1 and back == [1, 2]
        # A mark is for finding the next record only.
        assert is_lost or (bit < (at + 3) * 8 and back == [1, 2, 3]), bit
    for cut in (1, 20, 60, 100, 200):
        short = SimDisk(disk.contents() | {name: whole[:-cut]})
        assert again(short, 1).report.lost, cut
    without = SimDisk({name: whole[:-20]})
    assert not again(without, 1).report.lost, "only the slot can tell"


def test_what_is_torn_behind_the_word_of_a_quiet_log_was_never_safe() -> None:
    disk, log, index = filled(3)
    log.mark_safe()
    flush(log, must_sync=False)
    fill(log, index, 2)
    flush(log, must_sync=False)
    name = "0000000001.log"
    whole = disk.contents()[name]
    for cut in (1, 40, 100):
        recovered = again(SimDisk(disk.contents() | {name: whole[:-cut]}), 1)
        assert not recovered.report.lost
        assert positions(read(recovered.log, recovered.queues[1]))[:3] == [1, 2, 3]


def test_the_word_of_another_segment_says_nothing() -> None:
    """A file of acknowledgements that an earlier segment of this number has left."""
    strange = quiet(9).contents()["0000000001.acks"]
    disk = SimDisk()
    log = fresh(disk, seed=9)
    fill(log, log.open_queue(1), 3)
    flush(log)
    whole = disk.contents()["0000000001.log"]
    mixed = SimDisk({"0000000001.log": whole[:-20], "0000000001.acks": strange})
    assert not again(mixed, 1).report.lost


def test_f06_behind_a_tear_a_new_segment_begins() -> None:
    """Reliability F6: two lives."""
    disk = SimDisk()
    log = fresh(disk)
    fill(log, log.open_queue(1), 3)
    flush(log)
    torn = SimDisk(disk.contents())
    torn.files["0000000001.log"].data[-30:] = bytes(30)
    second = recover(torn, Dice(5), 4096, {1})
    fill(second.log, second.queues[1], 100)
    flush(second.log)
    third = again(torn, 1)
    assert len(read(third.log, third.queues[1]).found) == 102
    assert not third.report.lost


def test_f11_f13_damage_in_the_middle_costs_one_message_of_one_queue() -> None:
    """Reliability F11, F13."""
    disk = SimDisk()
    log = fresh(disk)
    one, two = log.open_queue(1), log.open_queue(2)
    for _ in range(4):
        fill(log, one, 1)
        fill(log, two, 1)
        flush(log)
    third = read(log, one).found[2].message.stored
    assert isinstance(third, Stored)
    disk.flip("0000000001.log", int(third.offset + third.size - 9) * 8)
    recovered = again(disk, 1, 2)
    assert recovered.report.lost == {1: 1}
    assert list(recovered.report.lost) == [1]
    assert positions(read(recovered.log, recovered.queues[1])) == [1, 2, 4]
    assert positions(read(recovered.log, recovered.queues[2])) == [1, 2, 3, 4]


def test_f14_damage_in_a_full_segment_is_found_when_it_is_read() -> None:
    """Reliability F14: it is told, not passed over."""
    disk = SimDisk()
    stopped(disk)
    disk.flip("0000000001.log", 8 * 300)
    recovered = again(disk, 1)
    assert not recovered.report.lost
    job = read(recovered.log, recovered.queues[1])
    assert len(job.damaged) == 1
    assert len(job.found) == 5
    assert job.next_position == 7


def test_a_segment_whose_beginning_is_gone_is_read_by_its_footer() -> None:
    disk = SimDisk()
    stopped(disk)
    disk.files["0000000001.log"].data[:64] = bytes(64)
    recovered = again(disk, 1)
    assert len(read(recovered.log, recovered.queues[1]).found) == 6


def test_a_file_that_cannot_be_read_is_set_aside_with_a_word() -> None:
    disk = SimDisk()
    stopped(disk, count=20)
    first = disk.files["0000000001.log"].data
    first[:64] = bytes(64)
    first[-48:] = bytes(48)
    later = SimDisk(disk.contents())
    recovered = recover(later, Dice(5), 4096, {1})
    assert "0000000001.log.damaged" in later.names()
    assert "set aside" in recovered.report.unreadable[0]
    assert read(recovered.log, recovered.queues[1]).found
    assert recover(SimDisk(later.contents()), Dice(6), 4096, {1}).report.unreadable == []


def test_f09_acknowledgements_of_another_segment_do_not_count() -> None:
    """Reliability F9."""
    disk = SimDisk()
    log = fresh(disk, seed=2)
    index = log.open_queue(1)
    fill(log, index, 3)
    log.settle(index, 1)
    flush(log)
    strange = disk.contents()["0000000001.acks"]
    other = SimDisk()
    stopped(other)
    mixed = SimDisk(other.contents() | {"0000000001.acks": strange, "0000000009.acks": strange})
    recovered = recover(mixed, Dice(5), 4096, {1})
    assert len(read(recovered.log, recovered.queues[1]).found) == 6
    assert mixed.names() == ["0000000001.log"]
    assert recovered.log.next_number == 10


def test_an_unknown_format_is_refused_with_a_word() -> None:
    disk = SimDisk()
    stopped(disk)
    head = header(1, 1, 1, bytes(8))[:28]
    changed = head[:9] + b"\x09" + head[10:]
    whole = disk.contents()["0000000001.log"]
    # A version from the future keeps its checksum where ours is.
    from_future = changed + U32.pack(_checksum(changed))
    disk.files["0000000001.log"].data[:] = from_future * 2 + whole[64:]
    with pytest.raises(OperatorError, match="version 9"):
        again(disk, 1)


def _checksum(data: bytes) -> int:
    return extend_of(1)(0, data)


def test_recovery_may_be_cut_short_anywhere() -> None:
    disk, log, index = filled(20, 1024)
    log.settle_below(index, 9)
    flush(log)
    expected = positions(read(log, index))
    whole = SimDisk(disk.contents())
    recover(whole, Dice(5), 4096, {1})
    for syncs in range(1, whole.sync_count + 1):
        cut = SimDisk(disk.contents())
        cut.failing_sync = syncs
        with pytest.raises(OSError, match=r"sync|input"):
            recover(cut, Dice(5), 4096, {1})
        recovered = again(cut, 1)
        assert positions(read(recovered.log, recovered.queues[1])) == expected


def test_f17_a_disk_without_room_for_footers_is_recovered_all_the_same() -> None:
    """Reliability F17."""
    disk = SimDisk()
    log = fresh(disk, 1024)
    fill(log, log.open_queue(1), 20)
    flush(log)
    full = SimDisk(disk.contents())
    full.room = 0
    recovered = recover(full, Dice(5), 4096, {1})
    assert len(read(recovered.log, recovered.queues[1]).found) == 20


def test_a_scratch_log_begins_empty() -> None:
    disk = SimDisk()
    stopped(disk)
    empty(disk)
    assert disk.names() == []


def test_what_the_catalogue_has_never_heard_of_is_set_aside() -> None:
    """It is older than the messages, which are all there is of their queues."""
    disk = SimDisk()
    log = fresh(disk, 1024)
    fill(log, log.open_queue(7), 12)
    log.settle(log.open_queue(7), 3)
    flush(log)
    fill(log, log.open_queue(2), 1)
    flush(log)
    disk = SimDisk(disk.contents())
    before = disk.contents()
    recovered = recover(disk, Dice(5), 1024, set(), queue_id_known=6)
    assert recovered.report.orphan_count == 2 and recovered.log.next_number == 3
    whole = disk.contents()["0000000001.log.orphaned"]
    assert before["0000000001.log"] == whole
    assert "0000000001.acks.orphaned" in disk.names()
    again = recover(disk, Dice(6), 1024, set(), queue_id_known=6)
    assert again.report.orphan_count == 0 and "0000000001.log.orphaned" in disk.names()
    assert again.log.next_number == 3, "its name may be given back to it"
    deleted = SimDisk(before)
    assert recover(deleted, Dice(5), 1024, set(), queue_id_known=7).report.orphan_count == 0
    assert deleted.names() == []
