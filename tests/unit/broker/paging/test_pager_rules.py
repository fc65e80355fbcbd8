"""Queues with lifetimes, limits, counts and priorities, partly on the disk: who dies when, what is
read first, and rules that come and go meanwhile."""

import pytest

from penstock.broker.paging.paged_view import paged_of
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.rules import REASON_EXPIRED, REASON_MAXLEN
from tests.unit.broker.paging.depot import (
    BODY_BYTES,
    LETTERS,
    NO_PAGING,
    TARGET_BYTES,
    PagingDepot,
)

MANY = 60
OUT = 30
HIGHEST = 3


def priority_depot(**arguments: Value) -> PagingDepot:
    return PagingDepot(max_priority=HIGHEST, **arguments)


def put(depot: PagingDepot, priority: int, count: int) -> list[bytes]:
    return depot.fill(count, Properties(delivery_mode=2, priority=priority))


# -- lifetimes -------------------------------------------------------------------------------------


def test_a_message_dies_on_the_disk_when_its_time_is_up_and_its_letter_has_its_body() -> None:
    depot = PagingDepot(message_ttl=1000, **LETTERS)
    first = depot.fill(MANY)
    depot.pass_ms(600)
    second = depot.fill(MANY)
    assert depot.paged() > MANY
    depot.pass_ms(399)
    assert depot.ready("r") == 2 * MANY
    depot.pass_ms(50)
    assert (depot.ready("r"), depot.drops(REASON_EXPIRED)) == (MANY, MANY)
    depot.pass_ms(600)
    assert (depot.ready("r"), depot.ready("g")) == (0, 2 * MANY)
    depot.check_books()
    assert depot.drain("g").bodies() == first + second
    assert depot.is_empty()


def test_an_expiration_is_that_of_the_message_wherever_it_was() -> None:
    """Its own lifetime counts from its arrival, and it dies when it gets to the head."""
    depot = PagingDepot(message_ttl=10_000)
    bodies = depot.fill(MANY)
    short = depot.fill(MANY, Properties(delivery_mode=2, expiration="500"))
    last = depot.fill(5)
    depot.pass_ms(800)
    assert depot.ready("r") == 2 * MANY + 5, "what stands behind living ones stays"
    assert depot.drain("r", 10).bodies() == bodies + last
    assert depot.drops(REASON_EXPIRED) == len(short)


def test_a_target_that_falls_takes_the_front_along() -> None:
    depot = PagingDepot(message_ttl=1000)
    depot.fill(MANY)
    depot.pass_ms(500)
    depot.aim(1500)
    assert depot.ruled.bytes_ready <= 1500
    assert depot.ruled.head_bytes() > 0
    later = depot.fill(3)
    depot.pass_ms(499)
    assert depot.ready("r") == MANY + 3
    depot.pass_ms(40)
    assert depot.ready("r") == 3
    assert depot.drain().bodies() == later


def test_a_first_lifetime_begins_at_once_for_all_that_is_on_the_disk() -> None:
    depot = PagingDepot()
    depot.fill(MANY)
    first = depot.holding(5)
    depot.pass_ms(5000)
    depot.apply(message_ttl=1000)
    assert depot.ready("r") == MANY - 5 and depot.paged() > MANY // 2
    depot.fill(3)
    first.client.vanish(True)
    depot.pass_ms(900)
    assert depot.ready("r") == MANY + 3
    depot.pass_ms(101)
    assert depot.ready("r") == 0
    assert depot.is_empty()


def test_rules_that_go_leave_the_lifetimes_that_have_begun() -> None:
    depot = PagingDepot()
    depot.apply(message_ttl=1000)
    depot.fill(MANY)
    depot.apply()
    later = depot.fill(MANY)
    depot.pass_ms(1100)
    assert depot.ready("r") == MANY
    assert depot.drain().bodies() == later
    assert depot.is_empty()


def test_what_comes_when_the_disk_is_empty_again_does_not_die_with_what_was_there() -> None:
    depot = PagingDepot(message_ttl=1000)
    depot.fill(MANY)
    depot.holding(OUT)
    depot.tick(2 * TARGET_BYTES)
    depot.leave(depot.drain("r", 3))
    assert depot.ready("r") == depot.paged() == 0
    depot.pass_ms(600)
    bodies = depot.fill(1) + depot.fill(MANY)
    assert depot.paged() > MANY // 2
    depot.pass_ms(600)
    assert depot.drain("r", 3).bodies() == bodies
    assert depot.drops(REASON_EXPIRED) == 0


# -- counts and limits -----------------------------------------------------------------------------


