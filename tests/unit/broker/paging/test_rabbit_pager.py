"""Queues with records where the profile emulates RabbitMQ: they page by bytes."""

import pytest

from penstock.broker.node.paging_manager import PagingManager
from penstock.broker.paging.rabbit_pager import RabbitPager
from penstock.flow.profile import RABBITMQ_4, RABBITMQ_35, Profile
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.line import MessageLine
from penstock.queues.priorities import PriorityQueue
from penstock.queues.rules import NEVER, QueueRules
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import Depot

S = 1_000_000_000
MARK = 120_000
BODY_BYTES = 5_000
MANY = 60
RULES: list[dict[str, Value]] = [
    {"x-message-ttl": 60_000},
    {"x-delivery-limit": 3},
    {"x-queue-type": "quorum"},
    {"x-max-length-bytes": 10_000_000},
    {"x-max-priority": 3},
    {"x-message-deduplication": True},
]


class RuledRabbit(Depot):
    """Queue r has the rules of a test."""

    def __init__(self, profile: Profile, arguments: dict[str, Value]) -> None:
        super().__init__(profile, 1 << 20)
        self.hand = self.connect()[0]
        self.hand.say(m.QueueDeclare("r", durable=True, arguments=arguments))
        self.settle()
        desk = self.broker.stores.paging
        assert isinstance(desk, PagingManager)
        self.desk = desk
        self.number = 0

    def fill(self, count: int, body_bytes: int = BODY_BYTES, priority: int = 0) -> list[bytes]:
        """Numbered messages, every third one transient; their bodies."""
        bodies = []
        for _ in range(count):
            body = b"%06d" % self.number
            self.number += 1
            properties = Properties(
                delivery_mode=1 if self.number % 3 == 0 else 2,
                priority=priority or None,
                headers={"x-deduplication-header": f"key-{self.number}"},
            )
            bodies.append(body.ljust(body_bytes, b"."))
            self.hand.client.session.publish(self.hand.channel, "", "r", bodies[-1], properties)
        self.hand.client.flush()
        self.rest()
        return bodies

    def rest(self) -> None:
        for _ in range(5):
            self.settle()
            self.write()

    def later(self, seconds: float = 1) -> None:
        self.world.clock.now_ns += int(seconds * S)
        self.desk.tick(MARK)
        self.rest()

    def drain(self) -> Hand:
        reader = self.connect(acks=True)[0]
        reader.say(m.BasicConsume("r"))
        for _ in range(40):
            self.settle()
            self.write()
        return reader


@pytest.mark.parametrize("arguments", RULES, ids=[next(iter(one)) for one in RULES])
def test_memory_is_bounded_and_everything_comes_in_order(arguments: dict[str, Value]) -> None:
    depot = RuledRabbit(RABBITMQ_35, arguments)
    actor = depot.queue("r")
    bodies = depot.fill(MANY)
    assert actor.messages.bytes_ready > MANY * BODY_BYTES, "nobody has set targets yet"
    for _ in range(3):
        depot.later()
        bodies += depot.fill(MANY)
        assert actor.messages.bytes_ready <= MARK // 2 + BODY_BYTES
        assert actor.messages.ready_count() == len(bodies)
    assert actor.messages.has_entries and actor.messages.is_paging
    reader = depot.drain()
    assert reader.bodies() == bodies
    reader.client.vanish(True)
    depot.rest()
    assert actor.messages.ready_count() == 0 and actor.unacked_count == 0
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0
    # It pages a second time as it did the first time.
    again = depot.fill(2 * MANY)
    depot.later()
    assert actor.messages.has_entries and actor.messages.is_paging
    assert actor.messages.bytes_ready <= MARK // 2 + BODY_BYTES
    assert actor.messages.ready_count() == len(again)


def test_a_plain_queue_that_pages_by_counts_gets_its_first_lifetime() -> None:
    """Small messages are embedded then, and stand with their bodies among stubs."""
    depot = RuledRabbit(RABBITMQ_4, {})
    actor = depot.queue("r")
    depot.later(5)
    bodies: list[bytes] = []
    for at in range(120):
        bodies += depot.fill(4, 1_000)
        bodies += depot.fill(1 + at % 2, BODY_BYTES)
    depot.broker.context.memory_used_bytes = MARK * 3
    for _ in range(6):
        depot.later(5)
    before = actor.messages
    assert isinstance(before, MessageLine) and before.paged_count() > 50
    assert any(one.raw for one in before.behind.q3), "embedded messages stand behind the front"
    rules = QueueRules()
    rules.ttl_ms = 3_600_000
    depot.broker.rule_manager.apply(actor, rules)
    depot.rest()
    depot.later()
    assert actor.messages.has_entries and actor.messages.is_paging
    assert isinstance(actor.messages, PriorityQueue) and actor.messages.next_expiry_ns() != NEVER
    # The rest is pieces: what was saved when it was paged lies between what was at once.
    assert sum(len(one.raw) for one in actor.messages.ready_messages()) <= MARK // 2
    bodies += depot.fill(50)
    reader = depot.drain()
    assert reader.bodies() == bodies
    reader.client.vanish(True)
    # Without rules it counts again.
    depot.broker.rule_manager.apply(actor, QueueRules())
    depot.rest()
    assert not actor.messages.has_entries and isinstance(actor.paging, RabbitPager)
    bodies = depot.fill(300)
    for _ in range(4):
        depot.later(5)
    assert isinstance(actor.messages, MessageLine)
    assert depot.drain().bodies() == bodies
