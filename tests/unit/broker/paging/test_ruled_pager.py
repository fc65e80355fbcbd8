"""Queues with rules, partly on the disk: order, lifetimes, counts, limits, dead letters."""

import pytest

from penstock.broker.paging.paged_view import paged_of
from penstock.broker.paging.pager import Pager
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.ruled import RuledQueue
from penstock.queues.rules import REASON_EXPIRED, REASON_REJECTED, rules_from
from tests.unit.broker.paging.test_pager import BODY_BYTES, TARGET_BYTES, PagingDepot

MS = 1_000_000
MANY = 60


class RuledDepot(PagingDepot):
    """Queue r has the rules of a test; g is where dead letters go."""

    def __init__(self, is_durable: bool = True, **arguments: Value) -> None:
        super().__init__()
        table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.hand.say(m.QueueDeclare("r", durable=is_durable, arguments=table))
        self.hand.say(m.QueueDeclare("g"))
        self.settle()
        paging = self.broker.stores.paging
        assert paging is not None
        for name in ("r", "g"):
            queue = self.queue(name)
            if queue.paging is None:
                paging.adopt(queue)
            queue.page_above = TARGET_BYTES

    @property
    def ruled(self) -> RuledQueue:
        found = self.queue("r").messages
        assert isinstance(found, RuledQueue) and found.is_paging, "the queue does not page"
        return found

    def rest(self) -> None:
        self.settle()
        while self.disk.jobs:
            self.write()
            self.settle()

    def paged(self) -> int:
        return paged_of(self.queue("r"))[0]

    def apply(self, **arguments: Value) -> None:
        """As a policy would."""
        table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.broker.rule_manager.apply(self.queue("r"), rules_from(table))
        self.rest()

    def pass_ms(self, ms: int) -> None:
        clock = self.world.clock
        end_ns = clock.now_ns + ms * MS
        timers = self.world.timers
        while len(timers) > 0 and timers.next_ns() <= end_ns:
            clock.jump(timers.next_ns())
            while timers.is_due():
                timers.run_next()
            self.rest()
        clock.jump(end_ns)
        self.rest()

    def drops(self, reason: int) -> int:
        ruling = self.queue("r").ruling
        return 0 if ruling is None else ruling.drops[reason]

    def check_books(self) -> None:
        """What is charged is what is in memory, and the log has what is in the queues."""
        actors = self.broker.vhosts["/"].queues.values()
        assert self.broker.node_account.total_stored_bytes() == sum(
            int(one.messages.bytes_ready + one.unacked_bytes)
            + int(one.unacked_count) * MESSAGE_OVERHEAD_BYTES
            for one in actors
        )

    def is_empty(self) -> bool:
        stores = [self.store, *self.broker.stores.scratch.values()]
        return self.broker.node_account.total_stored_bytes() == 0 and not any(
            store.log.live_count(lane.index) for store in stores for lane in store.lanes
        )


def test_a_message_dies_on_the_disk_when_its_time_is_up_and_its_letter_has_its_body() -> None:
    depot = RuledDepot(message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="g")
    first = depot.fill("r", MANY)
    depot.pass_ms(600)
    second = depot.fill("r", MANY)
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
    depot = RuledDepot(message_ttl=10_000)
    bodies = depot.fill("r", MANY)
    short = depot.fill("r", MANY, Properties(delivery_mode=2, expiration="500"))
    last = depot.fill("r", 5)
    depot.pass_ms(800)
    assert depot.ready("r") == 2 * MANY + 5, "what stands behind living ones stays"
    assert depot.drain("r", 10).bodies() == bodies + last
    assert depot.drops(REASON_EXPIRED) == len(short)


