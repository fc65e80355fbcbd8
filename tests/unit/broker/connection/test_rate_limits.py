"""A connection under rate limits: one publish held a channel, everything else goes on."""

from collections.abc import Iterator

import pytest

from penstock.base.config import RateRow
from penstock.base.errors import OperatorError
from penstock.base.limits import RATE_LIMITS
from penstock.broker.admin.views import actor_snapshots
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.telemetry.events import GATE_CLOSED, GATE_OPENED
from tests.unit.broker.peer import MS, Bed, Peer, publish

TEN_A_SECOND = {"rate_connection_messages": 10, "rate_burst_ms": 100}


def later(bed: Bed, ms: int, *peers: Peer) -> None:
    """A millisecond at a time, as the node's timer would see it."""
    for _ in range(ms):
        bed.clock.advance(MS)
        bed.broker.dues.fire(bed.clock.monotonic_ns())
        for peer in peers:
            peer.read_on()
        bed.run()


def with_queue(bed: Bed, *names: str, channels: int = 2) -> Peer:
    peer = bed.connect("p", channels=channels)
    for name in names:
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    return peer


@pytest.fixture
def bed() -> Iterator[Bed]:
    """Each connection may publish ten messages a second."""
    made = Bed(**TEN_A_SECOND)
    yield made
    made.settle()


@pytest.fixture
def peer(bed: Bed) -> Peer:
    return with_queue(bed, "q")


def ready(bed: Bed, name: str) -> int:
    return int(bed.broker.vhosts["/"].queues[name].messages.ready_count())


def state(bed: Bed, peer: Peer) -> str:
    return peer.connection.state(bed.clock.monotonic_ns())


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4", "none"])
def test_publishes_pass_at_the_rate_and_in_their_order(profile: str) -> None:
    bed = Bed(profile=profile, **TEN_A_SECOND)
    peer = with_queue(bed, "q")
    peer.publish("q", *(b"%d" % number for number in range(25)))
    assert ready(bed, "q") == 1, "the burst is a tenth of a second"
    assert state(bed, peer) == "flow"
    later(bed, 1000, peer)
    assert ready(bed, "q") == 11
    later(bed, 1500, peer)
    assert ready(bed, "q") == 25
    later(bed, 1000, peer)
    assert state(bed, peer) == "running"
    peer.say(2, m.BasicConsume("q", "t", no_ack=True))
    assert [one.body for one in peer.heard()[1:]] == [b"%d" % number for number in range(25)]
    bed.settle()


def test_acks_and_methods_behind_a_held_publish_are_handled_at_once(bed: Bed, peer: Peer) -> None:
    peer.publish("q", b"1", b"2")
    assert ready(bed, "q") == 1 and peer.connection.gate.is_open
    peer.say(1, m.BasicGet("q"))
    assert peer.heard()[0].body == b"1"
    peer.say(1, m.BasicAck(1, False))
    bed.run()
    assert bed.broker.vhosts["/"].queues["q"].unacked_count == 0
    assert ready(bed, "q") == 0, "and the second one still waits"
    assert state(bed, peer) == "flow"


def test_every_channel_may_have_one_publish_held_and_the_next_stops_the_reading(
    bed: Bed, peer: Peer
) -> None:
    peer.publish("q", b"1")
    peer.publish("q", b"2", channel=1)
    peer.publish("q", b"3", channel=2)
    assert peer.connection.gate.is_open
    peer.publish("q", b"4", channel=2)
    assert peer.connection.gate.snapshot()[0][:2] == ("rate:conn:p", "rate")
    later(bed, 301, peer)
    assert ready(bed, "q") == 4 and peer.connection.gate.is_open


def test_a_method_that_may_not_overtake_waits_with_the_publish(bed: Bed, peer: Peer) -> None:
    peer.publish("q", b"1", b"2")
    peer.say(1, m.QueueDelete("q"))
    assert peer.heard() == [] and not peer.connection.gate.is_open
    later(bed, 101, peer)
    assert peer.one(m.QueueDeleteOk).message_count == 2


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
def test_no_ending_loses_a_held_publish_and_it_is_paid_for(profile: str) -> None:
    bed = Bed(profile=profile, **TEN_A_SECOND)
    peer = with_queue(bed, "q")
    other = bed.connect("other")
    peer.publish("q", b"1", b"2")
    peer.say(1, m.ChannelClose(200, "", 0, 0))
    later(bed, 200, peer)
    assert peer.one(m.ChannelCloseOk)
    assert ready(bed, "q") == 2
    assert peer.connection.lot.bytes == 0
    other.call(1, m.QueueDeclare("q", passive=True), m.QueueDeclareOk)
    bed.settle()


