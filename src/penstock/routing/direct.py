"""The direct exchange: a binding matches if its key is the message's routing key. COMPILED."""

from collections.abc import Mapping

from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination, Targets
from penstock.routing.exchange import Exchange


class DirectExchange(Exchange):
    """One dictionary from routing key to destinations. A match costs one look-up."""

    __slots__ = ("_by_key",)

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            "direct", name, durable, auto_delete, internal, arguments, True, False, True
        )
        self._by_key: dict[str, Targets] = {}

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the destinations bound with exactly `routing_key`, each once."""
        targets = self._by_key.get(routing_key)
        if targets is not None:
            targets.give(found)

    def index(self, binding: Binding) -> None:
        """Add the destination under its key."""
        targets = self._by_key.get(binding.routing_key)
        if targets is None:
            targets = Targets()
            self._by_key[binding.routing_key] = targets
        targets.hold(binding.destination)

    def unindex(self, binding: Binding) -> None:
        """Take the destination from under its key, and the key with the last one."""
        if self._by_key[binding.routing_key].release(binding.destination):
            del self._by_key[binding.routing_key]
