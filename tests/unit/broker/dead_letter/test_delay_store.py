"""The delayed message exchange: order, headers, bounds, flow, ends, and what clients may not do."""

import pytest

from penstock.broker.admin.views import actor_snapshots
from penstock.broker.dead_letter.delay_store import (
    STORE_PREFIX,
    DelayedLetters,
    DelayLimits,
    DelayStore,
)
from penstock.explain.explain import explain
from penstock.explain.graph_extension import beyond
from penstock.protocol import methods as m
from penstock.protocol.integers import LongInteger
from penstock.protocol.property_lookup import PROPERTIES_OFFSET, headers_table_span
from penstock.protocol.values import Table, Value, decode_table
from penstock.queues.dead_letter import LOST_NAMES
from penstock.telemetry.window import WindowHistory
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Peer, headers_property, publish


class DelayBed(LetterBed):
    """An exchange `x` of the delayed kind with the queue `q` bound to it by the key `k`."""

    def __init__(self, inner: str = "direct", **settings: object) -> None:
        super().__init__(**settings)
        self.make("x", inner)
        self.declare("q")
        self.peer.call(1, m.QueueBind("q", "x", "k"), m.QueueBindOk)

    def make(self, name: str, inner: str) -> None:
        declare = m.ExchangeDeclare(name, "x-delayed-message", arguments={"x-delayed-type": inner})
        self.peer.call(1, declare, m.ExchangeDeclareOk)

    def send(self, body: bytes, delay: Value, *, peer: Peer | None = None, **more: Value) -> None:
        headers: Table = {"x-delay": delay, **more}
        (peer or self.peer).send(publish(1, "x", "k", body, headers_property(headers)))

    @property
    def store(self) -> DelayStore:
        found = self.actor(STORE_PREFIX + "x")
        assert isinstance(found, DelayStore)
        return found

    def held(self) -> int:
        return int(self.store.messages.ready_count())

    def headers(self, name: str) -> Table:
        message = self.actor(name).messages.ready_messages()[0]
        header = message.header()
        span = headers_table_span(header, PROPERTIES_OFFSET)
        assert span is not None
        return decode_table(header, span[0], span[1])[0]


@pytest.fixture
def bed() -> DelayBed:
    return DelayBed()


def test_messages_go_on_by_time_then_by_arrival(bed: DelayBed) -> None:
    for body, delay in ((b"c", 300), (b"a", 100), (b"b", 200), (b"d", 300)):
        bed.send(body, delay)
    assert bed.held() == 4 and bed.bodies("q") == []
    bed.wait(99)
    assert bed.bodies("q") == []
    bed.wait(1)
    assert bed.bodies("q") == [b"a"]
    bed.wait(200)
    assert bed.bodies("q") == [b"a", b"b", b"c", b"d"] and bed.held() == 0
    bed.check_books()


@pytest.mark.parametrize("delay", [0, -5, None, True, "soon", [], {}, "-7", 0.4, float("inf")])
def test_what_is_no_delay_is_routed_at_once_and_stays_as_it_is(bed: DelayBed, delay: Value) -> None:
    bed.send(b"x", delay)
    assert bed.bodies("q") == [b"x"]
    assert bed.headers("q")["x-delay"] == delay


def test_without_headers_it_is_routed_at_once(bed: DelayBed) -> None:
    bed.peer.publish("k", b"x", exchange="x")
    assert bed.bodies("q") == [b"x"]


@pytest.mark.parametrize(
    ("delay", "after"),
    [(70, -70), ("70", -70), (70.9, -70), (LongInteger(70), -70)],
)
def test_the_delay_is_negated_where_it_comes_out(bed: DelayBed, delay: Value, after: int) -> None:
    bed.send(b"x", delay, other="kept")
    bed.wait(70)
    assert bed.headers("q") == {"x-delay": after, "other": "kept"}
    message = bed.actor("q").messages.ready_messages()[0]
    assert (message.address.exchange, message.address.routing_key) == ("x", "k")


def test_a_delay_may_be_of_64_bits(bed: DelayBed) -> None:
    bed.send(b"x", 1 << 40)
    bed.send(b"y", (1 << 63) - 1)
    bed.wait(1000)
    assert bed.held() == 2
    bed.later((1 << 40) * 1_000_000)
    assert bed.bodies("q") == [b"x"] and bed.headers("q") == {"x-delay": -(1 << 40)}


