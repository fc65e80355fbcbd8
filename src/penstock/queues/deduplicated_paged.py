"""A queue that takes no duplicates, of which part is on the disk: the keys stay in memory.

A message keeps its position wherever it is, so its key is found by that. Only what could not be
read moves those behind it: then all keys are forgotten, and what comes until the queue has been
through once may be a duplicate.
"""

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.deduplicated import DeduplicatedMessages
from penstock.queues.duplicates import Duplicates
from penstock.queues.paged import PagedMessages
from penstock.queues.queue import Returned
from penstock.queues.records import DropSink, Level
from penstock.queues.ruled import RuledMessages
from penstock.queues.ruled_paged import RuledPaged, hand_over
from penstock.queues.rules import NEVER, REASON_DUPLICATE, QueueRules
from penstock.storage.layout.index import QueueIndex


class DeduplicatedPaged(RuledPaged):
    """window: the keys of what is here."""

    __slots__ = ("window",)

    def __init__(self, rules: QueueRules, sink: DropSink, tail: PagedMessages) -> None:
        super().__init__(rules, sink, tail)
        self.window = Duplicates()

    @staticmethod
    def from_deduplicated(records: DeduplicatedMessages, index: QueueIndex) -> "DeduplicatedPaged":
        """A queue with everything that is in `records`, which is given up. index: where the log has
        what the queue pages."""
        paged = DeduplicatedPaged(records.rules, records.sink, PagedMessages(index, index))
        hand_over(records, paged)
        paged.tail.taken = records.next_position
        paged.window = records.window
        return paged

    def make_unpaged(self) -> RuledMessages:
        records = DeduplicatedMessages(self.rules, self.sink)
        records.window = self.window
        return records

    def kept_bytes(self) -> i64:
        return self.window.kept_bytes()

    def add(self, message: Message) -> None:
        """A new message, unless one with its key is here."""
        if self.window.has(message, self.now_ns):
            self.publish_count += 1
            self.sink.dropped(message, REASON_DUPLICATE)
        else:
            position: i64 = self.next_position
            super().add(message)
            self.window.note(message, position, self.now_ns)

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        position: i64 = self.next_position
        super().restore(message, is_redelivered, age_ns)
        self.window.note(message, position, self.now_ns - age_ns)

    def settled(self, position: i64) -> None:
        super().settled(position)
        self.window.forget(position)

    def put_back(self, position: i64, message: Message) -> None:
        before: i64 = self.ready_count()
        super().put_back(position, message)
        if self.ready_count() == before:
            self.window.forget(position)

    def _return(self, entry: Returned, is_read: bool) -> None:
        before: i64 = self.count
        super()._return(entry, is_read)
        if self.count == before:
            self.window.forget(entry.position)

    def _given_up(self, level: Level) -> Message:
        position: i64 = NEVER
        first = level.first()
        if first is not None:
            position = first.position
        message = super()._given_up(level)
        self.window.forget(position)
        return message

    def lost_some(self) -> None:
        self.window = Duplicates()
        # Keys are forgotten by position: those of new messages go on behind what is there.
        tail = self.tail
        self.next_position = tail.taken + tail.ready_count()
        self.next_position -= len(tail.returned) + len(tail.husks_back)

    def purge(self) -> int:
        count = super().purge()
        self.window.forget_but(self.out)
        return count
