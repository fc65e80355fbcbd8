"""Flow on streams, flow-semantics 8.3 and W13: publishers are held by the disk, whether they ask
for confirms or not, and by nothing else. The disk waits for the test.
"""

from errno import EIO, ENOSPC

import pytest

from penstock.broker.actors.syncing import SyncRule
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.stream.stream_store import StreamStore
from penstock.flow.profile import PENSTOCK, PROFILES, RABBITMQ_4, Profile
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table, Value
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, Numbers
from penstock.storage.layout.files import SyncFailed
from penstock.streams.handles import StreamHandles
from penstock.streams.reading import StreamRead
from tests.spec.stage import Hand, Stage

LATER_NS = 300_000_000


class Bank(Stage):
    """A stage with stream `s` on `files`. reads: jobs that have read it."""

    def __init__(self, profile: Profile = PENSTOCK, **arguments: Value) -> None:
        super().__init__(profile)
        self.disk = HandDisk()
        self.files = SimDisk()
        self.reads = 0
        self.broker.keep(Numbers())
        self.store: StreamStore = self.broker.streams.open(
            "/", StreamHandles(self.files), self.disk
        )
        admin = self.connect()[0]
        table: Table = {"x-queue-type": "stream"}
        table.update({name.replace("_", "-"): value for name, value in arguments.items()})
        admin.say(m.QueueDeclare("s", durable=True, arguments=table))
        self.settle()

    @property
    def stream(self) -> StreamActor:
        actor = self.broker.vhosts["/"].queues["s"]
        assert isinstance(actor, StreamActor)
        return actor

    def send(self, hand: Hand, count: int, size: int = 20) -> None:
        hand.publish_bodies("s", [b"x" * size] * count)
        self.settle()

    def write(self) -> None:
        """The disk does everything there is."""
        while self.disk.jobs:
            self.reads += isinstance(self.disk.jobs[0][0], StreamRead)
            self.disk.work()
            self.settle()

    def forgive(self) -> None:
        """There is one error in the log, as it should be."""
        assert len(self.world.log.errors) == 1
        self.world.log.errors.clear()

    def read(self, prefetch: int, acks: bool, offset: Value = "first") -> Hand:
        hand = self.connect(acks=acks)[0]
        hand.say(m.BasicQos(0, prefetch, False))
        hand.say(m.BasicConsume("s", arguments={"x-stream-offset": offset}))
        self.settle()
        return hand

    def later(self, ns: int = LATER_NS) -> None:
        """What is due by then happens."""
        self.world.clock.jump(self.world.clock.now_ns + ns)
        while self.world.timers.is_due():
            self.world.timers.run_next()
        self.settle()


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def hand(bank: Bank) -> Hand:
    """A client's only channel."""
    return bank.connect()[0]


def test_a_publisher_without_confirms_is_held_by_the_disk(bank: Bank, hand: Hand) -> None:
    """[N] 8.3, W13: flow control does not depend on a client that asks for confirms."""
    for _ in range(16):
        bank.send(hand, 500)
    lane = bank.store.lanes[1]
    assert lane.is_spent, "the stream has no credit towards the disk"
    taken = int(bank.stream.messages.publish_count)
    assert taken < 8000, "and so its publisher has not been read to the end"
    assert bank.stream.messages.ready_count() == 0, "nothing is there before it is safe"
    bank.write()
    assert bank.stream.messages.ready_count() == 8000
    assert not lane.is_spent
    assert bank.broker.node_account.total_messages() == 0


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_profile_gets_everything_through(profile: Profile) -> None:
    bank = Bank(profile)
    hand = bank.connect()[0]
    reader = bank.read(50, acks=True)
    for _ in range(5):
        bank.send(hand, 200)
        bank.disk.work()
        bank.settle()
    bank.write()
    assert len(reader.deliveries) == 1000


def test_a_confirm_means_that_it_is_safe(bank: Bank, hand: Hand) -> None:
    hand.say(m.ConfirmSelect()).settle()
    reader = bank.read(10, acks=True)
    bank.send(hand, 3)
    assert hand.client.session.unconfirmed(hand.channel) == 3
    assert reader.deliveries == []
    bank.write()
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert len(reader.deliveries) == 3


@pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_4], ids=lambda profile: profile.name)
def test_a_slow_reader_holds_nobody(profile: Profile) -> None:
    """One takes nothing, one takes all: the publisher goes as fast as the disk."""
    bank = Bank(profile)
    stuck = bank.read(1, acks=False)
    quick = bank.read(100, acks=True)
    hand = bank.connect()[0]
    for _ in range(10):
        bank.send(hand, 200)
        bank.write()
    assert len(stuck.deliveries) == 1
    assert len(quick.deliveries) == 2000
    assert bank.stream.messages.ready_count() == 2000
    assert bank.stream.gate.is_open


