"""Queues with priorities, partly on the disk: order, what is read first, purges, limits, death."""

from penstock.broker.paging.paged_view import paged_of
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.priorities import PriorityQueue
from penstock.queues.rules import REASON_EXPIRED, REASON_MAXLEN
from tests.unit.broker.paging.test_pager import TARGET_BYTES
from tests.unit.broker.paging.test_ruled_pager import RuledDepot

LEVELS = 4
ROOM_BYTES = TARGET_BYTES + 4000
"""What pieces of the levels and their first messages may take besides."""


class PriorityDepot(RuledDepot):
    """Queue r has priorities."""

    def __init__(self, is_durable: bool = True, **arguments: Value) -> None:
        super().__init__(is_durable, max_priority=LEVELS - 1, **arguments)

    def put(self, priority: int, count: int, mode: int = 2) -> list[bytes]:
        return self.fill("r", count, Properties(delivery_mode=mode, priority=priority))

    def mixed(self, count: int, mode: int = 2) -> list[bytes]:
        """Messages of all levels by turns; in the order in which they are to be delivered."""
        bodies: list[list[bytes]] = [[] for _ in range(LEVELS)]
        for at in range(count):
            bodies[at * 7 % LEVELS] += self.put(at * 7 % LEVELS, 1, mode)
        self.rest()
        return [body for level in reversed(bodies) for body in level]

    @property
    def levels(self) -> PriorityQueue:
        found = self.queue("r").messages
        assert isinstance(found, PriorityQueue) and found.is_paging, "the queue does not page"
        return found


def test_what_leaves_first_is_of_the_lowest_level() -> None:
    depot = PriorityDepot()
    depot.put(0, 30)
    depot.put(3, 5)
    low, high = depot.levels.levels
    assert high.line.at_hand() >= 4 > 2 >= low.line.at_hand() >= 1
    assert low.line.paged_count() >= 28


def test_a_high_one_that_comes_while_a_low_one_is_read_is_next() -> None:
    depot = PriorityDepot()
    low = depot.put(0, 60)
    hand = depot.connect(acks=True)[0]
    hand.say(m.BasicQos(0, 2))
    hand.say(m.BasicConsume(queue="r"))
    depot.settle()
    assert depot.disk.jobs, "a read is under way"
    depot.hand.client.session.publish(
        depot.hand.channel, "", "r", b"high", Properties(delivery_mode=2, priority=3)
    )
    depot.hand.client.flush()
    depot.settle()
    before = hand.bodies().index(b"high")
    assert hand.bodies()[:before] == low[:before]
    depot.rest()
    found = hand.bodies()
    assert found[:before] + found[before + 1 :] == low


def test_a_high_level_on_the_disk_holds_back_lower_ones() -> None:
    depot = PriorityDepot()
    high = depot.put(3, 60)
    low = depot.put(0, 3)
    hand = depot.connect(acks=True)[0]
    hand.say(m.BasicConsume(queue="r"))
    depot.rest()
    assert hand.bodies() == high + low


def test_what_came_back_is_at_its_place_again() -> None:
    depot = PriorityDepot()
    bodies = depot.mixed(60)
    reader = depot.connect()[0]
    reader.say(m.BasicQos(0, 20))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    assert reader.bodies() == bodies[:20]
    more = depot.put(3, 2)
    reader.client.vanish(True)
    depot.rest()
    top = 60 // LEVELS
    assert depot.drain("r", 5).bodies() == bodies[:top] + more + bodies[top:]
    assert depot.is_empty()


def test_what_was_out_before_the_queue_paged_comes_back_to_its_level() -> None:
    depot = PriorityDepot()
    depot.queue("r").page_above = 1 << 40
    bodies = depot.mixed(8)
    reader = depot.connect()[0]
    reader.say(m.BasicQos(0, 8))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    assert reader.bodies() == bodies and not depot.queue("r").messages.is_paging
    depot.queue("r").page_above = TARGET_BYTES
    more = depot.mixed(60)
    assert depot.paged() > 0
    reader.client.vanish(True)
    depot.rest()
    found = depot.drain("r", 5).bodies()
    assert sorted(found) == sorted(bodies + more)
    assert [found.index(one) for one in bodies] == sorted(found.index(one) for one in bodies)
    assert found[:2] == bodies[:2] and found[-15:] == more[-15:]
    assert depot.is_empty()


def test_a_purge_leaves_what_is_out_and_nothing_else() -> None:
    depot = PriorityDepot()
    depot.mixed(60)
    reader = depot.connect()[0]
    reader.say(m.BasicQos(0, 3))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    depot.hand.say(m.QueuePurge("r"))
    depot.rest()
    assert depot.ready("r") == 0 and depot.queue("r").unacked_count >= 3
    depot.check_books()
    reader.client.vanish(True)
    depot.rest()
    left = depot.drain("r").bodies()
    assert left == reader.bodies()
    assert depot.is_empty()


def test_a_limit_drops_the_highest_as_rabbitmq_does() -> None:
    depot = PriorityDepot(max_length=50, dead_letter_exchange="", dead_letter_routing_key="g")
    high = depot.put(3, 40)
    low = depot.put(0, 30)
    depot.rest()
    assert depot.ready("r") == 50 and depot.drops(REASON_MAXLEN) == 20
    assert depot.drain("g").bodies() == high[:20]
    assert depot.drain("r").bodies() == high[20:] + low
    assert depot.is_empty()


def test_each_level_dies_in_time_whoever_is_before_it() -> None:
    depot = PriorityDepot(dead_letter_exchange="", dead_letter_routing_key="g")
    high = depot.put(3, 40)
    low = depot.fill("r", 40, Properties(delivery_mode=2, expiration="1000"))
    assert depot.paged() > 40
    depot.pass_ms(1001)
    depot.rest()
    assert depot.drops(REASON_EXPIRED) == 40 and depot.ready("r") == 40
    assert depot.drain("g").bodies() == low
    assert depot.drain("r", 3).bodies() == high
    assert depot.is_empty()


def test_what_is_shown_is_of_all_levels() -> None:
    depot = PriorityDepot()
    depot.mixed(80)
    count, bytes_ = paged_of(depot.queue("r"))
    assert count == sum(one.line.paged_count() for one in depot.levels.levels) > 40
    assert bytes_ > count * 100
