"""Many publishes of one channel parked at once: more than its bounds of today, in every order."""

from random import Random

import pytest

from penstock.base.limits import PARKED_BYTES
from penstock.broker.channel.parking import CREDIT, Parking, ParkingLot
from penstock.flow.profile import ADAPTIVE, PENSTOCK, RABBITMQ_4, Profile, static_profile
from penstock.protocol import methods as m
from penstock.protocol.content import Message
from penstock.protocol.properties import Properties
from tests.spec.stage import Hand, Stage, numbered

QUEUES = ("q1", "q2", "q3")
EVERYWHERE = ""
MANY = 1 << 20


def hand_with_room(stage: Stage) -> Hand:
    """A publisher whose channel may park as much as it likes."""
    hand = stage.connect()[0]
    lot = stage.connection(hand.client).lot
    lot.entrance_max = lot.lines_max = MANY
    return hand


def taken(stage: Stage, queue: str) -> list[bytes]:
    reader = stage.connect()[0]
    reader.say(m.BasicConsume(queue, no_ack=True))
    stage.settle()
    return reader.bodies()


def test_publishes_for_other_queues_pass_any_number_of_parked_ones() -> None:
    stage = Stage(PENSTOCK)
    hand = hand_with_room(stage)
    stage.park("queue:/q1")
    hand.publish_bodies("q1", numbered(1500))
    hand.publish_bodies("q2", numbered(1500))
    stage.settle()
    parking = stage.channel(hand).parking
    waiting = 1500 - PENSTOCK.credit_initial
    assert len(parking.routed) == waiting and stage.ready("q2") == 1500
    assert parking.bytes == sum(one.size for one in parking.routed)
    assert [lane.receiving.identity for lane in parking.lanes] == ["queue:/q1"]
    assert (parking.waits_for, parking.waits_on) == ("queue:/q1", "credit")
    stage.unpark("queue:/q1")
    stage.settle()
    assert taken(stage, "q1") == numbered(1500)
    assert not parking.entries() and parking.bytes == 0 and not parking.lines


@pytest.mark.parametrize("seed", range(16))
def test_every_queue_gets_exactly_its_own_in_the_order_they_were_sent(seed: int) -> None:
    """Queues stand still and go on while publishes for one of them, or for all, come in."""
    chance = Random(seed)
    stage = Stage(PENSTOCK.with_messages(chance.randint(1, 6), 1))
    hand = hand_with_room(stage)
    sent: dict[str, list[bytes]] = {name: [] for name in QUEUES}
    for number in range(200):
        body = b"%06d" % number
        name = chance.choice((*QUEUES, EVERYWHERE))
        exchange = "amq.fanout" if name == EVERYWHERE else ""
        hand.client.session.publish(hand.channel, exchange, name, body)
        hand.client.flush()
        for queue in QUEUES if name == EVERYWHERE else (name,):
            sent[queue].append(body)
        if chance.random() < 0.1:
            queue = chance.choice(QUEUES)
            if chance.random() < 0.6:
                stage.park("queue:/" + queue)
            else:
                stage.unpark("queue:/" + queue)
        if chance.random() < 0.3:
            stage.settle()
    stage.settle()
    for name in QUEUES:
        stage.unpark("queue:/" + name)
    stage.settle()
    assert {name: taken(stage, name) for name in QUEUES} == sent
    assert not stage.channel(hand).parking.entries()


def test_an_end_hands_over_all_that_is_parked_in_its_order() -> None:
    stage = Stage(PENSTOCK.with_messages(2, 1))
    hand = hand_with_room(stage)
    stage.park("queue:/q1")
    hand.publish_bodies("q1", numbered(50))
    stage.settle()
    assert len(stage.channel(hand).parking.routed) == 48
    hand.say(m.ChannelClose(200, "done", 0, 0))
    stage.settle()
    stage.unpark("queue:/q1")
    stage.settle()
    assert taken(stage, "q1") == numbered(50)


def made(size: int) -> Message:
    return Message(b"x" * size, size)


def test_the_entrances_of_one_connection_share_its_bytes() -> None:
    lot = ParkingLot()
    one, other = Parking(lot), Parking(lot)
    assert one.park(made(100), CREDIT, 5)
    assert not one.park(made(1), CREDIT, 6), "one publish for each channel"
    lot.bytes_max = 300
    assert not other.park(made(201), CREDIT, 6), "and so many bytes for all"
    assert other.park(made(200), CREDIT, 6) and lot.bytes == 300
    first = one.first()
    assert first is not None and (first.reason, first.since_ns, first.size) == (CREDIT, 5, 100)
    one.take_first()
    other.clear_entrance()
    assert lot.bytes == 0 and one.bytes == 0 and other.first() is None
    assert ParkingLot().bytes_max == PARKED_BYTES.default


