"""Super streams: an exchange and the streams bound to it, its partitions, in their order.

As in RabbitMQ a super stream is nothing but an exchange, streams and bindings, so any client can
declare one, and what is known of it is what is bound. Partitions are in the order of the argument
`x-stream-partition-order` of their bindings.
"""

from dataclasses import dataclass
from typing import Final

from penstock.broker.vhost.queue_arguments import is_stream
from penstock.broker.vhost.vhost import VirtualHost
from penstock.routing.bindings import Binding
from penstock.routing.exchange import Exchange
from penstock.routing.super_stream import PARTITION_ORDER, SUPER_STREAM

LAST: Final = 2**63
"""Place of a binding that does not say its own."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A stream of a super stream. routing_key: its binding's, the number of the partition where
    keys are hashed."""

    name: str
    routing_key: str


def is_super_stream(exchange: Exchange) -> bool:
    """Whether `exchange` says so, by its type or its argument x-super-stream."""
    return exchange.kind == SUPER_STREAM or exchange.arguments.get(SUPER_STREAM) is True


def partitions_of(vhost: VirtualHost, exchange: Exchange) -> list[Partition]:
    """The streams bound to `exchange`, each once, in order. Linear in its bindings."""
    found: dict[str, tuple[int, str, str]] = {}
    for binding in exchange.bindings():
        name = binding.destination.name
        actor = vhost.queues.get(name)
        # An exchange may have the name of a stream.
        if actor is None or actor.target is not binding.destination:
            continue
        if is_stream(actor.arguments):
            place = (_order_of(binding), name, binding.routing_key)
            found[name] = min(place, found.get(name, place))
    return [Partition(name, key) for _, name, key in sorted(found.values())]


def _order_of(binding: Binding) -> int:
    order = binding.arguments.get(PARTITION_ORDER)
    return order if isinstance(order, int) else LAST
