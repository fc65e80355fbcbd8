"""The scenarios: who connects, what they do, and what goes wrong on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from penstock.base.config import Config
from penstock.client.events import ClientEvent, Replied
from penstock.flow.profile import profile_named
from penstock.protocol import methods as m
from penstock.simulation.clients import Client, Role
from penstock.simulation.consuming import Consuming, Habit
from penstock.simulation.dice import Dice
from penstock.simulation.faults import LawBroken, SimulationFailed
from penstock.simulation.publishing import Address, Load, Publishing, to_queue
from penstock.simulation.world import Setting, World

PROFILES: Final = ("penstock", "rabbitmq-4", "rabbitmq-3.5", "none")
MS: Final = 1_000_000


class Declaring(Role):
    """Declares queues and bindings, then is done. bindings: (queue, exchange, key)."""

    def __init__(self, queues: tuple[str, ...], bindings: tuple[tuple[str, str, str], ...]) -> None:
        super().__init__()
        self.queues = queues
        self.bindings = bindings
        self.is_answered = 0

    def opened(self) -> None:
        super().opened()
        for name in self.queues:
            self.say(m.QueueDeclare(name))
        for queue, exchange, key in self.bindings:
            self.say(m.QueueBind(queue, exchange, key))

    def say(self, method: m.Method) -> None:
        """Ask for something now."""
        if self.channel and not self.client.is_over():
            self.client.session.request(self.channel, method)
            self.client.flush()

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Replied):
            self.is_answered += 1
            self.is_done = self.is_answered > len(self.queues) + len(self.bindings)


class Renewing(Role):
    """Ends a queue bound to amq.fanout and declares it anew, `count` times, at full speed.

    is_auto_delete: it ends with its only consumer, otherwise it is deleted."""

    def __init__(self, queue: str, count: int, is_auto_delete: bool) -> None:
        super().__init__()
        self.queue = queue
        self.left = count
        self.is_auto_delete = is_auto_delete

    def opened(self) -> None:
        super().opened()
        self.renew()

    def renew(self) -> None:
        """Once; the answer to what is said last brings the next time."""
        self.left -= 1
        say = self.client.session.request
        say(self.channel, m.QueueDeclare(self.queue, auto_delete=self.is_auto_delete))
        say(self.channel, m.QueueBind(self.queue, "amq.fanout", ""))
        if self.is_auto_delete:
            say(self.channel, m.BasicConsume(self.queue, "tag", no_ack=True))
            say(self.channel, m.BasicCancel("tag"))
        else:
            say(self.channel, m.QueueDelete(self.queue))

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Replied) and isinstance(event.request, m.QueueDelete | m.BasicCancel):
            if self.left:
                self.renew()
            else:
                self.is_done = True


def declare(world: World, queues: tuple[str, ...], *bindings: tuple[str, str, str]) -> Declaring:
    """Queues and bindings, in place when this returns."""
    role = Declaring(queues, bindings)
    world.connect(role)
    world.run(lambda: role.is_done)
    return role


# -- scenarios -------------------------------------------------------------------------------------


def chain(world: World) -> None:
    """One publisher, one queue, one consumer."""
    declare(world, ("q1",))
    dice = world.dice
    world.connect(Consuming(Habit("q1", prefetch=dice.below(20), think_ns=dice.below(2) * 5 * MS)))
    world.connect(Publishing(Load([to_queue("q1")], 300, is_confirming=dice.happens(50))))


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
        Address("amq.fanout", "", ("q1", "q2", "q3")),
        Address("amq.topic", "a.b", ("q1", "q2")),
        Address("amq.topic", "b", ()),
        to_queue("q3"),
    ]
    for queue in ("q1", "q2", "q3"):
        habit = Habit(queue, prefetch=world.dice.between(1, 9), think_ns=world.dice.below(20) * MS)
        world.connect(Consuming(habit))
    for _ in range(2):
        world.connect(Publishing(Load(addresses, 120, is_confirming=world.dice.happens(70))))


def slow_consumer(world: World) -> None:
    """Far more is published than the consumers can take; everything must wait, nothing be lost."""
    declare(world, ("q1", "q2"))
    world.connect(Consuming(Habit("q1", prefetch=2, think_ns=40 * MS, requeue_percent=5)))
    auto = Consuming(Habit("q2", is_auto_ack=True))
    reader = world.connect(auto)
    nap(world, reader)
    for _ in range(2):
        load = Load([to_queue("q1"), to_queue("q2")], 120, body_bytes_max=900)
        world.connect(Publishing(replace(load, is_alternating=world.dice.happens(50))))


def nap(world: World, client: Client) -> None:
    """`client` leaves its socket alone for a while, again and again."""

    def sleep() -> None:
        client.is_reading = False
        world.timers.after(world.dice.between(1, 300) * MS, wake)

    def wake() -> None:
        client.is_reading = True
        if not all(one.is_done() for one in world.clients):
            world.timers.after(world.dice.between(1, 100) * MS, sleep)

    sleep()


def shared_connection(world: World) -> None:
    """Publishing and consuming over one connection, on several channels."""
    declare(world, ("q1", "q2"))
    for _ in range(2):
        roles: list[Role] = [
            Publishing(Load([to_queue("q1")], 100, is_confirming=world.dice.happens(50))),
            Publishing(Load([to_queue("q1"), to_queue("q2")], 100, body_bytes_max=600)),
            Consuming(Habit("q1", prefetch=3, think_ns=MS)),
            Consuming(Habit("q2", prefetch=world.dice.below(4), is_global=True)),
        ]
        world.connect(*roles)


def own_backlog(world: World) -> None:
    """A connection that fills its own queue: its publishes wait for acks that stand behind them."""
    declare(world, ("q1",))
    load = Load([to_queue("q1")], 50, body_bytes_max=900, burst=40, pause_percent=0)
    roles: list[Role] = [Publishing(load) for _ in range(4)]
    world.connect(*roles, Consuming(Habit("q1", prefetch=2, think_ns=5 * MS)))


def many_publishers(world: World) -> None:
    """A dozen publishers with small windows against two consumers."""
    declare(world, ("q1", "q2"))
    for queue in ("q1", "q2"):
        world.connect(Consuming(Habit(queue, prefetch=10, think_ns=MS)))
    for _ in range(12):
        load = Load([to_queue("q1"), to_queue("q2")], 30, window=world.dice.between(1, 20))
        world.connect(Publishing(load))


def kill_storm(world: World) -> None:
    """Clients vanish, close half-way, break rules; queues are deleted under everybody's feet."""
    admin = declare(world, ("q1", "q2", "q3"), ("q1", "amq.fanout", ""), ("q2", "amq.fanout", ""))
    addresses = [to_queue("q1"), Address("amq.fanout", "", ("q1", "q2")), to_queue("q3")]
    victims = []
    for number in range(8):
        habit = Habit(f"q{number % 3 + 1}", prefetch=5, think_ns=10 * MS, requeue_percent=5)
        load = Load(addresses, 60, body_bytes_max=500, is_confirming=world.dice.happens(60))
        roles: list[Role] = [Publishing(load)] if number % 2 else [Consuming(habit)]
        if number % 4 == 3:
            roles.append(Consuming(habit))
        victims.append(world.connect(*roles))
    for _ in range(12):
        world.timers.after(some_time(world), lambda: harm(world, admin, victims))