def test_what_overflows_is_no_part_of_the_lot() -> None:
    parking = Parking(ParkingLot())
    message = made(100)
    parking.overflows(message, CREDIT, 7)
    assert parking.bytes == 0 and [one.message for one in parking.entries()] == [message]
    assert parking.take_overflow() is message and not parking.entries()


PARKED = PENSTOCK.credit_initial


def with_one_parked(stage: Stage) -> Hand:
    """A publisher whose next publish for q1 is parked."""
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    hand.publish_bodies("q1", numbered(PARKED))
    stage.settle()
    return hand


@pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_4], ids=lambda profile: profile.name)
def test_a_turn_whose_budget_ends_with_its_last_publish(profile: Profile) -> None:
    """The lane has to be listed anew, or the channel sleeps on everything that follows."""
    stage = Stage(profile)
    hand = stage.connect()[0]
    channel = stage.channel(hand).identity
    stage.park(channel)
    hand.publish("q1", 7)
    stage.settle()
    stage.step(channel, 7)
    stage.unpark(channel)
    hand.publish("q1", 3)
    stage.settle()
    assert stage.ready("q1") == 10


def test_a_parked_fan_out_goes_first_at_all_its_queues() -> None:
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    session = hand.client.session
    session.publish(hand.channel, "amq.fanout", "", b"fan-out")
    session.publish(hand.channel, "", "q2", b"behind it")
    hand.client.flush()
    stage.settle()
    assert stage.is_parking_one(hand)
    assert stage.ready("q2") == 0, "nothing overtakes it at q2, although q2 is open"
    stage.unpark("queue:/q1")
    stage.settle()
    reader = stage.connect()[0]
    reader.say(m.BasicConsume("q2", no_ack=True))
    stage.settle()
    assert reader.bodies() == [b"fan-out", b"behind it"]


def test_a_parked_publish_keeps_the_route_it_had_when_it_came() -> None:
    """Its BCC header is cut off by then, so it could not be routed a second time."""
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    properties = Properties(headers={"BCC": ["q2"]})
    hand.client.session.publish(hand.channel, "", "q1", b"blind", properties)
    hand.client.flush()
    stage.settle()
    assert stage.is_parking_one(hand)
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == PARKED + 1
    assert stage.ready("q2") == 1


def close_channel(hand: Hand) -> None:
    hand.say(m.ChannelClose(200, "done", 0, 0))


def close_connection(hand: Hand) -> None:
    hand.client.is_ending = True
    hand.client.session.close()
    hand.client.flush()


def break_a_rule(hand: Hand) -> None:
    hand.publish("", 1, "no such exchange")


@pytest.mark.parametrize("ending", [close_channel, close_connection, break_a_rule])
def test_no_ending_loses_a_parked_publish(ending: object) -> None:
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    hand.publish("q1", 1)
    stage.settle()
    assert stage.is_parking_one(hand)
    assert callable(ending)
    ending(hand)
    stage.settle()
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == PARKED + 1


def test_a_barrier_method_finds_what_was_parked_before_it() -> None:
    """Every method that does not go past waiting publishes first sends the parked one on."""
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    hand.publish("q1", 1)
    stage.settle()
    assert stage.is_parking_one(hand)
    hand.say(m.QueueDelete("q1"))
    stage.settle()
    assert hand.replies[-1] == m.QueueDeleteOk(PARKED + 1)
    assert stage.channel(hand).escapes == 1, "and it is counted"


OURS = pytest.mark.parametrize("profile", [PENSTOCK, ADAPTIVE], ids=lambda profile: profile.name)


@OURS
def test_a_stopped_queue_leaves_a_running_one_what_the_default_profile_leaves_it(
    profile: Profile,
) -> None:
    """Publishes for both in turn: a window of the default's size and one more, then it stalls.
    An adaptive window is small, and becomes as large when others go past a publish it holds."""
    stage = Stage(profile)
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    for _ in range(500):
        hand.publish("q1", 1)
        hand.publish("q2", 1)
    stage.settle()
    assert stage.ready("q2") == PARKED + 1
    stage.unpark("queue:/q1")
    stage.settle()
    assert (stage.ready("q1"), stage.ready("q2")) == (500, 500)
    stage.queue_lane(hand, "q1").check()


@OURS
def test_a_stopped_queue_leaves_the_other_channel_as_much(profile: Profile) -> None:
    stage = Stage(profile)
    first, second = stage.connect(channels=2)
    stage.park("queue:/q1")
    first.publish("q1", PARKED)
    second.publish("q2", 1000)
    stage.settle()
    assert stage.ready("q2") == 1000
    assert stage.connection(first.client).gate.is_open
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == PARKED


def test_a_small_static_window_does_not_widen() -> None:
    """What the two tests above would show if the strategy did nothing."""
    stage = Stage(static_profile(50))
    first, second = stage.connect(channels=2)
    stage.park("queue:/q1")
    first.publish("q1", PARKED)
    second.publish("q2", 10)
    stage.settle()
    assert stage.ready("q2") == 0
