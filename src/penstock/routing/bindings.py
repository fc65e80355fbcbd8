"""The set of bindings of one exchange, grouped by destination. COMPILED.

A binding is (destination, routing key, arguments); binding twice with equal arguments is binding
once (AMQP 0-9-1, queue.bind, rule "duplicates"). Each operation is O(1) beside the size of the
arguments; losing a destination is O(bindings to that destination).
"""

from collections.abc import Mapping

from penstock.base.limits import (
    HEADERS_EXCHANGE_VALUES,
    HEADERS_VALUES,
    TOPIC_HASHES,
    TOPIC_POSITIONS,
)
from penstock.routing.canonical import canonical
from penstock.routing.destination import Destination


class Binding:
    """One binding. `arguments`: its own copy, never changed; `identity`: their canonical text."""

    __slots__ = ("arguments", "destination", "identity", "routing_key")

    def __init__(
        self, destination: Destination, routing_key: str, arguments: Mapping[str, object] | None
    ) -> None:
        self.destination = destination
        self.routing_key = routing_key
        self.arguments: dict[str, object] = dict(arguments) if arguments else {}
        self.identity = canonical(arguments)


class BindingBounds:
    """What bindings may make a match cost, see limits of the same names. They are asked of what
    clients and definitions bind; what the broker kept is restored as it is."""

    __slots__ = ("headers_exchange_values", "headers_values", "topic_hashes", "topic_positions")

    def __init__(
        self,
        topic_hashes: int = TOPIC_HASHES.default,
        topic_positions: int = TOPIC_POSITIONS.default,
        headers_values: int = HEADERS_VALUES.default,
        headers_exchange_values: int = HEADERS_EXCHANGE_VALUES.default,
    ) -> None:
        self.topic_hashes = topic_hashes
        self.topic_positions = topic_positions
        self.headers_values = headers_values
        self.headers_exchange_values = headers_exchange_values


class Bindings:
    """All bindings of one exchange, in the order in which their destinations were first bound."""

    __slots__ = ("_by_destination", "count")

    def __init__(self) -> None:
        self._by_destination: dict[Destination, dict[tuple[str, str], Binding]] = {}
        self.count = 0

    def add(self, binding: Binding) -> bool:
        """Add `binding`; False and no change if an equal one is there."""
        group = self._by_destination.get(binding.destination)
        if group is None:
            group = {}
            self._by_destination[binding.destination] = group
        key = (binding.routing_key, binding.identity)
        if key in group:
            return False
        group[key] = binding
        self.count += 1
        return True

    def remove(self, binding: Binding) -> bool:
        """Remove the binding equal to `binding`; False and no change if there is none."""
        group = self._by_destination.get(binding.destination)
        if group is None:
            return False
        key = (binding.routing_key, binding.identity)
        if key not in group:
            return False
        del group[key]
        if not group:
            del self._by_destination[binding.destination]
        self.count -= 1
        return True

    def remove_destination(self, destination: Destination) -> list[Binding]:
        """Remove and return every binding to `destination`; empty if it is not bound."""
        group = self._by_destination.pop(destination, None)
        if group is None:
            return []
        self.count -= len(group)
        return list(group.values())

    def has(self, binding: Binding) -> bool:
        """True if a binding equal to `binding` is there."""
        group = self._by_destination.get(binding.destination)
        return group is not None and (binding.routing_key, binding.identity) in group

    def is_bound(self, destination: Destination) -> bool:
        """True while at least one binding leads to `destination`."""
        return destination in self._by_destination

    def to_destination(self, destination: Destination) -> tuple[Binding, ...]:
        """The bindings to one destination, oldest first."""
        group = self._by_destination.get(destination)
        return () if group is None else tuple(group.values())

    def destinations(self) -> tuple[Destination, ...]:
        """Every bound destination once."""
        return tuple(self._by_destination)

    def listing(self) -> tuple[Binding, ...]:
        """Every binding, grouped by destination, oldest first within a group."""
        found: list[Binding] = []
        for group in self._by_destination.values():
            found.extend(group.values())
        return tuple(found)
