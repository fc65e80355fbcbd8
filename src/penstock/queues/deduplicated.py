"""Messages of a queue that takes no duplicates: one message for each x-deduplication-header.

What comes with a known key is dropped and counted; whatever makes a message leave, an ack or
anything else, makes its key free again. An x-cache-ttl header frees it after so many milliseconds
already. Source: noxdafox's rabbitmq-message-deduplication.
"""

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.duplicates import Duplicates
from penstock.queues.records import DropSink, Level, Record
from penstock.queues.ruled import RuledMessages
from penstock.queues.rules import NEVER, REASON_DUPLICATE, QueueRules


class DeduplicatedMessages(RuledMessages):
    """window: the keys of what is here."""

    __slots__ = ("window",)

    def __init__(self, rules: QueueRules, sink: DropSink) -> None:
        super().__init__(rules, sink)
        self.window = Duplicates()

    def kept_bytes(self) -> i64:
        return self.window.kept_bytes()

    def add(self, message: Message) -> None:
        """A new message, unless one with its key is here."""
        if self.window.has(message, self.now_ns):
            self.publish_count += 1
            self.sink.dropped(message, REASON_DUPLICATE)
        else:
            super().add(message)

    def _place(self, message: Message) -> Record:
        record = super()._place(message)
        self.window.note(message, record.position, self.now_ns)
        return record

    def settled(self, position: i64) -> None:
        super().settled(position)
        self.window.forget(position)

    def put_back(self, position: i64, message: Message) -> None:
        before: i64 = self.count
        super().put_back(position, message)
        if self.count == before:
            self.window.forget(position)

    def _come_back_over(self, record: Record, newer: Record) -> None:
        super()._come_back_over(record, newer)
        self.window.move(newer.position, record.position)

    def _given_up(self, level: Level) -> Message:
        position: i64 = NEVER
        first = level.first()
        if first is not None:
            position = first.position
        message = super()._given_up(level)
        self.window.forget(position)
        return message

    def purge(self) -> int:
        count = super().purge()
        self.window.forget_but(self.out)
        return count
