"""The scenarios: who connects, what they do, and what goes wrong on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from penstock.base.config import Config
from penstock.flow import profile as profiles
from penstock.flow.profile import profile_named
from penstock.protocol import methods as m
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import LawBroken, SimulationFailed
from penstock.simulation.scenario.delays import delays
from penstock.simulation.scenario.paging import paging
from penstock.simulation.scenario.random_graph import random_graph
from penstock.simulation.scenario.ruled_queues import dead_letters, ruled_queues
from penstock.simulation.world.actions import (
    MS,
    Declaring,
    Renewing,
    clear_alarm,
    declare,
    hang_up,
    leave,
    nap,
    set_alarm,
    some_time,
    stop,
)
from penstock.simulation.world.clients import Client, Role
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import Load, PublishingRole, PublishTarget, to_queue
from penstock.simulation.world.world import World, WorldSetting

WIDTH = 9
PROFILES: Final = tuple(
    name for name, profile in profiles.PROFILES.items() if not profile.broadcasts_flow
)
"""Those whose alarms hold publishers, because the laws of alarms ask for that."""


def fan_out_nine(world: World) -> None:
    """Three publishers to nine queues at once; consumers that think, that rest, or that leave."""
    names = tuple(f"q{number}" for number in range(1, WIDTH + 1))
    declare(world, names, *((name, "amq.fanout", "") for name in names))
    dice = world.dice
    addresses = [PublishTarget("amq.fanout", "", names), to_queue("q1")]
    for number, name in enumerate(names):
        is_auto_ack = number % 3 == 0
        habit = Habit(
            name, prefetch=dice.below(9), think_ns=dice.below(5) * MS, is_auto_ack=is_auto_ack
        )
        client: Client = world.connect(ConsumingRole(habit))
        if number % 4 == 0:
            nap(world, client)
    for _ in range(3):
        load = Load(addresses, 12, body_bytes_max=600, is_confirming=dice.happens(50))
        world.connect(PublishingRole(load))


# -- scenarios -------------------------------------------------------------------------------------


def chain(world: World) -> None:
    """One publisher, one queue, one consumer."""
    declare(world, ("q1",))
    dice = world.dice
    world.connect(
        ConsumingRole(Habit("q1", prefetch=dice.below(20), think_ns=dice.below(2) * 5 * MS))
    )
    world.connect(PublishingRole(Load([to_queue("q1")], 300, is_confirming=dice.happens(50))))


def fan_out(world: World) -> None:
    """Publishes to one, two or three queues at once, each with a consumer of another speed."""
    declare(
        world,
        ("q1", "q2", "q3"),
        ("q1", "amq.fanout", ""),
        ("q2", "amq.fanout", ""),
        ("q3", "amq.fanout", ""),
        ("q1", "amq.topic", "a.*"),
        ("q2", "amq.topic", "a.#"),
    )
    addresses = [
        PublishTarget("amq.fanout", "", ("q1", "q2", "q3")),
        PublishTarget("amq.topic", "a.b", ("q1", "q2")),
        PublishTarget("amq.topic", "b", ()),
        to_queue("q3"),
    ]
    for queue in ("q1", "q2", "q3"):
        habit = Habit(queue, prefetch=world.dice.between(1, 9), think_ns=world.dice.below(20) * MS)
        world.connect(ConsumingRole(habit))
    for _ in range(2):
        world.connect(PublishingRole(Load(addresses, 120, is_confirming=world.dice.happens(70))))


def slow_consumer(world: World) -> None:
    """Far more is published than the consumers can take; everything must wait, nothing be lost."""
    declare(world, ("q1", "q2"))
    world.connect(ConsumingRole(Habit("q1", prefetch=2, think_ns=40 * MS, requeue_percent=5)))
    auto = ConsumingRole(Habit("q2", is_auto_ack=True))
    reader = world.connect(auto)
    nap(world, reader)
    for _ in range(2):
        load = Load([to_queue("q1"), to_queue("q2")], 120, body_bytes_max=900)
        world.connect(PublishingRole(replace(load, is_alternating=world.dice.happens(50))))


def shared_connection(world: World) -> None:
    """Publishing and consuming over one connection, on several channels."""
    declare(world, ("q1", "q2"))
    for _ in range(2):
        roles: list[Role] = [
            PublishingRole(Load([to_queue("q1")], 100, is_confirming=world.dice.happens(50))),
            PublishingRole(Load([to_queue("q1"), to_queue("q2")], 100, body_bytes_max=600)),
            ConsumingRole(Habit("q1", prefetch=3, think_ns=MS)),
            ConsumingRole(Habit("q2", prefetch=world.dice.below(4), is_global=True)),
        ]
        world.connect(*roles)


def own_backlog(world: World) -> None:
    """A connection that fills its own queue: its publishes wait for acks that stand behind them."""
    declare(world, ("q1",))
    load = Load([to_queue("q1")], 50, body_bytes_max=900, burst=40, pause_percent=0)
    roles: list[Role] = [PublishingRole(load) for _ in range(4)]
    world.connect(*roles, ConsumingRole(Habit("q1", prefetch=2, think_ns=5 * MS)))


def many_publishers(world: World) -> None:
    """A dozen publishers with small windows against two consumers."""
    declare(world, ("q1", "q2"))
    for queue in ("q1", "q2"):
        world.connect(ConsumingRole(Habit(queue, prefetch=10, think_ns=MS)))
    for _ in range(12):
        load = Load([to_queue("q1"), to_queue("q2")], 30, window=world.dice.between(1, 20))
        world.connect(PublishingRole(load))


def many_senders(world: World) -> None:
    """A crowd with messages of 1 to 900 bytes presses on one queue and its depth mark; some die,
    some have little to say, and the consumer is slow for a while."""
    declare(world, ("q1", "q2"))
    dice = world.dice
    slow = world.connect(ConsumingRole(Habit("q1", prefetch=dice.below(9), requeue_percent=5)))
    world.connect(ConsumingRole(Habit("q2", prefetch=10)))
    nap(world, slow)
    addresses = [to_queue("q1"), to_queue("q1"), to_queue("q1"), to_queue("q2")]
    for number in range(dice.between(8, 24)):
        load = Load(
            addresses[dice.below(3) :],
            dice.one_of((2, 8, 12)),
            body_bytes_max=dice.one_of((20, 200, 900)),
            window=dice.one_of((3, 50)),
            is_confirming=dice.happens(80),
            pause_percent=dice.one_of((0, 0, 30)),
        )
        client = world.connect(PublishingRole(load))
        if number % 7 == 6:
            world.timers.after(some_time(world), partial(client.vanish, dice.happens(50)))


def kill_storm(world: World) -> None:
    """Clients vanish, close half-way, break rules; queues are deleted under everybody's feet."""
    admin = declare(world, ("q1", "q2", "q3"), ("q1", "amq.fanout", ""), ("q2", "amq.fanout", ""))
    addresses = [to_queue("q1"), PublishTarget("amq.fanout", "", ("q1", "q2")), to_queue("q3")]
    victims = []
    for number in range(8):
        habit = Habit(f"q{number % 3 + 1}", prefetch=5, think_ns=10 * MS, requeue_percent=5)
        load = Load(addresses, 60, body_bytes_max=500, is_confirming=world.dice.happens(60))
        roles: list[Role] = [PublishingRole(load)] if number % 2 else [ConsumingRole(habit)]
        if number % 4 == 3:
            roles.append(ConsumingRole(habit))
        victims.append(world.connect(*roles))
    for _ in range(12):
        world.timers.after(some_time(world), lambda: harm(world, admin, victims))


