"""A queue with rules of which part is on the disk: records for its head, a paged queue behind them.

    front: returned, line of records | tail: a PagedMessages, whose own front is empty
    <- next                                                                     last ->
That is enough for rules that look at the first message only (QueueRules.has_heads_only): what is
in the tail has no record, and gets one when it comes into memory, with the lifetime it would have
had (queues/arrivals). Messages that were delivered and came back are in the front, and so their
counts are never on the disk. Positions count on from front to tail, and where the front has to
leave memory its end becomes the tail's beginning again.
"""

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.arrivals import MARKS_MAX, Arrivals, Mark
from penstock.queues.husks import is_husk
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_records import PagedRecords, Reading
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Returned
from penstock.queues.records import FLAG_EXPIRATION, FLAGS_AT, DropSink, Record, own_lifetime_ms
from penstock.queues.ruled import RuledMessages
from penstock.queues.rules import (
    LIFETIME_MS_MAX,
    NEVER,
    NS_PER_MS,
    REASON_DELIVERY_LIMIT,
    REASON_REJECTED,
    QueueRules,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

LONG_AGO_NS: Final = -(1 << 62)


class RuledPaged(PagedRecords):
    """tail: what stands behind the records; tail_bytes: of it in `bytes_ready`; arrivals: of the
    tail; mixed_below: what lies before may die in another order than it stands in; sized_from:
    bodies of the tail count from this position on, those before when they are read; rejected: at
    these positions messages are read only to be dropped, no more than there are husks that came
    back."""

    __slots__ = ("arrivals", "mixed_below", "rejected", "sized_from", "tail", "tail_bytes")

    def __init__(self, rules: QueueRules, sink: DropSink, tail: PagedMessages) -> None:
        super().__init__(rules, sink)
        self.tail = tail
        self.tail_bytes: i64 = 0
        self.arrivals = Arrivals(MARKS_MAX)
        self.mixed_below: i64 = 0
        self.sized_from: i64 = 0
        self.rejected: set[int] = set()

    # -- becoming one, and ending ----------------------------------------------------------------

    @staticmethod
    def from_records(records: RuledMessages, index: QueueIndex) -> "RuledPaged":
        """A queue with everything that is in `records`, which is given up. index: where the log has
        what the queue pages."""
        paged = RuledPaged(records.rules, records.sink, PagedMessages(index, index))
        hand_over(records, paged)
        paged.tail.taken = records.next_position
        return paged

    @staticmethod
    def from_paged(
        tail: PagedMessages, rules: QueueRules, sink: DropSink, now_ns: i64
    ) -> "RuledPaged":
        """`tail` gets its first rules: the queue's lifetime begins at `now_ns` for all it has, and
        their bodies count when they are read."""
        paged = RuledPaged(rules, sink, tail)
        paged.now_ns = now_ns
        paged.copy_counts(tail)
        tail.husk_embedded()
        paged.restored(now_ns, False)
        paged.rejected, tail.rejected = tail.rejected, paged.rejected
        for entry in tail.returned:
            paged._return(entry, False)
        tail.returned.clear()
        for entry in tail.husks_back:
            paged.body_bytes_ready += entry.message.body_bytes
        paged.refill([], 0)
        return paged

    def restored(self, since_ns: i64, is_sized: bool) -> None:
        """The tail is all there is, and nobody knows when it came but the disk; the queue's
        lifetime does not begin before `since_ns`. is_sized: `body_bytes_ready` has its bodies."""
        tail = self.tail
        self.arrivals.note_unknown(tail.taken, self._ttl_ns(), since_ns)
        self.next_position = tail.taken + tail.ready_count()
        self.next_position -= len(tail.returned) + len(tail.husks_back)
        if not is_sized:
            self.sized_from = self.next_position
        self.add_up()

    def restored_unread(self, body_bytes: i64) -> None:
        self.body_bytes_ready = body_bytes
        self.restored(LONG_AGO_NS, body_bytes > 0)

    def unpaged(self) -> RuledMessages:
        assert self.tail.ready_count() == 0, "there is something behind the records"
        records = self.make_unpaged()
        hand_over(self, records)
        # What could not be read has left without its size.
        records.body_bytes_ready = 0
        for message in records.ready_messages():
            records.body_bytes_ready += message.body_bytes
        if self.rules.last_value_key != "":
            records._index_keys()
        return records

    def make_unpaged(self) -> RuledMessages:
        """What takes over all records when everything is in memory; it has none yet."""
        return RuledMessages(self.rules, self.sink)

    # -- in and out ------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        tail = self.tail
        if not tail.is_split:
            super().add(message)
            tail.taken = self.next_position
            return
        self.publish_count += 1
        self.arrivals.note(self.next_position, self.now_ns, self._ttl_ns())
        self.next_position += 1
        tail.add(message)
        self.body_bytes_ready += message.body_bytes
        self.add_up()

    def _place(self, message: Message) -> Record:
        """No value overtakes another yet (`supersedes`): one that moves on to the tail has no
        record any more that could be taken over."""
        return self._appended(message, i64(message.raw[FLAGS_AT]))

    def put_back(self, position: i64, message: Message) -> None:
        if not is_husk(message):
            super().put_back(position, message)
            return
        # Its record waits until it has been read.
        self.requeue_count += 1
        self._wait_for_body(position, message)

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        tail = self.tail
        if not tail.is_split:
            super().restore(message, is_redelivered, age_ns)
            tail.taken = self.next_position
            return
        self.arrivals.note(self.next_position, self.now_ns - age_ns, self._ttl_ns())
        self.next_position += 1
        if is_redelivered:
            tail.redelivered_below = self.next_position
        tail.add(message)
        self.body_bytes_ready += message.body_bytes
        self.add_up()

    def husked_out(self, position: i64, message: Message, husk: Message) -> None:
        record = self.out.get(int(position))
        if record is not None:
            record.message = husk

    def reject(self, position: i64, husk: Message) -> bool:
        self.rejected.add(int(position))
        self._wait_for_body(position, husk)
        return True

    def _wait_for_body(self, position: i64, husk: Message) -> None:
        self.tail.put_back(position, husk)
        self.body_bytes_ready += husk.body_bytes
        self.add_up()

    def ready_count(self) -> i64:
        return self.count + self.tail.ready_count()

    def at_hand(self) -> i64:
        husks = self.tail.husks_back
        if not husks:
            return self.count
        first = self.levels[0].first()
        return 1 if first is not None and first.position < husks[0].position else 0

    def first_bytes(self) -> i64:
        return super().first_bytes() if self.at_hand() > 0 else self.tail.first_bytes()

    def purge(self) -> int:
        for entry in self.tail.husks_back:
            self.out.pop(int(entry.position), None)
        self.rejected.clear()
        count = self.tail.purge()
        count += super().purge()
        self.tail_bytes = 0
        self.arrivals = Arrivals(self.arrivals.most)
        self.next_position = self.tail.taken
        return count

    # -- between records and tail ----------------------------------------------------------------

    def add_up(self) -> None:
        """The tail takes more or less memory than before."""
        bytes_: i64 = self.tail.bytes_ready
        self.bytes_ready += bytes_ - self.tail_bytes
        self.tail_bytes = bytes_

    def tails(self) -> list[PagedMessages]:
        return [self.tail]

    def next_read(self, size_bytes: i64, has_room: bool) -> Reading | None:
        wanted = self.tail.wanted(size_bytes) if has_room else None
        return None if wanted is None else Reading(self.tail, wanted, self.at_hand() > 0)

    def lacks_head(self) -> bool:
        return self.at_hand() == 0 and self.ready_count() > 0

    def head_bytes(self) -> i64:
        first = self.levels[0].first()
        return 0 if first is None else len(first.message.raw) + MESSAGE_OVERHEAD_BYTES

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        front: i64 = self.bytes_ready - self.tail_bytes
        if front > target_bytes:
            front = self._lend(front, target_bytes)
        left: i64 = target_bytes - front
        saves = self.tail.page_bytes(left if left > 0 else 0, pass_bytes, pass_count)
        self.refill([], 0)
        return saves

    def _lend(self, front_bytes: i64, target_bytes: i64) -> i64:
        """The end of the line goes to the tail's beginning, until no more than `target_bytes` are
        left in the front, but its first message stays; how much is left."""
        level = self.levels[0]
        line = level.line
        tail = self.tail
        front: i64 = front_bytes
        stop: i64 = level.head if level.returned else level.head + 1
        at: i64 = len(line)
        lent: list[Message] = []
        while at > stop and front > target_bytes:
            at -= 1
            record = line[at]
            message = record.message
            size: i64 = len(message.raw) + MESSAGE_OVERHEAD_BYTES
            front -= size
            tail.front_bytes += size
            tail.bytes_ready += size
            tail.taken = record.position
            if record.deliveries > 0 and tail.redelivered_below <= record.position:
                tail.redelivered_below = record.position + 1
            self.arrivals.note_first(record.position, record.came_ns, self._ttl_of(record))
            self._counted(record, -1)
            if record.position >= self.sized_from:
                self.body_bytes_ready += message.body_bytes
            lent.append(message)
        del line[at:]
        lent.reverse()
        tail.ring.items = lent
        tail.ring.head = 0
        self.add_up()
        return front

    def _ttl_of(self, record: Record) -> i64:
        """What the queue gives `record`, from the beginning of its lifetime on."""
        if record.expires_ns == NEVER:
            return NEVER
        lifetime_ns: i64 = record.expires_ns - record.came_ns
        if (i64(record.message.raw[FLAGS_AT]) & FLAG_EXPIRATION) != 0:
            own: i64 = own_lifetime_ms(record.message)
            if own < LIFETIME_MS_MAX and own * NS_PER_MS == lifetime_ns:
                return NEVER
        return lifetime_ns

    def refill(self, found: list[Found], wall_ahead_ns: i64) -> None:
        tail = self.tail
        while tail.returned:
            self._return(heappop(tail.returned), True)
        line = self.levels[0].line
        ring = tail.ring
        at: i64 = 0
        while len(ring) > 0:
            message = ring.take()
            size: i64 = len(message.raw) + MESSAGE_OVERHEAD_BYTES
            tail.front_bytes -= size
            tail.bytes_ready -= size
            position: i64 = tail.taken
            tail.taken += 1
            mark = self.arrivals.at(position)
            came_ns: i64 = mark.came_ns
            if not mark.is_known:
                while at < len(found) and found[at].message is not message:
                    at += 1
                came_ns = self.now_ns
                if at < len(found):
                    came_ns = found[at].stored_ms * NS_PER_MS - wall_ahead_ns
            record = self._recorded(position, message, mark, came_ns)
            line.append(record)
            self._counted(record, 1)
            if position >= self.sized_from:
                self.body_bytes_ready -= message.body_bytes
        if not tail.is_split and self.arrivals.marks:
            # What goes to the tail later came later, and must not be taken for what was there.
            self.arrivals = Arrivals(self.arrivals.most)
        self.add_up()

    def _recorded(self, position: i64, message: Message, mark: Mark, came_ns: i64) -> Record:
        """The record that `message`, which came at `came_ns`, would have had all along."""
        record = Record(position, message)
        record.came_ns = came_ns
        expires_ns: i64 = NEVER
        if mark.ttl_ns != NEVER:
            expires_ns = (came_ns if came_ns > mark.since_ns else mark.since_ns) + mark.ttl_ns
            if expires_ns < 1:
                expires_ns = 1
        record.is_fleeting = mark.ttl_ns == 0
        record.is_uneven = position < self.mixed_below
        if (i64(message.raw[FLAGS_AT]) & FLAG_EXPIRATION) != 0:
            own: i64 = own_lifetime_ms(message)
            own_ns: i64 = came_ns + own * NS_PER_MS
            is_shorter = own_ns < expires_ns or mark.is_given_later
            if own < LIFETIME_MS_MAX and (expires_ns == NEVER or is_shorter):
                # Dead since before the machine was started is dead.
                expires_ns = own_ns if own_ns > 0 else 1
                record.is_uneven = True
                record.is_fleeting = own == 0
        record.expires_ns = expires_ns
        if position < self.tail.redelivered_below:
            record.deliveries = 1
        return record

    def _return(self, entry: Returned, is_read: bool) -> None:
        """A message that came back was read, and may have come back too often; or it was here
        before the queue had rules."""
        message = entry.message
        self.tail.bytes_ready -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
        if is_read:
            self.body_bytes_ready -= message.body_bytes
        record = self.out.pop(int(entry.position), None)
        if int(entry.position) in self.rejected:
            self.rejected.remove(int(entry.position))
            self.add_up()
            self.ack_count += 1
            self.sink.dropped(message, REASON_REJECTED)
            return
        if record is None:
            # It was taken before the queue had rules.
            record = self._record(entry.position, message, i64(message.raw[FLAGS_AT]))
            record.is_uneven = True
        record.message = message
        record.deliveries += 1
        self.add_up()
        limit: i64 = self.rules.delivery_limit
        if is_read and limit != NEVER and record.deliveries > limit:
            self.sink.dropped(message, REASON_DELIVERY_LIMIT)
            return
        heappush(self.levels[0].returned, record)
        self._counted(record, 1)

    # -- rules -----------------------------------------------------------------------------------

    def _ttl_ns(self) -> i64:
        ttl_ms: i64 = self.rules.ttl_ms
        return NEVER if ttl_ms == NEVER or ttl_ms >= LIFETIME_MS_MAX else ttl_ms * NS_PER_MS

    def change_rules(self, rules: QueueRules, now_ns: i64) -> None:
        super().change_rules(rules, now_ns)
        self.arrivals.give(self._ttl_ns(), now_ns)
        self.mixed_below = self.next_position

    # -- looking ---------------------------------------------------------------------------------

    def ready_messages(self, step: int = 1) -> list[Message]:
        found = super().ready_messages()
        found.extend(self.tail.ready_messages())
        return found[::step]

    def returned_messages(self) -> list[Message]:
        found = super().returned_messages()
        found.extend(self.tail.returned_messages())
        return found


def hand_over(old: RuledMessages, new: RuledMessages) -> None:
    """Everything that `old` has records of is in `new`, which has nothing yet."""
    new.now_ns = old.now_ns
    new.levels = old.levels
    new.count = old.count
    new.uneven_count = old.uneven_count
    new.bytes_ready = old.bytes_ready
    new.body_bytes_ready = old.body_bytes_ready
    new.next_position = old.next_position
    new.out = old.out
    new.position = old.position
    new.redelivered = old.redelivered
    new.deliveries = old.deliveries
    new.copy_counts(old)