def test_counts_of_a_quorum_queue_outlive_paging() -> None:
    depot = PagingDepot(queue_type="quorum", delivery_limit=2)
    bodies = depot.fill(MANY)
    for round_ in range(3):
        hand = depot.holding(5)
        assert hand.bodies() == bodies[:5]
        headers = [one.properties.headers or {} for one in hand.deliveries]
        counts = [one.get("x-delivery-count") for one in headers]
        assert counts == [round_ or None] * 5
        depot.leave(hand)
    assert depot.ready("r") == MANY - 5
    assert depot.drain("r", 5).bodies() == bodies[5:]
    assert depot.is_empty()


def test_unanswered_deliveries_that_left_memory_count_on() -> None:
    depot = PagingDepot(queue_type="quorum", delivery_limit=1)
    bodies = depot.fill(MANY)
    for _ in range(2):
        hand = depot.holding(OUT)
        assert hand.bodies() == bodies[:OUT]
        depot.tick(2 * TARGET_BYTES)
        assert depot.queue().unacked_bytes <= TARGET_BYTES // 2
        depot.check_books()
        depot.leave(hand)
    assert depot.ready("r") == MANY - OUT
    assert depot.drain("r", 5).bodies() == bodies[OUT:]
    assert depot.is_empty()


def test_deliveries_are_counted_through_a_second_paging() -> None:
    counts = []
    for page_above in (NO_PAGING, TARGET_BYTES):
        depot = priority_depot(delivery_limit=5)
        depot.queue().page_above = page_above
        depot.mixed(MANY)
        for is_last in (False, True):
            reader = depot.holding(1)
            if is_last:
                depot.leave(depot.drain("r", 5))
                depot.queue().page_above = TARGET_BYTES
                depot.mixed(MANY)
            depot.leave(reader)
        depot.holding(1)
        counts.append(int(depot.ruled.deliveries))
    assert counts == [2, 2]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_limit_in_bytes_counts_what_is_on_the_disk(overflow: str) -> None:
    depot = PagingDepot(max_length_bytes=40 * BODY_BYTES, overflow=overflow)
    bodies = depot.fill(MANY)
    kept = bodies[-40:] if overflow == "drop-head" else bodies[:40]
    assert depot.ready("r") == 40 and depot.paged() > 10
    assert depot.ruled.body_bytes_ready == 40 * BODY_BYTES
    assert depot.drain().bodies() == kept
    assert depot.is_empty()


@pytest.mark.parametrize("limit", [{"max_length": 20}, {"max_length_bytes": 20 * BODY_BYTES}])
@pytest.mark.parametrize("is_rejected", [True, False])
def test_what_is_read_for_its_letter_takes_no_place(
    limit: dict[str, Value], is_rejected: bool
) -> None:
    """A limit that counted it would drop a living message for a dead one."""
    arguments: dict[str, Value] = {**limit, **LETTERS}
    depot = PagingDepot(**arguments, **({} if is_rejected else {"delivery_limit": 0}))
    out = depot.fill(20)
    hand = depot.holding(20)
    rest = depot.fill(20)
    hand.say(m.BasicCancel(hand.deliveries[0].consumer_tag))
    depot.page_unanswered()
    if is_rejected:
        for delivery in hand.deliveries[:20]:
            hand.say(m.BasicReject(delivery.delivery_tag, False))
        depot.rest()
    depot.leave(hand)
    assert depot.drops(REASON_MAXLEN) == 0
    assert sorted(depot.drain("g").bodies()) == sorted(out)
    assert depot.drain().bodies() == rest
    assert depot.is_empty()


def test_what_leaves_in_the_turn_in_which_it_came_is_not_kept() -> None:
    """It makes room at the limit, or is overtaken by the next value: a start must not find it."""
    depot = PagingDepot(max_length=2, overflow="reject-publish")
    reader = depot.connect()[0]
    reader.say(m.BasicConsume(queue="r", no_ack=True))
    depot.settle()
    bodies = depot.fill(10)
    assert reader.bodies() == bodies
    assert depot.is_empty()
    depot = PagingDepot(last_value_key="routing-key")
    depot.fill(10)
    assert depot.ready("r") == depot.live() == 1


# -- rules that come while it pages ----------------------------------------------------------------


def test_unanswered_deliveries_of_before_come_back_as_what_they_are() -> None:
    """A queue pages bodies of what is unanswered, then gets rules, then has it back."""
    depot = PagingDepot()
    bodies = depot.fill(50)
    first = depot.holding(OUT)
    depot.tick(2 * TARGET_BYTES)
    assert depot.queue().unacked_bytes <= TARGET_BYTES // 2
    depot.apply(delivery_limit=5)
    depot.leave(first)
    assert depot.ready("r") == 50
    hand = depot.drain()
    assert hand.bodies() == bodies
    assert [one.redelivered for one in hand.deliveries] == [True] * OUT + [False] * 20
    assert depot.is_empty()


