"""Deeds that scenarios share: declare, renew queues, ring alarms, nap, stop, hang up, leave."""

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
    """Declares queues and bindings, then is done. bindings: (queue, exchange, key)."""

    def __init__(self, queues: tuple[str, ...], bindings: tuple[tuple[str, str, str], ...]) -> None:
        super().__init__()
        self.queues = queues
        self.bindings = bindings
        self.is_answered = 0

    def opened(self) -> None:
        super().opened()
        for name in self.queues:
            self.say(m.QueueDeclare(name, durable=True))
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
    """Queues and bindings, in place when this returns."""
    role = Declaring(queues, bindings)
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
        if not all(one.is_done() for one in world.clients):
            world.timers.after(world.dice.between(1, 100) * MS, sleep)

    sleep()


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
