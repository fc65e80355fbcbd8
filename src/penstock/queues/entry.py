"""What memory has of a queued message: itself, a stub of it, or an entry with what rules need.

A stub stands for a message in a queue while its body is on the disk, or on its way there. A message
is shared by several queues; a stub is one queue's own.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message, Stub
from penstock.protocol.property_lookup import headers_table_span, priority
from penstock.protocol.values import decode_table
from penstock.queues.rules import BY_ROUTING_KEY, NEVER

FLAG_EXPIRATION: Final = 0x01
FLAG_PRIORITY: Final = 0x08
FLAG_HEADERS: Final = 0x20
FLAGS_AT: Final = 19
VALUES_AT: Final = 19
FIXED_HEADER_BYTES: Final = 14
"""Of a content header's payload without values: class, weight, body size, flags."""
UNBORN: Final = -(1 << 62)
"""In `came_ns`: the lifetime begins when the message comes back."""


@mypyc_attr(acyclic=True)
class Returned:
    """A message that came back, or its stub. Ordered by `position`. Kept from the garbage collector
    (acyclic), as messages are: it refers to one and to nothing else."""

    __slots__ = ("message", "position")

    def __init__(self, position: i64, message: Message) -> None:
        self.position: i64 = position
        self.message = message

    def __lt__(self, other: "Returned") -> bool:
        return self.position < other.position


@mypyc_attr(acyclic=True)
class Leaving(Returned):
    """One whose stub is read only to be dropped, for `reason` (rules.REASON_*)."""

    __slots__ = ("reason",)

    def __init__(self, position: i64, message: Message, reason: i64) -> None:
        super().__init__(position, message)
        self.reason: i64 = reason


@mypyc_attr(acyclic=True)
class Entry(Returned):
    """One message of a queue with rules, ready or out with a consumer.

    came_ns: monotonic, when its lifetime began, UNBORN while it has not;
    expires_ns: when it ends, NEVER for none; is_fleeting: its lifetime is 0;
    is_uneven: its lifetime is not the queue's, so it may end before that of a message ahead;
    deliveries: how often it has come back; is_ready: it is in the queue, not out;
    key: what it is the last value of, "" for nothing;
    nth: of the publishes of its queue, 0 where that is not known."""

    __slots__ = (
        "came_ns",
        "deliveries",
        "expires_ns",
        "is_fleeting",
        "is_ready",
        "is_uneven",
        "key",
        "level",
        "nth",
    )

    def __init__(self, position: i64, message: Message, level: i64) -> None:
        super().__init__(position, message)
        self.level: i64 = level
        self.expires_ns: i64 = NEVER
        self.came_ns: i64 = UNBORN
        self.is_fleeting = False
        self.is_uneven = False
        self.is_ready = False
        self.deliveries: i64 = 0
        self.nth: i64 = 0
        self.key = ""

    def is_newer(self, other: "Entry") -> bool:
        """Whether its message came after that of `other`, which has the same key."""
        if self.nth == other.nth:
            return self.position > other.position
        return self.nth > other.nth

    def continue_as(self, newer: "Entry") -> None:
        """The message of `newer`, with all that is known of it, takes this place."""
        self.message = newer.message
        self.nth = newer.nth
        self.came_ns = newer.came_ns
        self.expires_ns = newer.expires_ns
        self.is_fleeting = newer.is_fleeting
        self.is_uneven = True
        self.deliveries = newer.deliveries

    def is_dead(self, now_ns: i64) -> bool:
        """Whether it must not be delivered any more."""
        if self.expires_ns == NEVER or self.expires_ns > now_ns:
            return False
        return not self.is_fleeting or self.expires_ns < now_ns


def stub_of(message: Message) -> Message:
    """A stub of `message`, which has a place in a log or will get one. The publish sequence stays
    with the message, because its confirm does."""
    stub = Stub(message.header_bytes, message.body_bytes)
    stub.address = message.address
    stub.origin = message.origin
    stub.stored = message.stored
    return stub


def is_stub(message: Message) -> bool:
    """Whether the body has to be read before the message can be delivered."""
    size: i64 = len(message.raw)
    return size == 0


def is_embedded(message: Message, embed_below: i64) -> bool:
    """Whether RabbitMQ keeps the message in the queue's index (queue_index_embed_msgs_below, in
    bytes of body and properties, 0 for never; scenario 24)."""
    if embed_below == 0 or message.body_bytes >= embed_below:
        return False
    return message.body_bytes + message.header_bytes - FIXED_HEADER_BYTES < embed_below


def content_bytes(message: Message) -> i64:
    """Header and body without envelopes: the same for a message and for its stub."""
    return message.header_bytes + message.body_bytes


def flags_of(message: Message) -> i64:
    """Which properties `message` has; none for a stub."""
    if not message.raw:
        return 0
    return i64(message.raw[FLAGS_AT])


def level_of(message: Message, highest: i64) -> i64:
    """The level of priority `message` belongs to, in a queue with the levels 0..`highest`."""
    if highest == 0 or (flags_of(message) & FLAG_PRIORITY) == 0:
        return 0
    level: i64 = priority(message.raw, VALUES_AT, int(message.header_bytes) + 7)
    return level if level < highest else highest


def header_key(message: Message, name: str) -> str:
    """The value of the header `name` of `message` as text, or its routing key for BY_ROUTING_KEY;
    "" when it has no such value."""
    if name == BY_ROUTING_KEY:
        return message.address.routing_key
    if (flags_of(message) & FLAG_HEADERS) == 0:
        return ""
    header = message.header()
    span = headers_table_span(header, 12)
    if span is None:
        return ""
    value = decode_table(header, span[0], span[1])[0].get(name)
    return "" if value is None else f"{type(value).__name__}:{value!r}"