def test_what_is_forced_through_goes_into_debt(bed: Bed, peer: Peer) -> None:
    peer.publish("q", b"1", b"2")
    peer.say(1, m.ChannelClose(200, "", 0, 0))
    assert peer.one(m.ChannelCloseOk) and ready(bed, "q") == 2
    peer.publish("q", b"3", channel=2)
    later(bed, 150, peer)
    assert ready(bed, "q") == 2, "the token of the first 100 ms is spent already"
    later(bed, 100, peer)
    assert ready(bed, "q") == 3


def test_a_connection_that_ends_leaves_no_place_in_line_behind(bed: Bed, peer: Peer) -> None:
    peer.publish("q", b"1", b"2", b"3")
    assert len(bed.broker.dues) == 1
    peer.hang_up()
    assert len(bed.broker.dues) == 0
    assert bed.broker.rates.meters() == []


def test_others_are_not_affected() -> None:
    bed = Bed(rates=(RateRow("user", "guest", 10),), rate_burst_ms=100)
    first = with_queue(bed, "q")
    second = bed.connect("second")
    first.publish("q", b"1", b"2")
    second.publish("q", b"3")
    assert ready(bed, "q") == 1, "both are guest"
    bed.broker.settings.write("rate.user.messages:guest", "off")
    later(bed, 1, first, second)
    assert ready(bed, "q") == 3, "and let on when there is no limit any more"
    assert first.connection.rated is None and second.connection.rated is None
    bed.settle()


def test_a_limit_that_comes_while_publishing_holds_from_the_next_publish_on() -> None:
    bed = Bed()
    peer = with_queue(bed, "q")
    peer.publish("q", b"1", b"2")
    bed.broker.settings.write("rate.vhost.messages:/", "10/s")
    peer.publish("q", b"3", b"4", b"5")
    assert ready(bed, "q") == 3
    bed.broker.settings.write("rate.vhost.messages:/", "1000/s")
    later(bed, 25, peer)
    assert ready(bed, "q") == 5
    bed.settle()


def test_an_alarm_keeps_what_a_rate_held_and_gives_it_back(bed: Bed, peer: Peer) -> None:
    peer.publish("q", b"1", b"2")
    bed.broker.set_alarm("memory", "full")
    later(bed, 500, peer)
    assert ready(bed, "q") == 1
    bed.broker.clear_alarm("memory")
    later(bed, 2, peer)
    assert ready(bed, "q") == 2
    later(bed, 1500, peer)
    assert state(bed, peer) == "running"
    assert peer.connection.is_held() is False


def test_the_record_says_once_that_a_limit_holds_and_once_that_it_does_not(
    bed: Bed, peer: Peer
) -> None:
    before = bed.broker.recorder.next_seq
    peer.publish("q", b"1", b"2", b"3")
    later(bed, 250, peer)
    assert ready(bed, "q") == 3
    found = [
        (event.kind, event.peer, event.reason)
        for event in bed.broker.recorder.since(before)
        if event.actor == "conn:p"
    ]
    assert found[0] == (GATE_CLOSED, "rate:conn:p", "rate")
    assert found[-1] == (GATE_OPENED, "rate:conn:p", "rate")
    closed = sum(1 if kind == GATE_CLOSED else -1 for kind, _, _ in found)
    assert closed == 0
    blocked = peer.connection.books().snapshot(bed.clock.monotonic_ns())
    assert 190 * MS <= blocked.blocked_ns <= 202 * MS


def test_bytes_are_limited_too_and_a_large_message_passes() -> None:
    bed = Bed(rate_connection_bytes=10_000, rate_burst_ms=100)
    peer = with_queue(bed, "q")
    peer.publish("q", b"x" * 5000, b"y" * 100)
    assert ready(bed, "q") == 1, "five times the burst"
    later(bed, 390, peer)
    assert ready(bed, "q") == 1
    later(bed, 40, peer)
    assert ready(bed, "q") == 2
    bed.settle()


