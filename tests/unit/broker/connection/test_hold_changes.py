"""What holds a publish may change while it waits; every change is told, recorded and undone."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from tests.spec.stage import Stage
from tests.unit.broker.peer import MS, Bed, Peer

ALARM = ("alarm:memory", "alarm")
RATE = ("rate:conn:p", "rate")


def holders(bed: Bed, peer: Peer) -> set[tuple[str, str]]:
    """Who holds the connection at this moment, by its books."""
    books = peer.connection.books().snapshot(bed.clock.monotonic_ns())
    return {(one.peer, one.reason) for one in books.blocks if one.since_ns is not None}


def held_for_credit(bed: Bed) -> Peer:
    """A connection that is not read, because its channel waits for a queue that is deep."""
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", *[b"x" * 100] * 12)
    connection = peer.connection
    assert connection.channels[1].parking.entrance
    assert connection.stop.by == (connection.channels[1].identity, "credit")
    return peer


def drain(bed: Bed) -> None:
    """Another connection takes all there is."""
    other = bed.connect("drain")
    other.say(1, m.BasicConsume("q", no_ack=True))
    other.hang_up()


def test_an_alarm_takes_over_what_credit_held_and_says_so() -> None:
    bed = Bed(queue_depth_bytes=500, credit_connection_channel="2/1", credit_channel_queue="2/1")
    peer = held_for_credit(bed)
    bed.broker.set_alarm("memory", "full")
    bed.run()
    assert peer.heard() == [], "the publish waits for the queue; the alarm holds nothing yet"
    drain(bed)
    reason = peer.one(m.ConnectionBlocked).reason
    assert reason.startswith("low on memory")
    assert peer.connection.stop.by == ALARM
    assert [pair[:2] for pair in peer.connection.gate.snapshot()] == [ALARM]
    assert holders(bed, peer) == {ALARM}
    assert peer.connection.state(bed.clock.monotonic_ns()) == "blocked"
    bed.broker.clear_alarm("memory")
    bed.run()
    assert peer.one(m.ConnectionUnblocked)
    assert ALARM not in holders(bed, peer)
    drain(bed)
    peer.read_on()
    assert holders(bed, peer) == set()
    bed.settle()


def test_what_is_behind_a_stopped_publish_is_read_when_there_is_a_place_for_it() -> None:
    """One grant lets the held publish go and is used up by it; the one that stopped the reading
    takes its place, and an ack behind both is handled."""
    stage = Stage(PENSTOCK.with_messages(2, 1))
    stage.lot_of_one()
    hand, taker = stage.connect(channels=2)
    hand.publish("q2", 1).settle()
    taker.say(m.BasicConsume("q2")).settle()
    (delivery,) = taker.deliveries
    connection = stage.connection(hand.client)
    stage.park("queue:/q1")
    hand.publish("q1", 1).settle()
    while connection.gate.is_open:
        hand.publish("q1", 1).settle()
    taker.say(m.BasicAck(delivery.delivery_tag, False)).settle()
    assert stage.queue("q2").unacked_count == 1, "nothing is read"
    stage.step("queue:/q1", 1)
    stage.settle()
    assert stage.reader_lane(hand).is_closed, "the one grant is used up again"
    assert connection.gate.is_open
    assert stage.queue("q2").unacked_count == 0


def test_an_alarm_goes_on_to_hold_when_the_channel_that_stopped_the_reading_is_gone(
    bed: Bed,
) -> None:
    peer = bed.connect("p", channels=2)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    bed.broker.set_alarm("memory", "full")
    peer.publish("q", b"1")
    peer.publish("q", b"2", b"3", channel=2)
    connection = peer.connection
    assert connection.stop.by == ALARM and not connection.gate.is_open
    peer.heard()
    connection.channel_failed(connection.channels[2], ChannelFault(406, "too late", 60, 80))
    bed.run()
    assert connection.gate.is_open, "and the rest can be read"
    assert holders(bed, peer) == {ALARM}, "but the first channel's publish is held as before"
    bed.clock.advance(5 * MS)
    bed.broker.clear_alarm("memory")
    bed.run()
    assert holders(bed, peer) == set()
    books = connection.books().snapshot(bed.clock.monotonic_ns())
    assert books.blocked_ns >= 5 * MS


def test_a_limit_that_is_taken_away_lets_the_reading_go_on() -> None:
    bed = Bed(rate_connection_messages=10, rate_burst_ms=100)
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2", b"3", b"4")
    assert peer.connection.stop.channel is not None and not peer.connection.gate.is_open
    bed.broker.settings.write("rate.connection.messages", "off")
    peer.read_on()
    assert bed.broker.vhosts["/"].queues["q"].messages.ready_count() == 4
    assert peer.connection.gate.is_open and holders(bed, peer) == set()
    bed.settle()


def test_a_limit_that_is_taken_away_leaves_to_an_alarm_what_the_alarm_holds() -> None:
    bed = Bed(rate_connection_messages=10, rate_burst_ms=100)
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2")
    bed.broker.set_alarm("memory", "full")
    bed.broker.settings.write("rate.connection.messages", "off")
    bed.run()
    assert bed.broker.vhosts["/"].queues["q"].messages.ready_count() == 1
    peer.publish("q", b"3")
    assert peer.connection.stop.by == ALARM, "not a limit that there is no more"
    assert holders(bed, peer) == {ALARM}
    bed.broker.clear_alarm("memory")
    peer.read_on()
    assert bed.broker.vhosts["/"].queues["q"].messages.ready_count() == 3
    assert len(bed.broker.dues) == 0
    bed.settle()


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
@pytest.mark.parametrize("count", [2, 3, 9])
def test_an_alarm_takes_over_what_a_rate_limit_held_and_says_so(profile: str, count: int) -> None:
    bed = Bed(profile=profile, rate_connection_messages=10, rate_burst_ms=100)
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", *[b"1"] * count)
    assert holders(bed, peer) == {RATE}
    bed.broker.set_alarm("memory", "full")
    bed.run()
    assert peer.heard() == [] and holders(bed, peer) == {RATE}, "tokens are what is missing"
    bed.later(1000 * MS)
    assert peer.one(m.ConnectionBlocked).reason.startswith("low on memory")
    assert holders(bed, peer) == {ALARM}
    assert peer.connection.state(bed.clock.monotonic_ns()) == "blocked"
    bed.later(1000 * MS)
    bed.broker.clear_alarm("memory")
    bed.run()
    assert peer.one(m.ConnectionUnblocked)
    for _ in range(count):
        peer.read_on()
        bed.later(100 * MS)
    assert bed.actor("q").messages.ready_count() == count
    assert holders(bed, peer) == set() and peer.connection.gate.is_open
    bed.settle()


def test_an_alarm_takes_over_from_a_limit_that_is_taken_away() -> None:
    bed = Bed(rate_connection_messages=10, rate_burst_ms=100)
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2")
    bed.broker.set_alarm("memory", "full")
    bed.broker.settings.write("rate.connection.messages", "off")
    bed.run()
    assert peer.one(m.ConnectionBlocked)
    assert holders(bed, peer) == {ALARM}
    bed.broker.clear_alarm("memory")
    bed.run()
    assert bed.actor("q").messages.ready_count() == 2 and holders(bed, peer) == set()


def test_an_alarm_that_refuses_refuses_what_a_rate_limit_held() -> None:
    bed = Bed(rate_connection_messages=10, rate_burst_ms=100, alarm_action="nack")
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("q", b"1", b"2", b"3")
    assert peer.confirmed() == {1: "ack"}
    bed.broker.set_alarm("memory", "full")
    for _ in range(4):
        bed.later(100 * MS)
        peer.read_on()
    assert peer.confirmed() == {2: "nack", 3: "nack"}
    assert holders(bed, peer) == set()
    bed.broker.clear_alarm("memory")
    bed.settle()