def test_a_rejected_delivery_of_a_queue_that_got_rules_meanwhile_is_a_letter() -> None:
    depot = PagingDepot()
    bodies = depot.fill(MANY)
    reader = depot.holding(OUT)
    depot.tick(2 * TARGET_BYTES)
    depot.apply(message_ttl=3_600_000, **LETTERS)
    reader.say(m.BasicNack(OUT, True, False))
    depot.rest()
    assert depot.drain("g").bodies() == bodies[:OUT]


# -- priorities ------------------------------------------------------------------------------------


def test_what_leaves_first_is_of_the_lowest_level() -> None:
    depot = priority_depot()
    put(depot, 0, 30)
    put(depot, 3, 5)
    low, high = depot.ruled.levels
    assert high.line.at_hand() >= 4 > 2 >= low.line.at_hand() >= 1
    assert low.line.paged_count() >= 28


def test_a_high_one_that_comes_while_a_low_one_is_read_is_next() -> None:
    depot = priority_depot()
    low = put(depot, 0, 60)
    hand = depot.begin_reading(prefetch=2)
    assert depot.disk.jobs, "a read is under way"
    high = depot.publish("r", Properties(delivery_mode=2, priority=3), BODY_BYTES)
    depot.settle()
    before = hand.bodies().index(high)
    assert hand.bodies()[:before] == low[:before]
    depot.rest()
    found = hand.bodies()
    assert found[:before] + found[before + 1 :] == low


def test_a_high_level_on_the_disk_holds_back_lower_ones() -> None:
    depot = priority_depot()
    high = put(depot, 3, 60)
    low = put(depot, 0, 3)
    assert depot.drain().bodies() == high + low


def test_what_came_back_is_before_what_came_to_its_level_meanwhile() -> None:
    depot = priority_depot()
    bodies = depot.mixed(MANY)
    reader = depot.holding(20)
    more = put(depot, 3, 2)
    depot.leave(reader)
    top = MANY // depot.levels
    assert depot.drain("r", 5).bodies() == bodies[:top] + more + bodies[top:]
    assert depot.is_empty()


def test_what_was_out_before_the_queue_paged_comes_back_to_its_level() -> None:
    depot = priority_depot()
    depot.queue().page_above = NO_PAGING
    bodies = depot.mixed(8)
    reader = depot.holding(8)
    assert reader.bodies() == bodies and not depot.queue().messages.is_paging
    depot.queue().page_above = TARGET_BYTES
    more = depot.mixed(60)
    assert depot.paged() > 0
    depot.leave(reader)
    found = depot.drain("r", 5).bodies()
    assert sorted(found) == sorted(bodies + more)
    assert [found.index(one) for one in bodies] == sorted(found.index(one) for one in bodies)
    assert found[:2] == bodies[:2] and found[-15:] == more[-15:]
    assert depot.is_empty()


def test_what_was_out_when_the_queue_paged_again_is_still_known() -> None:
    depot = priority_depot(**LETTERS)
    depot.mixed(MANY)
    reader = depot.holding(OUT)
    out = reader.bodies()
    depot.leave(depot.drain("r", 5))
    depot.queue().page_above = TARGET_BYTES
    depot.mixed(MANY)
    before = set(depot.ruled.out)
    assert len(before) == OUT
    depot.tick(2 * TARGET_BYTES)
    reader.say(m.BasicNack(OUT, True, False))
    depot.rest()
    assert not before & set(depot.ruled.out)
    assert sorted(depot.drain("g").bodies()) == sorted(out)


def test_a_limit_drops_the_highest_as_rabbitmq_does() -> None:
    depot = priority_depot(max_length=50, **LETTERS)
    high = put(depot, 3, 40)
    low = put(depot, 0, 30)
    assert depot.ready("r") == 50 and depot.drops(REASON_MAXLEN) == 20
    assert depot.drain("g").bodies() == high[:20]
    assert depot.drain().bodies() == high[20:] + low
    assert depot.is_empty()


def test_each_level_dies_in_time_whoever_is_before_it() -> None:
    depot = priority_depot(**LETTERS)
    high = put(depot, 3, 40)
    low = depot.fill(40, Properties(delivery_mode=2, expiration="1000"))
    assert depot.paged() > 40
    depot.pass_ms(1001)
    assert depot.drops(REASON_EXPIRED) == 40 and depot.ready("r") == 40
    assert depot.drain("g").bodies() == low
    assert depot.drain("r", 3).bodies() == high
    assert depot.is_empty()


def test_what_is_shown_is_of_all_levels() -> None:
    depot = priority_depot()
    depot.mixed(80)
    count, bytes_ = paged_of(depot.queue())
    assert count == sum(one.line.paged_count() for one in depot.ruled.levels) > 40
    assert bytes_ > count * 100
