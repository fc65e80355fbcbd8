"""The prefetch window of a whole channel goes round its consumers (basic.qos, global=true)."""

from collections import Counter

import pytest

from penstock.broker.actors.actor import Actor, Picker
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Heard, Peer

BACKLOG = 200


class LastFirst(Picker):
    """The actor that came last goes first: an order that nobody may rely on."""

    def pick(self, ready: list[Actor]) -> int:
        return len(ready) - 1


def declared(peer: Peer, name: str, count: int = BACKLOG, body: bytes = b"x") -> None:
    """A queue with `count` messages."""
    peer.say(2, m.QueueDeclare(name))
    peer.publish(name, *([body] * count), channel=2)


def backlogs(names: str, window: int, bytes_: int = 0, **settings: object) -> tuple[Bed, Peer]:
    """Queues with BACKLOG messages each, and a consumer of each with its name as the tag."""
    bed = Bed(**settings)  # type: ignore[arg-type]  # tests name fields of Config
    peer = bed.connect(channels=2)
    for name in names:
        declared(peer, name)
    peer.say(1, m.BasicQos(bytes_, window, True))
    peer.send(*(method_frame(1, m.BasicConsume(name, name)) for name in names))
    return bed, peer


def tags(heard: list[Heard]) -> list[tuple[str, int]]:
    """Consumer and delivery tag of every delivery."""
    return [
        (one.method.consumer_tag, one.method.delivery_tag)
        for one in heard
        if isinstance(one.method, m.BasicDeliver)
    ]


