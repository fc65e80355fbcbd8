"""What was settled is safe a few seconds later, also from a loss of power, and in pieces."""

from collections import Counter

from penstock.broker.store.store_actor import ACK_SYNC_NEXT_NS, ACK_SYNC_NS, ACK_SYNCS, FLUSH_NS
from penstock.protocol import methods as m
from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.disk import SYNC, SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.peer import MS, Bed, SeededChance, publish

PERSISTENT = (0x1000, b"\x02")
COUNT = 40
SEGMENT_BYTES = 2048


class AckBed(Bed):
    """Queue q is durable and has `count` messages, in several segments."""

    def __init__(self, count: int = COUNT, segment_bytes: int = SEGMENT_BYTES) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files = SimDisk()
        give_store(self.broker, self.disk, self.files, segment_bytes)
        self.peer = self.connect("peer")
        self.peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
        for number in range(count):
            self.peer.send(publish(1, "", "q", b"%04d" % number + bytes(200), PERSISTENT))
            self.work()

    def work(self) -> None:
        self.run()
        while self.disk.work() > 0:
            self.run()

    def pass_ns(self, ns: int, step: int = 10 * MS) -> None:
        for _ in range(0, ns, step):
            self.clock.advance(step)
            self.broker.dues.fire(self.clock.monotonic_ns())
            self.work()

    def settle(self, *numbers: int) -> None:
        """Acknowledge these, by their tags."""
        for number in numbers:
            self.peer.say(1, m.BasicAck(number + 1))
        self.work()

    def after_power(self) -> list[int]:
        """What comes back when only what is safe is there."""
        replay = Replay(self.files)
        while replay.step():
            pass
        found = recover(SimDisk(replay.certain()), SeededChance(2), SEGMENT_BYTES, {1})
        job = found.log.plan_reads(found.queues[1], 0, 1000, 1 << 30)
        job.run()
        assert not job.damaged
        return [int(one.message.body()[:4]) for one in job.found]


def consuming(count: int = COUNT, segment_bytes: int = SEGMENT_BYTES) -> AckBed:
    bed = AckBed(count, segment_bytes)
    bed.peer.say(1, m.BasicConsume(queue="q"))
    bed.work()
    return bed


def test_what_was_acknowledged_some_seconds_ago_does_not_come_back() -> None:
    bed = consuming()
    bed.settle(0, 1, 2)
    bed.pass_ns(FLUSH_NS)
    assert bed.after_power() == list(range(COUNT)), "it is written, and not synced"
    bed.pass_ns(ACK_SYNC_NS)
    assert bed.after_power() == list(range(3, COUNT))


def test_many_files_are_synced_a_few_at_a_time() -> None:
    bed = consuming()
    # One of each segment, or nearly.
    bed.settle(*range(0, COUNT, 5))
    bed.pass_ns(FLUSH_NS)
    left = [len(bed.after_power())]
    before = len(bed.files.ops)
    bed.pass_ns(ACK_SYNC_NS - FLUSH_NS)
    while len(bed.after_power()) > COUNT - COUNT // 5:
        jobs = bed.disk.ran
        bed.pass_ns(ACK_SYNC_NEXT_NS)
        assert bed.disk.ran - jobs <= 1
        left.append(len(bed.after_power()))
        assert left[-2] - left[-1] <= ACK_SYNCS * 2
    assert len(set(left)) >= 3, "in several pieces"
    assert sum(op.kind == SYNC for op in bed.files.ops[before:]) <= COUNT


def test_a_store_at_rest_comes_to_rest() -> None:
    bed = consuming()
    bed.settle(0)
    bed.pass_ns(3 * ACK_SYNC_NS, step=100 * MS)
    jobs = bed.disk.ran
    bed.pass_ns(10 * ACK_SYNC_NS, step=100 * MS)
    assert bed.disk.ran == jobs


def test_nothing_older_comes_back_under_load() -> None:
    """Something is published and acknowledged all the time, so that no moment is quiet."""
    bed = consuming()
    step = 5 * MS
    for number in range(ACK_SYNC_NS // step * 2):
        bed.peer.send(publish(1, "", "q", b"%04d" % (COUNT + number) + bytes(20), PERSISTENT))
        bed.settle(number)
        bed.pass_ns(step, step)
    seven_s = (FLUSH_NS + ACK_SYNC_NS) * 7 // 6 // step
    assert bed.after_power()[0] >= ACK_SYNC_NS // step * 2 - seven_s


def test_files_that_are_written_on_and_on_are_synced_once_in_a_round() -> None:
    # Less than half of what each file has, or the rest would be copied.
    in_one, steps, publishes, rounds = 100, 40, 25, 2
    bed = consuming(5 * in_one, in_one * 280)
    before = len(bed.files.ops)
    for number in range(steps):
        bed.settle(*range(number, 5 * in_one, in_one))
        for _ in range(publishes):
            bed.peer.send(publish(1, "", "q", bytes(20), PERSISTENT))
            bed.pass_ns(rounds * ACK_SYNC_NS // (steps * publishes))
    names = {op.node: op.name for op in bed.files.ops if op.node >= 0 and op.name}
    synced = Counter(names[op.node] for op in bed.files.ops[before:] if op.kind == SYNC)
    found = [count for name, count in synced.items() if name.endswith(".acks")]
    assert len(found) > ACK_SYNCS * 2, "more than two batches sync"
    assert max(found) <= rounds