def test_counts_of_a_quorum_queue_outlive_paging() -> None:
    depot = RuledDepot(queue_type="quorum", delivery_limit=2)
    bodies = depot.fill("r", MANY)
    for round_ in range(3):
        hand = depot.connect()[0]
        hand.say(m.BasicQos(0, 5))
        hand.say(m.BasicConsume(queue="r"))
        depot.rest()
        assert hand.bodies() == bodies[:5]
        headers = [one.properties.headers or {} for one in hand.deliveries]
        counts = [one.get("x-delivery-count") for one in headers]
        assert counts == [round_ or None] * 5
        hand.client.vanish(True)
        depot.rest()
    assert depot.ready("r") == MANY - 5
    assert depot.drain("r", 5).bodies() == bodies[5:]
    assert depot.is_empty()


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_limit_in_bytes_counts_what_is_on_the_disk(overflow: str) -> None:
    depot = RuledDepot(max_length_bytes=40 * BODY_BYTES, overflow=overflow)
    bodies = depot.fill("r", MANY)
    depot.rest()
    kept = bodies[-40:] if overflow == "drop-head" else bodies[:40]
    assert depot.ready("r") == 40 and depot.paged() > 10
    assert depot.ruled.body_bytes_ready == 40 * BODY_BYTES
    assert depot.drain("r").bodies() == kept
    assert depot.is_empty()


def test_a_target_that_falls_takes_the_front_along() -> None:
    depot = RuledDepot(message_ttl=1000)
    bodies = depot.fill("r", MANY)
    pager = depot.queue("r").paging
    assert isinstance(pager, Pager)
    depot.pass_ms(500)
    pager.aim(1500)
    depot.queue("r").wake()
    depot.rest()
    assert depot.ruled.bytes_ready <= 1500
    assert depot.ruled.head_bytes() > 0
    later = depot.fill("r", 3)
    depot.pass_ms(499)
    assert depot.ready("r") == MANY + 3
    depot.pass_ms(40)
    assert depot.ready("r") == 3 and bodies
    assert depot.drain("r").bodies() == later


def test_a_first_lifetime_begins_at_once_for_all_that_is_on_the_disk() -> None:
    depot = RuledDepot()
    bodies = depot.fill("r", MANY)
    first = depot.connect()[0]
    first.say(m.BasicQos(0, 5))
    first.say(m.BasicConsume(queue="r"))
    depot.rest()
    depot.pass_ms(5000)
    depot.apply(message_ttl=1000)
    assert depot.ready("r") == MANY - 5 and depot.paged() > MANY // 2
    bodies += depot.fill("r", 3)
    first.client.vanish(True)
    depot.pass_ms(900)
    assert depot.ready("r") == MANY + 3
    depot.pass_ms(101)
    assert depot.ready("r") == 0
    assert depot.is_empty()


def test_rules_that_go_leave_the_lifetimes_that_have_begun() -> None:
    depot = RuledDepot()
    depot.apply(message_ttl=1000)
    depot.fill("r", MANY)
    depot.apply()
    later = depot.fill("r", MANY)
    depot.pass_ms(1100)
    assert depot.ready("r") == MANY
    assert depot.drain("r").bodies() == later
    assert depot.is_empty()


def test_last_values_begin_when_everything_is_in_memory() -> None:
    depot = RuledDepot(message_ttl=3_600_000)
    bodies = depot.fill("r", MANY)
    depot.apply(message_ttl=3_600_000, last_value_key="routing-key")
    bodies += depot.fill("r", 3)
    hand = depot.drain("r")
    assert hand.bodies() == bodies
    hand.client.vanish(True)
    depot.settle()
    depot.fill("r", 3)
    assert depot.ready("r") == 1
    assert not depot.queue("r").messages.is_paging


def test_unanswered_deliveries_of_before_come_back_as_what_they_are() -> None:
    """A queue pages bodies of what is unanswered, then gets rules, then has it back."""
    depot = RuledDepot()
    paging = depot.broker.stores.paging
    assert paging is not None
    bodies = depot.fill("r", 10)
    first = depot.connect()[0]
    first.say(m.BasicQos(0, 30))
    first.say(m.BasicConsume(queue="r"))
    depot.rest()
    bodies += depot.fill("r", 40)
    paging.tick(2 * TARGET_BYTES)
    depot.rest()
    assert depot.queue("r").unacked_bytes <= TARGET_BYTES // 2
    depot.apply(delivery_limit=5)
    first.client.vanish(True)
    depot.rest()
    assert depot.ready("r") == 50
    hand = depot.drain("r")
    assert hand.bodies() == bodies
    assert [one.redelivered for one in hand.deliveries] == [True] * 30 + [False] * 20
    assert depot.is_empty()


