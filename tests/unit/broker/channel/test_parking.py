"""Publishes of one channel parked by queue: order, room, and what happens when there is none."""

from random import Random

import pytest

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.base.limits import PARKED_BYTES, PARKED_NODE_BYTES
from penstock.base.policy import Policy
from penstock.broker.channel.full_actions import FullActions
from penstock.broker.channel.lot_host import LotHost
from penstock.broker.channel.node_parking import NodeParking
from penstock.broker.channel.parked_line import CREDIT, PARKED_OVERHEAD_BYTES, parked_size
from penstock.broker.channel.parking import Parking
from penstock.broker.channel.parking_lot import ParkingLot
from penstock.flow.account import Account
from penstock.flow.profile import ADAPTIVE, PENSTOCK, RABBITMQ_4, Profile
from penstock.protocol import methods as m
from penstock.protocol.content import Message
from penstock.protocol.properties import Properties
from penstock.telemetry.accounting import BlockLedger
from tests.spec.stage import Hand, Stage, numbered
from tests.unit.broker.peer import Bed

QUEUES = ("q1", "q2", "q3")
EVERYWHERE = ""


def taken(stage: Stage, queue: str) -> list[bytes]:
    reader = stage.connect()[0]
    reader.say(m.BasicConsume(queue, no_ack=True))
    stage.settle()
    return reader.bodies()


def test_publishes_for_other_queues_pass_any_number_of_parked_ones() -> None:
    stage = Stage(PENSTOCK)
    hand = stage.connect()[0]
    hand.publish("q2", 1)
    stage.park("queue:/q1")
    hand.publish_bodies("q1", numbered(1500))
    hand.publish_bodies("q2", numbered(1500))
    stage.settle()
    parking = stage.channel(hand).parking
    waiting = 1500 - PENSTOCK.credit_initial
    assert stage.ready("q2") == 1501 and len(parking.lines) == 1
    [line] = parking.lines.values()
    assert (line.lane.receiving.identity, line.reason) == ("queue:/q1", "credit")
    assert line.count() == parking.lot.messages == waiting
    assert parking.lot.bytes == sum(int(parked_size(one)) for one in line.in_memory())
    assert stage.channel(hand).gate.is_open and not stage.channel(hand).is_stalled
    stage.unpark("queue:/q1")
    stage.settle()
    assert taken(stage, "q1") == numbered(1500)
    assert not parking.messages() and parking.lot.bytes == 0 and not parking.lot.lines


@pytest.mark.parametrize("seed", range(16))
def test_every_queue_gets_exactly_its_own_in_the_order_they_were_sent(seed: int) -> None:
    """Queues stand still and go on while publishes for one of them, or for all, come in; there is
    room for all of them, for some, or for one."""
    chance = Random(seed)
    stage = Stage(PENSTOCK.with_messages(chance.randint(1, 6), 1))
    stage.broker.parking.lot_bytes_max = chance.choice((1, 4000, 1 << 20))
    hand = stage.connect()[0]
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
    assert not stage.channel(hand).parking.messages()


def test_an_end_hands_over_all_that_is_parked_in_its_order() -> None:
    stage = Stage(PENSTOCK.with_messages(2, 1))
    hand = stage.connect(channels=2)[0]
    stage.park("queue:/q1")
    hand.publish_bodies("q1", numbered(50))
    stage.settle()
    assert stage.connection(hand.client).lot.messages == 48
    hand.say(m.ChannelClose(200, "done", 0, 0))
    stage.settle()
    stage.unpark("queue:/q1")
    stage.settle()
    assert taken(stage, "q1") == numbered(50)


def made(size: int) -> Message:
    return Message(b"x" * size, size)


SIZE = 100 + PARKED_OVERHEAD_BYTES


class Asked(LotHost):
    """Notes that there may be room."""

    def __init__(self, asked: list[int]) -> None:
        super().__init__()
        self.asked = asked

    def books(self) -> BlockLedger:
        return BlockLedger(0)

    def room_freed(self) -> None:
        self.asked.append(1)


def lots(count: int, node: NodeParking) -> list[ParkingLot]:
    found = [
        ParkingLot(Account(f"conn:{one}", None, None, 0), node, Asked([])) for one in range(count)
    ]
    for lot in found:
        lot.share()
    return found


def test_the_entrances_of_one_connection_share_its_bytes() -> None:
    [lot] = lots(1, NodeParking())
    one, other = Parking(lot), Parking(lot)
    assert one.park(made(100), CREDIT, 5)
    assert not one.park(made(1), CREDIT, 6), "one publish for each channel"
    lot.node.lot_bytes_max = 2 * SIZE
    assert not other.park(made(101), CREDIT, 6), "and so many bytes for all"
    assert other.park(made(100), CREDIT, 6) and lot.bytes == 2 * SIZE
    assert (lot.account.parked_messages, lot.account.parked_bytes) == (2, 2 * SIZE)
    first = one.first()
    assert first is not None and (first.reason, first.since_ns, first.size) == (CREDIT, 5, SIZE)
    one.take_first()
    other.clear_entrance()
    assert lot.bytes == lot.node.bytes == lot.account.parked_bytes == 0
    assert other.first() is None


