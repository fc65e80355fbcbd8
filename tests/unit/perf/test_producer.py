"""What holds a publisher, and that its time is charged to it; its timetable is exact over any time,
and nothing that was missed is forgiven."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.perf.meter import STAMP, Tally, read_stamp
from penstock.perf.plan import LoadPlan
from penstock.perf.producer import ANY, HeldTime, LoadProducer, Reason, Timetable
from penstock.perf.report import shares_of
from penstock.protocol import methods as m
from tests.unit.client.scripted import START_NS
from tests.unit.perf.socket_pair import Pair, open_pair

MS = 1_000_000


def producer(pair: Pair, plan: LoadPlan) -> LoadProducer:
    return LoadProducer(
        "producer 1", pair.link, 1, plan, ("ex", "key"), Tally(), random.Random(1),
        pair.clock, START_NS, START_NS,
    )  # fmt: skip


def spent(one: LoadProducer, reason: Reason, now_ns: int) -> int:
    one.held.settle(now_ns)
    return one.held.snapshot()[reason]


def test_it_publishes_its_number_and_no_more() -> None:
    with open_pair() as pair:
        one = producer(
            pair, LoadPlan(messages_per_producer=200, size_bytes_min=12, size_bytes_max=50)
        )
        while not one.is_done():
            one.turn(pair.clock.monotonic_ns())
        one.turn(pair.clock.monotonic_ns())
        pair.carry()
        assert len(pair.broker.published) == one.sent == 200
        sizes = {int(message.body_bytes) for message in pair.broker.published}
        assert min(sizes) == 12 and max(sizes) == 50


def test_open_confirms_hold_it_and_an_answer_lets_it_go() -> None:
    with open_pair(m.ConfirmSelect()) as pair:
        one = producer(pair, LoadPlan(confirms_max=3))
        one.turn(pair.clock.monotonic_ns())
        assert one.sent == 3
        one.turn(pair.clock.monotonic_ns())
        assert one.next_ns() is None
        one.take(pair.carry(), pair.clock.monotonic_ns())
        pair.broker.say(1, m.BasicAck(2, True))
        pair.broker.say(1, m.BasicNack(3, False))
        pair.clock.advance(4 * MS)
        now_ns = pair.clock.monotonic_ns()
        one.take(pair.carry(), now_ns)
        assert (one.unconfirmed(), one.refused, one.accepted) == (0, 1, 2)
        assert spent(one, Reason.CONFIRMS, now_ns) == 4 * MS
        one.turn(now_ns)
        assert one.sent == 6


def test_an_alarm_holds_it_and_the_message_keeps_its_intended_moment() -> None:
    with open_pair() as pair:
        one = producer(pair, LoadPlan(rate_per_s=1000))
        pair.broker.say(0, m.ConnectionBlocked("low on memory"))
        one.take(pair.carry(), pair.clock.monotonic_ns())
        one.turn(START_NS)
        assert one.sent == 0
        pair.clock.advance(10 * MS)
        later_ns = START_NS + 10 * MS
        assert spent(one, Reason.ALARM, later_ns) == 10 * MS
        pair.broker.say(0, m.ConnectionUnblocked())
        one.take(pair.carry(), later_ns)
        one.turn(later_ns)
        assert one.sent == 11, "ten missed and the one due now"
        pair.carry()
        first = pair.broker.published[0].body()
        assert STAMP.unpack(first)[0] == START_NS
        assert read_stamp(first, 0, later_ns, 10**12) == (10 * MS, 0)


def test_a_socket_that_takes_no_more_holds_it() -> None:
    with open_pair() as pair:
        one = producer(pair, LoadPlan(size_bytes_min=100_000, size_bytes_max=100_000))
        while not pair.link.unsent:
            one.turn(pair.clock.monotonic_ns())
        sent = one.sent
        one.turn(pair.clock.monotonic_ns())
        assert one.sent == sent and one.next_ns() is None
        pair.clock.advance(5 * MS)
        assert spent(one, Reason.SOCKET, pair.clock.monotonic_ns()) == 5 * MS
        pair.carry()
        assert len(pair.broker.published) == sent
        one.turn(pair.clock.monotonic_ns())
        assert one.sent > sent


def test_nothing_due_is_idle_until_the_next_moment() -> None:
    with open_pair() as pair:
        one = producer(pair, LoadPlan(rate_per_s=100))
        one.turn(START_NS)
        one.turn(START_NS)
        assert one.sent == 1
        assert one.next_ns() == START_NS + 10 * MS
        assert spent(one, Reason.IDLE, START_NS + 10 * MS) == 10 * MS


def test_a_closed_channel_ends_it_with_the_brokers_reason() -> None:
    with open_pair() as pair:
        one = producer(pair, LoadPlan())
        pair.broker.say(1, m.ChannelClose(404, "NOT_FOUND - no exchange 'ex'", 60, 40))
        one.take(pair.carry(), pair.clock.monotonic_ns())
        assert one.is_done()
        assert one.failed == "producer 1: 404 NOT_FOUND - no exchange 'ex'"


def test_the_time_it_takes_to_make_a_batch_is_no_waiting() -> None:
    with open_pair(m.ConfirmSelect()) as pair:
        one = producer(pair, LoadPlan(confirms_max=1))
        pair.clock.advance(3 * MS)
        one.turn(START_NS)
        assert spent(one, Reason.BUSY, START_NS + 5 * MS) == 3 * MS
        assert spent(one, Reason.CONFIRMS, START_NS + 5 * MS) == 2 * MS


STEPS = st.lists(st.tuples(st.sampled_from(list(Reason)), st.integers(0, 10**9)), max_size=30)


@given(STEPS)
def test_the_parts_add_up_to_the_time_that_passed(steps: list[tuple[Reason, int]]) -> None:
    now_ns = 77
    held = HeldTime(now_ns)
    expected = dict.fromkeys(Reason, 0)
    current = Reason.BUSY
    for reason, passed_ns in steps:
        held.enter(reason, now_ns)
        current = reason
        now_ns += passed_ns
        expected[current] += passed_ns
    held.settle(now_ns)
    assert held.snapshot() == tuple(expected.values())
    shares = shares_of(held.snapshot())
    total = shares.busy + shares.idle + shares.socket + shares.alarm + shares.confirms
    assert abs(total - 1.0) < 1e-9


def test_blocked_is_socket_and_alarm_only() -> None:
    held = HeldTime(0)
    for moment, reason in enumerate(Reason):
        held.enter(reason, moment * 10)
    held.settle(50)
    assert shares_of(held.snapshot()).blocked == 0.4


def test_no_time_is_no_blocking() -> None:
    assert shares_of(()).blocked == 0.0


PACE_NS = 5_000
SECOND_NS = 1_000_000_000
RATES = st.floats(0.001, 1e6) | st.sampled_from([1.0, 3.0, 7.0, 1000.0, 333.3])


@given(RATES, st.integers(0, 200))
def test_the_next_message_is_due_at_its_moment_and_not_before(rate: float, taken: int) -> None:
    pace = Timetable(rate, PACE_NS)
    for _ in range(taken):
        pace.take(pace.next_ns())
    moment = pace.next_ns()
    assert pace.due(moment) >= 1
    assert moment == PACE_NS or pace.due(moment - 1) == 0


@given(RATES, st.integers(0, 10 * SECOND_NS))
def test_a_held_publisher_finds_everything_due_it_missed(rate: float, held_ns: int) -> None:
    pace = Timetable(rate, PACE_NS)
    due = pace.due(PACE_NS + held_ns)
    assert abs(due - (held_ns * rate / SECOND_NS + 1)) <= 1 + held_ns / SECOND_NS / 1e6
    moments = [pace.take(PACE_NS + held_ns) for _ in range(min(due, 50))]
    assert moments == sorted(moments)
    assert moments[0] == PACE_NS, "the first was meant for the start, however late it leaves"


def test_without_a_rate_everything_is_due_and_meant_for_now() -> None:
    pace = Timetable(0.0, PACE_NS)
    assert pace.due(PACE_NS) == ANY
    assert pace.take(PACE_NS + 7) == PACE_NS + 7
    assert pace.next_ns() == PACE_NS
