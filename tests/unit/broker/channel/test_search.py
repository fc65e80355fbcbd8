"""A publish that headers exchanges match for long has its queues looked for in several turns."""

import pytest

from penstock.base.limits import TURN_MESSAGES
from penstock.broker.channel.channel import Channel
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.routing.headers import VALUES_A_STEP, HeadersExchange
from penstock.routing.search import MATCHED_AT_ONCE, RESTARTS_MAX
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Bed, Peer, headers_property, publish

VALUES: Table = {f"k{number:03}": number for number in range(249)}
RULES = 140
STEPS = RULES + RULES * len(VALUES) // VALUES_A_STEP
A_RULE = 1 + len(VALUES) // VALUES_A_STEP
TURNS = STEPS // (MATCHED_AT_ONCE + A_RULE)
MESSAGE = publish(1, "h", "", b"x", headers_property(VALUES))


def bind(peer: Peer, queue: str, number: int, exchange: str = "h") -> None:
    """A binding whose every value is compared with those of MESSAGE, and agrees."""
    peer.call(1, m.QueueBind(queue, exchange, f"{number}", arguments=VALUES), m.QueueBindOk)


def full(bed: Bed, peer: Peer) -> HeadersExchange:
    """A headers exchange that takes several turns, all for queues `q0` and `q1`."""
    peer.call(1, m.ExchangeDeclare("h", "headers"), m.ExchangeDeclareOk)
    for name in ("q0", "q1", "other"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    for number in range(RULES):
        bind(peer, f"q{number % 2}", number)
    found = bed.broker.vhosts["/"].find_exchange("h")
    assert isinstance(found, HeadersExchange)
    return found


def begin(peer: Peer, data: bytes) -> Channel:
    """The broker has read `data`; its channel has had no turn."""
    peer.connection.receive(data)
    channel = peer.connection.channels[1]
    while not (upstream := channel.upstream) or not upstream.items:
        peer.connection.turn(TURN_MESSAGES.default)
    return channel


def depth(bed: Bed, name: str) -> int:
    return int(bed.actor(name).messages.publish_count)


def test_a_turn_compares_so_many_values_and_no_more() -> None:
    """Issue 18, 2: a publish that 100,000 values are compared for held everybody for 2 ms."""
    bed = Bed()
    peer = bed.connect()
    exchange = full(bed, peer)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    channel = begin(peer, MESSAGE + MESSAGE)
    turns = 0
    while channel.publisher.publish_count < 2:
        before = exchange.steps
        assert channel.turn(TURN_MESSAGES.default) or channel.publisher.publish_count == 2
        assert exchange.steps - before <= 2 * (MATCHED_AT_ONCE + A_RULE)
        turns += 1
    assert turns >= TURNS
    assert abs(int(exchange.steps) - 2 * STEPS) <= turns, "nothing is compared twice"
    bed.run()
    assert peer.confirmed() == {1: "ack", 2: "ack"}
    assert (depth(bed, "q0"), depth(bed, "q1"), depth(bed, "other")) == (2, 2, 0)
    assert channel.publisher.way is None
    bed.settle()


@pytest.mark.parametrize("done", [0, 1, 3])
def test_what_is_unbound_meanwhile_gets_nothing(done: int) -> None:
    bed = Bed()
    peer = bed.connect()
    exchange = full(bed, peer)
    channel = begin(peer, MESSAGE)
    for _ in range(done):
        channel.turn(TURN_MESSAGES.default)
    assert channel.publisher.publish_count == 0 and (exchange.steps > 0) == (done > 0)
    target = bed.actor("q1").target
    for number in range(1, RULES, 2):
        exchange.unbind(target, f"{number}", VALUES)
    exchange.bind(bed.actor("other").target, "", {})
    bed.run()
    assert [depth(bed, name) for name in ("q0", "q1", "other")] == [1, 0, 1]
    bed.settle()


def test_a_publish_ends_however_often_others_bind() -> None:
    bed = Bed()
    peer = bed.connect()
    exchange = full(bed, peer)
    channel = begin(peer, MESSAGE)
    turns = 0
    while channel.publisher.publish_count == 0:
        exchange.bind(bed.actor("other").target, f"{turns}", {"x-match": "any"})
        channel.turn(TURN_MESSAGES.default)
        turns += 1
    assert turns <= RESTARTS_MAX + 3
    bed.run()
    assert [depth(bed, name) for name in ("q0", "q1", "other")] == [1, 1, 0]
    bed.settle()


def test_bindings_elsewhere_do_not_begin_it_anew() -> None:
    bed = Bed()
    peer, other = bed.connect(), bed.connect("other")
    exchange = full(bed, peer)
    channel = begin(peer, MESSAGE)
    turns = 0
    while channel.publisher.publish_count == 0:
        channel.turn(TURN_MESSAGES.default)
        turns += 1
        # The scheduler is not asked: only the other channel has its turn.
        other.connection.receive(publish(1, "", "other", b"y"))
        bed.broker.vhosts["/"].router.queues_changed()
    assert abs(int(exchange.steps) - STEPS) <= turns >= TURNS
    bed.settle()


def test_several_exchanges_on_one_way_and_a_delayed_one() -> None:
    """Each is matched once, and what was matched before is not matched again."""
    bed = Bed()
    peer = bed.connect()
    exchange = full(bed, peer)
    delayed: Table = {"x-delayed-type": "headers"}
    peer.call(
        1, m.ExchangeDeclare("first", "x-delayed-message", arguments=delayed), m.ExchangeDeclareOk
    )
    for number in range(RULES):
        bind(peer, "other", number, "first")
    peer.call(1, m.ExchangeBind("h", "first", "", arguments={}), m.ExchangeBindOk)
    channel = begin(peer, publish(1, "first", "", b"x", headers_property(VALUES)))
    turns = 0
    while channel.publisher.publish_count == 0:
        channel.turn(TURN_MESSAGES.default)
        turns += 1
    assert abs(int(exchange.steps) - STEPS) <= turns >= 2 * TURNS
    bed.run()
    assert [depth(bed, name) for name in ("q0", "q1", "other")] == [1, 1, 1]
    bed.settle()


@pytest.mark.parametrize("is_closing", [True, False])
def test_what_stands_behind_it_finds_it_there(is_closing: bool) -> None:
    bed = Bed()
    peer = bed.connect()
    full(bed, peer)
    channel = begin(peer, MESSAGE)
    channel.turn(TURN_MESSAGES.default)
    assert channel.publisher.way is not None
    if is_closing:
        peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
        assert depth(bed, "q0") == depth(bed, "q1") == 1
    else:
        peer.hang_up()
    bed.run()
    assert channel.publisher.way is None
    bed.settle()


def test_others_have_their_turns_in_between() -> None:
    bed = Bed()
    peer, other = bed.connect(), bed.connect("other")
    exchange = full(bed, peer)
    begin(peer, MESSAGE)
    channel = begin(other, publish(1, "", "other", b"ping"))
    peer.connection.channels[1].wake()
    channel.wake()
    while depth(bed, "other") == 0:
        actor = bed.broker.scheduler.ready.pop(0)
        actor.is_ready = False
        if actor.turn(TURN_MESSAGES.default):
            actor.wake()
    assert exchange.steps <= 3 * (MATCHED_AT_ONCE + A_RULE) < STEPS
    bed.settle()


def test_dead_letters_are_matched_in_turns_of_their_own() -> None:
    bed = LetterBed()
    exchange = full(bed, bed.peer)
    queue = bed.declare("dying", dead_letter_exchange="h", max_length=100)
    properties = headers_property(VALUES)
    bed.peer.send(*(publish(1, "", "dying", b"x", properties) for _ in range(100)))
    assert exchange.steps == 0
    for _ in range(3):
        bed.peer.send(*(publish(1, "", "dying", b"x", properties) for _ in range(10)))
    worker = bed.letters("dying").worker
    bed.run()
    assert exchange.steps >= 30 * STEPS and bed.sent("dying") == {"maxlen": 30}
    assert depth(bed, "q0") == 30
    # One is matched at once, the others one a turn.
    begin(bed.peer, b"".join(publish(1, "", "dying", b"x", properties) for _ in range(5))).turn(64)
    before = exchange.steps
    queue.turn(TURN_MESSAGES.default)
    assert exchange.steps - before <= STEPS + RULES
    while worker.is_ready:
        before = exchange.steps
        worker.turn(TURN_MESSAGES.default)
        worker.is_ready = len(bed.letters("dying").late) > 0
        assert exchange.steps - before <= STEPS + RULES
    bed.run()
    assert bed.sent("dying") == {"maxlen": 35}
    bed.settle()
