"""The example of seed S4 in the large: every publish goes to nine queues, some of them slow."""

from penstock.simulation.world.actions import declare, nap
from penstock.simulation.world.clients import Client
from penstock.simulation.world.consuming import Consuming, Habit
from penstock.simulation.world.publishing import Address, Load, Publishing, to_queue
from penstock.simulation.world.world import World

WIDTH = 9
MS = 1_000_000


def fan_out_nine(world: World) -> None:
    """Three publishers to nine queues at once; consumers that think, that rest, or that leave."""
    names = tuple(f"q{number}" for number in range(1, WIDTH + 1))
    declare(world, names, *((name, "amq.fanout", "") for name in names))
    dice = world.dice
    addresses = [Address("amq.fanout", "", names), to_queue("q1")]
    for number, name in enumerate(names):
        is_auto_ack = number % 3 == 0
        habit = Habit(
            name, prefetch=dice.below(9), think_ns=dice.below(5) * MS, is_auto_ack=is_auto_ack
        )
        client: Client = world.connect(Consuming(habit))
        if number % 4 == 0:
            nap(world, client)
    for _ in range(3):
        load = Load(addresses, 12, body_bytes_max=600, is_confirming=dice.happens(50))
        world.connect(Publishing(load))