def harm(world: World, admin: Declaring, victims: list[Client]) -> None:
    """One thing goes wrong."""
    dice = world.dice
    client = dice.one_of(victims)
    kind = dice.below(6)
    if not client.is_open():
        return
    if kind == 0:
        client.vanish(dice.happens(50))
    elif kind == 1:
        stop(client)
        client.end()
    elif kind == 2:
        hang_up(client)
    elif kind == 3:
        for role in client.roles:
            if isinstance(role, PublishingRole):
                role.fault()
        client.flush()
    elif kind == 4:
        stop(client)
        client.roles[0].end()
        client.flush()
    else:
        world.books.destroyed.add("q3")
        admin.say(m.QueueDelete("q3"))
        admin.say(m.QueueDeclare("q3", durable=True))


def vanishing_queue(world: World) -> None:
    """Two queues come and go, again and again, while everybody publishes to them."""
    declare(world, ("q2",), ("q2", "amq.fanout", ""))
    addresses = [
        to_queue("q1"), to_queue("q3"), PublishTarget("amq.fanout", "", ("q1", "q2", "q3"))
    ]  # fmt: skip
    world.connect(ConsumingRole(Habit("q2", prefetch=5)))
    for _ in range(4):
        world.connect(PublishingRole(Load(addresses, 100, is_confirming=world.dice.happens(60))))
    world.books.destroyed.update(("q1", "q3"))
    world.connect(Renewing("q1", 60, is_auto_delete=False))
    world.connect(Renewing("q3", 60, is_auto_delete=True))


