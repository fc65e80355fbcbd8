"""The message log: what is appended can be read, what is settled goes, and files with it."""

import time

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SYNC, SYNC_DIRECTORY, SimDisk
from penstock.storage.layout.stored import Stored
from penstock.storage.log.log import MessageLog
from tests.crash.life import message
from tests.unit.storage.making import (
    NOW_MS,
    append_at,
    brought_back,
    fill,
    filled,
    flush,
    fresh,
    positions,
    read,
)


def test_what_is_appended_is_read_in_order_with_everything_it_had() -> None:
    log = fresh()
    index = log.open_queue(3)
    made = fill(log, index, 5)
    flush(log)
    job = read(log, index)
    assert positions(job) == [1, 2, 3, 4, 5]
    for found, original in zip(job.found, made, strict=True):
        assert found.message.raw == original.raw
        assert found.message.header() == original.header()
        assert found.message.address.exchange == "ex"
        assert found.message.address.suffix == original.address.suffix
        assert found.stored_ms == NOW_MS
        assert found.is_persistent
        assert not found.is_redelivered
    assert job.next_position == 6


def test_what_is_in_the_open_batch_is_not_read() -> None:
    _, log, index = filled(2)
    fill(log, index, 2)
    assert positions(read(log, index)) == [1, 2]
    assert log.live_count(index) == 4


def test_a_message_for_several_queues_is_written_once() -> None:
    log = fresh()
    queues = [log.open_queue(number) for number in (1, 2, 3)]
    one = message(b"x" * 1000)
    stored = Stored()
    one.stored = stored
    for index in queues:
        stored.join(index.queue_id)
    for index in queues:
        log.append(index, one, NOW_MS)
    assert log.open_size < 1300
    flush(log)
    for index in queues:
        assert read(log, index).found[0].message.body() == b"x" * 1000


def test_a_queue_that_has_left_before_its_turn_gets_nothing() -> None:
    log = fresh()
    index = log.open_queue(1)
    one = message(b"gone")
    one.stored = Stored()
    one.stored.join(1)
    assert one.stored.leave(1) == 0
    log.append(index, one, NOW_MS)
    assert log.live_count(index) == 0
    assert not log.has_work()


def test_a_message_larger_than_a_segment_has_one_to_itself() -> None:
    disk = SimDisk()
    log = fresh(disk, 1024)
    index = log.open_queue(1)
    fill(log, index, 1, size=50)
    fill(log, index, 1, size=5000)
    fill(log, index, 1, size=50)
    flush(log)
    assert [name for name in disk.names() if name.endswith(".log")] == [
        "0000000001.log",
        "0000000002.log",
        "0000000003.log",
    ]
    assert len(read(log, index).found) == 3


def test_a_full_segment_goes_with_its_last_entry() -> None:
    disk, log, index = filled(30, 1024)
    count = len(log.segments)
    for position in range(1, 31):
        log.settle(index, position)
    flush(log)
    flush(log)
    assert count > 3
    assert disk.names() == [f"{count:010d}.acks", f"{count:010d}.log"]
    assert log.live_count(index) == 0
    assert int(index.first_position()) == -1


def test_purging_and_deleting_give_room_back() -> None:
    disk = SimDisk()
    log = fresh(disk, 1024)
    purged, deleted, kept = (log.open_queue(number) for number in (1, 2, 3))
    for index in (purged, deleted, kept):
        fill(log, index, 30)
    flush(log)
    before = log.disk_bytes()
    assert log.settle_below(purged, 26) == 25
    log.drop_queue(deleted)
    flush(log)
    assert log.disk_bytes() < before * 0.55
    assert positions(read(log, purged)) == [26, 27, 28, 29, 30]
    assert len(read(log, kept).found) == 30
    log.settle(deleted, 7)
    assert log.settle_below(purged, 26) == 0


def test_a_stretch_in_the_middle_is_settled_alone() -> None:
    disk, log, index = filled(60, 1024)
    log.settle(index, 25)
    assert log.settle_between(index, 11, 51) == 39
    assert log.settle_between(index, 11, 51) == 0
    assert positions(read(log, index)) == [*range(1, 11), *range(51, 61)]
    assert [int(index.live_below(at)) for at in (1, 6, 11, 51, 53, 99)] == [0, 5, 10, 10, 12, 20]
    flush(log)
    assert brought_back(disk) == [*range(1, 11), *range(51, 61)]


