"""Compaction: what counts is copied, what does not goes, whatever happens meanwhile."""

from penstock.base.limits import STORE_COPY_RECORDS
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.segment import Run
from penstock.storage.layout.stored import Stored
from penstock.storage.log.compaction import LOOK_NS, RUNS_AT_ONCE, Compactor
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery.recovery import recover
from tests.unit.storage.making import NOW_MS, brought_back, fill, flush, fresh, positions, read


def emptied(disk: SimDisk, keep: int = 5) -> MessageLog:
    """Sixty messages in several segments, of which every `keep`-th counts."""
    log = fresh(disk, 2048)
    index = log.open_queue(1)
    fill(log, index, 60)
    flush(log)
    for position in range(1, 61):
        if position % keep:
            log.settle(index, position)
    flush(log)
    return log


def compact(log: MessageLog, compactor: Compactor) -> None:
    """Until there is nothing left to do."""
    for _ in range(100):
        job = compactor.plan(300)
        if job is not None:
            job.run()
            compactor.copy(job)
        elif not log.has_work():
            return
        flush(log, must_sync=False)
    raise AssertionError("it does not come to an end")


def test_room_comes_back_and_everything_that_counts_is_there() -> None:
    disk = SimDisk()
    log = emptied(disk)
    index = log.open_queue(1)
    before = log.disk_bytes()
    compact(log, Compactor(log))
    assert log.disk_bytes() < before / 2
    job = read(log, index)
    assert positions(job) == list(range(5, 61, 5))
    assert [int(found.message.body().strip(b".")) for found in job.found] == list(range(4, 60, 5))
    assert brought_back(disk) == list(range(5, 61, 5))


def test_full_segments_are_left_alone() -> None:
    log = fresh(SimDisk(), 2048)
    fill(log, log.open_queue(1), 60)
    flush(log)
    assert Compactor(log).plan() is None


def test_what_is_settled_meanwhile_is_settled_in_both_places() -> None:
    disk = SimDisk()
    log = emptied(disk)
    index = log.open_queue(1)
    compactor = Compactor(log)
    job = compactor.plan(100_000)
    assert job is not None
    job.run()
    log.settle(index, 5)
    compactor.copy(job)
    log.settle(index, 10)
    flush(log)
    compact(log, compactor)
    log.settle(index, 15)
    flush(log)
    left = list(range(20, 61, 5))
    assert positions(read(log, index)) == left
    assert brought_back(disk) == left


def test_a_queue_that_is_deleted_meanwhile_is_not_brought_back() -> None:
    disk = SimDisk()
    log = emptied(disk)
    other = log.open_queue(2)
    fill(log, other, 10)
    flush(log)
    compactor = Compactor(log)
    job = compactor.plan(100_000)
    assert job is not None
    job.run()
    compactor.copy(job)
    log.drop_queue(log.open_queue(1))
    flush(log)
    compact(log, compactor)
    assert positions(read(log, other)) == list(range(1, 11))
    assert log.live_count(log.open_queue(1)) == 0


def test_the_old_segment_stays_until_the_copies_are_safe() -> None:
    disk = SimDisk()
    log = emptied(disk)
    compactor = Compactor(log)
    copying = None
    for _ in range(20):
        job = compactor.plan(100_000)
        if job is None:
            break
        copying = copying or compactor.copying
        job.run()
        compactor.copy(job)
        batch = log.take_batch(False)
        assert batch is not None
        batch.run()
        log.done(batch)
    assert copying is not None and compactor.copying is not None
    assert not copying.segment.is_gone
    assert compactor.plan() is None
    assert log.wants_sync, "the next batch makes the copies safe"


class Places(dict[int, Run]):
    """asked: how often somebody has looked for a position."""

    asked = 0

    def __contains__(self, position: object) -> bool:
        self.asked += 1
        return super().__contains__(position)


