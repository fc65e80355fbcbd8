"""The random exchange: every message to one of its destinations, each as likely. COMPILED.

Bindings count, not destinations: who is bound twice, with another key, gets twice as much. Routing
keys say nothing else. The sequence follows from the exchange's name alone, so that a seeded run
can be replayed. Source: RabbitMQ's rabbitmq_random_exchange.
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.mixing import mixed, text_number

RANDOM: Final = "x-random"


class RandomExchange(Exchange):
    """It says that it looks at headers: its choice must not be remembered by routing key."""

    __slots__ = ("_bound", "_number", "_ready")

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(RANDOM, name, durable, auto_delete, internal, arguments, False, True, True)
        self._bound: dict[tuple[Destination, str, str], Destination] = {}
        self._ready: list[Destination] | None = None
        self._number: i64 = text_number(name)

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append one destination; none if nothing is bound."""
        ready = self._ready
        if ready is None:
            ready = list(self._bound.values())
            self._ready = ready
        count: i64 = len(ready)
        if count == 0:
            return
        self._number = (self._number + 1) & 0xFFFFFFFF
        found.append(ready[mixed(self._number) % count])

    def index(self, binding: Binding) -> None:
        """Add a lot for the binding."""
        self._bound[(binding.destination, binding.routing_key, binding.identity)] = (
            binding.destination
        )
        self._ready = None

    def unindex(self, binding: Binding) -> None:
        """Take the lot of the equal binding away."""
        del self._bound[(binding.destination, binding.routing_key, binding.identity)]
        self._ready = None
