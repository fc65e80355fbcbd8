"""A random world: connections, channels, queues, consumers as planned, and what befalls them.

Deaths come at any time and of every kind: clients vanish, reset, close, hang up; channels and
queues fail inside the broker; queues are deleted and purged, consumers cancelled. Sockets are left
alone for a while, alarms overlap, windows change under way. Everything that stops goes on within a
second, so that a connection that is still held after a minute was forgotten.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

from penstock.base.errors import ChannelFault, OperatorError
from penstock.broker.channel.channel import Channel
from penstock.client.events import ChannelClosed, ClientEvent, Replied
from penstock.protocol import methods as m
from penstock.simulation.laws.watch import check_nothing_is_hidden
from penstock.simulation.scenario.plan import ConnectionPlan, EventPlan, RolePlan, WorldPlan, drawn
from penstock.simulation.world.actions import (
    Declaring,
    clear_alarm,
    declare,
    hang_up,
    nap,
    set_alarm,
    stop,
)
from penstock.simulation.world.clients import Client, Role
from penstock.simulation.world.consuming import ConsumingRole
from penstock.simulation.world.publishing import PublishingRole, identity_of
from penstock.simulation.world.world import World

FAILURE_CODE: Final = 541
RESOURCES: Final = ("memory", "disk")


class Getting(Role):
    """Asks for one message after the other by basic.get, and answers each."""

    def __init__(self, queue: str, count: int) -> None:
        super().__init__()
        self.queue = queue
        self.left = count
        self.is_waiting = False

    def can_act(self) -> bool:
        return self.channel > 0 and not self.is_done and not self.is_waiting

    def act(self) -> None:
        self.left -= 1
        self.is_waiting = True
        self.client.session.request(self.channel, m.BasicGet(self.queue, no_ack=False))

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Replied) and isinstance(event.request, m.BasicGet):
            self.is_waiting = False
            self.is_done = self.left <= 0
            if event.delivery is not None and self.channel and not self.is_killed:
                client, delivery = self.client, event.delivery
                identity = identity_of(delivery.body)
                client.books.delivered(self.queue, client.key, identity, delivery.redelivered)
                client.books.acknowledged(self.queue, identity, client.key)
                client.session.ack(self.channel, delivery.delivery_tag)
        elif isinstance(event, ChannelClosed):
            # A queue that is deleted and not yet declared again.
            assert event.code in (404, FAILURE_CODE), event.text


class PlayedPlan:
    """A plan being carried out. clients: by their place in the plan, once they have come."""

    def __init__(self, world: World, plan: WorldPlan) -> None:
        self.world = world
        self.plan = plan
        self.clients: dict[str, Client] = {}
        self.admin: Declaring = declare(world, plan.queues, *plan.bindings)

    def start(self) -> None:
        """Connect those who come first, and set the clock for the rest."""
        timers = self.world.timers
        for one in self.plan.connections:
            if one.start_ns:
                timers.after(one.start_ns, partial(self.connect, one))
            else:
                self.connect(one)
        for event in self.plan.events:
            timers.after(event.at_ns, partial(self.happen, event))

    def connect(self, plan: ConnectionPlan) -> None:
        client = self.world.connect(*(self.role(one, plan) for one in plan.roles))
        self.clients[plan.name] = client
        if plan.is_sleepy:
            nap(self.world, client)

    def role(self, plan: RolePlan, connection: ConnectionPlan) -> Role:
        if plan.load is not None:
            return PublishingRole(plan.load)
        if plan.habit is not None:
            return ConsumingRole(plan.habit)
        queues = self.plan.queues
        return Getting(queues[connection.number % len(queues)], plan.gets)

    def happen(self, event: EventPlan) -> None:
        """One event; nothing if whom it was meant for has not come or is gone."""
        check_nothing_is_hidden(self.world.broker)
        on_client = ON_CLIENTS.get(event.kind)
        if on_client is None:
            ON_BROKERS[event.kind](self, event)
            return
        client = self.clients.get(f"c#{event.which}")
        if client is not None and client.is_open() and client.roles:
            on_client(self, client, event)

    def renew(self, queue: str) -> None:
        """Declare a queue that is gone, and bind it as it was."""
        self.admin.say(m.QueueDeclare(queue, durable=True))
        for name, exchange, key in self.plan.bindings:
            if name == queue:
                self.admin.say(m.QueueBind(name, exchange, key))


# -- what befalls a client -------------------------------------------------------------------------


def vanish(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    client.vanish(event.kind == "reset")


def close(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    stop(client)
    client.end()


def hang_up_at_once(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    hang_up(client)


def fault(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    """Its publishers break a rule."""
    for role in client.roles:
        if isinstance(role, PublishingRole):
            role.fault()
    client.flush()


def end_role(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    """One channel is closed in order."""
    role = client.roles[event.amount % len(client.roles)]
    if isinstance(role, ConsumingRole):
        role.leaves()
    role.end()
    client.flush()


def kill_channel(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    """A channel fails inside the broker: what it was doing is lost, no other client is harmed."""
    role = client.roles[event.amount % len(client.roles)]
    connection = graph.world.broker.connections.get(client.link.name)
    channel = None if connection is None else connection.channels.get(role.channel)
    if channel is None:
        return
    role.is_killed = role.is_done = True
    graph.world.books.unsettle(client.key)
    fail(channel)


def fail(channel: Channel) -> None:
    """As a channel's turn does it when it meets a fault."""
    channel._repay_all()
    channel.host.channel_failed(channel, ChannelFault(FAILURE_CODE, "killed by the simulator"))


