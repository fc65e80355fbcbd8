"""Where the messages of a transaction go, and whether those queues can take them as one.

A commit is all or nothing, so a queue that would not take a part of it refuses all of it. Queues
that are only full for now (depth, overflow backpressure) are no fault: the commit waits for them.
There may be a million of messages, so they are looked up piece by piece.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

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
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import REJECT_PUBLISH, REJECT_PUBLISH_DLX
from penstock.storage.log.groups import record_bytes

CLASS_ID: Final = 240
METHOD_ID: Final = 10
REJECTING: Final = (REJECT_PUBLISH, REJECT_PUBLISH_DLX)
FLAGS_AT: Final = 19
"""In the frames of a message: the first byte of its property flags."""


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


class Share:
    """What one queue gets, in order. bytes: with MESSAGE_OVERHEAD_BYTES for each; body_bytes: of
    bodies alone; room: what their records in the log take at most."""

    __slots__ = ("body_bytes", "bytes", "messages", "room")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.bytes: i64 = 0
        self.body_bytes: i64 = 0
        self.room: i64 = 0

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.bytes += len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.body_bytes += message.body_bytes
        self.room += record_bytes(message)


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


class Routing:
    """Routes messages, which were checked when they came, as they would be published now. shared:
    what each queue gets."""

    __slots__ = ("_rules", "_vhost", "_ways", "shared")

    def __init__(self, vhost: VirtualHost, rules: PropertyRules) -> None:
        self._vhost = vhost
        self._rules = rules
        self._ways: dict[bytes, _Way] = {}
        self.shared: dict[QueueActor, Share] = {}

    def check(self, messages: list[Message], first: i64, end: i64) -> None:
        """Those at places first..end - 1 have to be such as can be published and committed; some
        are others then (direct reply-to). Raises: as `add`, and ChannelFault 406 for properties."""
        at: i64 = first
        while at < end:
            message = messages[at] = self._rules.checked(messages[at])
            at += 1
            way = self._way(message)
            self._actors(way, message)
            message.address = way.address

    def add(self, messages: list[Message], first: i64, end: i64) -> None:
        """Share out those at places first..end - 1.

        Raises: ChannelFault 403, 404 for an exchange that is gone, 406 for a mandatory one that
        reaches no queue, `immediate`, and a mandatory one that is delayed."""
        shared = self.shared
        at: i64 = first
        while at < end:
            message = messages[at]
            at += 1
            way = self._way(message)
            actors = self._actors(way, message)
            # What a delay store alone is given keeps its BCC keys until it is routed for good.
            if message.raw[FLAGS_AT] & FLAG_HEADERS and not _is_delaying(actors):
                message = self._rules.without_bcc(message)
            message.address = way.address
            if len(actors) > 1:
                message = shared_of(message)
            for actor in actors:
                share = shared.get(actor)
                if share is None:
                    share = shared[actor] = Share()
                share.add(message)

    def _way(self, message: Message) -> _Way:
        method = message.address.method
        way = self._ways.get(method)
        if way is None:
            way = self._ways[method] = _Way(self._vhost, method)
            way.check(self._rules.rights)
            if way.is_immediate:
                raise refused("publishes of a transaction cannot be immediate")
        return way

    def _actors(self, way: _Way, message: Message) -> tuple[QueueActor, ...]:
        has_headers = message.raw[FLAGS_AT] & FLAG_HEADERS != 0
        actors = way.actors
        if actors is None or has_headers:
            actors = _actors(self._vhost, self._rules, way, message)
            if not way.needs_headers and not has_headers:
                way.actors = actors
        return actors


def _actors(
    vhost: VirtualHost, rules: PropertyRules, way: _Way, message: Message
) -> tuple[QueueActor, ...]:
    keys = [way.address.routing_key]
    headers: Table = {}
    if message.raw[FLAGS_AT] & FLAG_HEADERS:
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


def check_room(actor: QueueActor, share: Share) -> None:
    """Raises: ChannelFault 406 when `actor` rejects publishes at its limit and would reject a part
    of `share`."""
    queue_limits = actor.queue_limits
    if (
        not isinstance(queue_limits, ExpiryAndLimits)
        or queue_limits.rules.overflow not in REJECTING
    ):
        return
    rules = queue_limits.rules
    count = int(queue_limits.taken_count()) + len(share.messages)
    body_bytes = int(queue_limits.taken_body_bytes() + share.body_bytes)
    if rules.is_limited() and rules.is_over(count, body_bytes):
        raise refused(
            f"queue '{actor.name}' in vhost '{actor.vhost}' rejects publishes beyond its limit "
            f"({count} messages with the {len(share.messages)} of this commit); nothing is "
            "committed. Commit again when it has room"
        )


def refused(text: str, code: int = 406) -> ChannelFault:
    """What closes the channel of a request that cannot be done."""
    return ChannelFault(code, text, CLASS_ID, METHOD_ID)
