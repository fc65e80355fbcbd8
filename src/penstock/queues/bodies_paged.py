"""A queue whose records stay in memory while bodies are on the disk: one whose rules need to know
something of every message, wherever it stands.

    last values                       the record of each key, which a newer message takes over
    priorities and deduplication      the level and the key of each message
Bodies leave from the ends of the levels, the lowest first, and are read from the heads; the first
one of each level stays, so that it dies in time. What is overtaken by a newer value is never read.
Records are in the order they would have in memory, so nothing here changes it. Messages smaller
than WHOLE_BELOW_BYTES stay whole: a record and a place in the log take as much.
"""

from collections import deque
from heapq import heapify, heappop
from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.body_records import WHOLE_BELOW_BYTES, BodyRecords
from penstock.queues.deduplicated import DeduplicatedMessages
from penstock.queues.husks import content_bytes, husk_of, is_husk
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_forms import UNSAVED
from penstock.queues.paged_records import Reading
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Returned
from penstock.queues.records import Level, Record
from penstock.queues.ruled import RuledMessages
from penstock.queues.ruled_paged import hand_over
from penstock.queues.rules import REASON_REJECTED
from penstock.queues.wanted import Wanted
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

HEAD_READ_BYTES: Final = 16_384
"""Of a read for the first message of a level that does not come next."""
LOOKED_AT: Final = 512
"""Records at the head among which something to be read ahead is looked for."""


