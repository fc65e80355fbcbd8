"""Which x-deduplication-header values are here: a hook of a queue that takes no duplicates.

It looks at messages that are ready or out.

Keys stay in memory whatever part of the queue is on the disk, about KEY_BYTES each, and count
towards the queue's depth mark (PriorityQueue.kept_bytes). What makes a message leave, an ack or
anything else, makes its key free again; an x-cache-ttl header frees it after so many milliseconds
already. A message keeps its position wherever it is, so its key is found by that. Only what could
not be read from a piece moves those behind it: then all keys are forgotten, and what comes until
the queue has been through once may be a duplicate.
Source: noxdafox's rabbitmq-message-deduplication.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.protocol.property_lookup import PROPERTIES_OFFSET, headers_table_span
from penstock.protocol.values import read_field
from penstock.queues.entry import Entry, header_key
from penstock.queues.rules import LIFETIME_MS_MAX, NEVER, NS_PER_MS
from penstock.routing.deduplication import CACHE_TTL, DEDUPLICATION_HEADER, lifetime_ms

KEY_BYTES: Final = 250
"""What a key costs: text, mark, places in both tables."""


class KeyMark:
    """The key of a message. position: of the message; until_ns: NEVER for as long as it is here."""

    __slots__ = ("position", "until_ns")

    def __init__(self, position: i64, until_ns: i64) -> None:
        self.position: i64 = position
        self.until_ns: i64 = until_ns


class Keys:
    """Hook of a queue that takes no duplicates. known: by key; keys: of messages that have one, by
    position."""

    __slots__ = ("keys", "known")

    def __init__(self) -> None:
        self.known: dict[str, KeyMark] = {}
        self.keys: dict[int, str] = {}

    def kept_bytes(self) -> i64:
        """What all keys take in memory."""
        return len(self.keys) * KEY_BYTES

    def has(self, message: Message, now_ns: i64) -> bool:
        """Whether a message with the key of `message` is here, and its mark has not ended."""
        mark = self.known.get(header_key(message, DEDUPLICATION_HEADER))
        return mark is not None and (mark.until_ns == NEVER or mark.until_ns > now_ns)

    def note(self, message: Message, position: i64, now_ns: i64) -> None:
        """`message` has come to `position`."""
        # It may have taken the place of another, whose last value it is.
        self.forget(position)
        key = header_key(message, DEDUPLICATION_HEADER)
        if key != "":
            self.keys[int(position)] = key
            self.known[key] = KeyMark(position, _until_ns(message, now_ns))

    def forget(self, position: i64) -> None:
        """The message at `position` is not here any more."""
        key = self.keys.pop(int(position), None)
        if key is not None:
            mark = self.known.get(key)
            if mark is not None and mark.position == position:
                del self.known[key]

    def move(self, position: i64, place: i64) -> None:
        """The message at `position` has taken the place of the one at `place`."""
        self.forget(place)
        key = self.keys.pop(int(position), None)
        if key is not None:
            self.keys[int(place)] = key
            mark = self.known.get(key)
            if mark is not None and mark.position == position:
                mark.position = place

    def of(self, positions: dict[int, Entry]) -> "Keys":
        """Those of the messages at `positions` alone; it costs nothing for the others."""
        found = Keys()
        for position in positions:
            key = self.keys.get(position)
            if key is not None:
                found.keys[position] = key
                mark = self.known.get(key)
                if mark is not None and mark.position == position:
                    found.known[key] = mark
        return found


def _until_ns(message: Message, now_ns: i64) -> i64:
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    assert span is not None, "because it has a header"
    lifetime: i64 = lifetime_ms(read_field(header, span[0], span[1], CACHE_TTL))
    if lifetime == 0 or lifetime >= LIFETIME_MS_MAX:
        return NEVER
    return now_ns + lifetime * NS_PER_MS