def test_the_inner_kind_routes() -> None:
    bed = DelayBed("topic")
    bed.declare("rest")
    bed.peer.call(1, m.QueueBind("rest", "x", "a.#"), m.QueueBindOk)
    header = headers_property({"x-delay": 5, "CC": ["a.b"], "BCC": ["k"]})
    bed.peer.send(publish(1, "x", "a", b"m", header))
    assert bed.held() == 1
    bed.wait(5)
    assert bed.bodies("rest") == [b"m"] and bed.bodies("q") == [b"m"]
    assert bed.headers("q") == {"CC": ["a.b"], "x-delay": -5}


def test_a_message_goes_once_through_a_chain_of_delayed_exchanges(bed: DelayBed) -> None:
    bed.make("y", "fanout")
    bed.peer.call(1, m.ExchangeBind("y", "x", "k"), m.ExchangeBindOk)
    bed.declare("end")
    bed.peer.call(1, m.QueueBind("end", "y"), m.QueueBindOk)
    bed.send(b"m", 50)
    bed.wait(50)
    assert bed.bodies("end") == [b"m"] and bed.bodies("q") == [b"m"]


def test_only_what_no_queue_wanted_goes_to_the_alternate_exchange(bed: DelayBed) -> None:
    bed.declare("other")
    bed.peer.call(1, m.QueueBind("other", "amq.fanout"), m.QueueBindOk)
    table: Table = {"x-delayed-type": "direct", "alternate-exchange": "amq.fanout"}
    declare = m.ExchangeDeclare("y", "x-delayed-message", arguments=table)
    bed.peer.call(1, declare, m.ExchangeDeclareOk)
    bed.peer.send(publish(1, "y", "nobody", b"m", headers_property({"x-delay": 5})))
    assert bed.bodies("other") == []
    bed.wait(5)
    assert bed.bodies("other") == [b"m"]


def test_a_lifetime_begins_when_the_delay_is_over(bed: DelayBed) -> None:
    flags, table = headers_property({"x-delay": 100})
    bed.peer.send(publish(1, "x", "k", b"m", (flags | 0x0100, table + b"\x0250")))
    bed.wait(100)
    assert bed.bodies("q") == [b"m"]
    bed.wait(51)
    assert bed.bodies("q") == []
    bed.check_books()


# -- who pays, and who waits ------------------------------------------------------------------


def test_what_is_delayed_is_on_the_page_of_its_publisher(bed: DelayBed) -> None:
    other = bed.connect("other")
    bed.send(b"m" * 1000, 50, peer=other)
    assert other.connection.account.stored_messages == 1
    assert other.connection.account.stored_bytes == bed.store.messages.bytes_ready > 1000
    bed.check_books()
    bed.wait(50)
    assert other.connection.account.stored_messages == 1
    bed.peer.call(1, m.QueuePurge("q"), m.QueuePurgeOk)
    assert other.connection.account.stored_messages == 0


def test_a_full_store_stops_its_publishers_and_loses_nothing() -> None:
    bed = DelayBed(delayed_messages_max=10)
    for number in range(2000):
        bed.send(b"%04d" % number, 100)
    assert bed.held() == 10 and bed.store.stop_reason() == "full"
    assert not bed.store.gate.is_open
    assert [peer for peer, _ in bed.store.gate.reasons] == ["exchange:/x"]
    assert bed.peer.unread
    for _ in range(250):
        bed.wait(100)
        bed.peer.read_on()
    assert bed.bodies("q") == [b"%04d" % number for number in range(2000)]
    assert bed.store.gate.is_open
    bed.check_books()


def test_bytes_are_bounded_with_headers() -> None:
    bed = DelayBed(delayed_bytes_max=10_000)
    for _ in range(100):
        bed.send(b"", 50, padding="p" * 1000)
    assert 5 <= bed.held() <= 9
    bed.wait(10_000)
    assert bed.ready("q") == 100
    bed.check_books()


