"""Queues that keep their records in memory and page bodies: last values, priorities and duplicates.

Values are updated while they are on the disk or being read, come back, die, are lost; a queue pages
twice, and gets other keys while it pages.
"""

import pytest

from penstock.broker.paging.paged_view import paged_of
from penstock.broker.paging.pager import Pager
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.bodies import ENTRY_BYTES
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import REASON_DUPLICATE, REASON_EXPIRED, REASON_SUPERSEDED
from tests.spec.stage import Hand
from tests.unit.broker.paging.test_pager import TARGET_BYTES
from tests.unit.broker.paging.test_ruled_pager import RuledDepot

MANY = 40
LARGE_BYTES = 700
KEY = "key"


class BodyDepot(RuledDepot):
    """Queue r keeps records; `put` gives it a message for each key."""

    def put(
        self, keys: range, mode: int = 2, priority: int = 0, size: int = LARGE_BYTES
    ) -> list[bytes]:
        bodies = []
        for key in keys:
            headers: dict[str, Value] = {KEY: key, "x-deduplication-header": f"key-{key}"}
            properties = Properties(delivery_mode=mode, headers=headers, priority=priority or None)
            bodies.append(b"%06d" % self.number + b"." * (size - 6))
            self.number += 1
            self.hand.client.session.publish(self.hand.channel, "", "r", bodies[-1], properties)
        self.hand.client.flush()
        self.rest()
        return bodies

    @property
    def whole(self) -> PriorityQueue:
        found = self.queue("r").messages
        assert isinstance(found, PriorityQueue) and found.is_paging, "the queue does not page"
        return found

    def large_bytes(self) -> int:
        """Of bodies that may leave memory."""
        return sum(int(level.line.leaving_bytes()) for level in self.whole.levels)

    @property
    def pager(self) -> Pager:
        pager = self.queue("r").paging
        assert isinstance(pager, Pager)
        return pager

    def live(self) -> int:
        """Messages of r that the logs have."""
        stores = [self.store, *self.broker.stores.scratch.values()]
        lanes = [(store, lane) for store in stores for lane in store.lanes]
        return sum(s.log.live_count(one.index) for s, one in lanes if one.sender == "queue:/r")

    def page_all(self) -> None:
        """As much leaves memory as may."""
        self.pager.aim(0)
        self.queue("r").wake()
        self.rest()
        self.pager.aim(TARGET_BYTES)

    def holding(self, count: int) -> Hand:
        """A consumer with `count` unanswered deliveries."""
        hand = self.connect()[0]
        hand.say(m.BasicQos(0, count))
        hand.say(m.BasicConsume(queue="r"))
        self.rest()
        assert len(hand.bodies()) == count
        return hand


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("is_durable", [True, False])
def test_a_newer_value_takes_the_place_of_one_on_the_disk(is_durable: bool, mode: int) -> None:
    depot = BodyDepot(is_durable, last_value_key=KEY)
    for _ in range(2):
        values = depot.put(range(MANY), mode)
        assert depot.paged() > MANY // 2 and depot.large_bytes() <= TARGET_BYTES
        for key in (0, 1, MANY // 2, MANY - 1):
            values[key] = depot.put(range(key, key + 1), mode)[0]
        values += depot.put(range(MANY, MANY + 5), mode)
        assert depot.ready("r") == MANY + 5
        depot.check_books()
        assert depot.live() <= MANY + 5, "the log forgets what was overtaken"
        reader = depot.drain("r", 7)
        assert reader.bodies() == values
        assert depot.is_empty()
        assert not depot.queue("r").messages.is_paging
        reader.client.vanish(True)
        depot.rest()
    assert depot.drops(REASON_SUPERSEDED) == 8


def test_a_value_that_is_overtaken_while_it_is_read_is_not_delivered() -> None:
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.page_all()
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicConsume(queue="r"))
    depot.settle()
    assert depot.disk.jobs, "a read is under way"
    head = len(reader.bodies())
    waiting = sorted(
        int(one.position) for one in depot.whole.levels[0].line.behind.waiting.values()
    )
    assert waiting[0] == head
    new = b"new" + b"!" * LARGE_BYTES
    properties = Properties(delivery_mode=2, headers={KEY: head})
    depot.hand.client.session.publish(depot.hand.channel, "", "r", new, properties)
    depot.hand.client.flush()
    depot.rest()
    assert reader.bodies() == [*values[:head], new, *values[head + 1 :]]
    assert depot.is_empty()


