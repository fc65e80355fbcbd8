"""How often messages came back, in every crash state: never less than was safe, never more than
they did, whatever a compaction or another crash does in between."""

from itertools import islice

import pytest

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import WRITE, SimDisk
from penstock.storage.check.check import check as check_store
from penstock.storage.check.check_segment import StoreFacts
from penstock.storage.layout.acks import write_slot
from penstock.storage.log.compaction import Compactor
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery.recovery import Recovered, recover
from tests.unit.storage.making import fill, flush, fresh

COUNT = 60
KEPT = (2, 3, 5, 6, 7, 9, 20, 25, 33, 34, 48, 59)
SEGMENT_BYTES = 2048
STATES = 10

Counts = dict[int, int]


class ReturnRig:
    """A log of queue 1 whose messages come back. told: what it was told of each, by the operations
    that the disk had seen before."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.log: MessageLog = fresh(self.disk, SEGMENT_BYTES)
        self.index = self.log.open_queue(1)
        fill(self.log, self.index, COUNT)
        flush(self.log)
        self.counts: Counts = {}
        self.told: list[tuple[int, Counts]] = [(0, {})]

    def come_back(self, *positions: int) -> None:
        for position in positions:
            self.counts[position] = self.counts.get(position, 0) + 1
            self.log.note_returned(self.index, position, self.counts[position])
        self.told.append((len(self.disk.ops), dict(self.counts)))

    def settle_others(self) -> None:
        for position in range(1, COUNT + 1):
            if position not in KEPT:
                self.log.settle(self.index, position)

    def sync_acks(self) -> None:
        self.log.wants_ack_sync = True
        flush(self.log)

    def told_at(self, at: int) -> Counts:
        """What it had been told when the disk had seen `at` operations."""
        return [counts for since, counts in self.told if since <= at][-1]


def recovered_from(image: Image) -> tuple[SimDisk, Recovered]:
    disk = SimDisk(image)
    return disk, recover(disk, Dice(3), SEGMENT_BYTES, {1})


def living(found: Recovered) -> Counts:
    """Of what counts; it is all there is."""
    index = found.queues[1]
    for position in index.returned:
        run = index.find(position)
        assert run is not None and run.has(position)
    return {int(at): index.returned.get(at, 0) for at in KEPT if index.find(at) is not None}


def check(rig: ReturnRig) -> int:
    """Walk along all that was done to the disk; how many recoveries had counts to carry over."""
    replay = Replay(rig.disk)
    safe: Counts = {}
    carried = 0
    is_left = True
    while is_left:
        is_left = replay.step()
        told = rig.told_at(replay.at)
        certain = living(recovered_from(replay.certain())[1])
        for position, count in certain.items():
            assert count >= safe.get(position, 0), (replay.at, position)
            safe[position] = max(safe.get(position, 0), count)
        for image in islice(replay.states(Dice(replay.at), 2), STATES):
            disk, found = recovered_from(image)
            counts = living(found)
            for position, count in counts.items():
                assert safe.get(position, 0) <= count <= told.get(position, 0), replay.at
            if any(op.kind == WRITE and _is_acks(disk, op.node) for op in disk.ops):
                carried += 1
                check_second_crash(disk, counts)
    return carried


def _is_acks(disk: SimDisk, node: int) -> bool:
    return any(one.number == node for name, one in disk.files.items() if name.endswith(".acks"))


def check_second_crash(disk: SimDisk, before: Counts) -> None:
    """A start that is cut short, or the life that it begins, forgets nothing that was safe."""
    replay = Replay(disk)
    start = living(recovered_from(replay.certain())[1])
    while replay.step():
        again = living(recovered_from(replay.certain())[1])
        for position, count in start.items():
            assert count <= again.get(position, 0) <= before.get(position, count)
    assert living(recovered_from(replay.certain())[1]) == before, "it has all been made safe"


def compacting(rig: ReturnRig, is_restless: bool, must_sync: bool) -> None:
    """Until nothing is left to copy. is_restless: of each slice the first one comes back between
    being read and being copied, and the last one when it has been."""
    compactor = Compactor(rig.log)
    for _ in range(200):
        job = compactor.plan(150)
        if job is not None:
            job.run()
            found = [int(one.position) for read in job.reads for one in read.found]
            if is_restless and found:
                rig.come_back(found[0])
            compactor.copy(job)
            if is_restless and found:
                rig.come_back(found[-1])
        elif not rig.log.has_work():
            return
        flush(rig.log, must_sync)
    raise AssertionError("it does not come to an end")


def test_counts_are_found_after_any_crash() -> None:
    rig = ReturnRig()
    for round_ in range(4):
        rig.come_back(*KEPT[round_:])
        flush(rig.log)
        if round_ == 2:
            rig.sync_acks()
    rig.come_back(5, 6, 7)
    rig.sync_acks()
    check(rig)
    found = living(recovered_from(rig.disk.contents())[1])
    assert found == rig.counts
    assert (found[2], found[5], found[6], found[59]) == (1, 4, 5, 4)


@pytest.mark.parametrize("must_sync", [False, True])
def test_a_compaction_takes_them_along(must_sync: bool) -> None:
    rig = ReturnRig()
    rig.come_back(*KEPT)
    rig.come_back(*KEPT[::2])
    rig.sync_acks()
    rig.settle_others()
    flush(rig.log)
    before = set(rig.log.segments)
    compacting(rig, True, must_sync)
    assert len(before & set(rig.log.segments)) <= 1, "little of each counted"
    assert check(rig) > 0, "a crash may leave them beside the older copy only"
    assert living(recovered_from(rig.disk.contents())[1]) == rig.counts


@pytest.mark.parametrize("must_sync", [False, True])
def test_the_old_segment_stays_until_they_are_safe_beside_the_copies(must_sync: bool) -> None:
    rig = ReturnRig()
    rig.come_back(*KEPT)
    rig.sync_acks()
    rig.settle_others()
    flush(rig.log)
    compacting(rig, False, must_sync)
    assert not rig.log.copied_counts
    replay = Replay(rig.disk)
    while replay.step():
        pass
    found = living(recovered_from(replay.certain())[1])
    assert found == dict.fromkeys(KEPT, 1)


def test_what_has_left_the_queue_is_forgotten() -> None:
    rig = ReturnRig()
    rig.come_back(*range(1, COUNT + 1))
    rig.log.settle(rig.index, 3)
    rig.log.settle_run(rig.index, 10, 20)
    rig.log.settle_between(rig.index, 40, 50)
    left = {*range(1, COUNT + 1)} - {3, *range(10, 21), *range(40, 50)}
    assert set(rig.index.returned) == left
    flush(rig.log)
    assert set(recovered_from(rig.disk.contents())[1].queues[1].returned) == left
    rig.log.settle_below(rig.index, COUNT + 1)
    assert not rig.index.returned
    rig.come_back()
    rig.log.drop_queue(rig.index)
    assert not rig.log.returning


def test_returns_of_one_round_share_their_slots() -> None:
    rig = ReturnRig()
    for _ in range(3):
        rig.come_back(*range(1, COUNT + 1))
    before = sum(int(one.acks_end) for one in rig.log.segments.values())
    flush(rig.log)
    after = sum(int(one.acks_end) for one in rig.log.segments.values())
    assert after - before == len(rig.log.segments) * (32 + 3 * 32), "a header, and one a round"


@pytest.mark.parametrize("returns", [63, 64, 1000, 20_000])
def test_a_message_that_comes_back_for_ever_takes_little(returns: int) -> None:
    rig = ReturnRig()
    for _ in range(returns):
        rig.come_back(7)
    flush(rig.log)
    found = living(recovered_from(rig.disk.contents())[1])[7]
    assert returns * 31 / 32 < found <= returns
    assert found == returns or returns > 64
    assert sum(int(one.acks_end) for one in rig.log.segments.values()) <= 32 + 32 * 64 * 6


def test_a_kind_that_is_not_known_is_passed_over() -> None:
    """As a release that knows no counts takes them, in a start and in a check."""
    rig = ReturnRig()
    segment = rig.log.segments[1]
    write_slot(segment, 9, 1, 5, 7, 3)
    rig.log.acking[segment] = None
    rig.come_back(6)
    flush(rig.log)
    image = rig.disk.contents()
    found = recovered_from(image)[1]
    assert found.queues[1].returned == {6: 1} and found.report.ignored_acks == 0
    assert found.log.live_count(found.queues[1]) == COUNT
    findings = check_store(SimDisk(image), StoreFacts({1: "q"}, 1, found.queues, False))
    assert not findings.damage_count and not findings.kept


def test_a_full_disk_at_the_start_puts_it_off() -> None:
    """What a start has no room to write goes with the first batch."""
    rig = ReturnRig()
    rig.come_back(*KEPT)
    rig.sync_acks()
    rig.settle_others()
    flush(rig.log)
    image = _before_the_copies_know(rig)
    disk = SimDisk(image)
    disk.room = 0
    found = recover(disk, Dice(3), SEGMENT_BYTES, {1})
    assert living(found) == dict.fromkeys(KEPT, 1) and found.log.has_work()
    disk.room = -1
    flush(found.log)
    assert living(recovered_from(disk.contents())[1]) == dict.fromkeys(KEPT, 1)


def test_a_start_makes_them_safe_though_the_older_segment_stays() -> None:
    rig = ReturnRig()
    rig.come_back(*KEPT)
    rig.sync_acks()
    rig.settle_others()
    flush(rig.log)
    disk = SimDisk(_before_the_copies_know(rig, 1))
    assert living(recover(disk, Dice(3), SEGMENT_BYTES, {1})) == dict.fromkeys(KEPT, 1)
    replay = Replay(disk)
    while replay.step():
        pass
    image = replay.certain()
    # Its log has 25 still. Without these 20 is known beside its copy only.
    del image["0000000002.acks"]
    found = living(recovered_from(image)[1])
    assert found == {**dict.fromkeys(KEPT, 1), 25: 0}


def _before_the_copies_know(rig: ReturnRig, bytes_max: int = 1_000_000) -> Image:
    """The files as a kill leaves them when some copies are written and nothing beside them."""
    compactor = Compactor(rig.log)
    job = compactor.plan(bytes_max)
    assert job is not None
    job.run()
    compactor.copy(job)
    batch = rig.log.take_batch(True)
    assert batch is not None
    batch.write_chunks()
    return rig.disk.contents()
