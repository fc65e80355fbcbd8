"""Scenarios 22, 87, 112, 116 and 120 of flow-semantics 19: strategies, diagnosis, bounds.

The store of 87 and 112 is a hop behind the queue's gate, as in the chain scenarios. Of 22 the
windows are tested; batches and embedding belong to the store.
"""

import pytest

from penstock.broker.admin.views import actor_snapshots
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.pending import RABBITMQ_LIMIT
from penstock.flow.profile import (
    ADAPTIVE,
    PENSTOCK,
    RABBITMQ_4,
    RABBITMQ_35,
    HopWindow,
    Profile,
)
from penstock.protocol import methods as m
from tests.spec.stage import Hand, Stage

MS_NS = 1_000_000
KIB = 1024
BOTH = pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_4], ids=lambda profile: profile.name)


def test_scenario_22_classic_defaults() -> None:
    """Selecting a profile changes exactly these."""
    small, large = HopWindow(200, 50), HopWindow(400, 200)
    assert (RABBITMQ_35.connection_channel, RABBITMQ_35.channel_queue) == (small, small)
    assert (RABBITMQ_4.connection_channel, RABBITMQ_4.channel_queue) == (large, large)
    assert RABBITMQ_35.queue_store == HopWindow(2000, 500)
    assert RABBITMQ_4.queue_store == HopWindow(4000, 800)
    assert (RABBITMQ_35.io_batch, RABBITMQ_4.io_batch) == (2048, 4096)
    assert RABBITMQ_35.embed_below == RABBITMQ_4.embed_below == 4096
    assert RABBITMQ_35.believes_deaths and not RABBITMQ_4.believes_deaths
    differences = {
        field
        for field in Profile.__slots__
        if getattr(RABBITMQ_35, field) != getattr(RABBITMQ_4, field)
    }
    hops = {"connection_channel", "channel_queue", "queue_store"}
    assert (RABBITMQ_35.soft_limit, RABBITMQ_4.soft_limit) == (0, RABBITMQ_LIMIT)
    others = {"name", "io_batch", "caps_passes", "believes_deaths", "mirror_credits", "soft_limit"}
    assert differences == others | hops


# -- diagnosis -----------------------------------------------------------------------------------

STORE = Credit("store", Window(4000, 800, "messages"), Window(0, 0, "bytes"))
STORE_ORIGIN = Account("conn:somebody", None, None, 0)


def _states(stage: Stage, hand: Hand) -> tuple[str, str, str]:
    """Of connection, channel and queue, as the API tells them."""
    found = actor_snapshots(stage.broker)
    identities = (
        stage.connection(hand.client).identity,
        stage.channel(hand).identity,
        "queue:/q1",
    )
    return tuple(found[one].state for one in identities)  # type: ignore[return-value]  # three


def _holders(stage: Stage, identity: str) -> dict[tuple[str, str], int]:
    """Who has held `identity` for what, and for how many nanoseconds."""
    totals = actor_snapshots(stage.broker)[identity].blocked
    assert totals is not None
    return {(one.peer, one.reason): one.closed_ns for one in totals.blocks}


@BOTH
@pytest.mark.parametrize("parked", ["store", "queue", "channel"])
def test_scenario_87_diagnosis(profile: Profile, parked: str) -> None:
    stage = Stage(profile)
    hand = stage.connect()[0]
    channel = stage.channel(hand).identity
    if parked == "store":
        store = stage.store_hop(stage.queue("q1"), 4000, 800)
        STORE.charge(store, STORE_ORIGIN, 4000, 0)
    elif parked == "queue":
        stage.park("queue:/q1")
    else:
        stage.park(channel)
    for _ in range(6):
        hand.publish("q1", profile.credit_initial).settle()
    clock = stage.world.clock
    clock.jump(clock.now_ns + 5000 * MS_NS)
    flows = {"store": 3, "queue": 2, "channel": 1}[parked]
    states = [state == "flow" for state in _states(stage, hand)]
    assert states == [True] * flows + [False] * (3 - flows)
    edges = [
        (stage.connection(hand.client).identity, channel),
        (channel, "queue:/q1"),
        ("queue:/q1", "store:/"),
    ]
    for actor, blocker in edges[:flows]:
        held = _holders(stage, actor)
        assert held[blocker, "credit"] >= 5000 * MS_NS, f"{actor} by {held}"


