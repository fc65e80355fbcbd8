"""Scenarios 5, 8, 9, 16, 17, 21 and 26-29 of flow-semantics 19 on the real broker's actors.

[R] runs under rabbitmq-3.5 and rabbitmq-4, [N] under penstock. A parked actor is given no turn.
The store of scenarios 8 and 9 is a hop behind the queue's gate, charged by hand: in the memory-only
broker no actor stands there.
"""

import pytest

from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.profile import PENSTOCK, RABBITMQ_4, RABBITMQ_35, Profile
from penstock.protocol import methods as m
from penstock.telemetry.events import GATE_OPENED
from tests.spec.stage import Hand, Stage, numbered

EMULATED = pytest.mark.parametrize(
    "profile", [RABBITMQ_35, RABBITMQ_4], ids=lambda profile: profile.name
)
ALL = pytest.mark.parametrize(
    "profile", [RABBITMQ_35, RABBITMQ_4, PENSTOCK], ids=lambda profile: profile.name
)
STORE = Credit("store", Window(4000, 800, "messages"), Window(0, 0, "bytes"))
STORE_ORIGIN = Account("conn:somebody", None, None, 0)


@pytest.fixture
def profile() -> Profile:
    """[N], where a scenario does not say otherwise."""
    return PENSTOCK


@pytest.fixture
def stage(profile: Profile) -> Stage:
    return Stage(profile)


@pytest.fixture
def hand(stage: Stage) -> Hand:
    """A publisher."""
    return stage.connect()[0]


def saturate(stage: Stage, hand: Hand, queue: str) -> None:
    """Publish to a parked `queue` until one more would stop the socket [N]."""
    channel = stage.channel(hand)
    lane = stage.reader_lane(hand)
    hand.publish(queue, stage.profile.credit_initial + 1).settle()
    hand.publish(queue, int(lane.balance)).settle()
    assert lane.is_closed
    assert not channel.parking.entrance
    hand.publish(queue, 1).settle()
    assert channel.parking.entrance
    assert stage.connection(hand.client).gate.is_open


def test_scenario_05_overshoot_is_parked(stage: Stage, hand: Hand) -> None:
    """[N]: the publish after the last credit is parked; the balance never goes below zero."""
    stage.park("queue:/q1")
    hand.publish("q1", PENSTOCK.credit_initial + 1).settle()
    assert stage.queue_lane(hand, "q1").balance == 0
    assert stage.is_parking_one(hand)


def in_one_turn(stage: Stage, hand: Hand, key: str, count: int, exchange: str = "") -> None:
    """The reader forwards `count` publishes before the channel takes the first of them."""
    identity = stage.channel(hand).identity
    stage.park(identity)
    hand.publish(key, count, exchange).settle()
    stage.unpark(identity)
    stage.settle()


@EMULATED
def test_scenario_08_chain(profile: Profile, stage: Stage, hand: Hand) -> None:
    initial = profile.credit_initial
    queue = stage.queue("q1")
    store = stage.store_hop(queue, 4000, 800)
    STORE.charge(store, STORE_ORIGIN, 4000, 0)
    in_one_turn(stage, hand, "q1", initial)
    channel, connection = stage.channel(hand), stage.connection(hand.client)
    to_queue, to_channel = stage.queue_lane(hand, "q1"), stage.reader_lane(hand)
    assert [store.balance, to_queue.balance, to_channel.balance] == [0, 0, 0]
    assert to_queue.deferred == to_channel.deferred == initial
    assert not (queue.gate.is_open or channel.gate.is_open or connection.gate.is_open)
    seen = stage.broker.recorder.next_seq
    STORE.repay(store, STORE_ORIGIN, 800, 0)
    assert [store.balance, to_queue.balance, to_channel.balance] == [800, initial, initial]
    assert to_queue.deferred == to_channel.deferred == 0
    assert queue.gate.is_open
    assert channel.gate.is_open
    assert connection.gate.is_open
    opened = [e.actor for e in stage.broker.recorder.since(seen) if e.kind == GATE_OPENED]
    assert opened == [queue.identity, channel.identity, connection.identity]


