"""Queues with every rule, and queues that dead-letter to each other, checked against the ledger.

full     backpressure: nothing is lost, nothing refused, never more ready than the limit
short    limits of the other kinds, lifetimes, priorities, delivery limit
last     the last value of a key
single   one active consumer at a time, and consumers of several priorities elsewhere

a -> b -> a or c    expiry and limits, of every overflow
c -> d -> c         a retry: consumers of c reject, d is waited in and expires
"""

from functools import partial

from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.world.actions import MS, Declaring, declare_by, watch
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import Load, PublishingRole, PublishTarget, to_queue
from penstock.simulation.world.world import World

QUEUES = ("a", "b", "c", "d")
LOSSY = ("short", "last")
OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx", "backpressure")


def declare_ruled(world: World, tables: dict[str, Table]) -> Declaring:
    """Queues with these arguments."""
    return declare_by(world, [ruled(name, table) for name, table in tables.items()])


def ruled(name: str, table: Table) -> m.QueueDeclare:
    return m.QueueDeclare(name, durable=True, arguments=table)


class Rejecting(ConsumingRole):
    """Rejects for good so many percent of what it gets, and acknowledges the rest."""

    def __init__(self, habit: Habit, percent: int) -> None:
        super().__init__(habit)
        self.percent = percent

    def _answer(self, tag: int) -> None:
        client = self.client
        if tag not in self.waiting or not client.dice.happens(self.percent):
            super()._answer(tag)
        elif self.channel and not client.is_over() and not client.is_ending:
            del self.waiting[tag]
            client.session.request(self.channel, m.BasicReject(tag, False))
            client.flush()


def dead_letters(world: World) -> None:
    """Publishers to a, b and c; consumers of b and c; one queue is deleted under way."""
    dice = world.dice
    desk = world.broker.rule_manager.letters
    assert desk is not None, "the broker has one"
    if desk.window > 0:
        desk.window = dice.between(1, 6)
    desk.confirmed_window = dice.between(1, 6)
    desk.backlog = dice.one_of((0, 5, 1000))
    desk.retry_ns = 20 * MS
    tables: dict[str, Table] = {
        "a": _table(dice, "b"),
        "b": _table(dice, dice.one_of(("a", "c"))),
        "c": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d"},
        "d": _table(dice, "c"),
    }
    admin = declare_ruled(world, tables)
    # Where a message is seen, and whether, is a matter of chance: the laws are what is looked at.
    world.books.destroyed.update(QUEUES)
    for name in ("b", "c"):
        habit = Habit(name, prefetch=dice.between(1, 5), think_ns=dice.below(2) * 5 * MS)
        world.connect(Rejecting(habit, 40 if name == "c" else 10))
    addresses = [PublishTarget("", name, QUEUES) for name in ("a", "b", "c")]
    for _ in range(3):
        world.connect(PublishingRole(Load(addresses, 80, is_confirming=dice.happens(60))))
    if dice.happens(50):
        gone = dice.one_of(("a", "d"))
        # It is deleted with all that is in it, and is there again.
        anew = partial(admin.say, m.QueueDelete(gone), ruled(gone, tables[gone]))
        world.timers.after(dice.between(1, 100) * MS, anew)


def _table(dice: Dice, target: str) -> Table:
    """Arguments of a queue that gives up what it has, sooner or later, to `target`."""
    table: Table = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
        "x-message-ttl": dice.between(0, 40),
    }
    if dice.happens(70):
        table["x-max-length"] = dice.between(1, 12)
        overflow = dice.one_of(OVERFLOWS)
        table["x-overflow"] = overflow
        if overflow != "drop-head" and dice.happens(50):
            table["x-dead-letter-strategy"] = "at-least-once"
    return table


class RuledPublishing(PublishingRole):
    """Gives some of its messages a priority, and some a lifetime."""

    def properties(self) -> Properties:
        dice = self.client.dice
        return Properties(
            priority=dice.below(9) if dice.happens(50) else None,
            expiration=str(dice.below(30)) if dice.happens(30) else None,
        )


def ruled_queues(world: World) -> None:
    """Publishers and consumers of all of them; one queue is paused for a while."""
    dice = world.dice
    limit = dice.between(1, 9)
    tables: dict[str, Table] = {
        "full": {"x-max-length": limit, "x-overflow": "backpressure"},
        "short": _short(dice),
        "last": {"x-last-value-key": "routing-key", "x-max-length": 3},
        "single": {"x-single-active-consumer": True},
    }
    declare_ruled(world, tables)
    # What is given up is a matter of chance: there only the laws are looked at.
    world.books.destroyed.update(LOSSY)
    for name in ("full", "short", "last", "single"):
        for _ in range(dice.between(1, 3)):
            world.connect(
                ConsumingRole(
                    Habit(
                        name,
                        prefetch=dice.between(1, 6),
                        think_ns=dice.below(3) * 4 * MS,
                        requeue_percent=20 if name == "short" else 0,
                    )
                )
            )
    whole = [to_queue("full"), to_queue("single")]
    lossy = [to_queue("short"), to_queue("last")]
    for _ in range(2):
        world.connect(PublishingRole(Load(whole, 80, is_confirming=dice.happens(60))))
        world.connect(RuledPublishing(Load(lossy, 80, is_confirming=dice.happens(60))))
    _pause(world, dice.one_of(("full", "short", "last", "single")))
    _watch(world, limit)


def _pause(world: World, name: str) -> None:
    """The queue is paused for a while, twice."""
    queue = world.broker.vhosts["/"].queues[name]
    for at in (world.dice.between(1, 50), world.dice.between(60, 200)):
        world.timers.after(at * MS, partial(queue.pause, True))
        world.timers.after((at + 9) * MS, partial(queue.pause, False))


def _watch(world: World, limit: int) -> None:
    """Nothing comes back to `full`, so that it is never fuller than it may be."""
    queue = world.broker.vhosts["/"].queues["full"]

    def look() -> None:
        if queue.messages.ready_count() > limit:
            raise LawBroken(f"{queue.messages.ready_count()} ready, the limit is {limit}")

    watch(world, look)


def _short(dice: Dice) -> Table:
    table: Table = {"x-message-ttl": dice.between(0, 40), "x-overflow": dice.one_of(OVERFLOWS)}
    if dice.happens(70):
        table["x-max-length"] = dice.between(1, 9)
    if dice.happens(40):
        table["x-max-length-bytes"] = dice.between(50, 900)
    if dice.happens(60):
        table["x-max-priority"] = dice.between(1, 9)
    if dice.happens(50):
        table["x-delivery-limit"] = dice.below(3)
    return table
