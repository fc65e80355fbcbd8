"""What a quorum queue's log is told of messages that come back: by every way back, and how soon it
is on the disk."""

from collections.abc import Callable

import pytest

from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import ACK_SYNC_NS, FLUSH_NS
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.peer import MS, Bed, Peer, SeededChance, publish

PERSISTENT = (0x1000, b"\x02")
COUNT = 6
SEGMENT_BYTES = 2048
QUORUM: Table = {"x-queue-type": "quorum"}


class CountBed(Bed):
    """The durable queue q has COUNT messages; dead letters go to `dead`."""

    def __init__(self, arguments: Table) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files = SimDisk()
        self.store = give_store(self.broker, self.disk, self.files, SEGMENT_BYTES)
        self.peer = self.connect("peer")
        dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        say = m.QueueDeclare("q", durable=True, arguments=arguments | dead)
        self.peer.call(1, say, m.QueueDeclareOk)
        self.peer.call(1, m.QueueDeclare("dead", durable=True), m.QueueDeclareOk)
        for number in range(COUNT):
            self.peer.send(publish(1, "", "q", b"%04d" % number + bytes(200), PERSISTENT))
            self.work()

    def work(self) -> None:
        self.run()
        while self.disk.work() > 0:
            self.run()

    def pass_ns(self, ns: int) -> None:
        for _ in range(0, ns, 10 * MS):
            self.clock.advance(10 * MS)
            self.broker.dues.fire(self.clock.monotonic_ns())
            self.work()

    def consume(self, peer: Peer) -> None:
        peer.say(1, m.BasicConsume(queue="q", consumer_tag="c"))
        self.work()

    def known(self) -> dict[int, int]:
        """By position, as the broker has it in memory."""
        durability = self.actor("q").durability
        assert isinstance(durability, StoreDurability)
        return dict(durability.index.returned)

    def after(self, image: Image) -> list[int]:
        """Of all messages that a start finds in `image`, in their order."""
        found = recover(SimDisk(image), SeededChance(2), SEGMENT_BYTES, {1})
        job = found.log.plan_reads(found.queues[1], 0, 1000, 1 << 30)
        job.run()
        return [found.queues[1].returned.get(int(one.position), 0) for one in job.found]

    def after_kill(self) -> list[int]:
        return self.after(self.files.contents())

    def after_power(self) -> list[int]:
        """When only what is safe is there."""
        replay = Replay(self.files)
        while replay.step():
            pass
        return self.after(replay.certain())


def nack(bed: CountBed, peer: Peer) -> None:
    peer.say(1, m.BasicCancel("c", True), m.BasicNack(0, True, True))


def reject(bed: CountBed, peer: Peer) -> None:
    peer.say(1, m.BasicCancel("c", True))
    peer.say(1, *(m.BasicReject(tag, True) for tag in range(1, COUNT + 1)))


def recovers(bed: CountBed, peer: Peer) -> None:
    peer.say(1, m.BasicCancel("c", True), m.BasicRecover(True))


def channel_ends(bed: CountBed, peer: Peer) -> None:
    peer.say(1, m.ChannelClose(200, "", 0, 0))


def connection_ends(bed: CountBed, peer: Peer) -> None:
    peer.hang_up()


WAYS = [nack, reject, recovers, channel_ends, connection_ends]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_back_is_counted(way: Callable[[CountBed, Peer], None]) -> None:
    bed = CountBed(QUORUM)
    for times in (1, 2):
        peer = bed.connect("consumer")
        bed.consume(peer)
        assert bed.known() == {at: times - 1 for at in range(1, COUNT + 1) if times > 1}
        way(bed, peer)
        bed.work()
        assert bed.known() == dict.fromkeys(range(1, COUNT + 1), times)
        if not peer.shell.is_closed:
            peer.hang_up()
    bed.pass_ns(FLUSH_NS)
    assert bed.after_kill() == [2] * COUNT, "a second later it is written"
    bed.pass_ns(ACK_SYNC_NS)
    assert bed.after_power() == [2] * COUNT, "and a few seconds later safe"


def test_a_classic_queue_counts_nothing() -> None:
    bed = CountBed({"x-delivery-limit": 5})
    consumer = bed.connect("consumer")
    bed.consume(consumer)
    consumer.hang_up()
    bed.pass_ns(FLUSH_NS + ACK_SYNC_NS)
    assert bed.known() == {} and bed.after_kill() == [0] * COUNT
    assert not any(name.endswith(".acks") and _has_count(bed, name) for name in bed.files.names())


def _has_count(bed: CountBed, name: str) -> bool:
    data = bed.files.contents()[name]
    return any(data[at + 4] == 4 for at in range(32, len(data) - 31, 32))


def test_what_is_acknowledged_or_given_up_leaves_nothing_behind() -> None:
    bed = CountBed({**QUORUM, "x-delivery-limit": 2})
    for times in (1, 2):
        consumer = bed.connect("consumer")
        bed.consume(consumer)
        consumer.hang_up()
        bed.work()
        assert bed.known() == dict.fromkeys(range(1, COUNT + 1), times)
    consumer = bed.connect("consumer")
    bed.consume(consumer)
    consumer.say(1, m.BasicAck(1), m.BasicReject(2, False))
    bed.work()
    assert set(bed.known()) == {3, 4, 5, 6}
    consumer.hang_up()
    bed.pass_ns(FLUSH_NS)
    assert bed.known() == {} and bed.after_kill() == []
    assert bed.actor("dead").messages.ready_count() == COUNT - 1
    assert not bed.store.log.returning


def test_a_purge_and_the_end_of_the_queue_forget_them() -> None:
    for method, answer in (
        (m.QueuePurge("q"), m.QueuePurgeOk),
        (m.QueueDelete("q"), m.QueueDeleteOk),
    ):
        bed = CountBed(QUORUM)
        durability = bed.actor("q").durability
        assert isinstance(durability, StoreDurability)
        consumer = bed.connect("consumer")
        bed.consume(consumer)
        consumer.hang_up()
        bed.work()
        bed.peer.call(1, method, answer)
        bed.pass_ns(FLUSH_NS)
        assert durability.index.returned == {}


def test_a_store_at_rest_comes_to_rest() -> None:
    bed = CountBed(QUORUM)
    consumer = bed.connect("consumer")
    bed.consume(consumer)
    consumer.hang_up()
    bed.pass_ns(3 * ACK_SYNC_NS)
    jobs = bed.disk.ran
    bed.pass_ns(5 * ACK_SYNC_NS)
    assert bed.disk.ran == jobs