# -- bounds --------------------------------------------------------------------------------------


def _flood(stage: Stage, hand: Hand, count: int) -> None:
    """`count` publishes of 1 KiB without confirms."""
    client = hand.client
    client.session.publish(hand.channel, "", "q1", bytes(KIB))
    client.outbox += client.session.output(stage.world.clock.now_ns) * count
    stage.settle()


@pytest.mark.parametrize(
    "profile", [PENSTOCK, ADAPTIVE, RABBITMQ_4], ids=lambda profile: profile.name
)
@pytest.mark.parametrize("parked", ["channel", "queue", "store"])
def test_scenario_112_every_edge_exists(profile: Profile, parked: str) -> None:
    stage = Stage(profile)
    hand = stage.connect()[0]
    store = stage.store_hop(stage.queue("q1"), 4000, 800)
    if parked == "channel":
        stage.park(stage.channel(hand).identity)
    elif parked == "queue":
        stage.park("queue:/q1")
    else:
        STORE.charge(store, STORE_ORIGIN, 4000, 0)
    _flood(stage, hand, 100_000)
    upstream = stage.reader_lane(hand)
    reader_bound = int(upstream.window) + 1
    assert upstream.in_flight <= reader_bound
    publisher = stage.channel(hand).publisher
    lanes = list(publisher.lanes.values())
    assert bool(lanes) == (parked != "channel")
    for lane in lanes:
        overshoot = 0 if profile.is_parking else reader_bound
        assert lane.in_flight <= lane.window + overshoot
        if profile.is_parking:
            assert lane.in_flight_bytes <= lane.window_bytes + 2 * KIB, "one message over the line"
    if parked == "store":
        bound = sum(int(lane.window) for lane in lanes) + reader_bound
        assert stage.ready("q1") <= bound, "what it took, it took before it was to defer"
    assert not stage.connection(hand.client).gate.is_open, "the socket is not read"
    assert stage.connection(hand.client).receive_count < 3000


# -- fair shares ---------------------------------------------------------------------------------