def cancel(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    """A consumer is cancelled, and later starts again."""
    for role in client.roles:
        if isinstance(role, ConsumingRole) and role.channel and role.tag:
            role.cancel()
            graph.world.timers.after(event.lasts_ns, role.consume_again)


def stop_reading(graph: PlayedPlan, client: Client, event: EventPlan) -> None:
    client.is_reading = False

    def go_on() -> None:
        client.is_reading = True

    graph.world.timers.after(event.lasts_ns, go_on)


# -- what befalls the broker -----------------------------------------------------------------------


def delete_queue(graph: PlayedPlan, event: EventPlan) -> None:
    graph.world.books.destroyed.add(event.queue)
    graph.admin.say(m.QueueDelete(event.queue))
    graph.renew(event.queue)


def crash_queue(graph: PlayedPlan, event: EventPlan) -> None:
    """A queue's turn fails: its senders are refused, its consumers cancelled."""
    vhost = graph.world.broker.vhosts["/"]
    actor = vhost.queues.get(event.queue)
    if actor is not None:
        graph.world.books.destroyed.add(event.queue)
        vhost.remove_queue(actor, True)
        graph.renew(event.queue)


def purge_queue(graph: PlayedPlan, event: EventPlan) -> None:
    graph.world.books.destroyed.add(event.queue)
    graph.admin.say(m.QueuePurge(event.queue))


def alarm(graph: PlayedPlan, event: EventPlan) -> None:
    resource = RESOURCES[event.amount % 2]
    set_alarm(graph.world, resource)
    graph.world.timers.after(event.lasts_ns, partial(clear_alarm, graph.world, resource))


def setting(graph: PlayedPlan, event: EventPlan) -> None:
    """Some value is changed on the running broker, and two times of three changed back."""
    settings = graph.world.broker.settings
    keys = [one.key for one in settings.all() if value_for(one.key, event) is not None]
    if not keys:
        return
    key = keys[event.amount % len(keys)]
    try:
        before, _ = settings.write(key, str(value_for(key, event)))
    except OperatorError:
        # What this profile does not have cannot be changed.
        return
    if event.share % 3:
        graph.world.timers.after(event.lasts_ns, partial(change_back, graph, key, before))


def change_back(graph: PlayedPlan, key: str, before: str) -> None:
    """Unless the simulated profile began with what no user could have set."""
    with suppress(OperatorError):
        graph.world.broker.settings.write(key, before)


def value_for(key: str, event: EventPlan) -> str | None:
    """A value that `key` takes, small enough to be felt; None for what is left alone."""
    more = 1 + event.share % 8
    initial = more + event.share % 13
    if key.startswith("credit.") and "watchdog" not in key:
        return f"{initial * 400}/{more * 400}" if key.endswith("_bytes") else f"{initial}/{more}"
    if key.startswith("account."):
        return f"{initial}/{more}" if key.endswith("messages") else f"{initial}KB/{more}KB"
    if key.startswith("rate.") and key != "rate.burst":
        return str(more * 20) if key.endswith("messages") else f"{more * 2}KB"
    return OTHER_VALUES.get(key)


OTHER_VALUES: Final = MappingProxyType(
    {
        "rate.burst": "10ms",
        "adaptive.target": "100us",
        "adaptive.interval": "1ms",
        "notify.blocked": "5ms",
    }
)
ON_CLIENTS: Final = MappingProxyType[str, Callable[[PlayedPlan, Client, EventPlan], None]](
    {
        "vanish": vanish,
        "reset": vanish,
        "close": close,
        "hang up": hang_up_at_once,
        "fault": fault,
        "end role": end_role,
        "kill channel": kill_channel,
        "cancel": cancel,
        "stop reading": stop_reading,
    }
)
ON_BROKERS: Final = MappingProxyType[str, Callable[[PlayedPlan, EventPlan], None]](
    {
        "delete queue": delete_queue,
        "crash queue": crash_queue,
        "purge queue": purge_queue,
        "alarm": alarm,
        "setting": setting,
    }
)


def random_graph(world: World) -> None:
    """Whatever the seed says, without the parts that the setting leaves out."""
    PlayedPlan(world, drawn(world.seed).without(world.setting.without)).start()