def some_time(world: World) -> int:
    """2 µs to half a second, every order of magnitude alike: in the rush, or long after it."""
    return world.dice.between(1 << 11, 2 << world.dice.between(11, 28))


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
            if isinstance(role, Publishing):
                role.fault()
        client.flush()
    elif kind == 4:
        stop(client)
        client.roles[0].end()
        client.flush()
    else:
        world.books.destroyed.add("q3")
        admin.say(m.QueueDelete("q3"))
        admin.say(m.QueueDeclare("q3"))


def stop(client: Client) -> None:
    """Publishers say nothing more."""
    for role in client.roles:
        if isinstance(role, Publishing):
            role.is_done = True


def hang_up(client: Client) -> None:
    """connection.close without closing channels: everything said before it still counts."""
    stop(client)
    for role in client.roles:
        if isinstance(role, Publishing) and role.channel and role.publishes is not None:
            role.publishes.is_certain = True
    client.is_ending = True
    client.session.close()
    client.flush()


def vanishing_queue(world: World) -> None:
    """Two queues come and go, again and again, while everybody publishes to them."""
    declare(world, ("q2",), ("q2", "amq.fanout", ""))
    addresses = [
        to_queue("q1"), to_queue("q3"), Address("amq.fanout", "", ("q1", "q2", "q3"))
    ]  # fmt: skip
    world.connect(Consuming(Habit("q2", prefetch=5)))
    for _ in range(4):
        world.connect(Publishing(Load(addresses, 100, is_confirming=world.dice.happens(60))))
    world.books.destroyed.update(("q1", "q3"))
    world.connect(Renewing("q1", 60, is_auto_delete=False))
    world.connect(Renewing("q3", 60, is_auto_delete=True))


