"""Messages of a queue that takes no duplicates: one message for each x-deduplication-header.

    known: the key of every message that is ready, or out with a consumer
What comes with a known key is dropped and counted; whatever makes a message leave, an ack or
anything else, makes its key free again. An x-cache-ttl header frees it after so many milliseconds
already. As many keys as messages are kept, so the bounds of the queue are theirs.
Source: noxdafox's rabbitmq-message-deduplication.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.protocol.property_lookup import headers_table_span
from penstock.protocol.values import read_field
from penstock.queues.records import DropSink, Level, Record, last_value_key
from penstock.queues.ruled import RuledMessages
from penstock.queues.rules import (
    LIFETIME_MS_MAX,
    NEVER,
    NS_PER_MS,
    REASON_DUPLICATE,
    QueueRules,
)
from penstock.routing.deduplication import CACHE_TTL, DEDUPLICATION_HEADER, lifetime_ms

PROPERTIES_AT: Final = 12


class Mark:
    """The key of a message. position: of the message; until_ns: NEVER for as long as it is here."""

    __slots__ = ("position", "until_ns")

    def __init__(self, position: i64, until_ns: i64) -> None:
        self.position: i64 = position
        self.until_ns: i64 = until_ns


class DeduplicatedMessages(RuledMessages):
    """known: by key; keys: of messages that have one, by position."""

    __slots__ = ("keys", "known")

    def __init__(self, rules: QueueRules, sink: DropSink) -> None:
        super().__init__(rules, sink)
        self.known: dict[str, Mark] = {}
        self.keys: dict[int, str] = {}

    def add(self, message: Message) -> None:
        """A new message, unless one with its key is here."""
        mark = self.known.get(last_value_key(message, DEDUPLICATION_HEADER))
        if mark is None or (mark.until_ns != NEVER and mark.until_ns <= self.now_ns):
            super().add(message)
        else:
            self.publish_count += 1
            self.sink.dropped(message, REASON_DUPLICATE)

    def _place(self, message: Message) -> Record:
        record = super()._place(message)
        # It may have taken the place of another, whose last value it is.
        self._forget(record.position)
        key = last_value_key(message, DEDUPLICATION_HEADER)
        if key != "":
            self.keys[int(record.position)] = key
            self.known[key] = Mark(record.position, self._until_ns(message))
        return record

    def _until_ns(self, message: Message) -> i64:
        header = message.header()
        span = headers_table_span(header, PROPERTIES_AT)
        assert span is not None, "because it has a header"
        lifetime: i64 = lifetime_ms(read_field(header, span[0], span[1], CACHE_TTL))
        if lifetime == 0 or lifetime >= LIFETIME_MS_MAX:
            return NEVER
        return self.now_ns + lifetime * NS_PER_MS

    def _forget(self, position: i64) -> None:
        """The message at `position` is not here any more."""
        key = self.keys.pop(int(position), None)
        if key is not None:
            mark = self.known.get(key)
            if mark is not None and mark.position == position:
                del self.known[key]

    def settled(self, position: i64) -> None:
        super().settled(position)
        self._forget(position)

    def put_back(self, position: i64, message: Message) -> None:
        before: i64 = self.count
        super().put_back(position, message)
        if self.count == before:
            self._forget(position)

    def _given_up(self, level: Level) -> Message:
        position: i64 = NEVER
        first = level.first()
        if first is not None:
            position = first.position
        message = super()._given_up(level)
        self._forget(position)
        return message

    def purge(self) -> int:
        count = super().purge()
        for position in list(self.keys):
            if position not in self.out:
                self._forget(position)
        return count