def test_what_is_read_ahead_has_a_bound(bank: Bank, hand: Hand) -> None:
    for _ in range(40):
        bank.send(hand, 5, 20_000)
        bank.write()
    bank.read(1, acks=False)
    bank.write()
    (cursor,) = bank.stream.cursors.values()
    ahead = sum(int(chunk.size) for chunk in cursor.chunks)
    assert 0 < ahead < 300_000 < bank.store.lanes[1].log.disk_bytes


def test_readers_at_the_end_read_no_disk(bank: Bank) -> None:
    readers = [bank.read(100, acks=True, offset="next") for _ in range(3)]
    hand = bank.connect()[0]
    for _ in range(5):
        bank.send(hand, 10)
        bank.write()
    assert bank.reads == 0
    assert [len(one.deliveries) for one in readers] == [50, 50, 50]


def test_a_full_disk_is_waited_for(bank: Bank, hand: Hand) -> None:
    hand.say(m.ConfirmSelect()).settle()
    bank.files.room = 0
    bank.send(hand, 2)
    bank.write()
    assert bank.store.is_full and bank.broker.alarms
    bank.later()
    bank.write()
    assert hand.client.session.unconfirmed(hand.channel) == 2
    bank.files.room = -1
    bank.later()
    bank.write()
    assert not bank.store.is_full and not bank.broker.alarms
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert bank.stream.messages.ready_count() == 2


def test_f04_a_sync_that_fails_is_the_end(bank: Bank, hand: Hand) -> None:
    """F4: nothing is confirmed any more, and nothing is written a second time."""
    hand.say(m.ConfirmSelect()).settle()
    bank.files.failing_sync = bank.files.sync_count + 1
    bank.send(hand, 1)
    bank.disk.work()
    bank.forgive()
    assert bank.store.is_failed
    assert "cannot be written any more" in bank.broker.stores.failure
    ops = len(bank.files.ops)
    bank.send(hand, 1)
    bank.write()
    assert hand.client.session.unconfirmed(hand.channel) == 2
    assert len(bank.files.ops) == ops


def test_a_confirm_waits_for_the_catalogue(bank: Bank, hand: Hand) -> None:
    """A stream that is not kept yet could not give its messages back."""
    hand.say(m.ConfirmSelect()).settle()
    bank.broker.context.catalogue = late = Late()
    bank.send(hand, 1)
    bank.write()
    bank.send(hand, 1)
    bank.write()
    assert hand.client.session.unconfirmed(hand.channel) == 2
    late.is_safe = True
    bank.later()
    assert hand.client.session.unconfirmed(hand.channel) == 0


class Late(Numbers):
    """A catalogue whose disk is slower."""

    def __init__(self) -> None:
        super().__init__()
        self.is_safe = False

    def hand_over(self) -> int:
        return 1

    def has(self, mark: int) -> bool:
        return self.is_safe


def test_a_deleted_stream_answers_what_it_had_taken(bank: Bank, hand: Hand) -> None:
    hand.say(m.ConfirmSelect()).settle()
    bank.send(hand, 100)
    other = bank.connect()[0]
    other.say(m.QueueDelete("s")).settle()
    bank.write()
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert not bank.files.names() and not bank.store.lanes
    assert bank.broker.node_account.total_messages() == 0


def test_a_reader_that_retention_overtakes_goes_on_with_the_first_there_is() -> None:
    bank = Bank(x_max_length_bytes=30_000, x_stream_max_segment_size_bytes=5000)
    hand = bank.connect()[0]
    bank.send(hand, 10)
    bank.write()
    slow = bank.read(1, acks=False)
    for _ in range(60):
        bank.send(hand, 10, 100)
        bank.write()
    first = int(bank.store.lanes[1].log.first())
    assert first > 300 and len(slow.deliveries) == 1
    slow.client.session.ack(slow.channel, 1)
    slow.acks = True
    slow.client.flush()
    bank.settle()
    bank.write()
    offsets = [offset_of(slow, at) for at in range(len(slow.deliveries))]
    assert offsets == sorted(set(offsets))
    assert offsets[-(610 - first) :] == list(range(first, 610))


def offset_of(hand: Hand, at: int) -> int:
    headers = hand.deliveries[at].properties.headers
    assert headers is not None
    value = headers["x-stream-offset"]
    assert isinstance(value, int)
    return value


