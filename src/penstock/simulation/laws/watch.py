"""Laws between two moments: what may not have happened since the last look; and who counts memory.

    C3 deferral      while a gate stays closed no grant leaves it, and what it keeps only grows
    C4 peer death    no hop leads to an actor that is gone, and no gate is held by one
    C5 once          a mailbox is emptied from its head: nothing is skipped, nothing comes back
    C6 liveness      no hop and no connection is held longer than HELD_NS_MAX
    C7 accounts      everything that can grow is on some account
    C8 independence  a connection that never published is never held for it; with parking, it is
                     read on until a second publish would have to wait
    C9 alarms        only alarms of the broker are known to a connection; while one is, no publish
                     gets past it, unless it is forced and counted
The numbers are those of the design's list of flow invariants; the rest of it is in `checks`.
Every `close` of a gate has a time of its own because the virtual clock ticks with each look, so
"the same time" means "never opened since".

For C7 the collector's own view of the broker is walked from its root, and every message that is
found must be in a place that has a bound and an owner:

    mailboxes      debt of the publisher's account       parked, held, stopped   PARKED_BYTES
    queues         stored bytes, depth, memory alarm     unanswered              prefetch, stored
    transactions   their own bound                       scratch                 one a connection
    stores         debt, or UNCHARGED_BYTES a queue and a batch of BATCH_BYTES
    on their way to the disk of a lot, and from it       PARKED_BYTES, PARKED_WRITE_BYTES
"""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from penstock.broker.actors.lane import Lane
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.flow.gate import Gate
from penstock.protocol.content import Message
from penstock.queues.consumers import Delivery
from penstock.queues.ring import BLANK
from penstock.simulation.laws.parking_laws import rests_of, spilled_messages
from penstock.simulation.machine.faults import LawBroken

HELD_NS_MAX = 60_000_000_000
"""Of virtual time, while every consumer goes on and every alarm is cleared sooner (C6)."""

PUBLISHERS_ONLY = ("alarm", "credit", "debt", "pending", "rate")
"""Reasons that concern publishes: no other connection is held for them (C8)."""
ATOMS = (str, bytes, bytearray, int, float, bool, type(None), type, ModuleType)
CODE = (FunctionType, BuiltinFunctionType, MethodType)
OUTSIDE = ("penstock.simulation", "penstock.client", "tests.")
"""The world around the broker holds messages of its own."""


class HopSeen:
    """One hop as it was at the last look."""

    def __init__(self, lane: Lane) -> None:
        self.waiting: list[Message] = []
        self.blocks = -1
        self.closed_since_ns = 0
        self.seen_at = 0
        self.note(lane, [])

    def note(self, lane: Lane, waiting: list[Message]) -> None:
        self.epoch = int(lane.epoch)
        self.used = int(lane.window - lane.balance)
        self.deferred = int(lane.deferred)
        gate = lane.receiver_gate
        self.kept_since_ns = -1 if gate.is_granting else gate.blocked_at_ns
        self.waiting = waiting