def test_a_long_stretch_is_not_settled_message_by_message() -> None:
    log = fresh(segment_bytes=1 << 26)
    index = log.open_queue(1)
    messages = [message(b"x") for _ in range(30_000)]
    for one in messages:
        one.stored = Stored(1)
    log.append_all(index, messages, NOW_MS)
    flush(log)
    log.settle(index, 5)
    began = time.process_time()
    assert log.settle_between(index, 2, 29_991) == 29_988
    # One by one it is 70 ms at least, in which nobody else has a turn.
    assert time.process_time() - began < 0.02
    assert positions(read(log, index)) == [1, *range(29_991, 30_001)]
    assert log.live_count(index) == 11


def test_a_position_is_settled_once() -> None:
    log = fresh()
    index = log.open_queue(1)
    fill(log, index, 1)
    log.settle(index, 1)
    with pytest.raises(AssertionError, match="settled once"):
        log.settle(index, 1)
    with pytest.raises(AssertionError, match="settled once"):
        log.settle(index, 2)


def test_positions_of_the_callers_may_come_in_any_order() -> None:
    log = fresh()
    index = log.open_queue(1)
    for position in (50, 52, 54, 10, 53, 51, 9000, 11, 55):
        append_at(log, index, position, message(str(position).encode()))
    flush(log)
    job = read(log, index)
    assert positions(job) == [10, 11, 50, 51, 52, 53, 54, 55, 9000]
    assert [int(found.message.body()) for found in job.found] == positions(job)
    for position in (52, 10, 55, 9000):
        log.settle(index, position)
    assert positions(read(log, index)) == [11, 50, 51, 53, 54]
    assert index.next_position == 9001


def test_reading_stops_at_its_bounds_and_says_where_to_go_on() -> None:
    _, log, index = filled(20, size=100)
    assert positions(read(log, index, 4, 3)) == [4, 5, 6]
    job = log.plan_reads(index, 1, 1000, 500)
    job.run()
    assert 1 <= len(job.found) <= 6
    assert job.next_position == len(job.found) + 1
    log.plan_reads(index, 1, 1000, 1).run()
    small = log.plan_reads(index, 1, 1000, 1)
    small.run()
    assert positions(small) == [1]


def test_delivered_messages_say_so_when_they_are_read_again() -> None:
    log = fresh()
    index = log.open_queue(1)
    fill(log, index, 4)
    log.note_delivered(index, 3)
    flush(log)
    assert [found.is_redelivered for found in read(log, index).found] == [True, True, False, False]


def test_one_batch_is_one_sync() -> None:
    disk = SimDisk()
    log = fresh(disk, 1_000_000)
    indexes = [log.open_queue(number) for number in range(1, 11)]
    fill(log, indexes[0], 1)
    flush(log)
    before = len(disk.ops)
    for index in indexes:
        fill(log, index, 20)
    flush(log)
    kinds = [op.kind for op in disk.ops[before:]]
    assert kinds.count(SYNC) == 1
    assert kinds.count(SYNC_DIRECTORY) == 0
    assert len(kinds) == 2


def test_a_segment_is_synced_when_its_batch_is_done() -> None:
    log = fresh()
    index = log.open_queue(1)
    fill(log, index, 1)
    flush(log, must_sync=False)
    assert log.segments[1].written_to == log.segments[1].end > log.segments[1].synced_to
    fill(log, index, 1)
    flush(log)
    assert log.segments[1].synced_to == log.segments[1].end


def test_a_scratch_log_is_never_synced() -> None:
    disk = SimDisk()
    log = MessageLog(disk, Dice(1), 1024, is_scratch=True)
    index = log.open_queue(1)
    fill(log, index, 30)
    flush(log)
    assert len(log.segments) > 2
    assert [op for op in disk.ops if op.kind in (SYNC, SYNC_DIRECTORY)] == []
    assert len(read(log, index).found) == 30


def test_a_deleted_queue_keeps_nothing() -> None:
    log = fresh()
    index = log.open_queue(1)
    log.drop_queue(index)
    with pytest.raises(AssertionError, match="deleted"):
        fill(log, index, 1)