def test_a_queue_limit_leaves_other_queues_alone() -> None:
    bed = Bed(rates=(RateRow("queue", "/slow*", 10),), rate_burst_ms=100)
    peer = with_queue(bed, "slow", "fast")
    peer.publish("slow", b"1", b"2")
    peer.publish("fast", b"3", b"4")
    assert (ready(bed, "slow"), ready(bed, "fast")) == (1, 2)
    assert peer.connection.gate.is_open
    later(bed, 101, peer)
    assert ready(bed, "slow") == 2
    peer.publish("slow", b"5", b"6")
    channel = peer.connection.channels[1]
    [line] = channel.parking.lines.values()
    assert (line.lane.receiving.identity, line.reason, line.count()) == ("queue:/slow", "rate", 2)
    assert not channel.is_stalled
    later(bed, 300, peer)
    assert ready(bed, "slow") == 4
    bed.settle()


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
def test_a_limited_queue_that_is_deleted_lets_its_senders_go(profile: str) -> None:
    bed = Bed(profile=profile, rates=(RateRow("queue", "*", 10),), rate_burst_ms=100)
    peer = with_queue(bed, "q", "r")
    peer.publish("q", b"1", b"2", b"3")
    other = bed.connect("other")
    other.say(1, m.QueueDelete("q"))
    assert len(other.heard()) == 1
    peer.send(publish(1, "", "r", b"4"), method_frame(1, m.BasicGet("r")))
    assert peer.heard()[-1].body == b"4"
    assert len(bed.broker.dues) in (0, 1), "r is limited as well"
    later(bed, 500, peer)
    assert len(bed.broker.dues) == 0
    bed.settle()


def test_a_queue_limit_is_set_and_removed_live() -> None:
    bed = Bed()
    peer = with_queue(bed, "q")
    peer.publish("q", b"1")
    bed.broker.settings.write("rate.queue.messages:/q", "20/s")
    peer.publish("q", b"2", b"3", b"4")
    assert ready(bed, "q") == 2
    bed.broker.settings.write("rate.queue.messages:/q", "off")
    bed.run()
    assert ready(bed, "q") == 4
    assert bed.broker.vhosts["/"].queues["q"].queue_rate is None
    bed.settle()


def test_publishers_of_one_limited_queue_take_turns() -> None:
    bed = Bed(rates=(RateRow("queue", "/q", 100),), rate_burst_ms=100)
    first = with_queue(bed, "q")
    second = bed.connect("second")
    third = bed.connect("third")
    peers = (first, second, third)
    for peer in peers:
        peer.publish("q", *[b"x"] * 400)
    later(bed, 3000, *peers)
    counts = []
    for peer in peers:
        publisher = peer.connection.channels[1].publisher
        counts.append(int(publisher.publish_count))
    assert 300 <= ready(bed, "q") <= 320
    assert min(counts) >= 80, counts


def test_limits_by_name_are_bounded_and_what_is_off_is_not_kept() -> None:
    bed = Bed()
    rates = bed.broker.rates
    for number in range(RATE_LIMITS.default):
        rates.set_limit("user", str(number), "messages", 5)
    with pytest.raises(OperatorError, match="rate limit of their own"):
        bed.broker.settings.write("rate.user.messages:one-more", "5/s")
    bed.broker.settings.write("rate.user.messages:0", "off")
    assert len(rates.named("user")) == RATE_LIMITS.default - 1
    bed.broker.settings.write("rate.user.messages:one-more", "5/s")
    assert rates.limit_of("user", "one-more").messages == 5


@pytest.mark.parametrize("text", ["0.5/s", "-1/s", "fast", "2000000000000/s"])
def test_a_rate_that_is_none_is_refused_with_what_is_one(text: str) -> None:
    bed = Bed()
    with pytest.raises(OperatorError, match=r"write a rate of 1/s\.\.1000000000000/s"):
        bed.broker.settings.write("rate.connection.messages", text)
    assert bed.broker.settings.get("rate.connection.messages").read() == "off"


def test_a_limit_that_has_held_somebody_is_in_the_snapshot_between_two_holds(
    bed: Bed, peer: Peer
) -> None:
    later(bed, 1000, peer)
    assert "rate:conn:p" not in actor_snapshots(bed.broker), "it has held nobody yet"
    peer.publish("q", b"1", b"2", b"3")
    later(bed, 1000, peer)
    limit = actor_snapshots(bed.broker)["rate:conn:p"]
    assert (limit.numbers["waiting"], limit.numbers["published"]) == (0.0, 3.0)
    assert limit.numbers["messages_per_s"] == 10.0
    # Its window begins with it, or what passed would be spread over the broker's life.
    assert limit.started_ns + limit.times.total_ns() == bed.clock.monotonic_ns()


def test_a_limit_of_many_is_in_the_snapshot_from_its_beginning(bed: Bed, peer: Peer) -> None:
    bed.broker.rates.set_limit("user", "guest", "messages", 100)
    assert actor_snapshots(bed.broker)["rate:user:guest"].numbers["published"] == 0.0