def short_lives(world: World) -> None:
    """Publishers say what they have and close at once, with or without closing their channels."""
    declare(world, ("q1", "q2"), ("q1", "amq.fanout", ""), ("q2", "amq.fanout", ""))
    world.connect(Consuming(Habit("q1", prefetch=3, think_ns=20 * MS)))
    world.connect(Consuming(Habit("q2", prefetch=10)))
    addresses = [to_queue("q1"), to_queue("q2"), Address("amq.fanout", "", ("q1", "q2"))]
    for _ in range(12):
        load = Load(addresses, world.dice.skewed(60), is_confirming=False, pause_percent=0)
        leave(world, world.connect(Publishing(load), Publishing(load)))


def leave(world: World, client: Client) -> None:
    """`client` closes as soon as it has said everything."""
    way = world.dice.one_of((Client.end, hang_up))

    def look() -> None:
        if client.is_done():
            way(client)
        else:
            world.timers.after(MS, look)

    look()


def alarm_storm(world: World) -> None:
    """Alarms come and go while everybody works; publishers are held, consumers go on."""
    declare(world, ("q1", "q2"))
    world.connect(Consuming(Habit("q1", prefetch=4, think_ns=5 * MS)))
    world.connect(
        Publishing(Load([to_queue("q1"), to_queue("q2")], 100)),
        Consuming(Habit("q2", prefetch=4)),
    )
    world.connect(Publishing(Load([to_queue("q1")], 100, is_confirming=False)))
    world.connect(Publishing(Load([to_queue("q2")], 40)), Publishing(Load([to_queue("q1")], 40)))
    for resource in ("memory", "disk"):
        for _ in range(world.dice.between(1, 4)):
            at = some_time(world)
            world.timers.after(at, partial(world.broker.set_alarm, resource, "low"))
            world.timers.after(at + some_time(world), partial(world.broker.clear_alarm, resource))
    for name in ("memory", "disk"):
        world.timers.after(2000 * MS, partial(world.broker.clear_alarm, name))


@dataclass(frozen=True, slots=True)
class Report:
    """What one run was. turns: of actors; virtual_ns: simulated time; events: recorded."""

    steps: int
    turns: int
    virtual_ns: int
    delivered: int
    confirmed: int
    blocks: int


SCENARIOS: Final[Mapping[str, Callable[[World], None]]] = MappingProxyType(
    {
        "chain": chain,
        "fan_out": fan_out,
        "slow_consumer": slow_consumer,
        "shared_connection": shared_connection,
        "own_backlog": own_backlog,
        "many_publishers": many_publishers,
        "kill_storm": kill_storm,
        "vanishing_queue": vanishing_queue,
        "short_lives": short_lives,
        "alarm_storm": alarm_storm,
    }
)


def small_setting(profile_name: str, seed: int, check_every: int) -> Setting:
    """`profile_name` with windows so small that every edge is met within a few messages."""
    dice = Dice(seed ^ 0x5EED)
    profile = profile_named(profile_name)
    if profile.credit_initial:
        more = dice.between(1, 8)
        profile = replace(
            profile, credit_initial=more + dice.below(12), credit_more_after=more,
            unsent_deliveries=dice.between(1, 30),
        )  # fmt: skip
    if profile.credit_bytes_initial:
        more = dice.one_of((400, 2000, 20_000))
        profile = replace(
            profile, credit_bytes_initial=more * dice.between(1, 3), credit_bytes_more_after=more
        )
    if profile.account_high_bytes:
        profile = replace(profile, account_high_bytes=dice.one_of((3000, 30_000, 1 << 25)))
    config = Config(
        queue_depth_bytes=dice.one_of((3000, 20_000, 1 << 25)),
        socket_output_high_bytes=dice.one_of((600, 5000, 262_144)),
        heartbeat_s=0,
        recorder_events=4096,
    )
    return Setting(profile, config, check_every)


def simulate(
    scenario: str, seed: int, profile: str, check_every: int = 1, setting: Setting | None = None
) -> Report:
    """One run from beginning to end. Raises: SimulationFailed."""
    world = World(seed, setting or small_setting(profile, seed, check_every))
    try:
        SCENARIOS[scenario](world)
        world.run(world.is_drained)
        world.finish()
    except (LawBroken, AssertionError) as error:
        raise SimulationFailed(scenario, seed, profile, world.steps, str(error)) from error
    return Report(
        world.steps,
        world.turns,
        world.clock.now_ns,
        world.books.delivered_count,
        world.books.confirmed_count,
        world.broker.recorder.next_seq,
    )