def test_bounds_are_those_of_the_table() -> None:
    node = NodeParking()
    assert (node.lot_bytes_max, node.bytes_max) == (PARKED_BYTES.default, PARKED_NODE_BYTES.default)


def test_a_lot_that_came_first_leaves_room_for_others() -> None:
    """Each may have as much as is free: one takes a half, two a third each, and so on."""
    node = NodeParking(bytes_max=120 * SIZE, lot_bytes_max=1 << 40)
    first, second, third = lots(3, node)
    for lot, most in ((first, 60), (second, 30), (third, 15)):
        while lot.has_place(SIZE):
            lot.charge(1, SIZE)
        assert abs(int(lot.messages) - most) <= 1, lot.messages
    first.repay(40, 40 * SIZE)
    assert second.has_place(SIZE) and third.has_place(SIZE)
    assert third.room_bytes() > second.room_bytes() > first.room_bytes() - 30 * SIZE


def test_an_empty_lot_takes_one_publish_whatever_its_size() -> None:
    node = NodeParking(bytes_max=0, lot_bytes_max=0)
    [lot] = lots(1, node)
    assert lot.has_room(1 << 30) and lot.room_bytes() == 0
    lot.charge(1, 1 << 30)
    assert not lot.has_place(1)


def test_lots_that_wait_for_the_node_are_asked_again_when_room_is_worth_it() -> None:
    node = NodeParking(bytes_max=6400, lot_bytes_max=1 << 40)
    one, other = lots(2, node)
    asked: list[int] = []
    other.host = Asked(asked)
    one.charge(10, 5000)
    other.charge(1, 1200)
    assert not other.has_place(300)
    node.wait(other.wake)
    one.repay(1, 50)
    one.note_freed()
    assert not asked, "less than a 64th is free"
    one.repay(1, 50)
    one.note_freed()
    assert asked == [1]
    other.close()
    assert not node.waiting


def test_who_waits_for_the_node_does_not_wait_for_what_others_parked_since() -> None:
    """Random graphs 318 and 672: two lots were refused, one after the other had grown; what the
    first had found parked was never left again, so the second was never asked."""
    node = NodeParking(bytes_max=6400, lot_bytes_max=1 << 40)
    one, early, late = lots(3, node)
    asked: list[int] = []
    late.host = Asked(asked)
    one.charge(20, 2000)
    node.wait(early.wake)
    one.charge(10, 3000)
    node.wait(late.wake)
    one.repay(1, 300)
    one.note_freed()
    assert asked == [1]


def test_what_overflows_is_no_part_of_the_lot() -> None:
    [lot] = lots(1, NodeParking())
    parking = Parking(lot)
    message = made(100)
    parking.overflows(message, CREDIT, 7)
    assert lot.bytes == 0 and parking.messages() == [message]
    assert parking.take_overflow() is message and not parking.messages()


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


def test_a_fan_out_is_parked_only_for_queues_that_take_nothing() -> None:
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    session = hand.client.session
    session.publish(hand.channel, "amq.fanout", "", b"fan-out")
    session.publish(hand.channel, "", "q2", b"behind it")
    hand.client.flush()
    stage.settle()
    assert stage.is_parking_one(hand)
    assert stage.connection(hand.client).lot.messages == 1
    assert taken(stage, "q2") == [b"fan-out", b"behind it"]
    stage.unpark("queue:/q1")
    stage.settle()
    assert taken(stage, "q1") == [*numbered(PARKED), b"fan-out"]


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


def test_deleting_a_queue_finds_what_was_parked_for_it() -> None:
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    hand.publish("q1", 1)
    stage.settle()
    assert stage.is_parking_one(hand)
    hand.say(m.QueueDelete("q1"))
    stage.settle()
    assert hand.replies[-1] == m.QueueDeleteOk(PARKED + 1)
    assert stage.channel(hand).escapes == 1, "and it is counted"


def test_other_methods_go_past_what_is_parked_by_queue() -> None:
    """It has been routed: what is bound or unbound now is not for it."""
    stage = Stage(PENSTOCK)
    hand = with_one_parked(stage)
    hand.publish("q1", 1)
    hand.say(m.QueueUnbind("q1", "amq.fanout", ""), m.ConfirmSelect())
    stage.settle()
    assert [type(one) for one in hand.replies[-2:]] == [m.QueueUnbindOk, m.ConfirmSelectOk]
    assert stage.is_parking_one(hand) and stage.channel(hand).escapes == 0
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.ready("q1") == PARKED + 1


def test_a_lot_without_room_stops_the_channel_and_goes_on_by_itself() -> None:
    stage = Stage(PENSTOCK)
    stage.broker.parking.lot_bytes_max = 10_000
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    for _ in range(PARKED + 1000):
        hand.publish("q1", 1)
        hand.publish("q2", 1)
    stage.settle()
    channel = stage.channel(hand)
    lot = stage.connection(hand.client).lot
    assert channel.is_stalled and channel.stalled_by == ("queue:/q1", "credit")
    assert 10_000 - 2 * PARKED_OVERHEAD_BYTES < lot.bytes <= 10_000
    assert stage.ready("q2") == PARKED + int(lot.messages)
    assert not stage.connection(hand.client).gate.is_open
    stage.unpark("queue:/q1")
    stage.settle()
    assert (stage.ready("q1"), stage.ready("q2")) == (PARKED + 1000, PARKED + 1000)
    assert lot.bytes == 0 and not channel.is_stalled


