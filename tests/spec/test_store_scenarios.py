"""Scenarios 8, 23-25, 48, 87 and 112 of flow-semantics 19 with the real message store.

The store's disk waits for the test: a parked store is one whose disk does nothing.
"""

import pytest

from penstock.broker.admin.views import actor_snapshots
from penstock.flow.profile import PENSTOCK, RABBITMQ_4, RABBITMQ_35, Profile
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.layout.stored import Stored
from tests.spec.stage import Hand, Stage

EMULATED = pytest.mark.parametrize(
    "profile", [RABBITMQ_35, RABBITMQ_4], ids=lambda profile: profile.name
)
PERSISTENT = Properties(delivery_mode=2)
TRANSIENT = Properties(delivery_mode=1)


class Depot(Stage):
    """A stage whose durable queues d1, d2 and d3, bound to amq.fanout, keep messages on `files`."""

    def __init__(self, profile: Profile, segment_bytes: int = 1 << 20) -> None:
        super().__init__(profile)
        self.disk = HandDisk()
        self.files = SimDisk()
        self.store = give_store(self.broker, self.disk, self.files, segment_bytes)
        admin = self.connect()[0]
        for name in ("q1", "q2", "q3"):
            admin.say(m.QueueUnbind(name, "amq.fanout", ""))
        for name in ("d1", "d2", "d3"):
            admin.say(m.QueueDeclare(name, durable=True))
            admin.say(m.QueueBind(name, "amq.fanout", ""))
        self.settle()

    def send(
        self, hand: Hand, key: str, size: int, count: int = 1, exchange: str = "",
        properties: Properties = PERSISTENT,
    ) -> None:  # fmt: skip
        for _ in range(count):
            hand.client.session.publish(hand.channel, exchange, key, b"x" * size, properties)
        hand.client.flush()
        self.settle()

    def spent(self, queue: str) -> int:
        """Credit towards the store that `queue` has not got back."""
        for lane in self.store.lanes:
            if lane.sender == f"queue:/{queue}":
                return int(lane.window - lane.balance)
        raise AssertionError(queue)

    def write(self) -> None:
        """The disk does everything there is."""
        while self.disk.work():
            self.settle()


@EMULATED
def test_scenario_23_what_spends_store_credit(profile: Profile) -> None:
    depot = Depot(profile)
    hand = depot.connect()[0]
    depot.send(hand, "d1", 5000)
    assert depot.spent("d1") == 1
    depot.send(hand, "d1", 1000)
    assert depot.spent("d1") == 1
    depot.send(hand, "d1", 5000, properties=TRANSIENT)
    assert depot.spent("d1") == 1
    assert depot.ready("d1") == 3


def test_scenario_23_every_persistent_message_costs() -> None:
    """[N]: what has to be written costs credit, however small it is."""
    depot = Depot(PENSTOCK)
    hand = depot.connect()[0]
    depot.send(hand, "d1", 5000)
    depot.send(hand, "d1", 1000)
    depot.send(hand, "d1", 5000, properties=TRANSIENT)
    assert depot.spent("d1") == 2


@EMULATED
@pytest.mark.parametrize(
    ("size", "properties", "cost"),
    [
        (4095, Properties(), 0),
        (4096, Properties(), 1),
        (4000, Properties(content_type="x" * 94), 1),
        (4000, Properties(content_type="x" * 93), 0),
    ],
)
def test_scenario_24_embed_boundary(
    profile: Profile, size: int, properties: Properties, cost: int
) -> None:
    """96 bytes of properties: a delivery mode and a string of 94 with its length; 95 are too few.
    The first two cases have a byte less of body, because the delivery mode takes one."""
    depot = Depot(profile)
    hand = depot.connect()[0]
    marked = Properties(content_type=properties.content_type, delivery_mode=2)
    depot.send(hand, "d1", size if properties.content_type else size - 1, properties=marked)
    assert depot.spent("d1") == cost


