"""Where the messages of a transaction go, and whether those queues can take them as one.

A commit is all or nothing, so a queue that would not take a part of it refuses all of it. Queues
that are only full for now (depth, overflow backpressure) are no fault: the commit waits for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.broker.channel.content_rules import PropertyRules
from penstock.broker.channel.publish import Publisher
from penstock.broker.channel.route import short_text
from penstock.broker.dead_letter.hashed_properties import with_properties
from penstock.broker.queue.expiry_and_limits import ExpiryAndLimits
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.rights import EXCHANGE, WRITE, Rights
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.content import Address, Message, shared_of
from penstock.protocol.property_lookup import FLAG_HEADERS
from penstock.protocol.values import Table
from penstock.queues.rules import REJECT_PUBLISH, REJECT_PUBLISH_DLX

CLASS_ID: Final = 240
METHOD_ID: Final = 10
REJECTING: Final = (REJECT_PUBLISH, REJECT_PUBLISH_DLX)


class Asked:
    """Who asks for a commit: the virtual host, the rules and the page of its channel; settle,
    refuse: take the answer, one of them once; is_gone: whether the channel has ended."""

    __slots__ = ("account", "is_gone", "refuse", "rules", "settle", "vhost")

    def __init__(
        self,
        publisher: Publisher,
        settle: Callable[[Table], None],
        refuse: Callable[[str, int], None],
        is_gone: Callable[[], bool],
    ) -> None:
        self.is_gone = is_gone
        self.vhost = publisher.vhost
        self.rules = publisher.rules
        self.account = publisher.account
        self.settle = settle
        self.refuse = refuse


@dataclass(frozen=True, slots=True)
class Routed:
    """A message with its address, and the queues it goes to."""

    message: Message
    actors: tuple[QueueActor, ...]


class _Way:
    """A payload of basic.publish, resolved."""

    __slots__ = ("actors", "address", "exchange", "is_immediate", "is_mandatory", "needs_headers")

    def __init__(self, vhost: VirtualHost, method: bytes) -> None:
        """Raises: ChannelFault 404 for an exchange there is not."""
        name = short_text(method, 6)
        at = 7 + method[6]
        key = short_text(method, at)
        bits = method[at + 1 + method[at]]
        exchange = vhost.find_exchange(name)
        if exchange is None:
            raise refused(f"no exchange '{name}' in vhost '{vhost.name}'", 404)
        self.address = Address(name, key)
        self.address.method = method
        self.exchange = exchange
        self.is_mandatory = bits & 1 != 0
        self.is_immediate = bits & 2 != 0
        self.needs_headers = vhost.router.needs_headers(exchange)
        self.actors: tuple[QueueActor, ...] | None = None

    def check(self, rights: Rights) -> None:
        """Rights may have gone since the messages came. Raises: ChannelFault 403."""
        name, key = self.address.exchange, self.address.routing_key
        rights.check(WRITE, EXCHANGE, name, 60, 40)
        rights.check_topic(WRITE, name, self.exchange.kind, key, 60, 40)


def route_all(vhost: VirtualHost, rules: PropertyRules, messages: list[Message]) -> list[Routed]:
    """Route `messages`, which were checked when they came, as they would be published now.

    Raises: ChannelFault 403, 404 for an exchange that is gone, 406 for a mandatory one that reaches
    no queue, `immediate`, and a mandatory one that is delayed."""
    ways: dict[bytes, _Way] = {}
    found: list[Routed] = []
    for message in messages:
        method = message.address.method
        way = ways.get(method)
        if way is None:
            way = ways[method] = _Way(vhost, method)
            way.check(rules.rights)
            if way.is_immediate:
                raise refused("publishes of a transaction cannot be immediate")
        has_headers = message.raw[19] & FLAG_HEADERS != 0
        actors = way.actors
        if actors is None or has_headers:
            actors = _actors(vhost, rules, way, message)
            if not way.needs_headers and not has_headers:
                way.actors = actors
        shown = message
        # What a delay store alone is given keeps its BCC keys until it is routed for good.
        if has_headers and not _is_delaying(actors):
            shown = rules.without_bcc(message)
        shown.address = way.address
        found.append(Routed(shown, actors))
    return found


def _actors(
    vhost: VirtualHost, rules: PropertyRules, way: _Way, message: Message
) -> tuple[QueueActor, ...]:
    keys = [way.address.routing_key]
    headers: Table = {}
    if message.raw[19] & FLAG_HEADERS:
        keys = rules.routing_keys(message, way.address.routing_key)
        headers = rules.headers(message)
    if vhost.router.property_exchanges > 0:
        headers = with_properties(message.header(), headers)
    actors = tuple(target.actor for target in vhost.route(way.exchange, keys, headers))
    if not actors and way.is_mandatory:
        raise refused(
            f"a mandatory publish to exchange '{way.address.exchange}' with routing key "
            f"'{way.address.routing_key}' reaches no queue; nothing is committed. Bind a queue and "
            "stage or commit again"
        )
    if way.is_mandatory and _is_delaying(actors):
        raise refused(
            "a publish with x-delay cannot be mandatory in a transaction (in Spark set "
            "mandatory=false): whether it reaches a queue is known when exchange "
            f"'{way.address.exchange}' lets it go"
        )
    return actors


def _is_delaying(actors: tuple[QueueActor, ...]) -> bool:
    """Whether delayed message exchanges alone get it, so that nobody knows where it will end."""
    return len(actors) > 0 and all(actor.delays for actor in actors)


def shares(routed: list[Routed]) -> dict[QueueActor, list[Message]]:
    """What each queue gets, in order."""
    found: dict[QueueActor, list[Message]] = {}
    for one in routed:
        message = shared_of(one.message) if len(one.actors) > 1 else one.message
        for actor in one.actors:
            found.setdefault(actor, []).append(message)
    return found


def check_room(actor: QueueActor, messages: list[Message]) -> None:
    """Raises: ChannelFault 406 when `actor` rejects publishes at its limit and would reject some
    of `messages`."""
    queue_limits = actor.queue_limits
    if (
        not isinstance(queue_limits, ExpiryAndLimits)
        or queue_limits.rules.overflow not in REJECTING
    ):
        return
    rules = queue_limits.rules
    count = int(queue_limits.ready_count()) + len(messages)
    body_bytes = int(queue_limits.body_bytes()) + sum(int(one.body_bytes) for one in messages)
    if rules.is_limited() and rules.is_over(count, body_bytes):
        raise refused(
            f"queue '{actor.name}' in vhost '{actor.vhost}' rejects publishes beyond its limit "
            f"({count} messages with the {len(messages)} of this commit); nothing is committed. "
            "Commit again when it has room"
        )


def refused(text: str, code: int = 406) -> ChannelFault:
    """What closes the channel of a request that cannot be done."""
    return ChannelFault(code, text, CLASS_ID, METHOD_ID)
