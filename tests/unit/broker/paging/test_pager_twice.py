"""Queues that page a second time, get rules while they page, lose a message, or have one that is
larger than all they may keep: nothing is lost, kept for ever, or read again and again."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.queues.rules import REASON_DUPLICATE
from tests.unit.broker.paging.test_deduplicated_pager import WindowDepot
from tests.unit.broker.paging.test_pager import TARGET_BYTES, PagingDepot
from tests.unit.broker.paging.test_priority_pager import PriorityDepot
from tests.unit.broker.paging.test_ruled_pager import RuledDepot

MANY = 60
OUT = 30
NO_PAGING = 1 << 40
STEPS_MAX = 200


def test_what_was_out_when_a_queue_with_priorities_paged_again_is_still_known() -> None:
    depot = PriorityDepot(dead_letter_exchange="", dead_letter_routing_key="g")
    queue = depot.queue("r")
    depot.mixed(MANY)
    reader = depot.connect()[0]
    reader.say(m.BasicQos(0, OUT))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    out = reader.bodies()
    other = depot.drain("r", 5)
    other.client.vanish(True)
    depot.rest()
    queue.page_above = TARGET_BYTES
    depot.mixed(MANY)
    before = set(depot.levels.out)
    assert len(before) == OUT
    paging = depot.broker.stores.paging
    assert paging is not None
    paging.tick(2 * TARGET_BYTES)
    depot.rest()
    reader.say(m.BasicNack(OUT, True, False))
    depot.rest()
    assert not before & set(depot.levels.out)
    assert sorted(depot.drain("g").bodies()) == sorted(out)


def test_deliveries_are_counted_through_a_second_paging() -> None:
    counts = []
    for page_above in (NO_PAGING, TARGET_BYTES):
        depot = PriorityDepot(delivery_limit=5)
        queue = depot.queue("r")
        queue.page_above = page_above
        depot.mixed(MANY)
        for is_last in (False, True):
            reader = depot.connect()[0]
            reader.say(m.BasicQos(0, 1))
            reader.say(m.BasicConsume(queue="r"))
            depot.rest()
            if is_last:
                other = depot.drain("r", 5)
                other.client.vanish(True)
                depot.rest()
                queue.page_above = TARGET_BYTES
                depot.mixed(MANY)
            reader.client.vanish(True)
            depot.rest()
        reader = depot.connect()[0]
        reader.say(m.BasicQos(0, 1))
        reader.say(m.BasicConsume(queue="r"))
        depot.rest()
        counts.append(int(depot.levels.deliveries))
    assert counts == [2, 2]


def test_a_rejected_delivery_of_a_queue_that_got_rules_meanwhile_is_a_letter() -> None:
    depot = RuledDepot()
    paging = depot.broker.stores.paging
    assert paging is not None
    bodies = depot.fill("r", MANY)
    reader = depot.connect()[0]
    reader.say(m.BasicQos(0, OUT))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    paging.tick(2 * TARGET_BYTES)
    depot.rest()
    depot.apply(message_ttl=3_600_000, dead_letter_exchange="", dead_letter_routing_key="g")
    reader.say(m.BasicNack(OUT, True, False))
    depot.rest()
    assert depot.drain("g").bodies() == bodies[:OUT]


def test_keys_of_new_messages_are_right_after_one_could_not_be_read() -> None:
    depot = WindowDepot()
    bodies = depot.put(range(MANY))
    name = next(one for one in depot.files.names() if one.endswith(".log"))
    at = bytes(depot.files.files[name].data).index(bodies[40])
    depot.files.flip(name, (at + 100) * 8)
    queue = depot.queue("r")
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicQos(0, 1))
    reader.say(m.BasicConsume(queue="r"))
    depot.rest()
    new = range(100, 100 + MANY)
    depot.put(new)
    queue.pause(False)
    depot.rest()
    assert depot.ready("r") == 0 and queue.unacked_count == 0
    depot.put(new)
    assert depot.drops(REASON_DUPLICATE) == 0
    assert len(reader.bodies()) == MANY - 1 + 2 * MANY


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "lifetimes", "priorities"])
@pytest.mark.parametrize(
    "sizes", [(20, 9000), (20, 20, 9000), (20, 9000, 20), (9000, 20), (500,) * 20 + (9000, 20)]
)
def test_a_message_larger_than_the_target_is_not_read_again_and_again(
    kind: str, mode: int, sizes: tuple[int, ...]
) -> None:
    depot: PagingDepot
    if kind == "plain":
        depot, name = PagingDepot(), "d1"
    elif kind == "lifetimes":
        depot, name = RuledDepot(message_ttl=3_600_000), "r"
    else:
        depot, name = PriorityDepot(), "r"
    bodies = []
    for size in sizes:
        bodies += depot.fill(name, 1, Properties(delivery_mode=mode, priority=1), size)
        depot.settle()
    for _ in range(STEPS_MAX):
        if not depot.disk.jobs:
            break
        depot.write()
        depot.settle()
    assert not depot.disk.jobs, "the disk never rests"
    assert depot.drain(name).bodies() == bodies