def test_all_is_updated_again_and_again_and_each_is_read_once() -> None:
    """Values that are written over while they rest cost one write each, and never a read."""
    depot = BodyDepot(last_value_key=KEY)
    for _ in range(4):
        values = depot.put(range(MANY))
    assert depot.live() == MANY and depot.ready("r") == MANY
    assert depot.drain("r", 3).bodies() == values
    assert depot.drops(REASON_SUPERSEDED) == 3 * MANY and depot.is_empty()


def test_what_came_back_is_overtaken_by_what_came_meanwhile() -> None:
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    hand = depot.holding(10)
    new = depot.put(range(5))
    paging = depot.broker.stores.paging
    assert paging is not None
    paging._page_unanswered(depot.queue("r"), 0)
    assert depot.queue("r").unacked_bytes == 0
    hand.client.vanish(True)
    depot.rest()
    depot.check_books()
    assert depot.drain("r", 4).bodies() == values[5:] + new
    assert depot.is_empty()


def test_letters_of_what_was_rejected_or_came_back_too_often_have_their_bodies() -> None:
    depot = BodyDepot(
        last_value_key=KEY,
        delivery_limit=0,
        dead_letter_exchange="",
        dead_letter_routing_key="g",
    )
    values = depot.put(range(MANY))
    hand = depot.holding(8)
    paging = depot.broker.stores.paging
    assert paging is not None
    paging._page_unanswered(depot.queue("r"), 0)
    assert depot.queue("r").unacked_bytes == 0
    hand.say(m.BasicReject(3, False))
    depot.rest()
    hand.client.vanish(True)
    depot.rest()
    # The one that took the place of the rejected one came back as well.
    assert depot.ready("r") == MANY - 9
    assert sorted(depot.drain("g").bodies()) == sorted(values[:9])
    assert depot.drain("r").bodies() == values[9:]
    assert depot.is_empty()


def test_a_value_dies_on_the_disk_and_its_letter_has_its_body() -> None:
    depot = BodyDepot(
        last_value_key=KEY,
        message_ttl=1000,
        dead_letter_exchange="",
        dead_letter_routing_key="g",
    )
    values = depot.put(range(MANY))
    depot.pass_ms(600)
    new = depot.put(range(3, 4))
    depot.page_all()
    depot.pass_ms(401)
    assert (depot.ready("r"), depot.drops(REASON_EXPIRED)) == (MANY - 3, 3)
    depot.pass_ms(600)
    assert (depot.ready("r"), depot.drops(REASON_EXPIRED)) == (0, MANY)
    assert depot.drain("g").bodies() == values[:3] + new + values[4:]
    assert depot.is_empty()


def test_a_value_larger_than_the_target_goes_through() -> None:
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(3), size=2 * TARGET_BYTES)
    values += depot.put(range(3, MANY))
    values[1] = depot.put(range(1, 2), size=3 * TARGET_BYTES)[0]
    assert depot.paged() > MANY // 2
    assert depot.drain("r", 1).bodies() == values
    assert depot.is_empty()


def test_small_values_stay_and_are_not_held_against_the_others() -> None:
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(4 * MANY), size=20)
    values += depot.put(range(4 * MANY, 5 * MANY))
    assert MANY // 2 < depot.paged() < MANY
    assert depot.queue("r").messages.bytes_ready > 2 * TARGET_BYTES
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicQos(0, 2))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    depot.rest()
    assert reader.bodies() == values
    assert depot.is_empty()


def test_nothing_keeps_the_bodies_of_what_has_left() -> None:
    """Neither of what was read nor of what was never paged."""
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    hand = depot.asking()
    for number in range(MANY):
        hand.say(m.BasicGet(queue="r", no_ack=True))
        depot.rest()
        whole = depot.queue("r").messages
        if whole.is_paging:
            bodies = depot.whole.levels[0].line.bodies
            listed = [*bodies.near, *bodies.fresh]
            assert all(one.is_ready for one in listed), number
            assert len(listed) == bodies.count
    assert hand.got() == values


