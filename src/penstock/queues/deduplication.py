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
from penstock.queues.queue import Rows
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
    position; before: those of the time before each purge, as far as they are not put away."""

    __slots__ = ("before", "keys", "known")

    def __init__(self) -> None:
        self.known: dict[str, KeyMark] = {}
        self.keys: dict[int, str] = {}
        self.before: list[KeysBefore] = []

    def kept_bytes(self) -> i64:
        """What all keys take in memory."""
        return len(self.keys) * KEY_BYTES

    def has(self, message: Message, now_ns: i64) -> bool:
        """Whether a message with the key of `message` is here, and its mark has not ended."""
        key = header_key(message, DEDUPLICATION_HEADER)
        mark = self.known.get(key)
        if mark is not None and (mark.until_ns == NEVER or mark.until_ns > now_ns):
            return True
        for one in self.before:
            mark = one.mark(key)
            if mark is not None and (mark.until_ns == NEVER or mark.until_ns > now_ns):
                return True
        return False

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
        for one in self.before:
            one.keys.pop(int(position), None)

    def move(self, position: i64, place: i64) -> None:
        """The message at `position` has taken the place of the one at `place`."""
        self.forget(place)
        self.recall(position)
        key = self.keys.pop(int(position), None)
        if key is not None:
            self.keys[int(place)] = key
            mark = self.known.get(key)
            if mark is not None and mark.position == position:
                mark.position = place

    def purge(self, out: dict[int, Entry]) -> "KeysBefore":
        """What is ready is given up: from now on only the keys of what is `out` count, which is
        seen for each when it is asked for, or when the answer is put away."""
        before = KeysBefore(self, out)
        self.known = {}
        self.keys = {}
        self.before.append(before)
        return before

    def recall(self, position: i64) -> None:
        """The message at `position`, which is here, need not be out for its key to count."""
        for one in self.before:
            key = one.keys.pop(int(position), None)
            if key is not None:
                self.keep(int(position), key, one.known.get(key))

    def keep(self, position: int, key: str, mark: KeyMark | None) -> None:
        """`key` of the time before a purge is that of the message at `position`, and `mark` is what
        was known of it."""
        self.keys[position] = key
        if mark is not None and mark.position == position:
            newer = self.known.get(key)
            if newer is None or (newer.until_ns != NEVER and newer.until_ns < mark.until_ns):
                self.known[key] = mark


class KeysBefore(Rows):
    """The keys of the time before a purge, looked at piece by piece. keys, known: as those of
    `owner` were, without what has left since; out: what consumers have of the queue now."""

    __slots__ = ("keys", "known", "out", "owner")

    def __init__(self, owner: Keys, out: dict[int, Entry]) -> None:
        self.owner = owner
        self.out = out
        self.keys = owner.keys
        self.known = owner.known

    def mark(self, key: str) -> KeyMark | None:
        """What is known of `key`, if its message is here."""
        mark = self.known.get(key)
        if mark is None or int(mark.position) not in self.keys:
            return None
        return mark if self._is_here(int(mark.position)) else None

    def _is_here(self, position: int) -> bool:
        """Positions below 0 were leased before a restart, and are out."""
        return position < 0 or position in self.out

    def forget(self, most: i64) -> i64:
        while most > 0 and self.keys:
            position, key = self.keys.popitem()
            most -= 1
            if self._is_here(position):
                self.owner.keep(position, key, self.known.get(key))
        if not self.keys and self in self.owner.before:
            self.owner.before.remove(self)
        while most > 0 and self.known:
            self.known.popitem()
            most -= 1
        return len(self.keys) + len(self.known)


def _until_ns(message: Message, now_ns: i64) -> i64:
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    assert span is not None, "because it has a header"
    lifetime: i64 = lifetime_ms(read_field(header, span[0], span[1], CACHE_TTL))
    if lifetime == 0 or lifetime >= LIFETIME_MS_MAX:
        return NEVER
    return now_ns + lifetime * NS_PER_MS