def test_what_is_due_waits_for_a_full_queue_within_the_window() -> None:
    bed = DelayBed()
    bed.declare("tight", max_length=5, overflow="backpressure")
    bed.peer.call(1, m.QueueBind("tight", "x", "t"), m.QueueBindOk)
    for number in range(200):
        body = b"%03d" % number
        bed.peer.send(publish(1, "x", "t", body, headers_property({"x-delay": 10})))
    bed.wait(1000)
    letters = bed.letters(STORE_PREFIX + "x")
    assert letters.count == 32 and bed.ready("tight") == 5
    assert bed.held() + 32 + 5 - len(letters.lanes["tight"].kept) == 200
    got = []
    while True:
        bed.wait(20)
        bed.peer.say(1, m.BasicGet("tight", True))
        heard = bed.peer.heard()
        if isinstance(heard[0].method, m.BasicGetEmpty):
            break
        got.append(heard[0].body)
    assert got == [b"%03d" % number for number in range(200)]
    bed.check_books()


def test_a_million_would_not_be_released_in_one_turn(bed: DelayBed) -> None:
    for _ in range(3000):
        bed.send(b"", 10)
    bed.clock.advance(10_000_000)
    bed.broker.dues.fire(bed.clock.monotonic_ns())
    bed.broker.scheduler.run(0)
    assert bed.held() > 0
    bed.run()
    assert bed.held() == 0 and bed.ready("q") == 3000


def test_why_names_the_queue_that_overdue_messages_wait_for() -> None:
    bed = DelayBed(delayed_messages_max=10)
    bed.declare("tight", max_length=1, overflow="backpressure")
    bed.peer.call(1, m.QueueBind("tight", "x", "t"), m.QueueBindOk)
    history = WindowHistory(60)
    history.push(bed.clock.monotonic_ns(), actor_snapshots(bed.broker))
    for _ in range(2000):
        bed.peer.send(publish(1, "x", "t", b"m", headers_property({"x-delay": 5})))
    bed.wait(10_000)
    assert bed.store.overdue_for() == "queue:/tight"
    now_ns = bed.clock.monotonic_ns()
    history.push(now_ns, actor_snapshots(bed.broker))
    answer = explain("connection", "peer", history.over(10.0), now_ns)
    assert answer.causes[0].root == "exchange:/x"
    assert "some are overdue: queue /tight takes no more" in answer.text
    assert answer.suggestions == ("see why queue /tight takes nothing: penstock why queue /tight",)


def test_why_names_the_exchange_and_when_the_next_goes_on() -> None:
    bed = DelayBed(delayed_messages_max=10)
    history = WindowHistory(60)
    history.push(bed.clock.monotonic_ns(), actor_snapshots(bed.broker))
    bed.peer.publish("k", b"", exchange="x")
    for _ in range(2000):
        bed.send(b"m", 60_000)
    bed.wait(10_000)
    now_ns = bed.clock.monotonic_ns()
    history.push(now_ns, actor_snapshots(bed.broker))
    answer = explain("connection", "peer", beyond(history.over(10.0)), now_ns)
    assert answer.causes[0].root == "exchange:/x" and answer.causes[0].reason == "delay"
    assert "10 messages delayed" in answer.text and "the next is due in 50" in answer.text
    assert "max-length 10" in answer.text and "no consumer" not in answer.text
    assert any("raise delayed_messages_max" in one for one in answer.suggestions)


# -- what may become of them ------------------------------------------------------------------


def test_without_a_queue_they_are_lost_and_counted(bed: DelayBed) -> None:
    bed.peer.send(publish(1, "x", "nobody", b"m", headers_property({"x-delay": 5})))
    bed.wait(5)
    letters = bed.letters(STORE_PREFIX + "x")
    assert letters.counts.lost[LOST_NAMES.index("no route")] == 1
    assert letters.numbers() == {"released": 1.0, "dead_letter_dropped:no route": 1.0}
    bed.check_books()


def test_they_go_with_their_exchange_and_are_counted(bed: DelayBed) -> None:
    for _ in range(3):
        bed.send(b"m", 50)
    bed.peer.call(1, m.ExchangeDelete("x"), m.ExchangeDeleteOk)
    assert STORE_PREFIX + "x" not in bed.broker.vhosts["/"].queues
    assert bed.log.lines[-1] == "exchange:/x: 3 delayed messages were dropped with it"
    bed.wait(100)
    assert bed.bodies("q") == []
    bed.check_books()
    bed.make("x", "direct")
    bed.peer.call(1, m.QueueBind("q", "x", "k"), m.QueueBindOk)
    bed.send(b"again", 50)
    bed.wait(50)
    assert bed.bodies("q") == [b"again"]