def test_a_read_that_fails_cancels_its_consumer(bank: Bank, hand: Hand) -> None:
    for _ in range(2):
        bank.send(hand, 10)
        bank.write()
    reader = bank.connect()[0]
    reader.say(m.BasicQos(0, 10, False))
    reader.say(m.BasicConsume("s", arguments={"x-stream-offset": "first"})).settle()
    ((job, client),) = bank.disk.jobs
    bank.disk.jobs.clear()
    client.job_done(job, OSError(EIO, "input or output error"))
    bank.forgive()
    bank.settle()
    assert reader.deliveries == [] and not bank.stream.consumers
    again = bank.read(100, acks=True)
    bank.write()
    assert len(again.deliveries) == 20


def test_damage_is_passed_over_and_told(bank: Bank, hand: Hand) -> None:
    for _ in range(3):
        bank.send(hand, 10)
        bank.write()
    (name,) = bank.files.names()
    data = bank.files.files[name].data
    second = data.find(b"\xd7SCH", data.find(b"\xd7SCH") + 1)
    data[second + 300] ^= 1
    reader = bank.read(100, acks=True)
    bank.write()
    offsets = [offset_of(reader, at) for at in range(len(reader.deliveries))]
    assert offsets == [*range(10), *range(20, 30)]
    assert bank.store.lanes[1].log.damaged_count == 10


def test_a_filter_leaves_out_chunks_of_others() -> None:
    """As RabbitMQ's stream filters: by chunks, from memory and from the disk, and offsets go on."""
    bank = Bank(x_stream_filter_size_bytes=32)
    hand = bank.connect()[0]

    def send(region: str, count: int) -> None:
        headers: Table = {"x-stream-filter-value": region} if region else {}
        for _ in range(count):
            properties = Properties(headers=headers)
            hand.client.session.publish(hand.channel, "", "s", region.encode(), properties)
        hand.client.flush()
        bank.settle()
        bank.write()

    def reader(**arguments: Value) -> Hand:
        made = bank.connect(acks=True)[0]
        table: Table = {"x-stream-offset": "first"}
        table.update({name.replace("_", "-"): value for name, value in arguments.items()})
        made.say(m.BasicQos(0, 10, False), m.BasicConsume("s", arguments=table)).settle()
        bank.write()
        return made

    for region, count in (("east", 30), ("west", 30), ("", 30), ("east", 20)):
        send(region, count)
    east = reader(x_stream_filter="east")
    both = reader(x_stream_filter=["west", "none of these"], x_stream_match_unfiltered=True)
    everything = reader(x_stream_match_unfiltered=True)
    assert east.bodies() == [b"east"] * 50
    assert both.bodies() == [b"west"] * 30 + [b""] * 30
    assert len(everything.bodies()) == 110
    for region, count in (("west", 5), ("east", 5)):
        send(region, count)
    assert east.bodies() == [b"east"] * 55
    assert both.bodies()[60:] == [b"west"] * 5
    assert len(everything.bodies()) == 120


@pytest.mark.parametrize("mode", ["interval", "none"])
def test_in_other_modes_a_confirm_waits_for_the_write_only(mode: str, bank: Bank) -> None:
    """As in the message store. The segment itself is synced when it begins."""
    bank.store.syncing.follow(SyncRule(mode, 1000))
    hand = bank.connect()[0]
    hand.say(m.ConfirmSelect()).settle()
    bank.send(hand, 1)
    bank.write()
    begun = bank.files.sync_count
    for _ in range(3):
        bank.send(hand, 5)
        bank.write()
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert bank.stream.messages.ready_count() == 16
    assert bank.files.sync_count == begun
    bank.later(2_000_000_000)
    bank.write()
    assert bank.files.sync_count - begun == (1 if mode == "interval" else 0)
    bank.later(2_000_000_000)
    bank.write()
    assert bank.files.sync_count - begun == (1 if mode == "interval" else 0), "once is enough"


def test_a_full_disk_is_an_error_of_its_own(bank: Bank, hand: Hand) -> None:
    """A failing sync is final even if it says that there is no room."""
    bank.send(hand, 1)
    batch = bank.store.batch
    assert batch is not None
    bank.disk.jobs.clear()
    bank.store.batch_failed(batch, SyncFailed(ENOSPC, "no room"))
    assert bank.store.is_failed and not bank.store.is_full


def test_a_file_that_somebody_has_taken_away_cancels_its_reader(bank: Bank, hand: Hand) -> None:
    """It is no retention, so looking again would find the same."""
    for _ in range(2):
        bank.send(hand, 3)
        bank.write()
    bank.store.handles.close()
    (name,) = bank.files.names()
    bank.files.remove(name)
    reader = bank.connect()[0]
    reader.say(m.BasicQos(0, 10, False))
    reader.say(m.BasicConsume("s", arguments={"x-stream-offset": "first"})).settle()
    bank.disk.work()
    bank.forgive()
    bank.write()
    assert reader.deliveries == [] and not bank.stream.consumers