def test_scenario_08_chain_parks(stage: Stage, hand: Hand) -> None:
    """[N]: the same stop, with every stage bounded by its window; release lets everything through,
    in order."""
    initial = PENSTOCK.credit_initial
    store = stage.store_hop(stage.queue("q1"), 4000, 800)
    STORE.charge(store, STORE_ORIGIN, 4000, 0)
    bodies = numbered(4 * initial)
    hand.publish_bodies("q1", bodies).settle()
    assert stage.ready("q1") == initial
    assert stage.is_parking_one(hand)
    to_channel = stage.reader_lane(hand)
    assert to_channel.in_flight + to_channel.done == initial
    assert not stage.connection(hand.client).gate.is_open
    for _ in range(5):
        STORE.repay(store, STORE_ORIGIN, 800, 0)
        stage.settle()
    assert stage.ready("q1") == 4 * initial
    reader = stage.connect()[0]
    reader.say(m.BasicConsume("q1", no_ack=True)).settle()
    assert reader.bodies() == bodies


@EMULATED
def test_scenario_09_partial_release(profile: Profile, stage: Stage, hand: Hand) -> None:
    initial = profile.credit_initial
    for name in ("q1", "q2"):
        hand.say(m.QueueBind(name, "amq.direct", "both"))
    stage.settle()
    store = stage.store_hop(stage.queue("q1"), 4000, 800)
    STORE.charge(store, STORE_ORIGIN, 4000, 0)
    stage.park("queue:/q2")
    in_one_turn(stage, hand, "both", initial, "amq.direct")
    channel, connection = stage.channel(hand), stage.connection(hand.client)
    STORE.repay(store, STORE_ORIGIN, 800, 0)
    assert stage.queue_lane(hand, "q1").balance == initial
    assert [peer for peer, _, _ in channel.gate.snapshot()] == ["queue:/q2"]
    assert stage.reader_lane(hand).deferred == initial
    assert not connection.gate.is_open
    stage.unpark("queue:/q2")
    stage.settle()
    assert connection.gate.is_open


def test_scenario_09_partial_release_parks(stage: Stage, hand: Hand) -> None:
    """[N]: a publish for both queues goes to the first when that grants again, and waits for the
    second alone."""
    initial = PENSTOCK.credit_initial
    for name in ("q1", "q2"):
        hand.say(m.QueueBind(name, "amq.direct", "both"))
    stage.settle()
    store = stage.store_hop(stage.queue("q1"), 4000, 800)
    STORE.charge(store, STORE_ORIGIN, 4000, 0)
    stage.park("queue:/q2")
    hand.publish("both", initial + 1, "amq.direct").settle()
    STORE.repay(store, STORE_ORIGIN, 800, 0)
    stage.settle()
    assert stage.queue_lane(hand, "q1").balance == initial - 1, "it has its copy"
    assert stage.connection(hand.client).lot.messages == 1
    stage.unpark("queue:/q2")
    stage.settle()
    assert not stage.is_parking_one(hand)
    assert stage.ready("q1") == stage.ready("q2") == initial + 1


@ALL
def test_scenario_16_non_content_traffic(profile: Profile, stage: Stage, hand: Hand) -> None:
    stage.park(stage.channel(hand).identity)
    hand.publish("q1", profile.credit_initial - 5)
    for tag in range(1000):
        hand.client.session.ack(hand.channel, tag + 1)
    for _ in range(10):
        hand.say(m.QueueDeclare("q1"))
    stage.settle()
    assert stage.reader_lane(hand).balance == 5
    waiting = stage.channel(hand).inbox.methods
    assert sum(int(event.count) for event in waiting) == 1010, "they have arrived"
    assert stage.connection(hand.client).gate.is_open


