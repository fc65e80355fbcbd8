"""A consumer's acks, its pretended work, and which messages it counts as this run's."""

from penstock.perf.consumer import WAITING_MAX, LoadConsumer
from penstock.perf.meter import Tally, write_stamp
from penstock.perf.plan import LoadPlan
from penstock.protocol import methods as m
from tests.unit.client.scripted import START_NS
from tests.unit.perf.socket_pair import Pair, open_pair

MS = 1_000_000


def consumer(pair: Pair, plan: LoadPlan, tally: Tally) -> LoadConsumer:
    return LoadConsumer("consumer 1", pair.link, 1, (), plan, tally, START_NS)


def deliver(pair: Pair, count: int, stamp: bytes, redelivered: bool = False) -> None:
    for tag in range(1, count + 1):
        pair.broker.say_content(1, m.BasicDeliver("t", tag, redelivered, "", "q"), stamp)


def acks(pair: Pair) -> list[tuple[int, bool]]:
    return [(h.delivery_tag, h.multiple) for _, h in pair.broker.heard if isinstance(h, m.BasicAck)]


def test_every_delivery_is_acknowledged_alone() -> None:
    with open_pair() as pair:
        one = consumer(pair, LoadPlan(), Tally())
        deliver(pair, 3, write_stamp(START_NS, START_NS))
        one.take(pair.carry(), START_NS)
        pair.carry()
        assert acks(pair) == [(1, False), (2, False), (3, False)]


def test_acks_are_gathered_and_the_rest_is_settled_at_the_end() -> None:
    with open_pair() as pair:
        one = consumer(pair, LoadPlan(ack_every=2), Tally())
        deliver(pair, 5, write_stamp(START_NS, START_NS))
        one.take(pair.carry(), START_NS)
        one.settle()
        pair.carry()
        assert acks(pair) == [(2, True), (4, True), (5, True)]


def test_auto_ack_says_nothing() -> None:
    with open_pair() as pair:
        one = consumer(pair, LoadPlan(auto_ack=True), Tally())
        deliver(pair, 5, write_stamp(START_NS, START_NS))
        one.take(pair.carry(), START_NS)
        one.settle()
        pair.carry()
        assert acks(pair) == [] and one.received == 5


def test_pretended_work_paces_it_and_makes_latency_grow() -> None:
    with open_pair() as pair:
        tally = Tally()
        one = consumer(pair, LoadPlan(consumer_latency_us=10_000), tally)
        deliver(pair, 3, write_stamp(START_NS, START_NS))
        one.take(pair.carry(), START_NS + MS)
        assert one.received == 1
        wake_ns = one.next_ns()
        assert wake_ns == START_NS + 11 * MS
        one.turn(wake_ns - 1)
        assert one.received == 1
        one.turn(wake_ns)
        one.turn(wake_ns + 10 * MS)
        assert one.received == 3 and one.next_ns() is None
        assert (tally.sent_latency.lowest, tally.sent_latency.highest) == (MS, 21 * MS)


def test_a_slow_consumer_stops_reading_at_its_bound() -> None:
    with open_pair() as pair:
        one = consumer(pair, LoadPlan(consumer_rate_per_s=1, auto_ack=True), Tally())
        deliver(pair, WAITING_MAX, b"")
        one.take(pair.carry(), START_NS)
        assert one.is_reading()
        deliver(pair, 1, b"")
        one.take(pair.carry(), START_NS)
        assert not one.is_reading()


def test_redelivered_and_foreign_messages_are_not_this_runs() -> None:
    with open_pair() as pair:
        tally = Tally()
        one = consumer(pair, LoadPlan(), tally)
        deliver(pair, 1, write_stamp(START_NS, START_NS))
        deliver(pair, 1, write_stamp(START_NS, START_NS), redelivered=True)
        deliver(pair, 1, write_stamp(START_NS - 1, START_NS))
        deliver(pair, 1, b"no stamp")
        one.take(pair.carry(), START_NS)
        assert (one.received, one.unique) == (4, 1)
        assert (tally.redelivered, tally.foreign) == (1, 2)


def test_it_ends_with_its_number_or_its_queue() -> None:
    with open_pair() as pair:
        one = consumer(pair, LoadPlan(messages_per_consumer=2), Tally())
        deliver(pair, 3, write_stamp(START_NS, START_NS))
        one.take(pair.carry(), START_NS)
        assert one.is_done() and one.received == 2
        pair.broker.say(1, m.BasicCancel("t", True))
        one.take(pair.carry(), START_NS)
        assert one.failed == "consumer 1: its queue was deleted"
