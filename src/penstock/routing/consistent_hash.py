"""The consistent hash exchange: every message to one destination, the same for the same hash.
COMPILED.

The binding key is the weight of its destination. What is hashed is the routing key, or what
`hash-header`, `x-hash-on` (another name for it) or `hash-property` names; a message without it goes
where all such messages go.

There is no ring: each destination draws a number from the hash and its own name, as if from a die
of its own, and the best draw wins, where a weight of n is n draws (rendezvous hashing):

    draw = ln(uniform(hash, name)) / weight        the greatest wins

So a binding that comes takes messages away only for its own destination, one that goes gives away
only its own, and the order of binding plays no part. A match costs O(destinations), about 20 ns
each. Source: RabbitMQ's rabbitmq_consistent_hash_exchange; Schindelhauer and Schomaker, "Weighted
Distributed Hash Tables", 2005.
"""

import math
from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding
from penstock.routing.canonical import canonical_value
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.mixing import MIXED_SPAN, mixed, text_number

CONSISTENT_HASH: Final = "x-consistent-hash"
HASHED_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")
_PRECONDITION_FAILED: Final = 406


def property_name(name: str) -> str:
    """Under what name the headers given to `match` hold the property `name`, apart from headers."""
    return "\0" + name


class Drawer:
    """A destination that draws. `weight`: of all its bindings together; `share`: the same, to
    divide by."""

    __slots__ = ("destination", "seed", "share", "weight")

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        kind = "exchange " if isinstance(destination, Exchange) else "queue "
        self.seed: i64 = text_number(kind + destination.name)
        self.weight = 0
        self.share = 0.0

    def gain(self, weight: int) -> None:
        """Have `weight` more, or less if it is negative."""
        self.weight += weight
        self.share = float(self.weight)


class ConsistentHashExchange(Exchange):
    """hashed: under what name the hashed value stands in the headers, "" for the routing key."""

    __slots__ = ("_drawers", "_ready", "hashed")

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        hashed = _hashed(arguments or {})
        super().__init__(
            CONSISTENT_HASH,
            name,
            durable,
            auto_delete,
            internal,
            arguments,
            hashed == "",
            hashed != "",
            True,
        )
        self.hashed = hashed
        self.needs_properties = hashed.startswith("\0")
        self._drawers: dict[Destination, Drawer] = {}
        self._ready: list[Drawer] | None = None

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the destination of the greatest draw; none if nothing is bound. A message goes to
        one destination, by its own routing key: those of CC and BCC draw nothing."""
        if found:
            return
        text = routing_key
        if self.hashed != "":
            value = headers.get(self.hashed) if headers is not None else None
            text = value if isinstance(value, str) else canonical_value(value)
        ready = self._ready
        if ready is None:
            # Equal draws go by name, so that the order of binding plays no part.
            ready = sorted(self._drawers.values(), key=_name_of)
            self._ready = ready
        number = text_number(text)
        winner: Drawer | None = None
        best = 0.0
        for drawer in ready:
            drawn: i64 = mixed(number ^ drawer.seed)
            draw = math.log((float(int(drawn)) + 1.0) / MIXED_SPAN) / drawer.share
            if winner is None or draw > best:
                winner = drawer
                best = draw
        if winner is not None:
            found.append(winner.destination)

    def check(self, binding: Binding) -> None:
        """Refuse a weight that is not 1 or more.

        Raises: ChannelFault 406 with RabbitMQ's text.
        """
        key = binding.routing_key
        digits = key[1:] if key[:1] in ("-", "+") else key
        if not (digits.isascii() and digits.isdigit()):
            said = f'"{key}"' if key else ""
            raise ChannelFault(
                _PRECONDITION_FAILED, f"The binding key must be an integer: <<{said}>>"
            )
        if int(key) < 1:
            raise ChannelFault(_PRECONDITION_FAILED, "The binding key must be greater than 0")

    def index(self, binding: Binding) -> None:
        """Let the destination draw, or with more weight than before."""
        drawer = self._drawers.get(binding.destination)
        if drawer is None:
            drawer = Drawer(binding.destination)
            self._drawers[binding.destination] = drawer
            self._ready = None
        drawer.gain(int(binding.routing_key))

    def unindex(self, binding: Binding) -> None:
        """Take the weight of the equal binding away, with the last one the destination."""
        drawer = self._drawers[binding.destination]
        drawer.gain(-int(binding.routing_key))
        if drawer.weight == 0:
            del self._drawers[binding.destination]
            self._ready = None


def _name_of(drawer: Drawer) -> str:
    return drawer.destination.name


def _hashed(arguments: Mapping[str, object]) -> str:
    """What an exchange declared with `arguments` hashes. Raises: ChannelFault 406."""
    header = arguments.get("hash-header", arguments.get("x-hash-on"))
    named = arguments.get("hash-property")
    if header is not None and named is not None:
        raise ChannelFault(
            _PRECONDITION_FAILED, "hash-header and hash-property are mutually exclusive"
        )
    if named is not None:
        if not isinstance(named, str) or named not in HASHED_PROPERTIES:
            raise ChannelFault(_PRECONDITION_FAILED, f"Unsupported property: {named}")
        return property_name(named)
    if header is None:
        return ""
    if not isinstance(header, str) or header == "":
        raise ChannelFault(_PRECONDITION_FAILED, f"hash-header must name a header, not {header!r}")
    return header
