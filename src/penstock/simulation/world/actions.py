"""Actions that scenarios share: declare, renew queues, ring alarms, nap, stop, hang up, leave."""

from collections.abc import Callable, Sequence
from typing import Final

from penstock.client.events import ClientEvent, Replied
from penstock.protocol import methods as m
from penstock.simulation.world.clients import Client, Role
from penstock.simulation.world.consuming import ConsumingRole
from penstock.simulation.world.publishing import PublishingRole
from penstock.simulation.world.world import World

MS: Final = 1_000_000


def set_alarm(world: World, resource: str) -> None:
    """An alarm begins; the laws are looked at before and after, so that nothing slips between."""
    world.laws.check_step()
    world.broker.set_alarm(resource, "low")
    world.laws.ringing = (world.laws.ringing or set()) | {f"alarm:{resource}"}
    world.laws.check_step()


def clear_alarm(world: World, resource: str) -> None:
    """An alarm is over."""
    world.laws.check_step()
    world.broker.clear_alarm(resource)
    world.laws.ringing = (world.laws.ringing or set()) - {f"alarm:{resource}"}
    world.laws.check_step()


class Declaring(Role):
    """Says these methods, and is done when all of them are answered."""

    def __init__(self, methods: Sequence[m.Method]) -> None:
        super().__init__()
        self.methods = methods
        self.answers = 0

    def opened(self) -> None:
        super().opened()
        self.say(*self.methods)

    def say(self, *methods: m.Method) -> None:
        """Ask for something now."""
        if self.channel and not self.client.is_over():
            for method in methods:
                self.client.session.request(self.channel, method)
            self.client.flush()

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Replied):
            self.answers += 1
            # The first answer is that the channel is open.
            self.is_done = self.answers > len(self.methods)


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
        durable = m.QueueDeclare(self.queue, durable=True, auto_delete=self.is_auto_delete)
        say(self.channel, durable)
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
    """Durable queues and bindings (queue, exchange, key), in place when this returns."""
    methods: list[m.Method] = [m.QueueDeclare(name, durable=True) for name in queues]
    return declare_by(world, methods + [m.QueueBind(*binding) for binding in bindings])


def declare_by(world: World, methods: Sequence[m.Method]) -> Declaring:
    """What `methods` declare, in place when this returns."""
    role = Declaring(methods)
    world.connect(role)
    world.run(lambda: role.is_done)
    return role


def nap(world: World, client: Client) -> None:
    """`client` leaves its socket alone for a while, again and again."""

    def sleep() -> None:
        client.is_reading = False
        world.timers.after(world.dice.between(1, 300) * MS, wake)

    def wake() -> None:
        client.is_reading = True
        if not world.is_done():
            world.timers.after(world.dice.between(1, 100) * MS, sleep)

    sleep()


def watch(world: World, look: Callable[[], None], end_ns: int = 3600_000_000_000) -> None:
    """`look` every millisecond until all clients are done, or until `end_ns`."""
    look()
    if world.clock.now_ns < end_ns and not world.is_done():
        world.timers.after(MS, lambda: watch(world, look, end_ns))


def some_time(world: World) -> int:
    """2 µs to half a second, every order of magnitude alike: in the rush, or long after it."""
    return world.dice.between(1 << 11, 2 << world.dice.between(11, 28))


def stop(client: Client) -> None:
    """Publishers say nothing more, and consumers are about to leave."""
    for role in client.roles:
        if isinstance(role, PublishingRole):
            role.is_done = True
        elif isinstance(role, ConsumingRole):
            role.leaves()


def hang_up(client: Client) -> None:
    """connection.close without closing channels: everything said before it still counts."""
    stop(client)
    for role in client.roles:
        if isinstance(role, PublishingRole) and role.channel and role.publishes is not None:
            role.publishes.is_certain = True
    client.is_ending = True
    client.session.close()
    client.flush()


def leave(world: World, client: Client) -> None:
    """`client` closes as soon as it has said everything."""
    way = world.dice.one_of((Client.end, hang_up))

    def look() -> None:
        if client.is_done():
            way(client)
        else:
            world.timers.after(MS, look)

    look()
