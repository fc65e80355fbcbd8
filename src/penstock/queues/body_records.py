"""The records of a queue whose bodies are on the disk; see bodies_paged.py for the picture.

A record whose body is not in memory has a husk for it; everything else is as in memory.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.body_tail import BodyTail
from penstock.queues.duplicates import Duplicates
from penstock.queues.husks import content_bytes, is_husk
from penstock.queues.paged_records import PagedRecords
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.records import FLAGS_AT, DropSink, Level, Record, last_value_key
from penstock.queues.rules import (
    NEVER,
    REASON_DELIVERY_LIMIT,
    REASON_DUPLICATE,
    REASON_EXPIRED,
    REASON_REJECTED,
    QueueRules,
)
from penstock.storage.layout.index import QueueIndex

RECORD_BYTES: Final = 250
"""What a record and its key cost beside its message; charged while the body is on the disk."""
WHOLE_BELOW_BYTES: Final = 512
HAND_MAX: Final = 64
"""Whole messages at the head that are counted at a time."""
STALE_MAX: Final = 256
"""Records in the lists of bodies that have left meanwhile, beside as many as there are others."""


class BodyRecords(PagedRecords):
    """tail: counts, and reads; tail_bytes: of it in `bytes_ready`; window: the keys of a queue that
    takes no duplicates; large_bytes: of ready messages in memory that may leave it; hand: so many
    at the head are whole, 0 if nobody has looked; fresh, near: by level, whole messages as they
    came, and as they were read or came back; listed: in both; leaving: why messages are read only
    to be dropped, by position; key_name: what keys are made of."""

    __slots__ = (
        "fresh",
        "hand",
        "key_name",
        "large_bytes",
        "leaving",
        "listed",
        "near",
        "tail",
        "tail_bytes",
        "window",
    )

    def __init__(self, rules: QueueRules, sink: DropSink, index: QueueIndex) -> None:
        super().__init__(rules, sink)
        self.tail = BodyTail(index)
        self.tail_bytes: i64 = 0
        self.window = Duplicates()
        self.large_bytes: i64 = 0
        self.hand: i64 = 0
        self.fresh: list[deque[Record]] = []
        self.near: list[deque[Record]] = []
        self.listed: i64 = 0
        self.leaving: dict[int, int] = {}
        self.key_name = rules.last_value_key

    # -- counting --------------------------------------------------------------------------------

    def _counted(self, record: Record, sign: i64) -> None:
        super()._counted(record, sign)
        record.is_ready = sign > 0
        if is_husk(record.message):
            tail = self.tail
            tail.husk_count += sign
            tail.husk_bytes += sign * content_bytes(record.message)
            tail.close_gaps()
        else:
            self._count_large(record, sign)

    def _count_large(self, record: Record, sign: i64) -> None:
        size: i64 = len(record.message.raw)
        if size >= WHOLE_BELOW_BYTES:
            self.large_bytes += sign * (size + MESSAGE_OVERHEAD_BYTES)

    def _replace(self, record: Record, message: Message) -> None:
        """`message` stands for that of `record`, with its body or without."""
        self._counted(record, -1)
        record.message = message
        self._counted(record, 1)

    def add_up(self) -> None:
        """The tail takes more or less memory than before."""
        bytes_: i64 = self.tail.bytes_ready
        self.bytes_ready += bytes_ - self.tail_bytes
        self.tail_bytes = bytes_

    def _list_whole(self) -> None:
        """Every body that may leave memory, and no other."""
        self.fresh = [deque() for _ in self.levels]
        self.near = [deque() for _ in self.levels]
        self.listed = 0
        for level in self.levels:
            for record in sorted(level.returned):
                self._list(record, self.near)
            for record in level.line[int(level.head) :]:
                self._list(record, self.fresh)

    def _list(self, record: Record, where: list[deque[Record]]) -> None:
        size: i64 = len(record.message.raw)
        if size >= WHOLE_BELOW_BYTES:
            where[record.level].append(record)
            self.listed += 1

    def _listed_more(self) -> None:
        if self.listed > 2 * self.count + STALE_MAX:
            self._list_whole()

    def kept_bytes(self) -> i64:
        return self.window.kept_bytes() + self.tail.husk_count * RECORD_BYTES

    def resting_bytes(self) -> i64:
        return self.bytes_ready - self.large_bytes

    def ready_count(self) -> i64:
        return self.count + self.tail.ready_count()

    def at_hand(self) -> i64:
        if self.hand == 0:
            self.hand = self._count_hand()
        return self.hand

    def _count_hand(self) -> i64:
        count: i64 = 0
        number: i64 = self.top
        while number >= 0:
            level = self.levels[number]
            number -= 1
            if len(level.returned) > 1:
                level.returned.sort()
            for record in level.returned:
                if count == HAND_MAX or is_husk(record.message):
                    return count
                count += 1
            at: i64 = level.head
            while at < len(level.line):
                if count == HAND_MAX or is_husk(level.line[at].message):
                    return count
                count += 1
                at += 1
        return count

    # -- in and out ------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """A new message, unless one with its key is here in a queue that takes no duplicates."""
        if self.rules.is_deduplicated and self.window.has(message, self.now_ns):
            self.publish_count += 1
            self.sink.dropped(message, REASON_DUPLICATE)
        else:
            super().add(message)

    def _place(self, message: Message) -> Record:
        record = super()._place(message)
        if self.rules.is_deduplicated:
            self.window.note(message, record.position, self.now_ns)
        self._list(record, self.fresh)
        self._listed_more()
        return record

    def take(self) -> Message:
        if self.at_hand() == 0:
            raise IndexError("the queue is empty, or its first message is on the disk")
        return super().take()

    def _taken(self, level: Level) -> Record:
        if self.hand > 0:
            self.hand -= 1
        record = super()._taken(level)
        # Messages leave at the head, and a list must not keep their bodies.
        self._unlist(self.near[record.level])
        self._unlist(self.fresh[record.level])
        return record

    def _unlist(self, part: deque[Record]) -> None:
        while part and (not part[0].is_ready or is_husk(part[0].message)):
            part.popleft()
            self.listed -= 1

    def _given_up(self, level: Level) -> Message:
        first = level.first()
        message = super()._given_up(level)
        if first is not None:
            self.window.forget(first.position)
        return message

    def settled(self, position: i64) -> None:
        super().settled(position)
        self.window.forget(position)

    def put_back(self, position: i64, message: Message) -> None:
        record = self.out.get(int(position))
        limit: i64 = self.rules.delivery_limit
        if is_husk(message):
            self.hand = 0
            if record is not None and limit != NEVER and record.deliveries >= limit:
                # Its dead letter has to have its body.
                del self.out[int(position)]
                self.requeue_count += 1
                self._leave(position, message, REASON_DELIVERY_LIMIT)
                return
        before: i64 = self.count
        super().put_back(position, message)
        if self.count == before:
            self.window.forget(position)
        elif record is not None:
            self._list(record, self.near)
            self._listed_more()

    def _come_back_over(self, record: Record, newer: Record) -> None:
        super()._come_back_over(record, newer)
        self.window.move(newer.position, record.position)
        self._list(record, self.near)
        self._listed_more()

    def husked_out(self, position: i64, message: Message, husk: Message) -> None:
        record = self.out.get(int(position))
        if record is None:
            # It was taken before the queue had rules; without its body it could get no record.
            record = self._record(position, message, i64(message.raw[FLAGS_AT]))
            record.is_uneven = True
            self.out[int(position)] = record
        record.message = husk

    def reject(self, position: i64, husk: Message) -> bool:
        self.out.pop(int(position), None)
        self._leave(position, husk, REASON_REJECTED)
        return True

    def _leave(self, position: i64, husk: Message, reason: i64) -> None:
        """`husk`, which came back, is read and dropped then."""
        self.leaving[int(position)] = int(reason)
        self.tail.put_back(position, husk)
        self.body_bytes_ready += husk.body_bytes
        self.add_up()

    def purge(self) -> int:
        self.leaving.clear()
        count = self.tail.purge()
        self.tail_bytes = 0
        count += super().purge()
        self.tail.close_gaps()
        self.large_bytes = 0
        self.hand = 0
        self._list_whole()
        self.window.forget_but(self.out)
        return count

    # -- lifetimes -------------------------------------------------------------------------------

    def expire(self, now_ns: i64, budget: i64) -> i64:
        """As in memory; what is dead is read before it is dropped."""
        dropped: i64 = 0
        for level in self.levels:
            while dropped < budget:
                first = level.first()
                if first is None or first.expires_ns == NEVER or first.expires_ns > now_ns:
                    break
                if is_husk(first.message):
                    break
                if self.sink.room(REASON_EXPIRED) <= 0:
                    return dropped
                self.sink.dropped(self._given_up(level), REASON_EXPIRED)
                dropped += 1
        return dropped

    def find_live(self, now_ns: i64, budget: i64) -> bool:
        left: i64 = budget
        while self.at_hand() > 0:
            if super().find_live(now_ns, 0):
                return True
            if left <= 0 or self.sink.room(REASON_EXPIRED) <= 0:
                return False
            level = self._first_level()
            assert level is not None, "because something is at hand"
            self.sink.dropped(self._given_up(level), REASON_EXPIRED)
            left -= 1
        return False

    # -- keys ------------------------------------------------------------------------------------

    def supersedes(self, message: Message) -> bool:
        name = self.rules.last_value_key
        return name != "" and last_value_key(message, name) in self.by_key

    def _index_keys(self) -> None:
        """As in memory, if keys are made of something else now. What is on the disk counts when it
        has been read, where only its body tells its key."""
        name = self.rules.last_value_key
        if name == self.key_name:
            return
        self.key_name = name
        self.by_key.clear()
        for out in self.out.values():
            out.set_key(name)
        for level in self.levels:
            for record in (*level.returned, *level.line[int(level.head) :]):
                record.set_key(name)
                if record.key != "":
                    self._index_key(record)

    def _index_key(self, record: Record) -> None:
        """`record` counts as the last value of its key, unless a newer one does."""
        name = self.key_name
        record.key = "" if name == "" else last_value_key(record.message, name)
        known = self.by_key.get(record.key)
        if record.key != "" and (known is None or record.is_newer(known)):
            self.by_key[record.key] = record

    # -- looking ---------------------------------------------------------------------------------

    def ready_messages(self, step: int = 1) -> list[Message]:
        found = super().ready_messages()
        found.extend(self.tail.ready_messages())
        return found[::step]

    def returned_messages(self) -> list[Message]:
        found = super().returned_messages()
        found.extend(self.tail.returned_messages())
        return found
