"""Queues that are larger than what they may keep in memory: both kinds of messages, in queues that
outlive the broker, one of them with priorities, and in one that does not, read by consumers, by
basic.get, and by some that die.
"""

from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from penstock.broker.paging.rabbit_pager import RabbitPager
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from penstock.queues.rules import QueueRules
from penstock.simulation.scenario.random_graph import Getting
from penstock.simulation.world.actions import MS, declare
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import (
    NO_PROPERTIES,
    PERSISTENT,
    Load,
    PublishingRole,
    PublishTarget,
    to_queue,
)
from penstock.simulation.world.world import World

KEPT: Final = ("q1", "q2")
FLEETING: Final = "t1"
RANKED: Final = "p1"
"""Has priorities, and may have to know of duplicates."""
ALL_NAMES: Final = (*KEPT, FLEETING, RANKED)
PRESSURES: Final = 20
LONG_MS: Final = 600_000
ALL: Final = 1 << 30


class Mixing(PublishingRole):
    """Publishes persistent messages and others as the dice fall."""

    def __init__(self, load: Load, persistent_percent: int) -> None:
        super().__init__(load)
        self.persistent_percent = persistent_percent

    def properties(self) -> Properties:
        is_persistent = self.client.dice.happens(self.persistent_percent)
        properties = PERSISTENT if is_persistent else NO_PROPERTIES
        return replace(properties, priority=self.client.dice.below(4))


def paging(world: World) -> None:
    """Far more is published than queues may keep in memory, before anybody reads much of it."""
    dice = world.dice
    world.broker.depth_marks.default_bytes = dice.one_of((600, 2500, 8000, 30_000))
    admin = declare(world, KEPT, ("q1", "amq.fanout", ""), ("q2", "amq.fanout", ""))
    admin.say(m.QueueDeclare(FLEETING))
    admin.say(m.QueueBind(FLEETING, "amq.fanout", ""))
    ranks: Table = {"x-max-priority": 3, "x-message-deduplication": dice.happens(50)}
    admin.say(m.QueueDeclare(RANKED, durable=True, arguments=ranks))
    admin.say(m.QueueBind(RANKED, "amq.fanout", ""))
    world.books.unordered.add(RANKED)
    world.settle()
    addresses = [
        to_queue("q1"),
        to_queue(FLEETING),
        to_queue(RANKED),
        PublishTarget("amq.fanout", "", ALL_NAMES),
    ]
    for _ in range(dice.between(1, 3)):
        load = Load(addresses, 60, dice.one_of((60, 400, 2000)), dice.happens(50))
        world.connect(Mixing(load, dice.one_of((0, 50, 90, 100))))
    for name in ALL_NAMES:
        world.timers.after(dice.between(1, 60) * MS, partial(_read, world, name))
    for _ in range(dice.below(2) * dice.between(1, 6)):
        name = dice.one_of(ALL_NAMES)
        world.timers.after(dice.below(80) * MS, partial(_rule, world, name))
    if world.broker.profile.io_batch:
        for _ in range(PRESSURES):
            world.timers.after(dice.between(1, 90) * MS, partial(_press, world))


def _rule(world: World, name: str) -> None:
    """The queue goes by other rules, none of which takes a message from anybody."""
    rules = QueueRules()
    actor = world.broker.vhosts["/"].queues[name]
    if actor.queue_limits is not None:
        # These are said once, at declaration.
        rules.max_priority = actor.queue_limits.rules.max_priority
        rules.is_deduplicated = actor.queue_limits.rules.is_deduplicated
    kind = world.dice.below(4)
    if kind == 0:
        rules.ttl_ms = LONG_MS
    elif kind == 1:
        rules.delivery_limit = ALL
        rules.is_counted = True
    elif kind == 2:
        rules.max_bytes = ALL
    world.broker.rule_manager.apply(actor, rules)


def _press(world: World) -> None:
    """Where RabbitMQ's rules apply every queue is given another target, by counts and by bytes, and
    no message is so small that it stays."""
    dice = world.dice
    desk = world.broker.stores.paging
    assert desk is not None, "the broker keeps its queues"
    for name in ALL_NAMES:
        actor = world.broker.vhosts["/"].queues[name]
        pager = desk.pager_of(actor)
        if isinstance(pager, RabbitPager):
            pager.rules.embed_below = pager.acks.embed_below = pager.durability.embed_below = 0
            pager.rules.rate_in = 100.0
            pager.rules.rate_ack_in = dice.one_of((0.0, 200.0))
            pager.aim_at(dice.one_of((0.0, 0.01, 0.1, 0.3, inf)))
            pager.aim(dice.one_of((300, 1200, 4000, 1 << 30)))


def _read(world: World, name: str) -> None:
    dice = world.dice
    if dice.happens(40):
        world.connect(Getting(name, dice.between(1, 40)))
    for _ in range(dice.between(1, 2)):
        habit = Habit(
            name, prefetch=dice.below(12), think_ns=dice.below(4) * 5 * MS, requeue_percent=10
        )
        reader = world.connect(ConsumingRole(habit))
        if dice.happens(40):
            world.timers.after(dice.between(1, 100) * MS, partial(reader.vanish, True))
