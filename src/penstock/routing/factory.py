"""Makes an exchange of the kind that a client or a definition names. COMPILED."""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.routing.consistent_hash import CONSISTENT_HASH, ConsistentHashExchange
from penstock.routing.deduplication import DEDUPLICATION, DeduplicationExchange
from penstock.routing.delayed import DELAYED, DelayedExchange, inner_kind
from penstock.routing.direct import DirectExchange
from penstock.routing.exchange import Exchange
from penstock.routing.fanout import FanoutExchange
from penstock.routing.headers import HeadersExchange
from penstock.routing.modulus_hash import MODULUS_HASH, ModulusHashExchange
from penstock.routing.random_choice import RANDOM, RandomExchange
from penstock.routing.super_stream import SUPER_STREAM, SuperStreamExchange
from penstock.routing.topic import TopicExchange

EXCHANGE_KINDS: Final = (
    "direct",
    "fanout",
    "headers",
    "topic",
    CONSISTENT_HASH,
    RANDOM,
    DELAYED,
    DEDUPLICATION,
    MODULUS_HASH,
    SUPER_STREAM,
)
_PRECONDITION_FAILED: Final = 406


def check_kind(kind: str) -> None:
    """Refuse a kind of exchange that does not exist.

    Raises: ChannelFault 406. RabbitMQ up to 3.12 closed the whole connection with 503 instead;
    since then, and here, only the channel pays for the typo.
    """
    if kind not in EXCHANGE_KINDS:
        raise ChannelFault(_PRECONDITION_FAILED, f"unknown exchange type '{kind}'")


def make_exchange(
    kind: str,
    name: str,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Mapping[str, object] | None = None,
) -> Exchange:
    """A new exchange of `kind`, one of `EXCHANGE_KINDS`, without bindings and in no router yet.

    Raises: ChannelFault 406 for an unknown kind, or arguments that this kind refuses.
    """
    check_kind(kind)
    if kind == "direct":
        return DirectExchange(name, durable, auto_delete, internal, arguments)
    if kind == "fanout":
        return FanoutExchange(name, durable, auto_delete, internal, arguments)
    if kind == "headers":
        return HeadersExchange(name, durable, auto_delete, internal, arguments)
    if kind == CONSISTENT_HASH:
        return ConsistentHashExchange(name, durable, auto_delete, internal, arguments)
    if kind == RANDOM:
        return RandomExchange(name, durable, auto_delete, internal, arguments)
    if kind == DEDUPLICATION:
        return DeduplicationExchange(name, durable, auto_delete, internal, arguments)
    if kind == MODULUS_HASH:
        return ModulusHashExchange(name, durable, auto_delete, internal, arguments)
    if kind == SUPER_STREAM:
        return SuperStreamExchange(name, durable, auto_delete, internal, arguments)
    if kind == DELAYED:
        inner = make_exchange(
            inner_kind(arguments), name, durable, auto_delete, internal, arguments
        )
        return DelayedExchange(inner, name, durable, auto_delete, internal, arguments)
    return TopicExchange(name, durable, auto_delete, internal, arguments)
