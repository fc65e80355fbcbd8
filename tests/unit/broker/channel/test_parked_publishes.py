"""Parked publishes, and turns that end at awkward places: broker/channel/channel and publish."""

import pytest

from penstock.flow.profile import ADAPTIVE, PENSTOCK, RABBITMQ_4, Profile, static_profile
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from tests.spec.stage import Hand, Stage, numbered

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