class Reader:
    """Who acknowledges what `peer` is given on channel 1, in its order."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.open: list[tuple[str, int]] = []

    def answered(self, count: int, batch: int = 1) -> Counter[str]:
        """Deliveries by consumer that come while `count` are acknowledged, `batch` at a time."""
        found: Counter[str] = Counter()
        while True:
            new = tags(self.peer.heard())
            found.update(tag for tag, _ in new)
            self.open += new
            if count <= 0 or not self.open:
                return found
            some, self.open = self.open[:batch], self.open[batch:]
            count -= len(some)
            self.peer.say(1, m.BasicAck(some[-1][1], True))


def answered(peer: Peer, count: int, batch: int = 1) -> Counter[str]:
    return Reader(peer).answered(count, batch)


@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("batch", [1, 4, 10])
@pytest.mark.parametrize("is_last_first", [False, True])
def test_the_window_goes_round_queues_with_a_backlog(
    window: int, batch: int, is_last_first: bool
) -> None:
    """RabbitMQ 3.10.8 gives 71, 63 and 65 of 199; the first consumer fills the window before the
    others are there."""
    bed, peer = backlogs("abc", window)
    if is_last_first:
        bed.broker.scheduler.picker = LastFirst()
        bed.broker.scheduler.is_exploring = True
    found = answered(peer, 199, batch)
    assert sum(found.values()) >= 199
    assert max(found.values()) - min(found.values()) <= window + 1
    bed.settle()


def test_what_comes_in_small_amounts_beside_a_busy_queue_comes_at_once() -> None:
    bed, peer = backlogs("ab", 5)
    reader = Reader(peer)
    reader.answered(50)
    declared(peer, "few", 0)
    peer.say(1, m.BasicConsume("few", "few"))
    for _ in range(20):
        peer.publish("few", b"x", channel=2)
        assert reader.answered(4)["few"] == 1
    bed.settle()


def test_deliveries_without_acknowledgement_go_on_beside_those_with() -> None:
    bed, peer = backlogs("ab", 2)
    declared(peer, "n")
    peer.say(1, m.BasicConsume("n", "n", no_ack=True))
    found = answered(peer, 100)
    assert found["n"] == BACKLOG, "they take nothing of the window"
    assert abs(found["a"] - found["b"]) <= 3
    bed.settle()


def test_a_window_in_bytes_goes_round_and_a_large_message_is_not_overtaken_for_ever() -> None:
    bed, peer = backlogs("ab", 0, bytes_=10)
    declared(peer, "large", 5, bytes(10))
    peer.say(1, m.BasicConsume("large", "large"))
    found = answered(peer, 200, 3)
    assert found["large"] == 5
    assert abs(found["a"] - found["b"]) <= 11
    bed.settle()


def test_windows_of_consumers_count_beside_that_of_the_channel() -> None:
    bed, peer = backlogs("ab", 6)
    peer.say(1, m.BasicQos(0, 1, False))
    declared(peer, "c")
    peer.say(1, m.BasicConsume("c", "c"))
    found = answered(peer, 150)
    assert found["c"] >= 150 // 8, "one of six at a time, and two others before it in line"
    bed.settle()


def test_consumers_of_one_queue_have_a_turn_each() -> None:
    bed, peer = backlogs("ab", 4)
    peer.say(1, m.BasicConsume("a", "again"))
    found = answered(peer, 120)
    assert max(found.values()) - min(found.values()) <= 5
    bed.settle()


def test_a_lower_priority_gets_nothing_that_a_higher_one_waits_for() -> None:
    bed, peer = backlogs("ab", 4)
    peer.say(1, m.BasicConsume("b", "low", arguments={"x-priority": -1}))
    found = answered(peer, 250)
    assert found["low"] == 0 and abs(found["a"] - found["b"]) <= 5
    bed.settle()


def test_streams_and_leases_have_their_turns() -> None:
    bed, peer = backlogs("a", 3)
    table: Table = {"x-queue-type": "stream"}
    peer.say(2, m.QueueDeclare("s", durable=True, arguments=table))
    peer.publish("s", *([b"x"] * 100), channel=2)
    peer.say(1, m.BasicQos(0, 10, False))
    peer.say(1, m.BasicConsume("s", "s", arguments={"x-stream-offset": "first"}))
    declared(peer, "l", 100)
    lease: Table = {"queue": "l", "group": "g", "start": 0, "max_messages": 100}
    peer.say(2, m.RequestAsk("lease.acquire", lease))
    part: Table = {"x-lease-group": "g", "x-lease-from": 0, "x-lease-to": 100}
    peer.say(1, m.BasicConsume("l", "l", arguments=part))
    found = answered(peer, 150)
    assert min(found[tag] for tag in "asl") >= 45
    bed.settle()


@pytest.mark.parametrize(
    "said",
    [m.BasicCancel("a"), m.QueueDelete("a"), m.BasicCancel("b"), m.QueuePurge("b")],
    ids=str,
)
def test_who_goes_leaves_its_place_in_the_line(said: m.Method) -> None:
    bed, peer = backlogs("abc", 2)
    peer.say(1, said)
    found = answered(peer, 100)
    assert found["c"] >= 33
    sink = peer.connection.channels[1].sink
    assert sink.waiting is not None and len(sink.waiting) <= 3
    bed.settle()


def test_a_window_that_is_taken_away_holds_nobody() -> None:
    bed, peer = backlogs("abc", 2)
    peer.say(1, m.BasicQos(0, 0, True))
    assert Counter(tag for tag, _ in tags(peer.heard())) == dict.fromkeys("abc", BACKLOG)
    bed.settle()


def test_a_channel_that_stops_and_goes_on_keeps_its_line() -> None:
    bed, peer = backlogs("abc", 1)
    reader = Reader(peer)
    found = reader.answered(6)
    peer.say(1, m.ChannelFlow(False))
    assert not reader.answered(1)
    peer.say(1, m.ChannelFlow(True))
    found += reader.answered(6)
    assert max(found.values()) - min(found.values()) <= 2
    bed.settle()


def test_a_socket_that_takes_nothing_for_a_while_loses_nobody_his_turn() -> None:
    bed, peer = backlogs("abc", 10, socket_output_high_bytes=4096)
    reader = Reader(peer)
    found = reader.answered(30)
    peer.take(0)
    found += reader.answered(10, 10)
    peer.take()
    found += reader.answered(60)
    assert max(found.values()) - min(found.values()) <= 12
    bed.settle()


def test_messages_that_come_back_go_to_whose_turn_it_is() -> None:
    bed, peer = backlogs("ab", 2)
    found: Counter[str] = Counter()
    for _ in range(60):
        heard = tags(peer.heard())
        found.update(tag for tag, _ in heard)
        peer.say(1, *(m.BasicReject(tag, tag % 3 == 0) for _, tag in heard))
    assert abs(found["a"] - found["b"]) <= 3
    bed.settle()


def test_a_thousand_consumers_have_their_turns() -> None:
    bed = Bed()
    peer = bed.connect(channels=2)
    names = [f"q{n}" for n in range(1000)]
    for name in names:
        declared(peer, name, 3)
    peer.say(1, m.BasicQos(0, 20, True))
    peer.send(*(method_frame(1, m.BasicConsume(name, name)) for name in names))
    found = answered(peer, 2400, 20)
    assert len(found) == 1000 and min(found.values()) >= 2
    bed.settle()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_socket_with_room_for_one_delivery_at_a_time_goes_round(channels: int) -> None:
    """No window but the socket's: whoever was asked first had all of it."""
    bed = Bed(socket_output_high_bytes=4096)
    peer, other = bed.connect(channels=channels), bed.connect("publisher", channels=2)
    names = "abcd"
    for name in names:
        declared(other, name, 80, bytes(3000))
    peer.take(0)
    for index, name in enumerate(names):
        peer.say(1 + index % channels, m.BasicConsume(name, name, no_ack=True))
    found: Counter[str] = Counter()
    for _ in range(80):
        peer.take(3100)
        found.update(tag for tag, _ in tags(peer.heard()))
    assert min(found[name] for name in names) >= 10
    peer.hang_up()
    bed.settle()