@EMULATED
def test_scenario_25_refcount(profile: Profile) -> None:
    depot = Depot(profile)
    hand = depot.connect()[0]
    depot.send(hand, "", 5000, exchange="amq.fanout")
    assert [depot.spent(name) for name in ("d1", "d2", "d3")] == [1, 1, 1]
    stored = depot.queue("d1").messages.ready_messages()[0].stored
    assert isinstance(stored, Stored)
    depot.write()
    body = sum(len(data) for name, data in depot.files.contents().items() if ".log" in name)
    assert 5000 < body < 6000
    reader = depot.connect(acks=True)[0]
    for name in ("d1", "d2", "d3"):
        reader.say(m.BasicConsume(name))
    depot.settle()
    assert len(reader.deliveries) == 3
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0
    assert sum(int(segment.live) for segment in depot.store.log.segments.values()) == 0


@EMULATED
def test_scenario_08_chain_to_the_disk(profile: Profile) -> None:
    """A disk that does nothing stops the queue, then the channel, then the connection; what it
    finishes lets them go in that order."""
    depot = Depot(profile)
    hand = depot.connect()[0]
    window = profile.queue_store.initial
    depot.send(hand, "d1", 5000, window + 2 * profile.credit_initial + 1)
    queue, channel = depot.queue("d1"), depot.channel(hand)
    connection = depot.connection(hand.client)
    assert depot.spent("d1") >= window
    assert not (queue.gate.is_open or channel.gate.is_open or connection.gate.is_open)
    assert depot.queue_lane(hand, "d1").deferred > 0
    depot.write()
    assert queue.gate.is_open
    assert channel.gate.is_open
    assert connection.gate.is_open
    assert depot.ready("d1") == window + 2 * profile.credit_initial + 1
    assert depot.spent("d1") < profile.queue_store.more_after


@pytest.mark.parametrize("parked", ["the store", "its disk"])
@pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_35], ids=lambda profile: profile.name)
def test_scenario_87_diagnosis_down_to_the_disk(profile: Profile, parked: str) -> None:
    """Connection, channel and queue are all in flow, and the API names each edge with the time,
    whether the store has no turn or waits for its disk; one that works stops nobody."""
    depot = Depot(profile)
    hand = depot.connect()[0]
    depot.send(hand, "d1", 4200, 10)
    depot.write()
    connection, channel = depot.connection(hand.client).identity, depot.channel(hand).identity
    row = (connection, channel, "queue:/d1")
    assert [actor_snapshots(depot.broker)[one].state for one in row].count("flow") == 0
    if parked == "the store":
        depot.park("store:/")
    depot.send(hand, "d1", 4200, profile.queue_store.initial + 2 * profile.credit_initial + 1)
    clock = depot.world.clock
    clock.jump(clock.now_ns + 5_000_000_000)
    found = actor_snapshots(depot.broker)
    assert [found[one].state for one in row] == ["flow"] * 3
    assert found["store:/"].state == ("writing" if parked == "its disk" else "running")
    for actor, blocker in ((connection, channel), (channel, "queue:/d1"), ("queue:/d1", "store:/")):
        totals = found[actor].blocked
        assert totals is not None
        held = {(one.peer, one.reason): one.closed_ns for one in totals.blocks}
        assert held[blocker, "credit"] >= 5_000_000_000, f"{actor} by {held}"


def test_scenario_48_one_sync_answers_for_all_that_came() -> None:
    """An idle store writes the first message at once; what comes meanwhile shares the next sync,
    and its confirms are one with `multiple`."""
    depot = Depot(PENSTOCK)
    hand = depot.connect()[0]
    hand.say(m.ConfirmSelect()).settle()
    depot.send(hand, "d1", 100)
    assert len(depot.disk.jobs) == 1
    depot.send(hand, "d1", 100, 50)
    assert len(depot.disk.jobs) == 1
    assert hand.client.session.unconfirmed(hand.channel) == 51
    depot.disk.work()
    depot.settle()
    assert hand.client.session.unconfirmed(hand.channel) == 50
    assert len(depot.disk.jobs) == 1
    depot.disk.work()
    depot.settle()
    assert hand.client.session.unconfirmed(hand.channel) == 0


def test_scenario_112_the_store_is_bounded() -> None:
    """With the disk parked and no confirms, what waits for it stays within the window."""
    depot = Depot(PENSTOCK)
    hand = depot.connect()[0]
    depot.send(hand, "d1", 1024, 20_000)
    lane = depot.store.lanes[0]
    assert lane.in_flight <= PENSTOCK.queue_store.initial + 2 * PENSTOCK.credit_initial
    assert not depot.connection(hand.client).gate.is_open
    depot.write()
    assert depot.ready("d1") == 20_000
