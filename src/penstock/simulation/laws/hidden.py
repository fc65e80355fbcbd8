"""C7: everything that can grow is on some account: no message is kept where nobody counts it.

The collector's own view of the broker is walked from its root, and every message that is found
must be in a place that has a bound and an owner:

    mailboxes      debt of the publisher's account       parked, held, stopped   PARKED_BYTES
    queues         stored bytes, depth, memory alarm     unanswered              prefetch, stored
    transactions   their own bound                       scratch                 one a connection
    stores         debt, or UNCHARGED_BYTES a queue and a batch of BATCH_BYTES
"""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol.content import Message
from penstock.queues.ring import BLANK
from penstock.simulation.machine.faults import LawBroken

ATOMS = (str, bytes, bytearray, int, float, bool, type(None), type, ModuleType)
CODE = (FunctionType, BuiltinFunctionType, MethodType)
OUTSIDE = ("penstock.simulation", "penstock.client", "tests.")
"""The world around the broker holds messages of its own."""


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


def counted_messages(broker: Broker) -> Iterator[Message]:
    """Every message in a place with a bound and an owner."""
    for connection in broker.connections.values():
        if connection.received.message is not None:
            yield connection.received.message
        for channel in connection.channels.values():
            yield from channel_messages(channel)
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
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
    for parked in channel.parking.entries():
        yield parked.message
    if channel.transaction is not None:
        yield from channel.transaction.messages
    for entry in (*channel.table.entries, *channel.table.old.values()):
        if entry is not None:
            yield entry.message


def queue_messages(queue: QueueActor) -> Iterator[Message]:
    """Mailboxes and what rests."""
    for lane in queue.lanes:
        yield from lane.items
    yield from queue.messages.ready_messages()
