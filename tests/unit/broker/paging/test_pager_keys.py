"""Queues that know keys of their messages, partly on the disk: last values and duplicates.

Values are updated while they are on the disk or being read, come back, die, are lost; a queue gets
other keys while it pages; and what has left, one way or another, is free to come again.
"""

import pytest

from penstock.protocol import methods as m
from penstock.queues.bodies import ENTRY_BYTES
from penstock.queues.deduplication import KEY_BYTES
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import REASON_DUPLICATE, REASON_EXPIRED, REASON_SUPERSEDED
from tests.unit.broker.paging.depot import KEY, LETTERS, TARGET_BYTES, PagingDepot

MANY = 40

# -- last values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("is_durable", [True, False])
def test_a_newer_value_takes_the_place_of_one_on_the_disk(is_durable: bool, mode: int) -> None:
    depot = PagingDepot(is_durable, last_value_key=KEY)
    for _ in range(2):
        values = depot.put(range(MANY), mode)
        large = sum(int(level.line.leaving_bytes()) for level in depot.ruled.levels)
        assert depot.paged() > MANY // 2 and large <= TARGET_BYTES
        for key in (0, 1, MANY // 2, MANY - 1):
            values[key] = depot.put(range(key, key + 1), mode)[0]
        values += depot.put(range(MANY, MANY + 5), mode)
        assert depot.ready("r") == MANY + 5
        depot.check_books()
        assert depot.live() <= MANY + 5, "the log forgets what was overtaken"
        reader = depot.drain("r", 7)
        assert reader.bodies() == values
        assert depot.is_empty()
        assert not depot.queue().messages.is_paging
        depot.leave(reader)
    assert depot.drops(REASON_SUPERSEDED) == 8


def test_a_value_that_is_overtaken_while_it_is_read_is_not_delivered() -> None:
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.aim(0)
    depot.pager.aim(TARGET_BYTES)
    reader = depot.begin_reading()
    assert depot.disk.jobs, "a read is under way"
    head = len(reader.bodies())
    waiting = depot.ruled.levels[0].line.behind.waiting.values()
    assert min(int(one.position) for one in waiting) == head
    new = depot.put(range(head, head + 1))
    assert reader.bodies() == [*values[:head], *new, *values[head + 1 :]]
    assert depot.is_empty()


def test_all_is_updated_again_and_again_and_each_is_read_once() -> None:
    """Values that are written over while they rest cost one write each, and never a read."""
    depot = PagingDepot(last_value_key=KEY)
    for _ in range(4):
        values = depot.put(range(MANY))
    assert depot.live() == MANY and depot.ready("r") == MANY
    assert depot.drain("r", 3).bodies() == values
    assert depot.drops(REASON_SUPERSEDED) == 3 * MANY and depot.is_empty()


def test_what_came_back_is_overtaken_by_what_came_meanwhile() -> None:
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    hand = depot.holding(10)
    new = depot.put(range(5))
    depot.page_unanswered()
    depot.leave(hand)
    depot.check_books()
    assert depot.drain("r", 4).bodies() == values[5:] + new
    assert depot.is_empty()


def test_letters_of_what_was_rejected_or_came_back_too_often_have_their_bodies() -> None:
    depot = PagingDepot(last_value_key=KEY, delivery_limit=0, **LETTERS)
    values = depot.put(range(MANY))
    hand = depot.holding(8)
    depot.page_unanswered()
    hand.say(m.BasicReject(3, False))
    depot.rest()
    depot.leave(hand)
    # The one that took the place of the rejected one came back as well.
    assert depot.ready("r") == MANY - 9
    assert sorted(depot.drain("g").bodies()) == sorted(values[:9])
    assert depot.drain().bodies() == values[9:]
    assert depot.is_empty()


def test_a_value_dies_on_the_disk_and_its_letter_has_its_body() -> None:
    depot = PagingDepot(last_value_key=KEY, message_ttl=1000, **LETTERS)
    values = depot.put(range(MANY))
    depot.pass_ms(600)
    new = depot.put(range(3, 4))
    depot.aim(0)
    depot.pager.aim(TARGET_BYTES)
    depot.pass_ms(401)
    assert (depot.ready("r"), depot.drops(REASON_EXPIRED)) == (MANY - 3, 3)
    depot.pass_ms(600)
    assert (depot.ready("r"), depot.drops(REASON_EXPIRED)) == (0, MANY)
    assert depot.drain("g").bodies() == values[:3] + new + values[4:]
    assert depot.is_empty()


def test_a_value_larger_than_the_target_goes_through() -> None:
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(3), body_bytes=2 * TARGET_BYTES)
    values += depot.put(range(3, MANY))
    values[1] = depot.put(range(1, 2), body_bytes=3 * TARGET_BYTES)[0]
    assert depot.paged() > MANY // 2
    assert depot.drain("r", 1).bodies() == values
    assert depot.is_empty()


def test_small_values_stay_and_are_not_held_against_the_others() -> None:
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(4 * MANY), body_bytes=20)
    values += depot.put(range(4 * MANY, 5 * MANY))
    assert MANY // 2 < depot.paged() < MANY
    assert depot.queue().messages.bytes_ready > 2 * TARGET_BYTES
    assert depot.drain("r", 2).bodies() == values
    assert depot.is_empty()


def test_nothing_keeps_the_bodies_of_what_has_left() -> None:
    """Neither of what was read nor of what was never paged."""
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    hand = depot.asking()
    for number in range(MANY):
        hand.say(m.BasicGet(queue="r", no_ack=True))
        depot.rest()
        if depot.queue().messages.is_paging:
            bodies = depot.ruled.levels[0].line.bodies
            listed = [*bodies.near, *bodies.fresh]
            assert all(one.is_ready for one in listed), number
            assert len(listed) == bodies.count
    assert hand.got() == values