class Watch:
    """Over one broker. Reads only; remembers one look."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._edges: dict[Lane, HopSeen] = {}
        self._looks = 0
        self._passed: dict[Channel, tuple[int, int]] = {}

    def look(self, now_ns: int) -> None:
        """Compare with the last look. Raises: LawBroken."""
        self._looks += 1
        alarms = self.broker.alarms
        passed: dict[Channel, tuple[int, int]] = {}
        for connection in self.broker.connections.values():
            self._connection(connection, now_ns)
            for source in connection.alarms:
                if source not in alarms:
                    raise LawBroken(f"C9: {connection.identity} is held by {source}, which is over")
            for channel in connection.channels.values():
                upstream = channel.upstream
                publisher = channel.publisher
                if upstream is None or publisher is None:
                    continue
                self._edge(upstream, now_ns)
                for lane in publisher.lanes.values():
                    self._edge(lane, now_ns)
                for peer, reason in channel.gate.reasons:
                    if reason == "credit" and peer not in (
                        lane.receiver for lane in publisher.lanes.values()
                    ):
                        raise LawBroken(f"C4: {channel.identity} is held by {peer}, which is gone")
                if connection.alarms:
                    self._alarmed(channel, upstream, passed)
        self._passed = passed
        if len(self._edges) > 64:
            looks = self._looks
            self._edges = {
                lane: edge for lane, edge in self._edges.items() if edge.seen_at == looks
            }

    def _edge(self, lane: Lane, now_ns: int) -> None:
        edge = self._edges.get(lane)
        if edge is None:
            edge = self._edges[lane] = HopSeen(lane)
        edge.seen_at = self._looks
        if not lane.receiving.is_alive:
            raise LawBroken(f"C4: {lane.name} leads to somebody who is gone")
        waiting = lane.items[lane.head :] if lane.items else []
        if edge.epoch == lane.epoch:
            gate = lane.receiver_gate
            if not gate.is_granting and gate.blocked_at_ns == edge.kept_since_ns:
                used = int(lane.window - lane.balance)
                if lane.window > 0 and used < edge.used:
                    raise LawBroken(
                        f"C3: {lane.name}: {edge.used - used} granted behind a closed gate"
                    )
                if lane.deferred < edge.deferred:
                    raise LawBroken(f"C3: {lane.name}: kept grants have become fewer")
            if edge.waiting and waiting:
                check_taken_in_order(lane.name, edge.waiting, waiting)
        if lane.is_spent:
            if edge.blocks != lane.blocks:
                edge.blocks = int(lane.blocks)
                edge.closed_since_ns = now_ns
            elif now_ns - edge.closed_since_ns > HELD_NS_MAX:
                raise LawBroken(f"C6: {lane.name} has been closed for more than a minute")
        edge.note(lane, waiting)

    def _connection(self, connection: Connection, now_ns: int) -> None:
        gate = connection.gate
        if not gate.is_open:
            self._held(connection, gate, now_ns)
        if connection.is_told_blocked:
            if not connection.alarms:
                raise LawBroken(f"C9: {connection.identity} is told that it is blocked by nothing")
            if not connection.receive_count:
                raise LawBroken(f"C8: {connection.identity} never published and is told blocked")

    def _held(self, connection: Connection, gate: Gate, now_ns: int) -> None:
        name = connection.identity
        if now_ns - gate.blocked_at_ns > HELD_NS_MAX:
            raise LawBroken(f"C6: {name} has been held for more than a minute: {gate.snapshot()}")
        for peer, reason in gate.reasons:
            if reason in PUBLISHERS_ONLY and not connection.receive_count:
                raise LawBroken(f"C8: {name} never published and is held for {reason}")
            if reason == "credit":
                numbers = [one for one in connection.channels.values() if one.identity == peer]
                if not numbers:
                    raise LawBroken(f"C4: {name} is held by {peer}, which is gone")
                if connection.is_parking and is_forgotten(connection.stop.channel):
                    raise LawBroken(f"C8: {name} is not read, although {peer} keeps no publish")

    def _alarmed(
        self, channel: Channel, upstream: Lane, passed: dict[Channel, tuple[int, int]]
    ) -> None:
        count = int(channel.inbox.taken) + len(upstream.items) - int(upstream.head)
        passed[channel] = (count, int(channel.escapes))
        before = self._passed.get(channel)
        if before is not None and before[1] == channel.escapes and count > before[0]:
            raise LawBroken(
                f"C9: {channel.identity}: {count - before[0]} publishes got past an alarm"
            )


def is_forgotten(stopped: Channel | None) -> bool:
    """Whether the publish of `stopped` that has no place has one by now, and nobody will ask. What
    waits for room of the node is asked again when a part of it is free that is worth it."""
    overflow = None if stopped is None else stopped.parking.overflow
    if stopped is None or overflow is None or not stopped.parking.has_place(overflow.message):
        return False
    lot = stopped.parking.lot
    return lot.wake not in lot.node.waiting or lot.node.bytes <= lot.node.wake_at


def check_taken_in_order(name: str, before: list[Message], now: list[Message]) -> None:
    """`now` begins with the end of `before`, unless all of that is gone. Raises: LawBroken."""
    first = now[0]
    for at, message in enumerate(before):
        if message is first:
            rest = before[at:]
            if len(rest) > len(now) or any(a is not b for a, b in zip(rest, now, strict=False)):
                raise LawBroken(f"C5: {name}: the mailbox was not emptied from its head")
            return
    last = before[-1]
    if any(message is last for message in now):
        raise LawBroken(f"C5: {name}: a publish came before what was already waiting")


def check_nothing_is_hidden(broker: Broker) -> None:
    """Raises: LawBroken when the broker keeps a message in no counted place. Some milliseconds."""
    counted = {id(message) for message in counted_messages(broker)}
    counted.add(id(BLANK))
    hidden = [message for message in reachable_messages(broker) if id(message) not in counted]
    if hidden:
        size = sum(len(message.raw) for message in hidden)
        raise LawBroken(f"C7: {len(hidden)} messages of {size} bytes are on nobody's account")


def reachable_messages(root: object) -> list[Message]:
    """Every message that can be reached from `root`, each once."""
    found: list[Message] = []
    seen = {id(root)}
    stack: list[object] = [root]
    while stack:
        for item in gc.get_referents(stack.pop()):
            if isinstance(item, (*ATOMS, *CODE)) or id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, Message):
                found.append(item)
            elif not type(item).__module__.startswith(OUTSIDE):
                stack.append(item)
    return found


def queues_of(broker: Broker) -> list[QueueActor]:
    """Of all virtual hosts."""
    return [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]


def channels_of(broker: Broker) -> list[Channel]:
    """Of all connections."""
    return [one for link in broker.connections.values() for one in link.channels.values()]


def unanswered(channel: Channel) -> list[Delivery]:
    """What its client was given and has not answered, or has and is not settled yet, in no
    order."""
    table = channel.table
    settling = [] if channel.settling is None else channel.settling.left
    return [one for one in (*table.old.values(), *table.entries, *settling) if one is not None]


def counted_messages(broker: Broker) -> Iterator[Message]:
    """Every message in a place with a bound and an owner."""
    found = broker.scheduler.received.message
    if found is not None:
        yield found
    for connection in broker.connections.values():
        for channel in connection.channels.values():
            yield from channel_messages(channel)
        yield from spilled_messages(connection.lot)
    for channel in rests_of(broker):
        yield from channel_messages(channel)
        yield from spilled_messages(channel.parking.lot)
    for queue in queues_of(broker):
        yield from queue_messages(queue)
    for store in broker.stores.by_name.values():
        for request in store.requests():
            yield from request.messages
    for streams in broker.streams.stores.values():
        for one in streams.requests():
            yield from one.messages


def channel_messages(channel: Channel) -> Iterator[Message]:
    """Mailbox, parked, unanswered, and a transaction's."""
    if channel.upstream is not None:
        yield from channel.upstream.items
    yield from channel.parking.messages()
    if channel.transaction is not None:
        yield from channel.transaction.messages
    for delivery in unanswered(channel):
        yield delivery.message


def queue_messages(queue: QueueActor) -> Iterator[Message]:
    """Mailboxes and what rests."""
    for lane in queue.lanes:
        yield from lane.items
    yield from queue.messages.ready_messages()
