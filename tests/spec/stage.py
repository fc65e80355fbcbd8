"""The real actors of a broker and a few hand-driven clients: the stage of the chain scenarios.

Nothing is drawn here: actors run in turn with their whole budget, pipes are wide, and an actor
that is parked is given no turn. `step` lets one actor take so many messages and no more.
"""

from collections.abc import Callable
from typing import Self

from penstock.base.config import Config
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.client.events import ClientEvent, Delivery, Replied
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_QUEUE, LAYER_STORE, Hop
from penstock.flow.profile import Profile
from penstock.protocol import methods as m
from penstock.simulation.machine.dice import Dice, SeededPicker
from penstock.simulation.world.clients import Client, Role
from penstock.simulation.world.world import World, WorldSetting

BODY = b"x" * 20


class StagePicker(SeededPicker):
    """In turn, whole budgets; or one actor with one budget."""

    def __init__(self, dice: Dice, between_turns: Callable[[], None]) -> None:
        super().__init__(dice, between_turns)
        self.only = ""
        self.count = 0

    def pick(self, ready: list[Actor]) -> int:
        self.between_turns()
        if self.only:
            names = [actor.identity for actor in ready]
            if self.count == 0 or self.only not in names:
                return -1
            return names.index(self.only)
        free = [at for at, actor in enumerate(ready) if actor.identity not in self.parked]
        return free[0] if free else -1

    def budget(self, budget: int) -> int:
        if self.only:
            count, self.count = self.count, 0
            return count
        return budget


class Hand(Role):
    """A channel that does what the test says. `deliveries`: what came; `acks`: answer each;
    `replies`: the broker's answers to methods."""

    def __init__(self, acks: bool = False) -> None:
        super().__init__()
        self.is_done = True
        self.stage: Stage | None = None
        self.acks = acks
        self.deliveries: list[Delivery] = []
        self.replies: list[m.Method] = []

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Delivery):
            self.deliveries.append(event)
            if self.acks:
                self.client.session.ack(self.channel, event.delivery_tag)
        elif isinstance(event, Replied):
            self.replies.append(event.reply)

    def say(self, *methods: m.Method) -> Self:
        for method in methods:
            self.client.session.request(self.channel, method)
            self.client.flush()
        return self

    def publish(self, key: str, count: int, exchange: str = "") -> Self:
        return self.publish_bodies(key, [BODY] * count, exchange)

    def publish_bodies(self, key: str, bodies: list[bytes], exchange: str = "") -> Self:
        for body in bodies:
            self.client.session.publish(self.channel, exchange, key, body)
        self.client.flush()
        return self

    def settle(self) -> None:
        """Everything happens that what was said leads to."""
        assert self.stage is not None, "made by Stage.connect"
        self.stage.settle()

    def bodies(self) -> list[bytes]:
        return [one.body for one in self.deliveries]


class Stage:
    """A broker under `profile` with queues q1, q2 and q3, all bound to amq.fanout."""

    def __init__(self, profile: Profile) -> None:
        setting = WorldSetting(profile, Config(heartbeat_s=0, queue_depth_bytes=1 << 30))
        setting.pipe_bytes = 1 << 26
        setting.picker = StagePicker
        self.world = World(1, setting)
        self.broker = self.world.broker
        assert isinstance(self.world.picker, StagePicker)
        self.picker = self.world.picker
        self.profile = profile
        admin = self.connect()[0]
        for name in ("q1", "q2", "q3"):
            admin.say(m.QueueDeclare(name))
            admin.say(m.QueueBind(name, "amq.fanout", ""))
        self.settle()

    def connect(self, channels: int = 1, acks: bool = False) -> list[Hand]:
        """A client with so many channels, open."""
        hands = [Hand(acks) for _ in range(channels)]
        for hand in hands:
            hand.stage = self
        self.world.connect(*hands)
        self.settle()
        return hands

    def settle(self) -> None:
        """Everything that can happen without time passing, the laws checked after every turn."""
        self.world.settle()

    def park(self, identity: str) -> None:
        self.picker.parked.add(identity)

    def unpark(self, identity: str) -> None:
        self.picker.parked.discard(identity)

    def step(self, identity: str, count: int) -> None:
        """`identity` does `count` messages of work, and nobody else anything."""
        self.picker.only, self.picker.count = identity, count
        self.world.run_broker()
        self.picker.only = ""

    # -- looking ---------------------------------------------------------------------------------

    def connection(self, client: Client) -> Connection:
        return self.broker.connections[client.link.name]

    def channel(self, hand: Hand) -> Channel:
        return self.connection(hand.client).channels[hand.channel]

    def reader_lane(self, hand: Hand) -> Lane:
        lane = self.channel(hand).upstream
        assert lane is not None
        return lane

    def queue_lane(self, hand: Hand, queue: str) -> Lane:
        publisher = self.channel(hand).publisher
        return publisher.lanes[queue]

    def queue(self, name: str) -> QueueActor:
        return self.broker.vhosts["/"].queues[name]

    def ready(self, name: str) -> int:
        return int(self.queue(name).messages.ready_count())

    def is_parking_one(self, hand: Hand) -> bool:
        return len(self.channel(hand).parking.lines) > 0

    def lot_of_one(self) -> None:
        """From now on one publish is parked for each connection, because an empty lot takes one."""
        self.broker.parking.lot_bytes_max = 1

    def store_hop(self, queue: QueueActor, initial: int, more: int) -> Hop:
        """A parked store behind the queue's gate."""
        gate = Gate("store:/", self.world.clock, GateObserver())
        hop = Hop(queue.identity, LAYER_QUEUE, queue.gate, "store:/", LAYER_STORE, gate)
        hop.set_window(initial, more, 0, 0)
        return hop


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Bodies that say their order."""
    return [b"%06d" % number for number in range(start, start + count)]
