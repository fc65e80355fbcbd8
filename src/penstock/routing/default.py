"""The default exchange: every queue is bound to it by the queue's own name. COMPILED."""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueLookup
from penstock.routing.exchange import Exchange

DEFAULT_EXCHANGE_NAME: Final = ""
_ACCESS_REFUSED: Final = 403


class DefaultExchange(Exchange):
    """The exchange without a name, over a queue lookup.

    It may be named as an alternate exchange: the queue called as the routing key then gets what
    the other exchange could not place. (RabbitMQ finds no queue that way since 3.8, when it
    stopped storing the default bindings; a message that has a queue is not dropped here.)
    """

    __slots__ = ("_lookup",)

    def __init__(self, lookup: QueueLookup) -> None:
        super().__init__(
            "direct", DEFAULT_EXCHANGE_NAME, True, False, False, None, True, False, True
        )
        self._lookup = lookup

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the queue called `routing_key`, if there is one."""
        queue = self._lookup.find_queue(routing_key)
        if queue is not None:
            found.append(queue)

    def check(self, binding: Binding) -> None:
        """Refuse every binding.

        Raises: ChannelFault 403 with RabbitMQ's text.
        """
        raise ChannelFault(_ACCESS_REFUSED, "operation not permitted on the default exchange")