def short_lives(world: World) -> None:
    """Publishers say what they have and close at once, with or without closing their channels."""
    declare(world, ("q1", "q2"), ("q1", "amq.fanout", ""), ("q2", "amq.fanout", ""))
    world.connect(ConsumingRole(Habit("q1", prefetch=3, think_ns=20 * MS)))
    world.connect(ConsumingRole(Habit("q2", prefetch=10)))
    addresses = [to_queue("q1"), to_queue("q2"), PublishTarget("amq.fanout", "", ("q1", "q2"))]
    for _ in range(12):
        load = Load(addresses, world.dice.skewed(60), is_confirming=False, pause_percent=0)
        leave(world, world.connect(PublishingRole(load), PublishingRole(load)))


def alarm_storm(world: World) -> None:
    """Alarms come and go while everybody works; publishers are held, consumers go on."""
    declare(world, ("q1", "q2"))
    world.connect(ConsumingRole(Habit("q1", prefetch=4, think_ns=5 * MS)))
    world.connect(
        PublishingRole(Load([to_queue("q1"), to_queue("q2")], 100)),
        ConsumingRole(Habit("q2", prefetch=4)),
    )
    world.connect(PublishingRole(Load([to_queue("q1")], 100, is_confirming=False)))
    world.connect(
        PublishingRole(Load([to_queue("q2")], 40)), PublishingRole(Load([to_queue("q1")], 40))
    )
    for resource in ("memory", "disk"):
        for _ in range(world.dice.between(1, 4)):
            at = some_time(world)
            world.timers.after(at, partial(set_alarm, world, resource))
            world.timers.after(at + some_time(world), partial(clear_alarm, world, resource))
    for name in ("memory", "disk"):
        world.timers.after(2000 * MS, partial(clear_alarm, world, name))