def test_at_the_end_copies_are_counted_and_not_looked_for_one_by_one() -> None:
    log = emptied(SimDisk())
    compactor = Compactor(log)
    job = compactor.plan()
    assert job is not None and compactor.copying is not None
    old = compactor.copying.segment
    assert old.copies is not None
    places = old.copies[1] = Places()
    job.run()
    compactor.copy(job)
    assert places and compactor.copying.is_read
    log.settle(log.open_queue(1), min(places))
    flush(log)
    places.asked = 0
    compactor.plan()
    assert old.is_gone
    assert places.asked == 0


def test_a_marked_message_is_redelivered_from_its_copy_too() -> None:
    disk = SimDisk()
    log = emptied(disk)
    log.note_delivered(log.open_queue(1), 23)
    compact(log, Compactor(log))
    again = recover(SimDisk(disk.contents()), Dice(3), 2048, {1})
    told = {
        int(found.position)
        for found in read(again.log, again.queues[1]).found
        if found.is_redelivered
    }
    assert told == {5, 10, 15, 20}


def test_a_segment_that_cannot_be_read_does_not_keep_the_others_from_their_turn() -> None:
    log = emptied(SimDisk())
    index = log.open_queue(1)
    compactor = Compactor(log)
    assert compactor.plan(300) is not None and compactor.copying is not None
    unread = compactor.copying.segment
    before = log.disk_bytes()
    compactor.failed()
    compact(log, compactor)
    assert log.segments[int(unread.number)] is unread
    assert log.disk_bytes() < before * 3 / 4
    assert positions(read(log, index)) == list(range(5, 61, 5))


def test_a_damaged_segment_is_left_as_it_is_and_told() -> None:
    disk = SimDisk()
    log = emptied(disk)
    index = log.open_queue(1)
    place = read(log, index).found[0].message.stored
    assert place is not None
    disk.flip("0000000001.log", 8 * (place.offset + 70))  # type: ignore[attr-defined]
    compactor = Compactor(log)
    compact(log, compactor)
    assert compactor.damaged == [1]
    job = read(log, index)
    assert job.damaged == [5]
    assert positions(job) == list(range(10, 61, 5))
    for position in range(10, 61, 5):
        log.settle(index, position)
    log.settle(index, 5)
    flush(log)
    flush(log)
    assert "0000000001.log" not in disk.names()


def test_many_small_segments_are_joined() -> None:
    disk = SimDisk()
    for life in range(12):
        recovered = recover(disk, Dice(life), 1_000_000, {1})
        fill(recovered.log, recovered.queues[1], 2)
        batch = recovered.log.take_last_batch()
        batch.run()
        recovered.log.done(batch)
    recovered = recover(disk, Dice(99), 1_000_000, {1})
    assert len(recovered.log.segments) == 12
    compact(recovered.log, Compactor(recovered.log))
    assert len(recovered.log.segments) < 12
    assert len(read(recovered.log, recovered.queues[1]).found) == 24


def test_a_scratch_log_is_compacted_without_a_sync() -> None:
    disk = SimDisk()
    log = MessageLog(disk, Dice(1), 2048, is_scratch=True)
    index = log.open_queue(1)
    fill(log, index, 60)
    flush(log)
    for position in range(1, 61):
        if position % 5:
            log.settle(index, position)
    flush(log)
    compact(log, Compactor(log))
    assert positions(read(log, index)) == list(range(5, 61, 5))
    assert disk.sync_count == 0


def test_what_empties_itself_is_left_alone() -> None:
    """Consumers who go on will soon have emptied it, and copying would have been for nothing."""
    log = emptied(SimDisk())
    compactor = Compactor(log)
    assert compactor.plan_at(1) is None and compactor.wants_look
    assert compactor.plan_at(LOOK_NS) is None, "it is not yet time for another look"
    log.settle(log.open_queue(1), 5)
    for segment in log.segments.values():
        segment.seen_end = segment.end
    first = min(log.segments)
    job = compactor.plan_at(LOOK_NS + 1)
    assert job is not None and compactor.copying is not None
    assert compactor.copying.segment.number != first, "something was settled there since"
    job.run()
    compactor.copy(job)


