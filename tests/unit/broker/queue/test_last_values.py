"""Queues of last values: which one stays when values come back, and when the rules change."""

import pytest

from penstock.broker.paging.rabbit_pager import QueueAcks
from penstock.protocol import methods as m
from penstock.queues.rules import REASON_SUPERSEDED
from tests.unit.broker.paging.depot import KEY, PagingDepot

MANY = 40


@pytest.mark.parametrize("is_paged", [True, False])
def test_of_several_values_that_come_back_the_newest_stays(is_paged: bool) -> None:
    depot = PagingDepot(last_value_key=KEY)
    hand = depot.connect()[0]
    hand.say(m.BasicQos(0, 6))
    hand.say(m.BasicConsume(queue="r"))
    for keys in (3, 2, 1):
        newest = depot.put(range(keys))
    others = depot.put(range(10, 10 + MANY)) if is_paged else []
    came = hand.bodies()
    assert len(came) == 6 and came[5:] == newest
    if is_paged:
        depot.pager.page_unanswered(QueueAcks(depot.queue(), 0), 0)
        assert depot.queue().unacked_bytes == 0
    hand.client.vanish(True)
    depot.rest()
    depot.check_books()
    assert depot.drops(REASON_SUPERSEDED) == 3 and depot.live() == 3 + len(others)
    found = depot.drain("r").bodies()
    assert sorted(found[:3]) == [came[2], *came[4:]] and found[3:] == others
    assert depot.is_empty()


def test_a_newer_value_in_an_old_place_stays_when_another_comes_back() -> None:
    depot = PagingDepot(last_value_key=KEY)
    first = depot.holding(0)
    first.say(m.BasicQos(0, 1))
    depot.put(range(1))
    first.client.vanish(False)
    second = depot.holding(1)
    depot.put(range(1))
    third = depot.holding(1)
    second.client.vanish(True)
    depot.rest()
    newest = depot.put(range(1))
    third.client.vanish(True)
    depot.rest()
    assert depot.drain("r").bodies() == newest and depot.drops(REASON_SUPERSEDED) == 2
    assert depot.is_empty()


def test_keys_end_for_what_is_out_too() -> None:
    depot = PagingDepot(last_value_key=KEY, message_ttl=3_600_000)
    hands = []
    for _ in range(2):
        values = depot.put(range(2))
        hands.append(depot.holding(2))
    depot.apply(message_ttl=3_600_000)
    for hand in hands:
        hand.client.vanish(True)
        depot.rest()
    assert depot.ready("r") == 4 and depot.drops(REASON_SUPERSEDED) == 0
    assert depot.drain("r").bodies()[2:] == values


def test_last_values_wait_for_unanswered_bodies_on_the_disk() -> None:
    """The queue has records and a tail until then, and nothing is overtaken."""
    depot = PagingDepot(message_ttl=3_600_000)
    values = depot.put(range(MANY))
    hand = depot.holding(10)
    depot.pager.page_unanswered(QueueAcks(depot.queue(), 0), 0)
    first = depot.drain("r")
    assert depot.ready("r") == 0 and depot.queue().unacked_bytes == 0
    first.client.vanish(True)
    depot.apply(message_ttl=3_600_000, last_value_key=KEY)
    values = depot.put(range(MANY)) + depot.put(range(MANY))
    assert depot.ready("r") == 2 * MANY and depot.paged() > MANY
    reader = depot.drain("r", MANY)
    values += depot.put(range(MANY))
    assert reader.bodies() == values
    hand.client.session.ack(hand.channel, 0, True)
    hand.client.flush()
    depot.rest()
    assert depot.is_empty()
    for one in (hand, reader):
        one.client.vanish(True)
    depot.put(range(1))
    assert not depot.queue().messages.is_paging
    newest = depot.put(range(1))
    assert depot.drain("r").bodies() == newest
