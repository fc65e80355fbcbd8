"""RabbitMQ's memory monitor over the queues of a broker whose profile emulates it. Its numbers are
in spec/test_paging_scenarios."""

from math import inf

import pytest

from penstock.broker.alarm.alarm_manager import DISK
from penstock.broker.node.paging_manager import PagingManager
from penstock.broker.paging.rabbit_pager import RabbitPager
from penstock.broker.queue.queue_actor import NO_PAGING, QueueActor
from penstock.flow.profile import PENSTOCK, RABBITMQ_4, RABBITMQ_35, Profile
from penstock.protocol import methods as m
from penstock.queues.line import MessageLine
from penstock.queues.rabbit_paging import UNBOUNDED
from penstock.queues.rules import DROP_HEAD, QueueRules
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT, Depot

S = 1_000_000_000
MARK = 1_000_000
COUNT = 600


class Monitored(Depot):
    """600 messages of 5 000 bytes have come to d1 in the first five seconds."""

    def __init__(self, profile: Profile = RABBITMQ_35, is_persistent: bool = False) -> None:
        super().__init__(profile, 1 << 22)
        manager = self.broker.stores.paging
        assert isinstance(manager, PagingManager)
        self.manager = manager
        self.manager.tick(MARK)
        properties = PERSISTENT if is_persistent else TRANSIENT
        self.hand = self.connect()[0]
        self.send(self.hand, "d1", 5_000, COUNT, properties=properties)

    def later(self, seconds: float, used: float) -> None:
        """So much of the memory mark is used, some time later."""
        self.world.clock.now_ns += int(seconds * S)
        self.broker.context.memory_used_bytes = int(MARK * used)
        self.manager.tick(MARK)
        self.settle()
        self.write()

    @property
    def actor(self) -> QueueActor:
        return self.queue("d1")

    def target(self) -> int:
        return int(self.manager.rules[self.actor].target)


def test_below_the_ratio_nothing_is_paged_and_no_turn_looks() -> None:
    depot = Monitored()
    depot.later(5, 0.49)
    depot.later(5, 0.49)
    assert depot.manager.desired_s == inf
    assert depot.actor.page_above == NO_PAGING
    assert not depot.actor.messages.is_paging


def test_pressure_makes_a_target_of_what_came_lately() -> None:
    """600 in 5 s are 60/s by the moving average, and at that rate 600 last for 600 / (4 * 60) =
    2.5 s; at 80 % of the mark (2.5 + 1) / 0.8 = 4.4 s are wanted, 262 messages."""
    depot = Monitored()
    depot.later(5, 0.8)
    assert depot.manager.desired_s == pytest.approx(4.4, abs=0.1)
    assert depot.target() == pytest.approx(262, abs=5)
    messages = depot.actor.messages
    assert isinstance(messages, MessageLine) and messages.is_paging
    assert messages.ram_count() == depot.target()
    assert messages.ready_count() == COUNT


@pytest.mark.parametrize("is_persistent", [True, False])
def test_what_was_paged_comes_back_in_order(is_persistent: bool) -> None:
    depot = Monitored(is_persistent=is_persistent)
    depot.later(5, 0.96)
    assert depot.actor.messages.ready_count() == COUNT
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicConsume("d1"))
    depot.settle()
    depot.write()
    assert len(reader.deliveries) == COUNT
    assert not any(one.redelivered for one in reader.deliveries)
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0


def test_a_limit_drops_what_was_paged_although_nobody_consumes() -> None:
    depot = Monitored(is_persistent=True)
    for _ in range(9):
        depot.later(5, 3.0)
    assert depot.actor.messages.at_hand() == 0
    rules = QueueRules()
    rules.max_length = 10
    rules.overflow = DROP_HEAD
    depot.broker.rule_manager.apply(depot.actor, rules)
    depot.later(1, 3.0)
    assert depot.actor.messages.ready_count() == 10
    depot.send(depot.hand, "d1", 5_000, 100)
    depot.later(1, 3.0)
    assert depot.actor.messages.ready_count() == 10
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 10


def test_a_larger_wish_is_heard_with_the_next_report() -> None:
    depot = Monitored()
    depot.later(5, 0.8)
    wanted = depot.manager.desired_s
    depot.later(2.5, 0.3)
    assert depot.manager.desired_s == inf
    assert depot.target() < UNBOUNDED
    depot.later(2.5, 0.3)
    assert depot.target() == UNBOUNDED
    assert wanted < inf


def test_a_full_disk_is_not_paged_into() -> None:
    depot = Monitored()
    depot.broker.alarm_manager.set(DISK, "full", node="store:/")
    depot.later(5, 0.99)
    assert depot.manager.desired_s == inf


def test_from_38_on_a_pass_is_two_windows_at_most() -> None:
    assert Monitored().manager.rules_of(Monitored().actor).most == UNBOUNDED
    assert Monitored(RABBITMQ_4).manager.rules_of(Monitored().actor).most == 8_000


def test_a_queue_without_bodies_in_memory_is_plain_again_when_it_is_empty() -> None:
    depot = Monitored()
    depot.later(5, 0.96)
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicConsume("d1"))
    depot.settle()
    depot.write()
    depot.later(5, 0.1)
    depot.later(5, 0.1)
    depot.actor.wake()
    depot.settle()
    assert isinstance(depot.actor.paging, RabbitPager)
    assert not depot.actor.messages.is_paging
    assert depot.actor.page_above == NO_PAGING


def test_our_profile_pages_by_bytes() -> None:
    depot = Monitored(PENSTOCK)
    depot.later(5, 0.99)
    assert depot.manager.rules == {}
    messages = depot.actor.messages
    assert isinstance(messages, MessageLine) and messages.is_paging
    assert messages.bytes_ready <= MARK // 2
