"""A queue with priorities of which part is on the disk: one paged queue with records a level.

    level 9   records | tail        <- next: the first of the highest level that has any
    level 0   records | tail        -> leaves memory first, from its end
Every level that has messages keeps its first one in memory, or is having it read, so that it dies
in time. A level that is on the disk and comes next holds back those below it; one that is read
ahead does not hold back those above it, because there is one read at a time and each is small.

What is out with consumers is known by its place in its level: (level + 1) << LEVEL_AT | position.
What was taken before the queue paged has the number it had then: a position below 1 << LEVEL_AT,
or such a place of an earlier time in which it paged. All levels share one log, so those of one are
sparse in it (queues/sparse_delta).
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.paged_records import Reading
from penstock.queues.priority_levels import POSITION_MASK, Part, PriorityLevels
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.records import DropSink, Record, level_of
from penstock.queues.ruled import RuledMessages
from penstock.queues.ruled_paged import RuledPaged
from penstock.queues.rules import NEVER, QueueRules
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

HEAD_READ_BYTES: Final = 16_384
"""Of a read for the first message of a level that does not come next."""


class PriorityPaged(PriorityLevels):
    """before: what was taken before the queue paged and is unanswered, by position."""

    __slots__ = ("before",)

    def __init__(self, rules: QueueRules, sink: DropSink, index: QueueIndex) -> None:
        super().__init__(rules, sink, index)
        self.before: dict[int, Record] = {}

    # -- becoming one, and ending ----------------------------------------------------------------

    @staticmethod
    def from_records(records: RuledMessages, index: QueueIndex) -> "PriorityPaged":
        """A queue with everything that is in `records`, which is given up. index: where the log has
        what the queue pages."""
        paged = PriorityPaged(records.rules, records.sink, index)
        paged.now_ns = records.now_ns
        paged.position = records.position
        paged.redelivered = records.redelivered
        paged.deliveries = records.deliveries
        paged.next_position = records.next_position
        paged.before = records.out
        paged.copy_counts(records)
        paged._part(0)
        for level in range(len(records.levels)):
            if records.levels[level].count() > 0:
                paged._adopt_level(level, records)
        return paged

    def _adopt_level(self, level: i64, records: RuledMessages) -> None:
        """The records of one level. Those in line are numbered anew, without gaps: behind all that
        may still come back, and in their order."""
        part = self._part(level)
        queue = part.queue
        ready = records.levels[level]
        position: i64 = self.next_position - (len(ready.line) - ready.head)
        for record in ready.line[int(ready.head) :]:
            record.position = position
            position += 1
            record.level = 0
            queue._counted(record, 1)
        for record in ready.returned:
            record.level = 0
            queue._counted(record, 1)
        queue.levels[0] = ready
        self._sum(part)

    def unpaged(self) -> RuledMessages:
        records = RuledMessages(self.rules, self.sink)
        records.now_ns = self.now_ns
        records.position = self.position
        records.redelivered = self.redelivered
        records.deliveries = self.deliveries
        records.copy_counts(self)
        records.out.update(self.before)
        position: i64 = self.next_position
        for part in self._present():
            if part.queue.next_position > position:
                position = part.queue.next_position
        for part in self._present():
            position = self._give_level(part, records, position)
        if self.rules.last_value_key != "":
            records._index_keys()
        records.next_position = position
        return records

    def _give_level(self, part: Part, records: RuledMessages, position: i64) -> i64:
        """One level goes to `records`. It is numbered anew from `position` on, because numbers of
        levels are not unique; returns where the next one begins."""
        level = part.level
        whole = part.queue.unpaged()
        ready = whole.levels[0]
        held = [*ready.returned, *ready.line[int(ready.head) :]]
        for place, out in whole.out.items():
            records.out[self._position(level, place)] = out
            held.append(out)
        held.extend([out for out in self.before.values() if out.level == level])
        held.sort()
        for record in held:
            record.position = position
            record.level = level
            position += 1
        records.levels[level] = ready
        records.count += whole.count
        records.uneven_count += whole.uneven_count
        records.bytes_ready += whole.bytes_ready
        records.body_bytes_ready += whole.body_bytes_ready
        if whole.count > 0:
            records.top = level
        return position

    # -- in and out ------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        self.publish_count += 1
        part = self._part(level_of(message, self.rules.max_priority))
        part.queue.add(message)
        self._sum(part)

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        part = self._part(level_of(message, self.rules.max_priority))
        part.queue.restore(message, is_redelivered, age_ns)
        self._sum(part)

    def take(self) -> Message:
        part = self._first_part()
        if part is None or part.queue.at_hand() == 0:
            raise IndexError("the queue is empty, or its first message is on the disk")
        queue = part.queue
        message = queue.take()
        self.position = self._position(part.level, queue.position)
        self.redelivered = queue.redelivered
        self.deliveries = queue.deliveries
        self.deliver_count += 1
        self._sum(part)
        return message

    def _part_of(self, position: i64) -> Part | None:
        # What is still out from an earlier time of paging has a level in its number as well.
        if int(position) in self.before:
            return None
        return super()._part_of(position)

    def settled(self, position: i64) -> None:
        part = self._part_of(position)
        if part is None:
            self.before.pop(int(position), None)
        else:
            part.queue.settled(position & POSITION_MASK)

    def put_back(self, position: i64, message: Message) -> None:
        self.requeue_count += 1
        place: i64 = position & POSITION_MASK
        part = self._part_of(position)
        if part is None:
            part, place = self._known_before(position, message)
        part.queue.now_ns = self.now_ns
        part.queue.put_back(place, message)
        self._sum(part)

    def _known_before(self, position: i64, message: Message) -> tuple[Part, i64]:
        """The level and place of what was taken before the queue paged, which the level knows of
        from now on. What had no record gets one when it is back."""
        record = self.before.pop(int(position), None)
        if record is None:
            return self._part(level_of(message, self.rules.max_priority)), position
        part = self._part(record.level)
        record.level = 0
        part.queue.out[int(record.position)] = record
        return part, record.position

    def husked_out(self, position: i64, message: Message, husk: Message) -> None:
        part = self._part_of(position)
        if part is not None:
            part.queue.husked_out(position & POSITION_MASK, message, husk)
            return
        record = self.before.get(int(position))
        if record is None:
            # Its level could not be told without its body.
            record = Record(position, message)
            record.level = level_of(message, self.rules.max_priority)
            self.before[int(position)] = record
        record.message = husk

    def reject(self, position: i64, husk: Message) -> bool:
        place: i64 = position & POSITION_MASK
        part = self._part_of(position)
        if part is None:
            if int(position) not in self.before:
                return False
            part, place = self._known_before(position, husk)
        is_known = part.queue.reject(place, husk)
        self._sum(part)
        return is_known

    def first_bytes(self) -> i64:
        part = self._first_part()
        if part is None:
            raise IndexError("the queue is empty")
        return part.queue.first_bytes()

    def shed(self) -> Message:
        part = self._first_part()
        if part is None:
            raise IndexError("the queue is empty")
        message = part.queue.shed()
        self._sum(part)
        return message

    def purge(self) -> int:
        count = 0
        for part in self._present():
            count += part.queue.purge()
            self._sum(part)
        return count

    # -- lifetimes -------------------------------------------------------------------------------

    def expire(self, now_ns: i64, budget: i64) -> i64:
        dropped: i64 = 0
        for part in self._present():
            if part.count > 0 and dropped < budget:
                dropped += part.queue.expire(now_ns, budget - dropped)
                self._sum(part)
        return dropped

    def find_live(self, now_ns: i64, budget: i64) -> bool:
        left: i64 = budget
        while True:
            part = self._first_part()
            if part is None:
                return False
            before: i64 = part.ready
            is_found = part.queue.find_live(now_ns, left)
            self._sum(part)
            left -= before - part.ready
            if is_found or part.ready > 0:
                return is_found

    def next_expiry_ns(self) -> i64:
        soonest: i64 = NEVER
        for part in self.parts:
            if part is not None and part.count > 0:
                next_ns: i64 = part.queue.next_expiry_ns()
                if next_ns != NEVER and (soonest == NEVER or next_ns < soonest):
                    soonest = next_ns
        return soonest

    def change_rules(self, rules: QueueRules, now_ns: i64) -> None:
        self.now_ns = now_ns
        self.rules = rules
        self.level_rules = rules.of_one_level()
        for out in self.before.values():
            out.is_uneven = True
        for part in self._present():
            part.queue.change_rules(self.level_rules, now_ns)
            self._sum(part)

    # -- out of memory and back ------------------------------------------------------------------

    def head_bytes(self) -> i64:
        part = self._first_part()
        return 0 if part is None else part.queue.head_bytes()

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        saves: list[Message] = []
        room: i64 = pass_bytes
        for part in self._present():
            queue = part.queue
            excess: i64 = self.bytes_ready - self._leaving_bytes() - target_bytes
            keep: i64 = queue.bytes_ready - _leaving_bytes_of(queue)
            if excess > 0:
                keep = keep - excess if keep > excess else 0
            more = queue.page_bytes(keep, room, pass_count - len(saves))
            for message in more:
                room -= len(message.raw)
            saves.extend(more)
            self._sum(part)
        return saves

    def _leaving_bytes(self) -> i64:
        """Of husks that are on their way to the disk, and leave memory by themselves."""
        total: i64 = 0
        for tail in self.tail_list:
            total += (len(tail.q3) + len(tail.q2)) * MESSAGE_OVERHEAD_BYTES
        return total

    def next_read(self, size_bytes: i64, has_room: bool) -> Reading | None:
        level: i64 = self.top
        may_read_ahead = has_room
        while level >= 0:
            part = self.parts[level]
            level -= 1
            if part is None:
                continue
            there = part.queue.at_hand()
            if there == part.ready or not (may_read_ahead or there == 0):
                continue
            size: i64 = size_bytes
            if not may_read_ahead and size > HEAD_READ_BYTES:
                size = HEAD_READ_BYTES
            wanted = part.queue.tail.wanted(size)
            if wanted is not None:
                return Reading(part.queue.tail, wanted, there > 0)
            may_read_ahead = False
        return None

    def lacks_head(self) -> bool:
        for part in self.parts:
            if part is not None and part.ready > 0 and part.queue.at_hand() == 0:
                return True
        return False

    def refill(self, found: list[Found], wall_ahead_ns: i64) -> None:
        for part in self._present():
            part.queue.refill(found, wall_ahead_ns)
            self._sum(part)


def _leaving_bytes_of(queue: RuledPaged) -> i64:
    tail = queue.tail
    return (len(tail.q3) + len(tail.q2)) * MESSAGE_OVERHEAD_BYTES