def test_unanswered_deliveries_of_a_quorum_queue_leave_memory_and_count_on() -> None:
    depot = RuledDepot(queue_type="quorum", delivery_limit=1)
    paging = depot.broker.stores.paging
    assert paging is not None
    bodies = depot.fill("r", MANY)
    for _ in range(2):
        hand = depot.connect()[0]
        hand.say(m.BasicQos(0, MANY // 2))
        hand.say(m.BasicConsume(queue="r"))
        depot.rest()
        assert hand.bodies() == bodies[: MANY // 2]
        paging.tick(2 * TARGET_BYTES)
        depot.rest()
        assert depot.queue("r").unacked_bytes <= TARGET_BYTES // 2
        depot.check_books()
        hand.client.vanish(True)
        depot.rest()
    assert depot.ready("r") == MANY // 2
    assert depot.drain("r", 5).bodies() == bodies[MANY // 2 :]
    assert depot.is_empty()
    depot.queue("r").wake()
    depot.settle()
    assert not depot.queue("r").messages.is_paging


@pytest.mark.parametrize("rules", [{"message_ttl": 3_600_000}, {}, {"max_priority": 3}])
def test_a_rejected_message_is_read_for_its_letter(rules: dict[str, Value]) -> None:
    depot = RuledDepot(True, **rules, dead_letter_exchange="", dead_letter_routing_key="g")
    paging = depot.broker.stores.paging
    assert paging is not None
    bodies = depot.fill("r", MANY)
    hand = depot.connect()[0]
    hand.say(m.BasicQos(0, MANY // 2))
    hand.say(m.BasicConsume(queue="r"))
    depot.rest()
    paging.tick(2 * TARGET_BYTES)
    depot.rest()
    assert depot.queue("r").unacked_bytes <= TARGET_BYTES // 2
    for delivery in hand.deliveries[: MANY // 2]:
        hand.say(m.BasicReject(delivery.delivery_tag, False))
    depot.settle()
    depot.check_books()
    depot.rest()
    assert depot.drops(REASON_REJECTED) == depot.ready("g") == MANY // 2
    assert hand.bodies() == bodies
    depot.check_books()
    hand.client.vanish(True)
    depot.rest()
    assert sorted(depot.drain("g").bodies()) == bodies[: MANY // 2]
    assert depot.drain("r").bodies() == bodies[MANY // 2 :]
    assert depot.is_empty()


def test_what_comes_when_the_disk_is_empty_again_does_not_die_with_what_was_there() -> None:
    depot = RuledDepot(message_ttl=1000)
    paging = depot.broker.stores.paging
    assert paging is not None
    depot.fill("r", MANY)
    hand = depot.connect()[0]
    hand.say(m.BasicQos(0, MANY // 2))
    hand.say(m.BasicConsume(queue="r"))
    depot.rest()
    paging.tick(2 * TARGET_BYTES)
    depot.rest()
    depot.drain("r", 3).client.vanish(True)
    depot.rest()
    assert depot.ready("r") == depot.paged() == 0
    depot.pass_ms(600)
    bodies = depot.fill("r", 1) + depot.fill("r", MANY)
    assert depot.paged() > MANY // 2
    depot.pass_ms(600)
    assert depot.drain("r", 3).bodies() == bodies
    assert depot.drops(REASON_EXPIRED) == 0


def test_what_leaves_in_the_turn_in_which_it_came_is_not_kept() -> None:
    """It makes room at the limit, or is overtaken by the next value: a start must not find it."""
    depot = RuledDepot(max_length=2, overflow="reject-publish")
    reader = depot.connect()[0]
    reader.say(m.BasicConsume(queue="r", no_ack=True))
    depot.settle()
    bodies = depot.fill("r", 10)
    assert reader.bodies() == bodies
    assert depot.is_empty()
    depot = RuledDepot(last_value_key="routing-key")
    depot.fill("r", 10)
    assert depot.ready("r") == 1
    lanes = [one for one in depot.store.lanes if one.sender == "queue:/r"]
    assert depot.store.log.live_count(lanes[0].index) == 1
