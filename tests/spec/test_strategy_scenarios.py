"""Scenarios 22, 77-82, 87, 112, 116 and 120 of flow-semantics 19: strategies, diagnosis, bounds.

The replicated queue of 77-82 is a stand-in (spec/replicated): a leader that can be
parked, stepped, killed and elected anew. The store of 87 and 112 is a hop behind the queue's gate,
as in the chain scenarios. Of 22 the windows are tested; batches and embedding belong to the store.
"""

import pytest

from penstock.base.clock import ManualClock
from penstock.broker.admin.views import actor_snapshots
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.pending import LIMIT, EmulatedSoftLimit, SoftLimit, pending_strategy
from penstock.flow.profile import (
    ADAPTIVE,
    PENSTOCK,
    RABBITMQ_4,
    RABBITMQ_35,
    HopWindow,
    Profile,
)
from penstock.protocol import methods as m
from tests.spec.replicated import Leader, ReplicatedClient
from tests.spec.stage import Hand, Stage

MS_NS = 1_000_000
KIB = 1024
BOTH = pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_4], ids=lambda profile: profile.name)
FORMS = pytest.mark.parametrize("is_emulating", [False, True], ids=["N", "R"])


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
    assert differences == {"name", "io_batch", "caps_passes", "believes_deaths"} | hops


# -- the soft limit ------------------------------------------------------------------------------


class Counting(GateObserver):
    """Counts blocks and unblocks."""

    def __init__(self) -> None:
        self.closed = 0
        self.opened = 0

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.closed += 1

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.opened += 1


class Quorum:
    """One channel that publishes to a replicated queue with the limit of RabbitMQ, 32."""

    def __init__(self, is_emulating: bool) -> None:
        self.clock = ManualClock()
        self.seen = Counting()
        self.channel = Gate("chan:a/1", self.clock, self.seen)
        self.leader = Leader("queue:/quorum", Gate("queue:/quorum", self.clock, GateObserver()))
        self.account = Account("conn:a", None, None, 0)
        strategy = pending_strategy(LIMIT, is_emulating)
        rule = strategy.rules[0]
        assert isinstance(rule, EmulatedSoftLimit if is_emulating else SoftLimit)
        self.client = ReplicatedClient(self.leader, self.channel, self.account, strategy, rule)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.client.publish(b"body")

    @property
    def is_blocked(self) -> bool:
        return not self.channel.is_open


@FORMS
def test_scenario_77_soft_limit(is_emulating: bool) -> None:
    quorum = Quorum(is_emulating)
    quorum.publish(32)
    assert not quorum.is_blocked
    quorum.publish(1)
    assert quorum.is_blocked
    quorum.leader.step(1)
    assert (len(quorum.client.pending), quorum.is_blocked) == (32, True)
    quorum.leader.step(1)
    assert (len(quorum.client.pending), quorum.is_blocked) == (31, False)
    assert (quorum.seen.closed, quorum.seen.opened) == (1, 1)


@FORMS
def test_scenario_78_acks_while_slow(is_emulating: bool) -> None:
    quorum = Quorum(is_emulating)
    quorum.publish(33)
    sent = quorum.client.sent
    for delivery in range(50):
        quorum.client.settle(delivery)
    assert quorum.client.sent == sent, "none is sent"
    quorum.leader.step(2)
    assert quorum.client.sent == sent + 1, "one merged command"
    quorum.leader.step(100)
    assert quorum.leader.settled == list(range(50))
    assert quorum.account.debt_messages == 0
    assert not quorum.is_blocked


def _at_the_hole(is_emulating: bool) -> Quorum:
    quorum = Quorum(is_emulating)
    quorum.publish(31)
    quorum.client.settle(1)
    quorum.client.settle(2)
    assert len(quorum.client.pending) == 33
    quorum.publish(1)
    return quorum


def test_scenario_79_hole() -> None:
    """[R]: nobody is held, and 1 000 more are accepted."""
    quorum = _at_the_hole(is_emulating=True)
    assert not quorum.is_blocked
    quorum.publish(1000)
    assert not quorum.is_blocked
    assert len(quorum.client.pending) == 1034
    quorum.leader.step(2000)
    assert quorum.seen.closed == 0, "until all of it was applied there never is a block"


def test_scenario_79_no_hole() -> None:
    """[N]: every command counts, whoever crosses the limit."""
    quorum = _at_the_hole(is_emulating=False)
    assert quorum.is_blocked
    quorum.leader.step(3)
    assert not quorum.is_blocked


@FORMS
def test_scenario_80_leader_loss(is_emulating: bool) -> None:
    """As far as no cluster is needed: half was applied, and the answers were lost."""
    quorum = Quorum(is_emulating)
    bodies = [b"%d" % number for number in range(33)]
    for body in bodies:
        quorum.client.publish(body)
    quorum.leader.step(16, is_answering=False)
    quorum.leader.die()
    quorum.clock.advance(30_000 * MS_NS)
    assert quorum.is_blocked
    quorum.leader.elected()
    assert quorum.client.sent == 66, "all 33 again"
    quorum.leader.step(33)
    assert quorum.leader.bodies == bodies, "in order, each once"
    assert quorum.client.confirmed == list(range(1, 34))
    assert not quorum.is_blocked


@FORMS
def test_scenario_81_delete_while_blocked(is_emulating: bool) -> None:
    quorum = Quorum(is_emulating)
    quorum.publish(33)
    quorum.leader.step(1)
    assert quorum.is_blocked
    quorum.leader.delete()
    assert not quorum.is_blocked
    answered = sorted(quorum.client.confirmed + quorum.client.refused)
    assert answered == list(range(1, 34)), "each has an answer, and one only"
    assert quorum.account.debt_messages == 0


@FORMS
def test_scenario_82_soft_overshoot(is_emulating: bool) -> None:
    """A reader that obeys, 400/200, and a channel that does [N] or does not [R]."""
    quorum = Quorum(is_emulating)
    reader = Gate("conn:a", quorum.clock, GateObserver())
    credit = Credit("credit", Window(400, 200, "messages"), Window(0, 0, "bytes"))
    hop = Hop("conn:a", 0, reader, "chan:a/1", 1, quorum.channel)
    credit.wire(hop)
    while reader.is_open:
        credit.charge(hop, quorum.account, 1, 4)
        # [N]: what finds the gate closed waits in the lane. [R]: it is handled all the same.
        if is_emulating or not quorum.is_blocked:
            quorum.publish(1)
            credit.repay(hop, quorum.account, 1, 4)
    pending = len(quorum.client.pending)
    assert (33 < pending <= 33 + 400 + 1) if is_emulating else pending == 33
    assert hop.in_flight + hop.done + hop.deferred == 400


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
