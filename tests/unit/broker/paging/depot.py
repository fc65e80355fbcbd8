"""A broker whose queue r has the rules of a test and pages, on a disk that waits to be told."""

from penstock.broker.paging.paged_view import paged_of
from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.client.events import ClientEvent, Replied
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import rules_from
from penstock.simulation.machine.durable_disks import give_scratch
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import PERSISTENT, Depot

MS = 1_000_000
TARGET_BYTES = 6000
BODY_BYTES = 500
NO_PAGING = 1 << 40
KEY = "key"
LETTERS: dict[str, Value] = {"dead_letter_exchange": "", "dead_letter_routing_key": "g"}


class Asking(Hand):
    """Keeps the broker's answers with what came along."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Replied] = []

    def happened(self, event: ClientEvent) -> None:
        super().happened(event)
        if isinstance(event, Replied):
            self.answers.append(event)

    def got(self) -> list[bytes]:
        return [one.delivery.body for one in self.answers if one.delivery is not None]


class PagingDepot(Depot):
    """g is where dead letters go, d1 to d3 are durable, without rules; each queue keeps
    TARGET_BYTES in memory. levels: of r; number: of the next message."""

    def __init__(self, is_durable: bool = True, /, **arguments: Value) -> None:
        super().__init__(PENSTOCK)
        give_scratch(self.broker, self.disk, 1 << 20)
        self.levels = int(str(arguments.get("max_priority", 0))) + 1
        self.hand = self.connect()[0]
        table = table_of(arguments)
        self.hand.say(m.QueueDeclare("r", durable=is_durable is True, arguments=table))
        self.hand.say(m.QueueDeclare("g"))
        self.settle()
        for actor in self.broker.vhosts["/"].queues.values():
            if actor.paging is None:
                assert self.broker.stores.paging is not None
                self.broker.stores.paging.adopt(actor)
            actor.page_above = TARGET_BYTES
        self.number = 0

    def queue(self, name: str = "r") -> QueueActor:
        return self.broker.vhosts["/"].queues[name]

    @property
    def pager(self) -> Pager:
        pager = self.queue().paging
        assert isinstance(pager, Pager)
        return pager

    @property
    def ruled(self) -> PriorityQueue:
        found = self.queue().messages
        assert isinstance(found, PriorityQueue) and found.is_paging, "the queue does not page"
        return found

    # -- publishing ------------------------------------------------------------------------------

    def publish(self, name: str, properties: Properties, body_bytes: int) -> bytes:
        body = b"%06d" % self.number + b"." * (body_bytes - 6)
        self.number += 1
        self.hand.client.session.publish(self.hand.channel, "", name, body, properties)
        self.hand.client.flush()
        return body

    def fill(
        self,
        count: int,
        properties: Properties = PERSISTENT,
        body_bytes: int = BODY_BYTES,
        name: str = "r",
    ) -> list[bytes]:
        """Publish numbered messages and let the disk work; their bodies."""
        bodies = [self.publish(name, properties, body_bytes) for _ in range(count)]
        self.rest()
        return bodies

    def put(
        self, keys: range, mode: int = 2, priority: int = 0, body_bytes: int = 700
    ) -> list[bytes]:
        """A message for each key, by which duplicates and last values are known; their bodies."""
        bodies = []
        for key in keys:
            headers: dict[str, Value] = {KEY: key, "x-deduplication-header": f"key-{key}"}
            properties = Properties(delivery_mode=mode, headers=headers, priority=priority or None)
            bodies.append(self.publish("r", properties, body_bytes))
        self.rest()
        return bodies

    def mixed(self, count: int, mode: int = 2) -> list[bytes]:
        """Messages of all levels by turns, each with a key of its own; in the order in which they
        are to be delivered."""
        bodies: list[list[bytes]] = [[] for _ in range(self.levels)]
        for _ in range(count):
            level = self.number * 7 % self.levels
            bodies[level] += self.put(range(self.number, self.number + 1), mode, level)
        return [body for level in reversed(bodies) for body in level]

    # -- consuming -------------------------------------------------------------------------------

    def drain(self, name: str = "r", prefetch: int = 0) -> Hand:
        """A consumer that answers everything it gets, until the disk has no more work."""
        hand = self.begin_reading(name, prefetch)
        self.rest()
        return hand

    def begin_reading(self, name: str = "r", prefetch: int = 0) -> Hand:
        """As `drain`, but the disk has not worked yet."""
        hand = self.connect(acks=True)[0]
        hand.say(m.BasicQos(0, prefetch))
        hand.say(m.BasicConsume(queue=name))
        self.settle()
        return hand

    def holding(self, count: int) -> Hand:
        """A consumer of r with `count` unanswered deliveries."""
        hand = self.connect()[0]
        hand.say(m.BasicQos(0, count))
        hand.say(m.BasicConsume(queue="r"))
        self.rest()
        assert len(hand.bodies()) == count
        return hand

    def asking(self) -> Asking:
        hand = Asking()
        self.world.connect(hand)
        self.settle()
        return hand

    def leave(self, hand: Hand) -> None:
        """The client goes, and what it had comes back."""
        hand.client.vanish(True)
        self.rest()

    # -- what happens ----------------------------------------------------------------------------

    def rest(self) -> None:
        """What consumers have answered is settled, and the disk has done everything."""
        self.settle()
        while self.disk.jobs:
            self.write()
            self.settle()

    def apply(self, **arguments: Value) -> None:
        """As a policy would."""
        self.broker.rule_manager.apply(self.queue(), rules_from(table_of(arguments)))
        self.rest()

    def pass_ms(self, ms: int) -> None:
        clock = self.world.clock
        end_ns = clock.now_ns + ms * MS
        timers = self.world.timers
        while len(timers) > 0 and timers.next_ns() <= end_ns:
            clock.jump(timers.next_ns())
            while timers.is_due():
                timers.run_next()
            self.rest()
        clock.jump(end_ns)
        self.rest()

    def aim(self, target_bytes: int) -> None:
        self.pager.aim(target_bytes)
        self.queue().wake()
        self.rest()

    def tick(self, budget_bytes: int) -> None:
        """The node shares its memory out; of 2 * TARGET_BYTES bodies of unanswered deliveries have
        to leave memory."""
        paging = self.broker.stores.paging
        assert paging is not None
        paging.tick(budget_bytes)
        self.rest()

    def page_unanswered(self) -> None:
        """Bodies of unanswered deliveries of r leave memory, all of them."""
        paging = self.broker.stores.paging
        assert paging is not None
        paging._page_unanswered(self.queue(), 0)
        assert self.queue().unacked_bytes == 0

    def flip(self, body: bytes) -> None:
        """The record of `body` is damaged on the disk."""
        name = next(one for one in self.files.names() if one.endswith(".log"))
        at = bytes(self.files.files[name].data).index(body)
        self.files.flip(name, (at + len(body) // 2) * 8)

    # -- looking ---------------------------------------------------------------------------------

    def paged(self) -> int:
        return paged_of(self.queue())[0]

    def drops(self, reason: int) -> int:
        queue_limits = self.queue().queue_limits
        return 0 if queue_limits is None else queue_limits.drops[reason]

    def stored_bytes(self) -> int:
        return self.broker.node_account.total_stored_bytes()

    def live(self, identity: str = "queue:/r") -> int:
        """Messages of a queue that the logs have."""
        stores = [self.store, *self.broker.stores.scratch.values()]
        lanes = [(store, lane) for store in stores for lane in store.lanes]
        return sum(s.log.live_count(one.index) for s, one in lanes if one.sender == identity)

    def check_books(self) -> None:
        """What is charged is what is in memory, and the log has what is in the queues."""
        actors = self.broker.vhosts["/"].queues.values()
        assert self.stored_bytes() == sum(
            int(one.messages.bytes_ready + one.unacked_bytes)
            + int(one.unacked_count) * MESSAGE_OVERHEAD_BYTES
            for one in actors
        )

    def is_empty(self) -> bool:
        stores = [self.store, *self.broker.stores.scratch.values()]
        return self.stored_bytes() == 0 and not any(
            store.log.live_count(lane.index) for store in stores for lane in store.lanes
        )


def table_of(arguments: dict[str, Value]) -> dict[str, Value]:
    return {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
