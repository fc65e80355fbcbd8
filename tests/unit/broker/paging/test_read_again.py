"""Reads of a queue that pages fail: what an error that passes keeps waiting, and what is lost."""

from errno import EACCES, EIO, EMFILE, ENOMEM

import pytest

from penstock.base.limits import STORE_READ_PATIENCE_MS
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from tests.unit.broker.peer import MS, Bed, publish

PERSISTENT = (0x1000, b"\x02")
COUNT = 60
SEGMENT_BYTES = 4096


class ReadBed(Bed):
    """Queue q is durable and has COUNT messages; all but the first ones are on `files`."""

    def __init__(self) -> None:
        super().__init__(queue_depth_bytes=8000)
        self.disk = HandDisk()
        self.files = SimDisk()
        self.store = give_store(self.broker, self.disk, self.files, SEGMENT_BYTES)
        self.peer = self.connect("peer", channels=2)
        self.peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
        self.heard: list[int] = []
        for number in range(COUNT):
            self.peer.send(publish(1, "", "q", b"%04d" % number + bytes(300), PERSISTENT))
        self.work()

    def work(self) -> None:
        self.run()
        while self.disk.work() > 0:
            self.run()

    def pass_ms(self, ms: int) -> None:
        for _ in range(0, ms, 50):
            self.clock.advance(50 * MS)
            self.broker.dues.fire(self.clock.monotonic_ns())
            self.work()
        self.heard += [int(one.body[:4]) for one in self.peer.heard() if one.body]

    def consume(self) -> None:
        self.peer.say(2, m.BasicConsume(queue="q", no_ack=True))
        self.pass_ms(50)

    def fail_reads(self, errno: int, *names: str) -> None:
        """Of the files `names`, or all there are; 0 for an end of it."""
        for name in names or self.files.names():
            self.files.files[name].read_errno = errno

    @property
    def queue(self) -> QueueActor:
        return self.broker.vhosts["/"].queues["q"]

    def is_paused(self) -> bool:
        return self.queue.is_paused

    def lines(self, text: str) -> int:
        return sum(text in line for line in self.log.lines)


@pytest.mark.parametrize("errno", [EIO, EMFILE, ENOMEM, EACCES])
def test_an_error_that_passes_costs_time_and_no_message(errno: int) -> None:
    bed = ReadBed()
    bed.fail_reads(errno)
    bed.consume()
    bed.pass_ms(2000)
    assert 0 < len(bed.heard) < COUNT and not bed.is_paused()
    assert bed.lines("a read of what it has on the disk failed") == 1, "it is said once"
    assert bed.lines("ulimit") == (errno == EMFILE)
    tried = bed.disk.ran
    bed.pass_ms(1000)
    assert 3 <= bed.disk.ran - tried <= 5, "four times a second"
    bed.fail_reads(0)
    bed.pass_ms(1000)
    assert bed.heard == list(range(COUNT))
    assert not bed.is_paused() and bed.queue.paging is not None
    assert bed.lines("can be read again") == 1
    assert bed.broker.node_account.total_stored_bytes() == 0


def test_what_fails_for_long_is_lost_and_nothing_else() -> None:
    """EIO of one file, for longer than store_read_patience_ms: a person is asked, and its messages
    are given up when the queue is resumed."""
    bed = ReadBed()
    victim = bed.files.names()[2]
    data = bytes(bed.files.files[victim].data)
    bed.fail_reads(EIO, victim)
    bed.consume()
    bed.pass_ms(STORE_READ_PATIENCE_MS.default - 1000)
    before = len(bed.heard)
    assert 0 < before < COUNT and not bed.is_paused()
    bed.pass_ms(2000)
    assert bed.is_paused() and bed.lines("what it was for is lost") == 1
    bed.queue.pause(False)
    bed.pass_ms(1000)
    lost = [number for number in range(COUNT) if number not in bed.heard]
    assert lost == [number for number in range(COUNT) if b"%04d\x00" % number in data]
    assert lost[0] == before and bed.lines("can be read again") == 0


def test_a_file_that_is_not_there_is_lost_at_once() -> None:
    bed = ReadBed()
    gone = bed.files.files.pop(bed.files.names()[2])
    bed.store.log.handles.give_up_idle()
    bed.consume()
    assert bed.is_paused()
    bed.queue.pause(False)
    bed.pass_ms(1000)
    lost = [number for number in range(COUNT) if number not in bed.heard]
    assert lost == [number for number in range(COUNT) if b"%04d\x00" % number in gone.data]
    assert bed.heard == [number for number in range(COUNT) if number not in lost]


def test_a_queue_that_goes_meanwhile_leaves_nothing_behind() -> None:
    bed = ReadBed()
    bed.fail_reads(EIO)
    bed.consume()
    bed.peer.say(1, m.QueueDelete("q"))
    bed.pass_ms(1000)
    assert "q" not in bed.broker.vhosts["/"].queues
    assert bed.broker.node_account.total_stored_bytes() == 0
    assert bed.store.log.segments.keys() <= {int(bed.store.log.next_number) - 1}
