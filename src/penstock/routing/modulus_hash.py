"""The modulus hash exchange: the routing key's hash, modulo the bindings, chooses one. COMPILED.

Bindings are in the order of their destinations' names, then keys, so that the order of binding
plays no part; one more or one less of them sends most keys somewhere else, which is what tells it
from x-consistent-hash. Binding keys say nothing but that they differ: a destination bound twice
gets twice as much. Source: RabbitMQ's rabbitmq_sharding (x-modulus-hash).
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.mixing import text_number

MODULUS_HASH: Final = "x-modulus-hash"


class ModulusHashExchange(Exchange):
    """Its bindings, ready in order once a message came after the last change."""

    __slots__ = ("_bound", "_ready")

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            MODULUS_HASH, name, durable, auto_delete, internal, arguments, True, False, True
        )
        self._bound: list[Binding] = []
        self._ready: list[Destination] | None = None

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append one destination; none if nothing is bound. A message goes to one, by its own
        routing key: those of CC and BCC do not count."""
        if found:
            return
        ready = self._ready
        if ready is None:
            ready = [binding.destination for binding in sorted(self._bound, key=_place_of)]
            self._ready = ready
        count: i64 = len(ready)
        if count > 0:
            found.append(ready[text_number(routing_key) % count])

    def index(self, binding: Binding) -> None:
        """Give the binding its place."""
        self._bound.append(binding)
        self._ready = None

    def unindex(self, binding: Binding) -> None:
        """Take the place of the equal binding away."""
        place = _place_of(binding)
        for index in range(len(self._bound)):
            if (
                self._bound[index].destination is binding.destination
                and _place_of(self._bound[index]) == place
            ):
                del self._bound[index]
                break
        self._ready = None


def _place_of(binding: Binding) -> tuple[str, bool, str, str]:
    """What bindings are ordered by: also whether it leads to an exchange, which may have the name
    of a queue."""
    is_exchange = isinstance(binding.destination, Exchange)
    return binding.destination.name, is_exchange, binding.routing_key, binding.identity
