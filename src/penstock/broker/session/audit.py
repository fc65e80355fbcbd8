"""What clients do to topology, for a log that says who did what, when and from where."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock.protocol import methods as m

QUEUE: Final = ("queue",)
EXCHANGE: Final = ("exchange",)
QUEUE_BINDING: Final = ("queue", "exchange", "routing_key")
EXCHANGE_BINDING: Final = ("destination", "source", "routing_key")

AUDITED: Final[Mapping[type[m.Method], tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        m.ExchangeDeclare: ("exchange.declare", (*EXCHANGE, "type", "durable")),
        m.ExchangeDelete: ("exchange.delete", EXCHANGE),
        m.ExchangeBind: ("exchange.bind", EXCHANGE_BINDING),
        m.ExchangeUnbind: ("exchange.unbind", EXCHANGE_BINDING),
        m.QueueDeclare: ("queue.declare", (*QUEUE, "durable", "exclusive")),
        m.QueueDelete: ("queue.delete", QUEUE),
        m.QueuePurge: ("queue.purge", QUEUE),
        m.QueueBind: ("queue.bind", QUEUE_BINDING),
        m.QueueUnbind: ("queue.unbind", QUEUE_BINDING),
    }
)
"""What it is called, and which of its fields are written down."""


class Audit:
    """Keeps nothing. Nominal base; the server's writes to a file."""

    __slots__ = ()

    def note(
        self, user: str, address: str, did: str, vhost: str, what: Mapping[str, object]
    ) -> None:
        """`user` has done it, from `address`. vhost: "" for none."""


NO_AUDIT: Final = Audit()


def note_method(audit: Audit, user: str, address: str, vhost: str, method: m.Method) -> None:
    """A client's method was carried out; passive declarations change nothing."""
    found = AUDITED.get(type(method))
    if found is None or audit is NO_AUDIT or getattr(method, "passive", False):
        return
    did, fields = found
    audit.note(user, address, did, vhost, {name: getattr(method, name) for name in fields})
