"""What x-queue-type asks for: which properties and arguments a queue of that type may have.

    classic   one copy; any properties
    quorum    taken with one replica, on this node: it has to be durable, shared and named by the
              client, and gives a message up after QUORUM_DELIVERY_LIMIT redeliveries
    stream    a log that many read, each from a place of its own; durable, shared and named by the
              client too, see broker/stream/stream_actor

Codes and texts are those of RabbitMQ's rabbit_quorum_queue; the limit is that of RabbitMQ 4.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.broker.actors.log import Log
from penstock.broker.vhost.queue_arguments import check_classic_consumer
from penstock.broker.vhost.stream_arguments import STREAM, check_stream, check_stream_consumer
from penstock.protocol import methods as m
from penstock.queues.rules import QUORUM, QUORUM_DELIVERY_LIMIT

TYPE_KEY: Final = "x-queue-type"
NOT_OF_QUORUM: Final = ("x-max-priority", "x-queue-mode", "x-queue-version")


def is_quorum(table: Mapping[str, object]) -> bool:
    """Whether a queue with these arguments is declared as a quorum queue."""
    return table.get(TYPE_KEY) == QUORUM


def is_stream(table: Mapping[str, object]) -> bool:
    """Whether a queue with these arguments is declared as a stream."""
    return table.get(TYPE_KEY) == STREAM


def type_of(table: Mapping[str, object]) -> str:
    """The type of a queue with these arguments, as x-queue-type has it."""
    if is_stream(table):
        return STREAM
    return QUORUM if is_quorum(table) else "classic"


def type_in_words(table: Mapping[str, object]) -> str:
    """What the type makes of a queue, for listings; "" for a classic one."""
    if is_stream(table):
        return STREAM
    return "quorum (1 replica)" if is_quorum(table) else ""


def check_type(name: str, vhost: str, table: Mapping[str, object]) -> None:
    """Raise ChannelFault 406 for a name or an argument that queues of this type do not have."""
    if is_stream(table):
        check_stream(name, vhost, table)
        return
    if not is_quorum(table):
        return
    if name == "":
        raise _fault("Cannot declare a server-named queue for type rabbit_quorum_queue")
    for key in NOT_OF_QUORUM:
        if key in table:
            raise _fault(
                f"invalid arg '{key}' for queue '{name}' in vhost '{vhost}' of queue type "
                "rabbit_quorum_queue"
            )


def check_consumer(
    name: str, vhost: str, table: Mapping[str, object], q: m.BasicConsume, prefetch: int
) -> None:
    """Raise ChannelFault 406 if the queue with the arguments `table` has no consumer as `q` asks
    for. prefetch: of its channel."""
    if is_stream(table):
        check_stream_consumer(name, vhost, q, prefetch)
    else:
        check_classic_consumer(name, vhost, q.arguments)


def check_properties(
    name: str,
    vhost: str,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    table: Mapping[str, object],
) -> None:
    """Raise ChannelFault 406 for a new queue with a property that this type does not have."""
    if not is_quorum(table) and not is_stream(table):
        return
    for has_it, word in (
        (auto_delete, "auto-delete"),
        (exclusive, "exclusive-owner"),
        (not durable, "non-durable"),
    ):
        if has_it:
            raise _fault(f"invalid property '{word}' for queue '{name}' in vhost '{vhost}'")


def _fault(text: str) -> ChannelFault:
    return ChannelFault(406, text, 50, 10)


class KindNotes:
    """Says in the log what a quorum queue is here. Once, because applications declare many."""

    __slots__ = ("is_said", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.is_said = False

    def made(self, vhost: str, name: str, table: Mapping[str, object]) -> None:
        """A queue has been declared."""
        if not self.is_said and is_quorum(table):
            self.is_said = True
            self.log.warning(
                f"queue '{name}' in vhost '{vhost}' is declared with {TYPE_KEY} 'quorum': quorum "
                "queues have 1 replica here, on this node, as any durable queue; a message is "
                f"given up after {QUORUM_DELIVERY_LIMIT} redeliveries unless x-delivery-limit or "
                "a policy says otherwise"
            )