class BodiesPaged(BodyRecords):
    """What puts bodies on the disk, and brings them back."""

    __slots__ = ()

    # -- becoming one, and ending ----------------------------------------------------------------

    @staticmethod
    def from_records(records: RuledMessages, index: QueueIndex) -> "BodiesPaged":
        """A queue with everything that is in `records`, which is given up. index: where the log has
        what the queue pages."""
        paged = BodiesPaged(records.rules, records.sink, index)
        hand_over(records, paged)
        paged.top = records.top
        paged.by_key = records.by_key
        if isinstance(records, DeduplicatedMessages):
            paged.window = records.window
        for out in paged.out.values():
            out.is_ready = False
        for level in paged.levels:
            for record in (*level.returned, *level.line[int(level.head) :]):
                record.is_ready = True
                paged._count_large(record, 1)
        paged._list_whole()
        return paged

    def unpaged(self) -> RuledMessages:
        assert self.tail.paged_count() == 0, "a body is on the disk"
        records: RuledMessages
        if self.rules.is_deduplicated:
            window = DeduplicatedMessages(self.rules, self.sink)
            window.window = self.window
            records = window
        else:
            records = RuledMessages(self.rules, self.sink)
        hand_over(self, records)
        records.top = self.top
        records.by_key = self.by_key
        return records

    # -- out of memory and back ------------------------------------------------------------------

    def tails(self) -> list[PagedMessages]:
        return [self.tail]

    def head_bytes(self) -> i64:
        level = self._first_level()
        first = None if level is None else level.first()
        if first is None or is_husk(first.message):
            return 0
        return len(first.message.raw) + MESSAGE_OVERHEAD_BYTES

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        """As of the paged queue. target_bytes: of bodies that may leave (`resting_bytes`)."""
        saves: list[Message] = []
        room: i64 = pass_bytes
        number: i64 = 0
        while number < len(self.levels) and self.large_bytes > target_bytes and room >= 0:
            first = self.levels[number].first()
            room = self._page_part(self.fresh[number], first, saves, target_bytes, room, pass_count)
            if room >= 0:
                room = self._page_part(
                    self.near[number], first, saves, target_bytes, room, pass_count
                )
            number += 1
        # What is appended together lies together as it will be read.
        saves.reverse()
        return saves

    def _page_part(
        self,
        part: deque[Record],
        first: Record | None,
        saves: list[Message],
        target_bytes: i64,
        pass_bytes: i64,
        pass_count: i64,
    ) -> i64:
        """Bodies of `part` leave from its end, but not that of `first`; what is left of
        `pass_bytes`, -1 when there is one that has to be saved and may not."""
        room: i64 = pass_bytes
        is_first_here = False
        while part and self.large_bytes > target_bytes:
            record = part.pop()
            self.listed -= 1
            message = record.message
            size: i64 = len(message.raw)
            if not record.is_ready or size < WHOLE_BELOW_BYTES:
                continue
            if record is first:
                is_first_here = True
                continue
            if self.tail.place_of(message) == UNSAVED:
                if room <= 0 or (size > room and saves) or len(saves) >= pass_count:
                    part.append(record)
                    self.listed += 1
                    room = -1
                    break
                room = room - size if room > size else 0
                self.tail.reserve(message)
                saves.append(message)
            self._replace(record, husk_of(message))
            message.origin.unstore(0, size)
            self.hand = 0
        if is_first_here:
            assert first is not None, "it was found"
            part.appendleft(first)
            self.listed += 1
        return room

    def next_read(self, size_bytes: i64, has_room: bool) -> Reading | None:
        tail = self.tail
        tail.waiting = {}
        if tail.husks_back:
            back = tail.wanted(size_bytes)
            if back is not None:
                return Reading(tail, back, self.at_hand() > 0)
        is_next = True
        number: i64 = self.top
        while number >= 0:
            level = self.levels[number]
            number -= 1
            first = level.first()
            if first is None:
                continue
            is_missing = is_husk(first.message)
            if is_missing or (is_next and has_room):
                size: i64 = size_bytes
                if not is_next and size > HEAD_READ_BYTES:
                    size = HEAD_READ_BYTES
                wanted = self._wanted(level, size)
                if wanted is not None:
                    return Reading(tail, wanted, not is_missing)
            is_next = False
        return None

    def _wanted(self, level: Level, bytes_max: i64) -> Wanted | None:
        """The next bodies of `level`, of about `bytes_max`, but one at least; None if there is none
        near, or it has no place yet."""
        tail = self.tail
        chosen: list[int] = []
        bytes_: i64 = 0
        whole: i64 = 0
        count: i64 = len(level.returned)
        if count > 1:
            level.returned.sort()
        at: i64 = level.head - count
        while at < len(level.line) and whole < LOOKED_AT:
            place: i64 = at - level.head + count
            record = level.returned[place] if place < count else level.line[at]
            at += 1
            if not is_husk(record.message):
                whole += 1
                continue
            position = tail.place_of(record.message)
            size: i64 = content_bytes(record.message)
            more: i64 = bytes_ + size + (len(chosen) + 1) * MESSAGE_OVERHEAD_BYTES
            if position <= 0 or (chosen and more > bytes_max):
                break
            chosen.append(int(position))
            tail.waiting[int(position)] = record
            bytes_ += size
        if not chosen:
            return None
        chosen.sort()
        wanted = Wanted(tail.index, chosen[0], len(chosen), False)
        wanted.chosen = chosen
        wanted.bytes = bytes_
        return wanted

    def lacks_head(self) -> bool:
        if self.tail.husks_back:
            return True
        for level in self.levels:
            first = level.first()
            if first is not None and is_husk(first.message):
                return True
        return False

    def refill(self, found: list[Found], wall_ahead_ns: i64) -> None:
        """Records get their bodies; what was read only to be dropped leaves."""
        tail = self.tail
        while tail.returned:
            self._drop_read(heappop(tail.returned))
        for one in found:
            record = tail.record_at(one.position)
            if record is not None:
                husk = record.message
                message = one.message
                message.address = husk.address
                message.origin = husk.origin
                message.stored = husk.stored
                self._replace(record, message)
                message.origin.store(0, len(message.raw))
                self._list(record, self.near)
                if record.key == "" and self.key_name != "":
                    self._index_key(record)
        self._listed_more()
        for record in tail.gone:
            self._lose(record)
        tail.gone = []

    def _drop_read(self, entry: Returned) -> None:
        """It came back only to leave, and its body was read for that."""
        message = entry.message
        self.tail.bytes_ready -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.body_bytes_ready -= message.body_bytes
        self.add_up()
        reason: i64 = self.leaving.pop(int(entry.position), int(REASON_REJECTED))
        if reason == REASON_REJECTED:
            self.ack_count += 1
        self.window.forget(entry.position)
        self.sink.dropped(message, reason)

    def _lose(self, record: Record) -> None:
        """The body of `record` cannot be read."""
        level = self.levels[record.level]
        if record in level.returned:
            level.returned.remove(record)
            heapify(level.returned)
        else:
            del level.line[level.line.index(record, int(level.head))]
        self._counted(record, -1)
        if record.key != "" and self.by_key.get(record.key) is record:
            del self.by_key[record.key]
        self.window.forget(record.position)
        record.message.origin.unstore(1, MESSAGE_OVERHEAD_BYTES)
        self.hand = 0

    def lost_some(self) -> None:
        """What came back only to leave may be among it."""
        there = {int(entry.position) for entry in self.tail.husks_back}
        for position in list(self.leaving):
            if position not in there:
                del self.leaving[position]
                self.window.forget(position)
        self.add_up()
        self.body_bytes_ready = 0
        for message in self.ready_messages():
            self.body_bytes_ready += message.body_bytes