def test_a_value_that_was_lost_is_free_to_come_again() -> None:
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.flip(values[20])
    reader = depot.drain()
    depot.queue().pause(False)
    depot.rest()
    assert reader.bodies() == values[:20] + values[21:]
    assert depot.put(range(20, 21)) == reader.bodies()[MANY - 1 :]


def test_entries_of_what_is_on_the_disk_count_towards_the_depth_mark() -> None:
    depot = PagingDepot(last_value_key=KEY)
    queue = depot.queue()
    queue.depth_bytes = 2 * TARGET_BYTES
    fits = queue.depth_bytes // (ENTRY_BYTES + MESSAGE_OVERHEAD_BYTES)
    depot.put(range(fits - 20))
    assert queue.stop_reason() == ""
    depot.put(range(fits - 20, fits + 20))
    assert queue.stop_reason() == "depth"
    depot.put(range(fits // 2))
    depot.drain()
    assert queue.stop_reason() == "" and depot.is_empty()


# -- keys that come and go -------------------------------------------------------------------------


def test_last_values_begin_when_everything_is_in_memory() -> None:
    depot = PagingDepot(message_ttl=3_600_000)
    bodies = depot.fill(MANY)
    depot.apply(message_ttl=3_600_000, last_value_key="routing-key")
    bodies += depot.fill(3)
    hand = depot.drain()
    assert hand.bodies() == bodies
    depot.leave(hand)
    depot.fill(3)
    assert depot.ready("r") == 1
    assert not depot.queue().messages.is_paging


def test_other_keys_while_it_pages() -> None:
    """What is in memory goes by the new key at once, the rest when it has been read."""
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.apply(last_value_key="routing-key")
    new = depot.put(range(1))
    assert depot.ready("r") == MANY
    assert depot.drain("r", 6).bodies() == values[:-1] + new
    depot.put(range(3))
    assert depot.is_empty()


def test_rules_that_come_and_go_while_it_pages() -> None:
    depot = PagingDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.apply(last_value_key=KEY, message_ttl=1000)
    assert depot.ruled.next_expiry_ns() > 0
    depot.apply(message_ttl=1000)
    values += depot.put(range(MANY))
    assert depot.ready("r") == 2 * MANY, "no value overtakes another any more"
    depot.pass_ms(900)
    assert depot.drain("r", 9).bodies() == values
    assert depot.is_empty()


# -- duplicates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [0, 3])
@pytest.mark.parametrize("is_durable", [True, False])
def test_what_is_on_the_disk_is_known_and_what_left_is_free(
    is_durable: bool, priority: int
) -> None:
    depot = PagingDepot(is_durable, message_deduplication=True, max_priority=priority)
    for mode in (1, 2):
        before = depot.drops(REASON_DUPLICATE)
        depot.number = 0
        bodies = depot.mixed(MANY, mode)
        assert depot.paged() > MANY // 2
        depot.put(range(MANY), mode, priority)
        assert depot.ready("r") == MANY and depot.drops(REASON_DUPLICATE) == before + MANY
        depot.check_books()
        reader = depot.drain("r", 7)
        assert reader.bodies() == bodies
        assert depot.is_empty()
        assert not depot.queue().messages.is_paging
        depot.leave(reader)


def test_what_is_out_is_known_until_it_is_answered() -> None:
    depot = PagingDepot(message_deduplication=True)
    bodies = depot.put(range(MANY))
    hand = depot.holding(5)
    depot.put(range(5))
    assert depot.drops(REASON_DUPLICATE) == 5
    hand.client.session.ack(hand.channel, 2, True)
    hand.client.flush()
    depot.rest()
    more = depot.put(range(5))
    assert depot.drops(REASON_DUPLICATE) == 8
    depot.leave(hand)
    assert depot.drain().bodies() == bodies[2:] + more[:2]
    assert depot.is_empty()


@pytest.mark.parametrize("priority", [0, 2])
def test_what_died_on_the_disk_or_was_purged_is_free(priority: int) -> None:
    depot = PagingDepot(message_deduplication=True, message_ttl=1000, max_priority=priority)
    depot.put(range(MANY))
    depot.put(range(MANY, 2 * MANY), priority=priority)
    depot.leave(depot.holding(5))
    depot.pass_ms(1001)
    assert depot.ready("r") == 0 and depot.drops(REASON_EXPIRED) == 2 * MANY
    depot.put(range(2 * MANY))
    assert depot.ready("r") == 2 * MANY and depot.paged() > 0
    depot.hand.say(m.QueuePurge("r"))
    depot.rest()
    depot.put(range(MANY))
    assert depot.ready("r") == MANY and depot.drops(REASON_DUPLICATE) == 0


def test_keys_count_towards_the_depth_mark() -> None:
    depot = PagingDepot(message_deduplication=True)
    queue = depot.queue()
    queue.depth_bytes = TARGET_BYTES + 20 * KEY_BYTES
    depot.put(range(60))
    assert depot.ruled.kept_bytes() > 20 * KEY_BYTES
    assert queue.stop_reason() == "depth"
    depot.drain()
    assert queue.stop_reason() == ""


def test_keys_of_new_messages_are_right_after_one_could_not_be_read() -> None:
    depot = PagingDepot(message_deduplication=True)
    bodies = depot.put(range(MANY))
    depot.flip(bodies[30])
    reader = depot.drain("r", 1)
    new = range(100, 100 + MANY)
    depot.put(new)
    depot.queue().pause(False)
    depot.rest()
    assert depot.ready("r") == 0 and depot.queue().unacked_count == 0
    depot.put(new)
    assert depot.drops(REASON_DUPLICATE) == 0
    assert len(reader.bodies()) == MANY - 1 + 2 * MANY
