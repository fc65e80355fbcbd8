"""Duplicates through a connection: an exchange that knows them, a queue that takes none."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table, Value
from penstock.routing.deduplication import DeduplicationExchange
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Peer, headers_property, publish

HEADER = "x-deduplication-header"


class TwinBed(LetterBed):
    """`send` publishes with a deduplication header."""

    def send(
        self,
        exchange: str,
        key: str,
        twin: Value,
        body: bytes = b"m",
        *,
        peer: Peer | None = None,
        **more: Value,
    ) -> None:
        table: Table = {HEADER: twin}
        table.update({name.replace("_", "-"): value for name, value in more.items()})
        (peer or self.peer).send(publish(1, exchange, key, body, headers_property(table)))

    def make(self, **arguments: Value) -> None:
        """The exchange `x` with the queue `q`."""
        table: Table = {f"x-cache-{name}": value for name, value in arguments.items()}
        declare = m.ExchangeDeclare("x", "x-message-deduplication", arguments=table)
        self.peer.call(1, declare, m.ExchangeDeclareOk)
        self.declare("q")
        self.peer.call(1, m.QueueBind("q", "x", "any"), m.QueueBindOk)

    def drops(self, name: str) -> int:
        queue_limits = self.actor(name).queue_limits
        assert queue_limits is not None
        return queue_limits.drops[5]


# -- the exchange -------------------------------------------------------------------------------


def test_a_message_passes_once_whatever_its_key() -> None:
    bed = TwinBed()
    bed.make(size=10)
    for body, twin in ((b"1", "a"), (b"2", "a"), (b"3", 7), (b"4", "7"), (b"5", 7)):
        bed.send("x", body.decode(), twin, body)
    bed.peer.publish("k", b"6", b"7", exchange="x")
    assert bed.bodies("q") == [b"1", b"3", b"4", b"6", b"7"]


def test_the_oldest_entry_makes_room_for_a_new_one() -> None:
    bed = TwinBed()
    bed.make(size=2)
    for twin in ("a", "b", "a", "c", "a", "c"):
        bed.send("x", "", twin, twin.encode())
    assert bed.bodies("q") == [b"a", b"b", b"c", b"a"]


def test_an_entry_ends_after_the_ttl_of_the_exchange_or_the_message() -> None:
    bed = TwinBed()
    bed.make(size=10, ttl=100)
    bed.send("x", "", "a")
    bed.send("x", "", "b", x_cache_ttl=1000)
    bed.wait(99)
    bed.send("x", "", "a")
    assert bed.ready("q") == 2
    bed.wait(2)
    bed.send("x", "", "a")
    bed.send("x", "", "b")
    assert bed.ready("q") == 3
    bed.wait(900)
    bed.send("x", "", "b")
    assert bed.ready("q") == 4


def test_a_publish_that_has_to_wait_is_not_its_own_duplicate() -> None:
    bed = TwinBed(credit_channel_queue="4/2")
    bed.make(size=1000)
    bed.park("q")
    for number in range(40):
        bed.send("x", "", number, b"%02d" % number)
    parking = bed.peer.connection.channels[1].parking
    assert bed.ready("q") == 0 and len(parking.lines) == 1
    bed.unpark("q")
    bed.peer.read_on()
    assert bed.bodies("q") == [b"%02d" % number for number in range(40)]
    exchange = bed.broker.vhosts["/"].find_exchange("x")
    assert isinstance(exchange, DeduplicationExchange) and exchange.duplicate_count == 0
    bed.send("x", "", 0)
    assert exchange.duplicate_count == 1


def test_a_mandatory_duplicate_comes_back_and_is_confirmed() -> None:
    bed = TwinBed()
    bed.make(size=10)
    bed.send("x", "", "a")
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    table: Table = {HEADER: "a"}
    bed.peer.send(publish(1, "x", "", b"again", headers_property(table), mandatory=True))
    said = [heard.method for heard in bed.peer.heard()]
    assert isinstance(said[0], m.BasicReturn) and said[0].reply_code == 312
    assert isinstance(said[1], m.BasicAck)


def test_a_transaction_looks_first_and_its_message_still_passes() -> None:
    bed = TwinBed()
    bed.make(size=10)
    bed.peer.call(1, m.TxSelect(), m.TxSelectOk)
    bed.send("x", "", "a")
    bed.send("x", "", "b")
    bed.peer.call(1, m.TxCommit(), m.TxCommitOk)
    assert bed.ready("q") == 2


def test_behind_a_delay_it_is_a_duplicate_when_it_comes_out() -> None:
    bed = TwinBed()
    table: Table = {"x-delayed-type": "x-message-deduplication", "x-cache-size": 5}
    declare = m.ExchangeDeclare("x", "x-delayed-message", arguments=table)
    bed.peer.call(1, declare, m.ExchangeDeclareOk)
    bed.declare("q")
    bed.peer.call(1, m.QueueBind("q", "x", ""), m.QueueBindOk)
    for body in (b"1", b"2"):
        bed.send("x", "", "a", body, x_delay=10)
    bed.wait(10)
    assert bed.bodies("q") == [b"1"]
    bed.check_books()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "'x-cache-size' must be an integer greater than 0"),
        ({"x-cache-size": 0}, "'x-cache-size' must be an integer greater than 0"),
        ({"x-cache-size": "many"}, "'x-cache-size' must be an integer greater than 0"),
        ({"x-cache-size": 1 << 40}, "is more than 10000000"),
        ({"x-cache-size": 5, "x-cache-ttl": 0}, "'x-cache-ttl' must be an integer greater than 0"),
        ({"x-cache-size": 5, "x-cache-persistence": "tape"}, "must be either 'disk' or 'memory'"),
    ],
)
def test_bad_arguments_are_refused(arguments: Table, text: str) -> None:
    bed = TwinBed()
    declare = m.ExchangeDeclare("x", "x-message-deduplication", arguments=arguments)
    closed = bed.peer.call(1, declare, m.ChannelClose)
    assert closed.reply_code == 406 and text in closed.reply_text


def test_numbers_may_be_texts() -> None:
    bed = TwinBed()
    bed.make(size="2", ttl="5000", persistence="disk")
    bed.send("x", "", "a")
    bed.send("x", "", "a")
    assert bed.ready("q") == 1


# -- the queue ----------------------------------------------------------------------------------


@pytest.fixture
def bed() -> TwinBed:
    bed = TwinBed()
    bed.declare("q", message_deduplication=True)
    return bed


def test_a_queue_takes_one_of_each_until_it_has_gone(bed: TwinBed) -> None:
    for twin in ("a", "b", "a", 1, 1.0, "1"):
        bed.send("", "q", twin)
    bed.peer.publish("q", b"x", b"x")
    assert bed.ready("q") == 7 and bed.drops("q") == 1
    bed.check_books()


@pytest.mark.parametrize("ends_by", ["ack", "reject", "no_ack", "get"])
def test_it_may_come_again_after_its_answer(bed: TwinBed, ends_by: str) -> None:
    bed.send("", "q", "a")
    if ends_by == "get":
        bed.peer.call(1, m.BasicGet("q", True), m.BasicGetOk)
    else:
        bed.peer.say(1, m.BasicConsume("q", "tag", no_ack=ends_by == "no_ack"))
        bed.peer.heard()
        if ends_by != "no_ack":
            bed.send("", "q", "a")
            assert bed.peer.heard() == [] and bed.drops("q") == 1
        if ends_by == "ack":
            bed.peer.say(1, m.BasicAck(1))
        if ends_by == "reject":
            bed.peer.say(1, m.BasicReject(1, False))
    before = bed.drops("q")
    bed.send("", "q", "a")
    assert bed.drops("q") == before
    bed.check_books()


def test_what_comes_back_is_still_here(bed: TwinBed) -> None:
    bed.send("", "q", "a")
    bed.peer.call(1, m.BasicGet("q", False), m.BasicGetOk)
    bed.peer.say(1, m.BasicReject(1, True))
    bed.send("", "q", "a")
    assert (bed.ready("q"), bed.drops("q")) == (1, 1)


def test_purge_keeps_the_keys_of_what_is_out(bed: TwinBed) -> None:
    bed.send("", "q", "a")
    bed.send("", "q", "b")
    bed.peer.call(1, m.BasicGet("q", False), m.BasicGetOk)
    bed.peer.call(1, m.QueuePurge("q"), m.QueuePurgeOk)
    bed.send("", "q", "a")
    bed.send("", "q", "b")
    assert (bed.ready("q"), bed.drops("q")) == (1, 1)
    bed.check_books()


def test_what_expires_or_is_too_much_makes_room() -> None:
    bed = TwinBed()
    bed.declare("q", message_deduplication=True, message_ttl=50, max_length=2)
    for twin in ("a", "b", "c", "a"):
        bed.send("", "q", twin, str(twin).encode())
    assert bed.bodies("q") == [b"c", b"a"] and bed.drops("q") == 0
    bed.wait(51)
    bed.send("", "q", "c")
    assert bed.ready("q") == 1 and bed.drops("q") == 0
    bed.check_books()


def test_a_delivery_limit_makes_room() -> None:
    bed = TwinBed()
    bed.declare("q", message_deduplication=True, delivery_limit=0)
    bed.send("", "q", "a")
    bed.peer.call(1, m.BasicGet("q", False), m.BasicGetOk)
    bed.peer.say(1, m.BasicReject(1, True))
    assert bed.ready("q") == 0
    bed.send("", "q", "a")
    assert bed.ready("q") == 1 and bed.drops("q") == 0


def test_a_last_value_passes_its_place_on_and_not_its_key() -> None:
    bed = TwinBed()
    bed.declare("q", message_deduplication=True, last_value_key="routing-key")
    bed.send("", "q", "a", b"1")
    bed.send("", "q", "b", b"2")
    assert bed.bodies("q") == [b"2"]
    bed.send("", "q", "b", b"3")
    bed.send("", "q", "a", b"4")
    assert bed.bodies("q") == [b"4"] and bed.drops("q") == 1
    bed.check_books()


def test_a_message_may_say_for_how_long_it_is_unique(bed: TwinBed) -> None:
    bed.send("", "q", "a", x_cache_ttl=20)
    bed.wait(10)
    bed.send("", "q", "a")
    assert bed.ready("q") == 1
    bed.wait(11)
    bed.send("", "q", "a")
    assert bed.ready("q") == 2
    bed.peer.call(1, m.BasicGet("q", True), m.BasicGetOk)
    bed.send("", "q", "a")
    assert bed.ready("q") == 1, "the second one is still here"


def test_the_publisher_of_a_duplicate_is_confirmed(bed: TwinBed) -> None:
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    for _ in range(3):
        bed.send("", "q", "a")
    assert bed.peer.confirmed() == {1: "ack", 2: "ack", 3: "ack"}
    assert bed.drops("q") == 2


def test_without_the_argument_duplicates_are_taken() -> None:
    bed = TwinBed()
    bed.declare("q", message_deduplication=False)
    bed.send("", "q", "a")
    bed.send("", "q", "a")
    assert bed.ready("q") == 2


def test_what_a_delay_lets_go_is_a_duplicate_as_well(bed: TwinBed) -> None:
    declare = m.ExchangeDeclare("x", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    bed.peer.call(1, declare, m.ExchangeDeclareOk)
    bed.peer.call(1, m.QueueBind("q", "x", ""), m.QueueBindOk)
    for body in (b"1", b"2"):
        bed.send("x", "", "a", body, x_delay=10)
    bed.wait(10)
    assert bed.bodies("q") == [b"1"] and bed.drops("q") == 1
    bed.check_books()