def test_a_damaged_body_stops_the_queue_and_then_only_itself() -> None:
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    name = next(one for one in depot.files.names() if one.endswith(".log"))
    at = bytes(depot.files.files[name].data).index(values[20])
    depot.files.flip(name, (at + 100) * 8)
    reader = depot.drain("r")
    assert depot.queue("r").is_paused
    depot.check_books()
    depot.queue("r").pause(False)
    depot.rest()
    assert reader.bodies() == values[:20] + values[21:]
    assert depot.is_empty()
    assert depot.put(range(20, 21)) == reader.bodies()[MANY - 1 :]


def test_records_and_keys_count_towards_the_depth_mark() -> None:
    depot = BodyDepot(last_value_key=KEY)
    queue = depot.queue("r")
    queue.depth_bytes = 2 * TARGET_BYTES
    fits = queue.depth_bytes // (ENTRY_BYTES + MESSAGE_OVERHEAD_BYTES)
    depot.put(range(fits - 20))
    assert queue.stop_reason() == ""
    depot.put(range(fits - 20, fits + 20))
    assert queue.stop_reason() == "depth"
    depot.put(range(fits // 2))
    depot.drain("r")
    assert queue.stop_reason() == "" and depot.is_empty()


def test_other_keys_while_it_pages() -> None:
    """What is in memory goes by the new key at once, the rest when it has been read."""
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.apply(last_value_key="routing-key")
    new = depot.put(range(1))
    assert depot.ready("r") == MANY
    assert depot.drain("r", 6).bodies() == values[:-1] + new
    values = depot.put(range(3))
    assert depot.is_empty() and len(values) == 3


def test_rules_that_come_and_go_while_it_pages() -> None:
    depot = BodyDepot(last_value_key=KEY)
    values = depot.put(range(MANY))
    depot.apply(last_value_key=KEY, message_ttl=1000)
    assert depot.whole.next_expiry_ns() > 0
    depot.apply(message_ttl=1000)
    values += depot.put(range(MANY))
    assert depot.ready("r") == 2 * MANY, "no value overtakes another any more"
    depot.pass_ms(900)
    assert depot.drain("r", 9).bodies() == values
    assert depot.is_empty()


def test_priorities_without_duplicates() -> None:
    depot = BodyDepot(max_priority=3, message_deduplication=True)
    for mode in (1, 2):
        levels: list[list[bytes]] = [[] for _ in range(4)]
        for key in range(0, 2 * MANY, 5):
            level = key * 7 % 4
            levels[level] += depot.put(range(key, key + 5), mode, level)
        assert depot.paged() > MANY and depot.large_bytes() <= 2 * TARGET_BYTES
        before = depot.drops(REASON_DUPLICATE)
        depot.put(range(2 * MANY), mode, 3)
        assert depot.drops(REASON_DUPLICATE) == before + 2 * MANY
        depot.check_books()
        reader = depot.drain("r", 7)
        assert reader.bodies() == [body for level in reversed(levels) for body in level]
        assert depot.is_empty()
        assert not depot.queue("r").messages.is_paging
        reader.client.vanish(True)
        depot.rest()


def test_keys_of_what_is_out_died_or_was_purged_with_priorities() -> None:
    depot = BodyDepot(max_priority=3, message_deduplication=True, message_ttl=1000)
    low = depot.put(range(MANY), priority=1)
    high = depot.put(range(MANY, 2 * MANY), priority=2)
    hand = depot.holding(5)
    assert hand.bodies() == high[:5]
    depot.put(range(MANY, MANY + 5))
    assert depot.drops(REASON_DUPLICATE) == 5
    hand.client.session.ack(hand.channel, 2, True)
    hand.client.flush()
    depot.rest()
    assert len(depot.put(range(MANY, MANY + 2), priority=3)) == 2
    assert depot.drops(REASON_DUPLICATE) == 5
    hand.client.vanish(True)
    depot.rest()
    depot.pass_ms(1001)
    assert depot.ready("r") == 0 and low
    depot.put(range(2 * MANY))
    assert depot.ready("r") == 2 * MANY and paged_of(depot.queue("r"))[0] > 0
    depot.hand.say(m.QueuePurge("r"))
    depot.rest()
    depot.put(range(MANY))
    assert depot.ready("r") == MANY and depot.drops(REASON_DUPLICATE) == 5