class Pressing:
    """A publisher that always has more."""

    def __init__(self, stage: Stage, size: int) -> None:
        self.stage = stage
        self.size = size
        self.hand = stage.connect()[0]
        client = self.hand.client
        client.session.publish(self.hand.channel, "", "q1", bytes(size))
        self.one = client.session.output(stage.world.clock.now_ns)

    def press(self) -> None:
        client = self.hand.client
        missing = 2 * KIB * KIB - len(client.outbox) - len(client.link.up)
        if missing > 0:
            client.outbox += self.one * (missing // len(self.one) + 1)

    def accepted_bytes(self) -> int:
        """What the queue has taken of it, without what still waits."""
        channel = self.stage.channel(self.hand)
        publisher = channel.publisher
        waiting = sum(int(lane.in_flight) for lane in publisher.lanes.values())
        waiting += sum(int(line.count()) for line in channel.parking.lines.values())
        return (int(publisher.publish_count) - waiting) * self.size


@pytest.mark.slow
@pytest.mark.parametrize("profile", [PENSTOCK, ADAPTIVE], ids=lambda profile: profile.name)
def test_scenario_116_fair_share(profile: Profile) -> None:
    """Ten publishers of 1 KiB and one of 1 MiB at a queue that is the slowest of all: its lanes are
    never empty, and a round takes as many bytes from each."""
    stage = Stage(profile)
    # The laws are checked rarely: it is shares that are looked at here, and there are many turns.
    stage.world.setting.check_every = 100_000
    stage.world.setting.pipe_bytes = 65_536
    publishers = [Pressing(stage, KIB) for _ in range(10)] + [Pressing(stage, KIB * KIB)]
    stage.park("queue:/q1")
    clock = stage.world.clock
    for turn in range(560):
        if turn % 20 == 0:
            for publisher in publishers:
                publisher.press()
        stage.settle()
        stage.step("queue:/q1", 1000)
        clock.jump(clock.now_ns + MS_NS)
    shares = [one.accepted_bytes() for one in publishers]
    equal = sum(shares) / len(shares)
    assert shares[-1] >= 4 * KIB * KIB, "enough large messages to tell"
    assert all(abs(share - equal) <= 0.2 * equal for share in shares), (shares, equal)


class Draining(Hand):
    """A consumer that answers as many bytes as it is allowed, oldest first."""

    def drain(self, bytes_: int) -> None:
        session = self.client.session
        while self.deliveries and bytes_ > 0:
            bytes_ -= len(self.deliveries[0].body)
            session.ack(self.channel, self.deliveries.pop(0).delivery_tag)
        self.owed = bytes_
        self.client.flush()


@pytest.mark.slow
@pytest.mark.parametrize("profile", [PENSTOCK, ADAPTIVE], ids=lambda profile: profile.name)
def test_scenario_116_fair_share_at_the_depth_mark(profile: Profile) -> None:
    """The same eleven, held by the depth mark because the consumer is slow: what is drained is
    shared out among them in bytes, and not in windows."""
    stage = Stage(profile)
    stage.world.setting.check_every = 100_000
    stage.world.setting.pipe_bytes = 65_536
    queue = stage.queue("q1")
    queue.depth_bytes = 4 * KIB * KIB
    publishers = [Pressing(stage, KIB) for _ in range(10)] + [Pressing(stage, KIB * KIB)]
    consumer = Draining()
    stage.world.connect(consumer)
    stage.settle()
    consumer.say(m.BasicQos(prefetch_count=2000), m.BasicConsume("q1"))
    clock = stage.world.clock
    before = [0] * len(publishers)
    left = 0
    for turn in range(900):
        if turn == 200:
            before = [one.accepted_bytes() for one in publishers]
        for publisher in publishers:
            publisher.press()
        stage.settle()
        consumer.drain(128 * KIB + left)
        left = consumer.owed
        stage.settle()
        clock.jump(clock.now_ns + MS_NS)
    shares = [one.accepted_bytes() - was for one, was in zip(publishers, before, strict=True)]
    equal = sum(shares) / len(shares)
    assert shares[-1] >= 5 * KIB * KIB, "enough large messages to tell"
    assert all(abs(share - equal) <= 0.2 * equal for share in shares), (shares, equal)


# -- reload --------------------------------------------------------------------------------------


def test_scenario_120_grow() -> None:
    """[N]: existing hops grow at once, and what was parked goes on; no credit is lost."""
    stage = Stage(PENSTOCK.with_messages(200, 100))
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    hand.publish("q1", 300).settle()
    lane = stage.queue_lane(hand, "q1")
    assert (lane.in_flight, lane.balance) == (200, 0)
    stage.broker.settings.write("credit.channel_queue", "400/200")
    stage.settle()
    assert (lane.window, lane.in_flight) == (400, 300)
    lane.check()
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == 300
    assert lane.balance + lane.done == 400


def test_scenario_120_shrink() -> None:
    """[N]: nothing under way is touched; the sender waits, its balance below zero, until less than
    the new window is under way."""
    stage = Stage(PENSTOCK)
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    hand.publish("q1", 300).settle()
    lane = stage.queue_lane(hand, "q1")
    stage.broker.settings.write("credit.channel_queue", "200/50")
    assert (lane.window, lane.in_flight, lane.balance) == (200, 300, -100)
    hand.publish("q1", 10).settle()
    assert stage.is_parking_one(hand)
    for taken in (50, 100):
        stage.step("queue:/q1", 50)
        lane.check()
        assert (lane.in_flight, lane.balance, lane.is_closed) == (300 - taken, taken - 100, True)
    stage.step("queue:/q1", 50)
    assert (lane.balance, lane.is_closed) == (50, False)
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == 310
    assert lane.balance + lane.done == 200


def test_scenario_120_off_and_on() -> None:
    """A window that is switched off holds nobody, and one that is switched on counts what is
    under way. (More than its window is in flight then, which the simulator's law 3 has no word
    for: it is checked at rest only.)"""
    stage = Stage(PENSTOCK)
    stage.world.setting.check_every = 100_000
    hand = stage.connect()[0]
    hand.publish("q1", 1).settle()
    stage.park("queue:/q1")
    for key in ("credit.channel_queue", "credit.channel_queue_bytes"):
        stage.broker.settings.write(key, "off")
    hand.publish("q1", 300).settle()
    lane = stage.queue_lane(hand, "q1")
    assert lane.in_flight == 300
    stage.broker.settings.write("credit.channel_queue", "200/100")
    assert (lane.balance, lane.is_closed) == (-100, True)
    stage.unpark("queue:/q1")
    stage.settle()
    assert (lane.balance + lane.done, lane.is_closed) == (200, False)
