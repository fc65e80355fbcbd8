"""Queues with every rule there is, and what holds whatever they give up: the books of the ledger.

full     backpressure: nothing is lost, nothing refused, never more ready than the limit
short    limits of the other kinds, lifetimes, priorities, delivery limit
last     the last value of a key
single   one active consumer at a time, and consumers of several priorities elsewhere
"""

from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.scenario.dead_letters import DeclaringRuled
from penstock.simulation.world.consuming import Consuming, Habit
from penstock.simulation.world.publishing import Load, Publishing, to_queue
from penstock.simulation.world.world import World

MS = 1_000_000
LOSSY = ("short", "last")
OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx", "backpressure")


class RuledPublishing(Publishing):
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
    role = DeclaringRuled(
        {
            "full": {"x-max-length": limit, "x-overflow": "backpressure"},
            "short": _short(dice),
            "last": {"x-last-value-key": "routing-key", "x-max-length": 3},
            "single": {"x-single-active-consumer": True},
        }
    )
    world.connect(role)
    world.run(lambda: role.is_done)
    # What is given up is a matter of chance: there only the laws are looked at.
    world.books.destroyed.update(LOSSY)
    for name in ("full", "short", "last", "single"):
        for _ in range(dice.between(1, 3)):
            world.connect(
                Consuming(
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
        world.connect(Publishing(Load(whole, 80, is_confirming=dice.happens(60))))
        world.connect(RuledPublishing(Load(lossy, 80, is_confirming=dice.happens(60))))
    _pause(world, dice.one_of(("full", "short", "last", "single")))
    _watch(world, limit)


def _pause(world: World, name: str) -> None:
    """The queue is paused for a while, twice."""
    broker = world.broker
    queue = broker.vhosts["/"].queues[name]

    def pause() -> None:
        queue.pause(True)

    def resume() -> None:
        queue.pause(False)

    for at in (world.dice.between(1, 50), world.dice.between(60, 200)):
        world.timers.after(at * MS, pause)
        world.timers.after((at + 9) * MS, resume)


def _watch(world: World, limit: int) -> None:
    """Nothing comes back to `full`, so that it is never fuller than it may be."""
    queue = world.broker.vhosts["/"].queues["full"]

    def look() -> None:
        if queue.messages.ready_count() > limit:
            raise LawBroken(f"{queue.messages.ready_count()} ready, the limit is {limit}")
        if not all(client.is_done() for client in world.clients):
            world.timers.after(MS, look)

    look()


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
