"""What a queue with rules remembers of each message, and the levels of priority they stand in."""

from heapq import heappop
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.protocol.property_lookup import expiration, headers_table_span, priority
from penstock.protocol.values import decode_table
from penstock.queues.rules import BY_ROUTING_KEY, LIFETIME_MS_MAX, NEVER

FLAG_EXPIRATION: Final = 0x01
FLAG_PRIORITY: Final = 0x08
FLAG_HEADERS: Final = 0x20
FLAGS_AT: Final = 19
VALUES_AT: Final = 19
TRIM_PLACES: Final = 512
NO_BOUND: Final = 1 << 60


class Record:
    """One message in the queue, or out with a consumer. expires_ns: monotonic, NEVER for none;
    came_ns: when its lifetime began; is_fleeting: its lifetime is 0; is_uneven: its lifetime is
    not the queue's, so it may end before that of a message ahead; deliveries: how often it has come
    back; key: of last value, "" for none; nth: of the publishes of its queue, where it has a key,
    0 for what came before there were keys; is_ready: it is in the queue, not out; only kept where
    bodies are on the disk (body_records)."""

    __slots__ = (
        "came_ns",
        "deliveries",
        "expires_ns",
        "is_fleeting",
        "is_ready",
        "is_uneven",
        "key",
        "level",
        "message",
        "nth",
        "position",
    )

    def __init__(self, position: i64, message: Message) -> None:
        self.position: i64 = position
        self.message = message
        self.level: i64 = 0
        self.expires_ns: i64 = NEVER
        self.came_ns: i64 = 0
        self.is_fleeting = False
        self.is_uneven = False
        self.is_ready = False
        self.deliveries: i64 = 0
        self.nth: i64 = 0
        self.key = ""

    def is_newer(self, other: "Record") -> bool:
        """Whether its message came after that of `other`, which has the same key."""
        if self.nth == other.nth:
            return self.position > other.position
        return self.nth > other.nth

    def continue_as(self, newer: "Record") -> None:
        """The message of `newer`, with all that is known of it, takes this place."""
        self.message = newer.message
        self.nth = newer.nth
        self.came_ns = newer.came_ns
        self.expires_ns = newer.expires_ns
        self.is_fleeting = newer.is_fleeting
        self.is_uneven = True
        self.deliveries = newer.deliveries

    def set_key(self, name: str) -> None:
        """Keys are made of `name` from now on, "" for none. Of a body on the disk nobody knows
        it."""
        is_known = name == BY_ROUTING_KEY or len(self.message.raw) > 0
        self.key = last_value_key(self.message, name) if name != "" and is_known else ""
        self.nth = 0

    def is_dead(self, now_ns: i64) -> bool:
        """Whether it must not be delivered any more."""
        if self.expires_ns == NEVER or self.expires_ns > now_ns:
            return False
        return not self.is_fleeting or self.expires_ns < now_ns

    def __lt__(self, other: "Record") -> bool:
        return self.position < other.position


class Level:
    """Ready messages of one priority. `head`: index of the next one in `line`."""

    __slots__ = ("head", "line", "returned")

    def __init__(self) -> None:
        self.line: list[Record] = []
        self.head: i64 = 0
        self.returned: list[Record] = []

    def count(self) -> i64:
        return len(self.line) - self.head + len(self.returned)

    def first(self) -> Record | None:
        if self.returned:
            return self.returned[0]
        if self.head < len(self.line):
            return self.line[self.head]
        return None

    def take(self) -> Record:
        """The first one. Raises: IndexError when there is none."""
        if self.returned:
            return heappop(self.returned)
        line = self.line
        head: i64 = self.head
        record = line[head]
        head += 1
        if head >= TRIM_PLACES and head * 2 >= len(line):
            del line[:head]
            head = 0
        self.head = head
        return record


@mypyc_attr(allow_interpreted_subclasses=True)
class DropSink:
    """Who gets the messages that a queue gives up. Nominal base."""

    __slots__ = ()

    def dropped(self, message: Message, reason: i64) -> None:
        """`message` has left the queue for `reason` (rules.REASON_*)."""
        raise NotImplementedError

    def room(self, reason: i64) -> i64:
        """How many messages it takes for `reason` just now, 0.. ; those that only expire stay in
        the queue while there is none, and the queue is woken when there is some again."""
        return NO_BOUND


def level_of(message: Message, highest: i64) -> i64:
    """The level of priority `message` belongs to, in a queue with the levels 0..`highest`."""
    if highest == 0 or (i64(message.raw[FLAGS_AT]) & FLAG_PRIORITY) == 0:
        return 0
    level: i64 = priority(message.raw, VALUES_AT, int(message.header_bytes) + 7)
    return level if level < highest else highest


def flags_of(message: Message) -> i64:
    """Which properties `message` has; none for one whose body is on the disk."""
    if not message.raw:
        return 0
    return i64(message.raw[FLAGS_AT])


def own_lifetime_ms(message: Message) -> i64:
    """How long `message`, which has an expiration, asks to live, LIFETIME_MS_MAX for ever."""
    text = expiration(message.raw, VALUES_AT, int(message.header_bytes) + 7)
    if not text:
        return LIFETIME_MS_MAX
    own = int(text)
    return own if own < LIFETIME_MS_MAX else LIFETIME_MS_MAX


def last_value_key(message: Message, name: str) -> str:
    """What `message` supersedes others by; "" when it has no such value."""
    if name == BY_ROUTING_KEY:
        return message.address.routing_key
    if (i64(message.raw[FLAGS_AT]) & FLAG_HEADERS) == 0:
        return ""
    header = message.header()
    span = headers_table_span(header, 12)
    if span is None:
        return ""
    value = decode_table(header, span[0], span[1])[0].get(name)
    return "" if value is None else f"{type(value).__name__}:{value!r}"