def test_what_only_one_queue_gets_without_confirms_stays_with_its_client() -> None:
    """Nobody stands behind it: a lot full of it would only be delay."""
    stage = Stage(PENSTOCK)
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    hand.publish("q1", 3 * PARKED)
    stage.settle()
    lot, gate = stage.connection(hand.client).lot, stage.connection(hand.client).gate
    assert lot.messages == 2 and not lot.is_shared and not gate.is_open
    lot.share()
    stage.settle()
    assert lot.messages == 2 * PARKED and gate.is_open


@pytest.mark.parametrize("said", ["node", "user", "policy"])
def test_a_full_lot_may_answer_nack(said: str) -> None:
    """In its place among the confirms; the connection reads on, and what is parked is kept."""
    row = AlarmAction("nack", "/", "guest")
    config: dict[str, object] = {
        "node": {"parked_full": "nack"},
        "user": {"parked_full": "close", "parked_full_actions": (row,)},
        "policy": {"policies": (Policy("/", "p", "q", {"parked-full": "nack"}),)},
    }
    bed = Bed(queue_depth_bytes=500, parked_bytes=2000, **config[said])  # type: ignore[arg-type]
    peer = bed.connect("p")
    for name in ("q", "r"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("q", b"x" * 1000)
    peer.publish("q", *[b"y" * 10] * 500)
    peer.publish("r", b"z")
    assert peer.connection.gate.is_open
    answers = peer.confirmed()
    refused = {number for number, answer in answers.items() if answer == "nack"}
    assert len(refused) > 50 and max(refused) == 501
    assert answers[502] == "ack", "what is for another queue"
    for _ in range(200):
        bed.broker.vhosts["/"].queues["q"].purge()
        bed.run()
    late = peer.confirmed()
    assert set(late.values()) == {"ack"} and {*late, *answers} == set(range(1, 503))
    bed.settle()


def test_a_full_lot_may_close_the_channel() -> None:
    bed = Bed(queue_depth_bytes=500, parked_bytes=2000, parked_full="close")
    peer = bed.connect("p", channels=2)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"x" * 1000)
    peer.publish("q", *[b"y" * 10] * 500)
    close = peer.one(m.ChannelClose)
    assert close.reply_code == 406 and "parked_bytes is 2000" in close.reply_text
    assert peer.connection.lot.bytes == 0
    bed.settle()


def test_an_action_nobody_knows_is_refused() -> None:
    with pytest.raises(OperatorError, match="parked_full 'block' is unknown; one of: stop"):
        FullActions("block", ())
    with pytest.raises(OperatorError, match="'drop' is unknown"):
        FullActions("stop", (AlarmAction("drop"),))


def test_one_line_that_opens_lets_a_channel_go_on_that_waits_for_room() -> None:
    stage = Stage(PENSTOCK)
    stage.broker.parking.lot_bytes_max = 10_000
    first, second = stage.connect(channels=2)
    stage.park("queue:/q1")
    stage.park("queue:/q2")
    first.publish("q1", PARKED + 20)
    stage.settle()
    second.publish("q2", PARKED + 200)
    stage.settle()
    assert stage.channel(second).is_stalled and not stage.channel(first).is_stalled
    before = int(stage.channel(second).inbox.taken)
    stage.unpark("queue:/q1")
    stage.settle()
    assert stage.channel(second).inbox.taken > before, "the first channel has made room"
    stage.unpark("queue:/q2")
    stage.settle()
    assert (stage.ready("q1"), stage.ready("q2")) == (PARKED + 20, PARKED + 200)


OURS = pytest.mark.parametrize("profile", [PENSTOCK, ADAPTIVE], ids=lambda profile: profile.name)


@OURS
def test_a_stopped_queue_costs_a_running_one_nothing(profile: Profile) -> None:
    """Scenario 26: publishes for both in turn, 10,000 of them unconfirmed."""
    stage = Stage(profile)
    hand = stage.connect()[0]
    hand.say(m.ConfirmSelect())
    stage.park("queue:/q1")
    for _ in range(100):
        for _ in range(100):
            hand.publish("q1", 1)
            hand.publish("q2", 1)
        stage.settle()
    assert stage.ready("q2") == 10_000 and stage.connection(hand.client).gate.is_open
    confirms = stage.channel(hand).publisher.confirms
    assert confirms is not None and confirms.unanswered(1) == 1
    stage.unpark("queue:/q1")
    stage.settle()
    assert (stage.ready("q1"), stage.ready("q2")) == (10_000, 10_000)
    assert confirms.span() == 0 and not confirms.early
    stage.queue_lane(hand, "q1").check()
