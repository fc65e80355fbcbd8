"""Queues that dead-letter to each other, in rings and back and forth, with all the ways to die.

a -> b -> a or c    expiry and limits, of every overflow
c -> d -> c         a retry: consumers of c reject, d is waited in and expires
"""

from penstock.client.events import ClientEvent, Replied
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.simulation.machine.dice import Dice
from penstock.simulation.world.clients import Role
from penstock.simulation.world.consuming import Consuming, Habit
from penstock.simulation.world.publishing import Address, Load, Publishing
from penstock.simulation.world.world import World

MS = 1_000_000
QUEUES = ("a", "b", "c", "d")
OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx", "backpressure")


class DeclaringRuled(Role):
    """Declares queues with arguments, then is done; `renew` ends one and declares it anew."""

    def __init__(self, tables: dict[str, Table]) -> None:
        super().__init__()
        self.tables = tables
        self.is_answered = 0

    def opened(self) -> None:
        super().opened()
        for name, table in self.tables.items():
            self.client.session.request(
                self.channel, m.QueueDeclare(name, durable=True, arguments=table)
            )
        self.client.flush()

    def renew(self, name: str) -> None:
        """The queue is deleted with all that is in it, and is there again."""
        if self.channel and not self.client.is_over():
            session = self.client.session
            session.request(self.channel, m.QueueDelete(name))
            session.request(
                self.channel, m.QueueDeclare(name, durable=True, arguments=self.tables[name])
            )
            self.client.flush()

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Replied):
            self.is_answered += 1
            self.is_done = self.is_answered > len(self.tables)


class Rejecting(Consuming):
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
    desk = world.broker.rulebook.letters
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
    role = DeclaringRuled(tables)
    world.connect(role)
    world.run(lambda: role.is_done)
    # Where a message is seen, and whether, is a matter of chance: the laws are what is looked at.
    world.books.destroyed.update(QUEUES)
    for name in ("b", "c"):
        habit = Habit(name, prefetch=dice.between(1, 5), think_ns=dice.below(2) * 5 * MS)
        world.connect(Rejecting(habit, 40 if name == "c" else 10))
    addresses = [Address("", name, QUEUES) for name in ("a", "b", "c")]
    for _ in range(3):
        world.connect(Publishing(Load(addresses, 80, is_confirming=dice.happens(60))))
    if dice.happens(50):
        gone = dice.one_of(("a", "d"))
        world.timers.after(dice.between(1, 100) * MS, lambda: role.renew(gone))


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