def test_an_auto_delete_exchange_takes_its_store_along(bed: DelayBed) -> None:
    declare = m.ExchangeDeclare(
        "y", "x-delayed-message", auto_delete=True, arguments={"x-delayed-type": "direct"}
    )
    bed.peer.call(1, declare, m.ExchangeDeclareOk)
    bed.declare("brief")
    bed.peer.call(1, m.QueueBind("brief", "y", "k"), m.QueueBindOk)
    bed.peer.send(publish(1, "y", "k", b"m", headers_property({"x-delay": 5})))
    bed.peer.call(1, m.QueueDelete("brief"), m.QueueDeleteOk)
    assert STORE_PREFIX + "y" not in bed.broker.vhosts["/"].queues
    bed.wait(5)
    bed.check_books()


def test_a_store_that_fails_is_replaced(bed: DelayBed) -> None:
    bed.send(b"lost", 50)
    bed.remove(STORE_PREFIX + "x", is_crash=True)
    bed.send(b"kept", 50)
    bed.wait(50)
    assert bed.bodies("q") == [b"kept"]
    assert "exchange:/x: 1 delayed messages were dropped with it" in bed.log.lines


def test_pausing_the_store_stops_the_release(bed: DelayBed) -> None:
    bed.send(b"m", 50)
    bed.store.pause(True)
    bed.wait(100)
    assert bed.held() == 1 and bed.bodies("q") == []
    bed.store.pause(False)
    bed.run()
    assert bed.bodies("q") == [b"m"]


def test_policies_do_not_touch_a_store(bed: DelayBed) -> None:
    queue_limits, letters = bed.store.queue_limits, bed.letters(STORE_PREFIX + "x")
    assert isinstance(queue_limits, DelayLimits) and isinstance(letters, DelayedLetters)
    before = queue_limits.rules
    bed.broker.rule_manager.apply(bed.store, bed.broker.rule_manager.rules_of(bed.actor("q")))
    assert queue_limits.rules is before and letters.exchange == "x"


# -- mandatory, confirms, and clients that reach for the store ----------------------------------


def test_mandatory_gives_a_delayed_message_back_and_delays_it_nevertheless(bed: DelayBed) -> None:
    head = headers_property({"x-delay": 50})
    bed.peer.send(publish(1, "x", "k", b"m", head, mandatory=True))
    returned = bed.peer.heard()[0]
    assert isinstance(returned.method, m.BasicReturn)
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    bed.wait(50)
    assert bed.bodies("q") == [b"m"]
    bed.peer.send(publish(1, "x", "k", b"now", mandatory=True))
    assert bed.peer.heard() == [] and bed.ready("q") == 2


def test_a_delayed_message_is_confirmed_when_it_is_in_the_store(bed: DelayBed) -> None:
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    bed.send(b"m", 50)
    assert [heard.method for heard in bed.peer.heard()] == [m.BasicAck(1, False)]
    assert bed.bodies("q") == []


def test_clients_are_refused_the_store(bed: DelayBed) -> None:
    name = STORE_PREFIX + "x"
    for said in (
        m.QueueDeclare(name, passive=True),
        m.QueueDeclare(name),
        m.BasicGet(name, True),
        m.BasicConsume(name, "tag"),
        m.QueueBind(name, "amq.fanout"),
        m.QueuePurge(name),
        m.QueueDelete(name),
    ):
        peer = bed.connect("thief")
        peer.say(1, said)
        closed = peer.heard()[0].method
        assert isinstance(closed, m.ChannelClose) and closed.reply_code == 405, said
    bed.peer.publish(name, b"m")
    assert bed.held() == 0


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({}, "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": "x-delayed-message"}, "can't be used for 'x-delayed-type'"),
        ({"x-delayed-type": "odd"}, "unknown exchange type 'odd'"),
    ],
)
def test_bad_inner_kinds_are_refused(bed: DelayBed, table: Table, text: str) -> None:
    bed.peer.say(1, m.ExchangeDeclare("y", "x-delayed-message", arguments=table))
    closed = bed.peer.heard()[0].method
    assert isinstance(closed, m.ChannelClose)
    assert closed.reply_code == 406 and text in closed.reply_text