@ALL
def test_scenario_17_fan_out(profile: Profile, stage: Stage, hand: Hand) -> None:
    initial = profile.credit_initial
    for key in ("a.*", "a.#"):
        hand.say(m.QueueBind("q1", "amq.topic", key))
    stage.settle()
    for name in ("q1", "q2", "q3"):
        stage.park(f"queue:/{name}")
    hand.publish("", 1, "amq.fanout").settle()
    assert [stage.queue_lane(hand, name).balance for name in ("q1", "q2", "q3")] == [
        initial - 1
    ] * 3
    hand.publish("a.b", 1, "amq.topic").settle()
    assert stage.queue_lane(hand, "q1").balance == initial - 2, "once, though two bindings match"


@EMULATED
def test_scenario_21_unobedient_middle(profile: Profile, stage: Stage, hand: Hand) -> None:
    initial = profile.credit_initial
    stage.park("queue:/q1")
    for _ in range(3 * initial // profile.credit_more_after):
        hand.publish("q1", profile.credit_more_after).settle()
    to_queue, to_channel = stage.queue_lane(hand, "q1"), stage.reader_lane(hand)
    assert not stage.channel(hand).gate.is_open
    assert not stage.connection(hand.client).gate.is_open
    assert not to_channel.items, "the channel handled everything the reader had sent"
    assert to_channel.in_flight == 0
    assert 0 < to_queue.in_flight - initial <= initial + 1


def test_scenario_21_obedient_middle(stage: Stage, hand: Hand) -> None:
    """[N]: the channel obeys too, so its mailbox is not emptied; each hop stays in its window."""
    initial = PENSTOCK.credit_initial
    stage.park("queue:/q1")
    hand.publish("q1", 3 * initial).settle()
    assert stage.queue_lane(hand, "q1").in_flight == initial
    assert stage.is_parking_one(hand)
    to_channel = stage.reader_lane(hand)
    assert to_channel.in_flight + to_channel.done == initial


def alternate(hand: Hand, count: int) -> None:
    """q1, q2, q1, q2 ... with bodies that say their order."""
    session = hand.client.session
    for number, body in enumerate(numbered(count)):
        session.publish(hand.channel, "", "q1" if number % 2 == 0 else "q2", body)
    hand.client.flush()


@EMULATED
def test_scenario_26_one_slow_of_two_queues(profile: Profile, stage: Stage, hand: Hand) -> None:
    initial = profile.credit_initial
    stage.park("queue:/q1")
    alternate(hand, 8 * initial)
    stage.settle()
    assert not stage.connection(hand.client).gate.is_open
    assert initial <= stage.queue_lane(hand, "q1").in_flight <= 2 * initial
    stopped_at = stage.ready("q2")
    assert stopped_at < 4 * initial, "q2 is idle although its messages wait in the socket"
    assert stage.queue_lane(hand, "q2").in_flight == 0
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == stage.ready("q2") == 4 * initial


def test_scenario_26_one_slow_of_two_queues_parks(stage: Stage, hand: Hand) -> None:
    """[N], with strict alternation: publishes for q1 are parked, those for q2 go on past them at
    full speed while the lot has room; without any, the channel's window fills, and the socket
    stops."""
    initial = PENSTOCK.credit_initial
    stage.park("queue:/q1")
    alternate(hand, 20 * initial)
    stage.settle()
    assert stage.ready("q2") == 10 * initial
    assert stage.connection(hand.client).lot.messages == 9 * initial
    assert stage.connection(hand.client).gate.is_open
    stage.broker.parking.lot_bytes_max = 1
    alternate(hand, 4 * initial)
    stage.settle()
    assert stage.ready("q2") == 10 * initial, "the first of the alternation is for q1 and waits"
    assert not stage.connection(hand.client).gate.is_open
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == stage.ready("q2") == 12 * initial
    for name, odd in (("q1", 0), ("q2", 1)):
        reader = stage.connect()[0]
        reader.say(m.BasicConsume(name, no_ack=True)).settle()
        sent = [*numbered(20 * initial), *numbered(4 * initial)]
        assert reader.bodies() == sent[odd::2]


@EMULATED
def test_scenario_27_two_channels_one_connection(profile: Profile, stage: Stage) -> None:
    initial = profile.credit_initial
    first, second = stage.connect(channels=2)
    stage.park("queue:/q1")
    first.publish("q1", 3 * initial).settle()
    second.publish("q2", 10).settle()
    assert stage.ready("q2") == 0, "the second channel stalls as well"


def test_scenario_27_second_channel_unaffected(stage: Stage) -> None:
    """[N]: as long as the lot has room for what the first channel sends."""
    initial = PENSTOCK.credit_initial
    first, second = stage.connect(channels=2)
    stage.park("queue:/q1")
    for _ in range(10):
        first.publish("q1", initial)
        second.publish("q2", initial).settle()
    assert stage.ready("q2") == 10 * initial
    assert stage.connection(first.client).gate.is_open
    stage.broker.parking.lot_bytes_max = 1
    first.publish("q1", 2 * initial).settle()
    assert not stage.connection(first.client).gate.is_open


@ALL
def test_scenario_28_separate_consumer_connection(
    profile: Profile, stage: Stage, hand: Hand
) -> None:
    stage.broker.parking.lot_bytes_max = 1
    hand.publish_bodies("q1", numbered(500)).settle()
    stage.park("queue:/q2")
    hand.publish("q2", 3 * profile.credit_initial).settle()
    assert not stage.connection(hand.client).gate.is_open
    consumer = stage.connect(acks=True)[0]
    consumer.say(m.BasicQos(0, 10), m.BasicConsume("q1")).settle()
    assert consumer.bodies() == numbered(500)
    assert stage.ready("q1") == stage.queue("q1").unacked_count == 0
    assert not stage.connection(hand.client).gate.is_open, "and the publisher still waits"


@EMULATED
def test_scenario_29_shared_connection(profile: Profile, stage: Stage) -> None:
    """The publisher is blocked first; acks of the deliveries then wait in the socket."""
    publishing, consuming = stage.connect(channels=2, acks=True)
    publishing.publish("q1", 500)
    consuming.say(m.BasicQos(0, 10)).settle()
    stage.park("queue:/q2")
    stage.park("queue:/q1")
    consuming.say(m.BasicConsume("q1"))
    publishing.publish("q2", 3 * profile.credit_initial).settle()
    assert not stage.connection(publishing.client).gate.is_open
    stage.unpark("queue:/q1")
    stage.settle()
    assert len(consuming.deliveries) == 10
    assert stage.ready("q1") == 490


def test_scenario_29_shared_connection_goes_on(stage: Stage) -> None:
    """[N]: acks are handled at once while publishes are parked."""
    publishing, consuming = stage.connect(channels=2, acks=True)
    publishing.publish("q1", 500)
    consuming.say(m.BasicQos(0, 10)).settle()
    stage.park("queue:/q2")
    publishing.publish("q2", 5 * PENSTOCK.credit_initial).settle()
    consuming.say(m.BasicConsume("q1")).settle()
    assert len(consuming.deliveries) == 500
    assert stage.queue("q1").unacked_count == 0


def test_scenario_29_stopped_socket_is_let_on(stage: Stage) -> None:
    """[N]: when the socket had to stop, acks wait in it; the periodic look finds unanswered
    deliveries behind a stopped socket and lets it on, past the closed hop (law 6)."""
    publishing, consuming = stage.connect(channels=2, acks=True)
    publishing.publish("q1", 500)
    consuming.say(m.BasicQos(0, 10)).settle()
    stage.park("queue:/q1")
    stage.park("queue:/q2")
    consuming.say(m.BasicConsume("q1"))
    stage.broker.parking.lot_bytes_max = 1
    publishing.publish("q2", 2 * PENSTOCK.credit_initial + 3).settle()
    assert not stage.connection(publishing.client).gate.is_open
    stage.unpark("queue:/q1")
    stage.settle()
    assert len(consuming.deliveries) == 10
    stage.world.tick()
    stage.settle()
    assert len(consuming.deliveries) == 500
    assert stage.channel(publishing).escapes > 0, "and it is counted"