def test_whoever_goes_on_looking_gets_all_room_back() -> None:
    log = emptied(SimDisk())
    index = log.open_queue(1)
    before = log.disk_bytes()
    compactor = Compactor(log)
    now_ns = 0
    for _ in range(100):
        now_ns += LOOK_NS
        job = compactor.plan_at(now_ns)
        if job is not None:
            job.run()
            compactor.copy(job)
        elif not log.has_work() and not compactor.wants_look:
            break
        flush(log, must_sync=False)
    assert log.disk_bytes() < before / 2
    assert positions(read(log, index)) == list(range(5, 61, 5))


def shared(keep: int) -> tuple[MessageLog, SimDisk]:
    """Sixty messages that two queues share; the first has settled all, the second all but every
    `keep`-th."""
    disk = SimDisk()
    log = fresh(disk, 2048)
    one, two = log.open_queue(1), log.open_queue(2)
    for _ in range(60):
        (sent,) = fill(log, one, 1, 200)
        assert isinstance(sent.stored, Stored)
        sent.stored.join(2)
        log.append(two, sent, NOW_MS)
    flush(log)
    log.settle_below(one, 61)
    for position in range(1, 61):
        if position % keep:
            log.settle(two, position)
    flush(log)
    return log, disk


def test_a_slow_queue_of_several_keeps_the_bodies_where_they_are() -> None:
    """Its references are short, but what they refer to would be copied for nothing."""
    log, _ = shared(1)
    assert Compactor(log).plan() is None


def test_what_a_slow_queue_of_several_has_left_is_copied() -> None:
    log, disk = shared(6)
    before = log.disk_bytes()
    compact(log, Compactor(log))
    assert log.disk_bytes() < before / 2
    assert positions(read(log, log.open_queue(2))) == list(range(6, 61, 6))
    again = recover(SimDisk(disk.contents()), Dice(3), 2048, {1, 2})
    assert positions(read(again.log, again.queues[2])) == list(range(6, 61, 6))


def test_a_slice_of_small_messages_is_bounded_by_their_number() -> None:
    log = fresh(SimDisk(), 1 << 20)
    index = log.open_queue(1)
    fill(log, index, 5000)
    flush(log)
    for position in range(1, 5001):
        if position % 2 or position % 5 == 0:
            log.settle(index, position)
    log.close_active()
    flush(log)
    compactor, slices = Compactor(log), 0
    while (job := compactor.plan()) is not None or log.has_work():
        if job is not None:
            count = sum(len(one.positions) for read in job.reads for one in read.stretches)
            slices += count > 0
            assert count <= STORE_COPY_RECORDS.default
            job.run()
            compactor.copy(job)
        flush(log, must_sync=False)
    assert slices == 2000 // STORE_COPY_RECORDS.default
    assert len(positions(read(log, index, 1, 5000))) == 2000


def test_a_look_goes_through_some_stretches_of_queues_and_not_through_the_same_ones_again() -> None:
    """Everybody waits meanwhile, and thousands of queues may have a stretch in each segment."""
    log = fresh(SimDisk(), 1 << 20)
    queues = [log.open_queue(number) for number in range(1, RUNS_AT_ONCE // 2 + 1)]
    for _ in range(4):
        for index in queues:
            fill(log, index, 1, 8)
        log.close_active()
        flush(log)
    for index in queues:
        if index.queue_id % 3:
            log.settle(index, 4)
    flush(log)
    compactor = Compactor(log)
    assert compactor.plan_at(1) is None and compactor.wants_look
    first, second, third, fourth = log.segments.values()
    assert [*compactor.ratings] == [first, second]
    known = compactor.ratings[first]
    job = compactor.plan_at(LOOK_NS + 1)
    assert job is not None and compactor.copying is not None
    assert compactor.copying.segment is fourth
    assert [*compactor.ratings] == [first, second, third, fourth]
    assert compactor.ratings[first] is known
    log.settle(queues[0], 1)
    while job is not None:
        job.run()
        compactor.copy(job)
        flush(log)
        job = compactor.plan_at(2 * LOOK_NS + 1)
    assert compactor.ratings[first].live == len(queues) - 1 == known.live - 1
    assert fourth.is_gone
