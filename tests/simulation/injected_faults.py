"""Bugs in places that no factory reaches, made from outside: between two turns the state of real
actors is changed into what the bug would have left behind.

A fault looks at the broker before every turn and remembers what it saw. It works the same on the
interpreted and on the compiled build, because it only reads and writes attributes.
"""

from itertools import pairwise

from penstock.broker.actors.lane import Lane
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.parked_line import parked_size
from penstock.broker.channel.publish import Publisher
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.settings.hop_watch import hops_of
from penstock.flow.account import Account
from penstock.flow.due import Waker
from penstock.protocol.content import Message
from penstock.simulation.laws.watch import channels_of, queues_of
from tests.simulation.planted import InjectedFault


def publishers(broker: Broker) -> list[Publisher]:
    return [one.publisher for one in channels_of(broker) if one.publisher is not None]


# -- credit ----------------------------------------------------------------------------------------


class LosesAGrantOnRelease(InjectedFault):
    """What was deferred goes nowhere when the gate opens."""

    def __init__(self) -> None:
        self.deferred: dict[Lane, int] = {}

    def act(self, broker: Broker) -> None:
        lanes = hops_of(broker.connections)
        for lane in lanes:
            kept = self.deferred.get(lane, 0)
            if kept > 0 and lane.deferred == 0 and lane.receiver_gate.is_open:
                lane.balance -= kept
                lane.settle()
        self.deferred = {lane: int(lane.deferred) for lane in lanes}


class GrantsBehindAClosedGate(InjectedFault):
    """A receiver that is held gives its sender what it should keep."""

    def act(self, broker: Broker) -> None:
        for lane in hops_of(broker.connections):
            if lane.deferred > 0 and not lane.receiver_gate.is_open:
                lane.receiver_gate.drop(lane)
                lane.release()


class ChangesAWindowOnly(InjectedFault):
    """A live change of a window that leaves the balance as it was."""

    def __init__(self) -> None:
        self.windows: dict[Lane, int] = {}

    def act(self, broker: Broker) -> None:
        lanes = hops_of(broker.connections)
        for lane in lanes:
            before = self.windows.get(lane, int(lane.window))
            lane.balance -= int(lane.window) - before
        self.windows = {lane: int(lane.window) for lane in lanes}


class KeepsAGrantForTheDead(InjectedFault):
    """A hop that is gone stays among those that a closed gate will release."""

    def __init__(self) -> None:
        self.kept: dict[QueueActor, list[Lane]] = {}

    def act(self, broker: Broker) -> None:
        for queue in queues_of(broker):
            for lane in self.kept.get(queue, []):
                if lane not in queue.lanes and not queue.gate.is_open:
                    queue.gate.keep(lane)
        self.kept = {
            queue: [lane for lane in queue.lanes if lane.deferred > 0 or lane.is_shut]
            for queue in queues_of(broker)
        }


class ForgetsWhatIsUnderWay(InjectedFault):
    """A queue at its depth mark lets everybody go on, as if it were empty."""

    def act(self, broker: Broker) -> None:
        for queue in queues_of(broker):
            if queue.room is not None and queue.room.is_tight:
                queue.room.loosen()
                queue.room.limit_bytes = queue.room.mark_bytes


class LendsWhatIsLent(InjectedFault):
    """What a sender was lent is not taken off the room."""

    def act(self, broker: Broker) -> None:
        for queue in queues_of(broker):
            if queue.room is not None:
                queue.room.lent_bytes = 0


class ForgetsWhoAsked(InjectedFault):
    """Whoever stands in line for room at a queue's depth mark is lost out of it."""

    def act(self, broker: Broker) -> None:
        for queue in queues_of(broker):
            if queue.room is not None and queue.room.is_tight:
                queue.room.line.clear()
                queue.room.waiting = 0
                for lane in queue.lanes:
                    lane.is_lined = False


class IsHeldByTheDead(InjectedFault):
    """A queue's end does not take its reason out of the gates of those who published to it."""

    def __init__(self) -> None:
        self.known: dict[Channel, set[str]] = {}

    def act(self, broker: Broker) -> None:
        known: dict[Channel, set[str]] = {}
        for channel in channels_of(broker):
            publisher = channel.publisher
            now = set() if publisher is None else {one.receiver for one in publisher.lanes.values()}
            for gone in self.known.get(channel, set()) - now:
                channel.gate.close(gone, "credit")
            known[channel] = now
        self.known = known


class TakesTheSecondFirst(InjectedFault):
    """A mailbox is emptied from somewhere else than its head."""

    def act(self, broker: Broker) -> None:
        for lane in hops_of(broker.connections):
            at = int(lane.head)
            if len(lane.items) > at + 2:
                lane.items[at], lane.items[at + 1] = lane.items[at + 1], lane.items[at]


# -- parking ---------------------------------------------------------------------------------------