def rate_limits(world: World) -> None:
    """Limits on connections, the user and a queue, small enough to hold everybody again and again;
    one of them is taken away under way."""
    declare(world, ("q1", "q2"))
    write = world.broker.settings.write
    for key, value in (
        ("rate.burst", "10ms"),
        ("rate.connection.messages", "400"),
        ("rate.user.bytes", "60KB"),
        ("rate.queue.messages", "300"),
    ):
        write(key, value)
    world.connect(ConsumingRole(Habit("q1", prefetch=4)))
    for _ in range(3):
        load = Load([to_queue("q1"), to_queue("q2")], 60, is_confirming=world.dice.happens(60))
        world.connect(PublishingRole(load), ConsumingRole(Habit("q2", prefetch=3)))

    def take_away() -> None:
        write("rate.queue.messages", "off")

    world.timers.after(some_time(world), take_away)


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run was. turns: of actors; virtual_ns: simulated time; events: recorded."""

    steps: int
    turns: int
    virtual_ns: int
    delivered: int
    confirmed: int
    blocks: int


IN_MEMORY: Final = (
    chain,
    fan_out,
    fan_out_nine,
    slow_consumer,
    shared_connection,
    own_backlog,
    many_publishers,
    many_senders,
    kill_storm,
    vanishing_queue,
    short_lives,
    alarm_storm,
    rate_limits,
    dead_letters,
    delays,
    ruled_queues,
    random_graph,
)
KEPT: Final = (kill_storm, vanishing_queue, dead_letters, delays, ruled_queues, paging)
SCENARIOS: Final[Mapping[str, Callable[[World], None]]] = MappingProxyType(
    {one.__name__: one for one in IN_MEMORY}
    | {"kept_graph": random_graph}
    | {f"kept_{one.__name__}": one for one in KEPT}
)
KEEPING: Final = frozenset(name for name in SCENARIOS if name.startswith("kept_"))
"""Durable queues keep their messages on a disk there."""


def small_setting(profile_name: str, seed: int, check_every: int) -> WorldSetting:
    """`profile_name` with windows so small that every edge is met within a few messages."""
    dice = Dice(seed ^ 0x5EED)
    profile = profile_named(profile_name)
    if profile.credit_initial:
        more = dice.between(1, 8)
        profile = profile.with_messages(more + dice.below(12), more)
        least = dice.between(1, 30)
        most = 4 * least if profile.unsent_deliveries_max else 0
        profile = replace(profile, unsent_deliveries=least, unsent_deliveries_max=most)
    if profile.credit_bytes_initial:
        more = dice.one_of((400, 2000, 20_000))
        profile = profile.with_bytes(more * dice.between(1, 3), more)
    if profile.fair_bytes:
        profile = replace(
            profile, fair_bytes=dice.one_of((60, 700, 16_384)),
            target_ns=dice.one_of((1000, 5_000_000)), interval_ns=dice.one_of((2000, 100_000_000)),
        )  # fmt: skip
    if profile.account_high_bytes:
        profile = replace(profile, account_high_bytes=dice.one_of((3000, 30_000, 1 << 25)))
    accounts = Dice(seed ^ 0xACC0)
    if profile.account_high_messages:
        profile = replace(profile, account_high_messages=accounts.one_of((3, 20, 100, 100_000)))
    parked_bytes = Dice(seed ^ 0x9A4E).one_of((0, 0, 30_000, 300_000))
    config = Config(
        queue_depth_bytes=dice.one_of((3000, 20_000, 1 << 25)),
        socket_output_high_bytes=dice.one_of((600, 5000, 262_144)),
        heartbeat_s=0,
        recorder_events=4096,
        account_user_high_messages=accounts.one_of(("", "", "12", "60/20")),
        account_node_high=accounts.one_of(("", "", "4KB/1KB", "40KB")),
        parked_bytes=Dice(seed ^ 0x9A4C).one_of(
            (1000, 3000, 9000, 20_000) if parked_bytes else (1, 2000, 20_000, 1 << 25)
        ),
        parked_node_bytes=Dice(seed ^ 0x9A4D).one_of((4000, 40_000, 1 << 25)),
    )
    setting = WorldSetting(profile, config, check_every)
    setting.parked_bytes = parked_bytes
    return setting


def simulate(
    scenario: str,
    seed: int,
    profile: str,
    check_every: int = 1,
    setting: WorldSetting | None = None,
    without: frozenset[int] = frozenset(),
) -> RunReport:
    """One run from beginning to end; of a random graph `without` some parts.

    Raises: SimulationFailed."""
    setting = setting or small_setting(profile, seed, check_every)
    setting.without = without
    setting.is_keeping = setting.is_keeping or scenario in KEEPING
    world = World(seed, setting)
    try:
        SCENARIOS[scenario](world)
        world.run(world.is_drained)
        world.finish()
    except (LawBroken, AssertionError) as error:
        fault = str(error)
        raise SimulationFailed(scenario, seed, profile, world.steps, fault, without) from error
    return RunReport(
        world.steps,
        world.turns,
        world.clock.now_ns,
        world.books.delivered_count,
        world.books.confirmed_count,
        world.broker.recorder.next_seq,
    )
