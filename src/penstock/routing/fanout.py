"""The fanout exchange: every binding matches every message. COMPILED."""

from collections.abc import Mapping

from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination, Targets
from penstock.routing.exchange import Exchange


class FanoutExchange(Exchange):
    """Every bound destination gets everything, whatever the routing keys say."""

    __slots__ = ("_targets",)

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            "fanout", name, durable, auto_delete, internal, arguments, False, False, True
        )
        self._targets = Targets()

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append every bound destination, each once."""
        self._targets.give(found)

    def index(self, binding: Binding) -> None:
        """Count one more binding to its destination."""
        self._targets.hold(binding.destination)

    def unindex(self, binding: Binding) -> None:
        """Count one binding less to its destination."""
        self._targets.release(binding.destination)
