"""Delayed message exchanges with small stores: nothing comes early, out of order, twice or never.

steady -> even          every message has the same delay, so the order of publishing holds
mixed  -> odd, tight    each has its own, or none; `tight` is full most of the time
brief  -> gone          is deleted under way with what it holds
"""

from functools import partial

from penstock.client.events import ClientEvent, Delivery
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from penstock.simulation.laws.oracle import Identity
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.world.actions import MS, declare_by, watch
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import Load, PublishingRole, PublishTarget, identity_of
from penstock.simulation.world.world import World

EXCHANGES = ("steady", "mixed", "brief")
QUEUES = {"even": "steady", "odd": "mixed", "tight": "mixed", "gone": "brief"}
STORE_OF = "amq.delayed."
WATCHED_NS = 2000 * MS


class Appointments:
    """When each message may be seen, at the earliest, and the delay it was published with."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._of: dict[Identity, tuple[int, int]] = {}

    def made(self, identity: Identity, delay_ms: int) -> None:
        """It is about to be published."""
        self._of[identity] = (self.world.clock.now_ns + delay_ms * MS, delay_ms)

    def check(self, identity: Identity, event: Delivery) -> None:
        """It has come. Raises: LawBroken."""
        due_ns, delay_ms = self._of[identity]
        early_ns = due_ns - self.world.clock.now_ns
        if early_ns > 0:
            raise LawBroken(f"{identity} with delay {delay_ms} ms came {early_ns} ns early")
        headers = event.properties.headers or {}
        if headers.get("x-delay", 0) != -delay_ms:
            raise LawBroken(f"{identity} had delay {delay_ms} ms, it came with {headers}")


class DelayedPublishing(PublishingRole):
    """delays_ms: of its messages, drawn from them; 0 is none."""

    def __init__(self, load: Load, book: Appointments, delays_ms: tuple[int, ...]) -> None:
        super().__init__(load)
        self.book = book
        self.delays_ms = delays_ms

    def properties(self) -> Properties:
        assert self.publishes is not None, "a role that publishes is open"
        delay_ms = self.client.dice.one_of(self.delays_ms)
        self.book.made((self.publishes.key, self.said), delay_ms)
        headers: Table | None = {"x-delay": delay_ms} if delay_ms else None
        mode = 2 if self.client.broker.stores.stores else None
        return Properties(headers=headers, delivery_mode=mode)


class DelayedConsuming(ConsumingRole):
    """Looks whether what it gets comes when it should."""

    def __init__(self, habit: Habit, book: Appointments) -> None:
        super().__init__(habit)
        self.book = book

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Delivery):
            self.book.check(identity_of(event.body), event)
        super().happened(event)


def declarations(limit: int) -> list[m.Method]:
    """The exchanges, queues and bindings."""
    tight: Table = {"x-max-length": limit, "x-overflow": "backpressure"}
    direct: Table = {"x-delayed-type": "direct"}
    found: list[m.Method] = [
        m.ExchangeDeclare(name, "x-delayed-message", durable=True, arguments=direct)
        for name in EXCHANGES
    ]
    for queue, exchange in QUEUES.items():
        table = tight if queue == "tight" else {}
        found.append(m.QueueDeclare(queue, durable=True, arguments=table))
        found.append(m.QueueBind(queue, exchange, queue))
    return found


def delays(world: World) -> None:
    """Publishers that confirm, so that a store is never fuller than it may be."""
    dice = world.dice
    desk = world.broker.delays
    desk.messages_max = dice.between(1, 40)
    if desk.letters.window > 0:
        desk.letters.window = dice.between(1, 6)
    desk.letters.retry_ns = 20 * MS
    admin = declare_by(world, declarations(dice.between(1, 4)))
    # Who is delayed longer comes later; what goes with its exchange never comes.
    world.books.unordered.update(("odd", "tight"))
    world.books.destroyed.add("gone")
    book = Appointments(world)
    for name in QUEUES:
        habit = Habit(name, prefetch=dice.between(1, 6), think_ns=dice.below(3) * 4 * MS)
        world.connect(DelayedConsuming(habit, book))
    own = (0, 1, 5, 5, 30, 200)
    for exchange, queues, delays_ms in (
        ("steady", ("even",), (dice.between(1, 50),)),
        ("mixed", ("odd", "tight"), own),
        ("mixed", ("odd",), own),
        ("brief", ("gone",), (dice.between(1, 400),)),
    ):
        addresses = [PublishTarget(exchange, queue, (queue,)) for queue in queues]
        world.connect(DelayedPublishing(Load(addresses, 70), book, delays_ms))
    world.timers.after(dice.between(1, 300) * MS, partial(admin.say, m.ExchangeDelete("brief")))
    _watch(world)


def _watch(world: World) -> None:
    """No store holds more than it may; for a while, because a run that is stuck goes on for an hour
    of its own time."""
    vhost = world.broker.vhosts["/"]
    limit = world.broker.delays.messages_max

    def look() -> None:
        for name in EXCHANGES[:2]:
            held = vhost.queues[STORE_OF + name].messages.ready_count()
            if held > limit:
                raise LawBroken(f"{held} messages in the store of {name}, the limit is {limit}")

    watch(world, look, world.clock.now_ns + WATCHED_NS)