class DropsTheParked(InjectedFault):
    """A publish that is parked is forgotten, once in a while."""

    def __init__(self) -> None:
        self.met: list[Message] = []

    def act(self, broker: Broker) -> None:
        for channel in channels_of(broker):
            for line in channel.parking.lines.values():
                parked = line.front[int(line.head)]
                if parked in self.met or line.count() == 1:
                    continue
                self.met.append(parked)
                if len(self.met) % 2 == 0:
                    channel.parking.left(line, 1, parked_size(parked))


class OvertakesTheParked(InjectedFault):
    """The publish behind the parked one is handed over first."""

    def __init__(self) -> None:
        self.met: list[Message] = []

    def act(self, broker: Broker) -> None:
        for channel in channels_of(broker):
            for line in channel.parking.lines.values():
                for parked, behind in pairwise(line.in_memory()):
                    is_alike = behind.address.method == parked.address.method
                    is_alike = is_alike and behind.body_bytes == parked.body_bytes
                    if is_alike and parked not in self.met:
                        self.met.append(parked)
                        behind.raw, parked.raw = parked.raw, behind.raw
                        break


class EscapesWithoutCount(InjectedFault):
    """Publishes that are forced past closed hops are not counted."""

    def act(self, broker: Broker) -> None:
        for channel in channels_of(broker):
            channel.escapes = 0


class ForgetsWhoIsParked(InjectedFault):
    """Nobody is told that the hop of a parked publish is open again."""

    def act(self, broker: Broker) -> None:
        for channel in channels_of(broker):
            if channel.parking.opened and channel.is_ready:
                channel.is_ready = False
                broker.scheduler.ready.remove(channel)


# -- accounts --------------------------------------------------------------------------------------


class RepaysThePageOnly(InjectedFault):
    """A page that is limited is not told of what the pages below it repay."""

    def __init__(self) -> None:
        self.below: dict[Account, int] = {}

    def act(self, broker: Broker) -> None:
        page = broker.node_account
        if page.is_limited:
            page.below_messages = max(self.below.get(page, 0), int(page.below_messages))
            self.below[page] = int(page.below_messages)


class KeepsWhatWasPurged(InjectedFault):
    """Messages that are purged stay on the page of who published them."""

    def __init__(self) -> None:
        self.stored: dict[QueueActor, tuple[int, int]] = {}

    def act(self, broker: Broker) -> None:
        now: dict[QueueActor, tuple[int, int]] = {}
        pages = [one.account for one in broker.connections.values()]
        for queue in queues_of(broker):
            messages = queue.messages
            now[queue] = (int(messages.ready_count()), int(messages.deliver_count))
            ready, delivered = self.stored.get(queue, (0, 0))
            is_purged = ready > 0 and now[queue] == (0, delivered)
            if is_purged and pages:
                pages[0].store(ready, 100 * ready)
        self.stored = now


class KeepsTheDebtOfASocket(InjectedFault):
    """What waited for a consumer's socket is still owed when the socket has taken it or is gone."""

    def __init__(self) -> None:
        self.owed: dict[str, tuple[Account, int]] = {}

    def act(self, broker: Broker) -> None:
        now: dict[str, tuple[Account, int]] = {}
        for name, connection in broker.connections.items():
            for run in connection.output.runs:
                if isinstance(run.origin, Account) and run.bytes_ > 0:
                    now[name] = (run.origin, int(run.bytes_))
        for name, (page, size) in self.owed.items():
            if name not in now:
                page.charge(0, size)
        self.owed = now


# -- consumers -------------------------------------------------------------------------------------


class LeaksPrefetchOnRequeue(InjectedFault):
    """The bytes of a delivery that comes back stay in its consumer's window."""

    def __init__(self) -> None:
        self.requeued: dict[QueueActor, int] = {}

    def act(self, broker: Broker) -> None:
        for queue in queues_of(broker):
            count = int(queue.messages.requeue_count)
            if count > self.requeued.get(queue, count) and queue.consumers:
                next(iter(queue.consumers)).unacked_bytes += 100
            self.requeued[queue] = count


class ForgetsAReadyConsumer(InjectedFault):
    """A consumer that has room again is not put back into the ring."""

    def act(self, broker: Broker) -> None:
        for queue in queues_of(broker):
            for consumer in queue.consumers:
                if consumer.delivered >= 3 and consumer.is_ready:
                    consumer.is_ready = False
                    queue.ready.remove(consumer)


class HidesMessages(InjectedFault):
    """Somebody keeps what passes through, and nobody counts it (C7)."""

    def act(self, broker: Broker) -> None:
        hidden = broker.__dict__.setdefault("hidden", [])
        for lane in hops_of(broker.connections):
            hidden += lane.items[int(lane.head) :]


class NeverWakes(InjectedFault):
    """Nobody is woken when a rate limit has tokens again."""

    def act(self, broker: Broker) -> None:
        broker.dues.waker = Waker()
