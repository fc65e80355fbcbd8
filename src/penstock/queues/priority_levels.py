"""The levels of a queue with priorities of which part is on the disk, and what all of them have
together; see priority_paged.py for the picture."""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.arrivals import MARKS_MAX
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_records import PagedRecords
from penstock.queues.records import DropSink
from penstock.queues.ruled_paged import RuledPaged
from penstock.queues.rules import QueueRules
from penstock.queues.sparse_delta import SparseDelta
from penstock.storage.layout.index import QueueIndex

LEVEL_AT: Final = 48
POSITION_MASK: Final = (1 << 48) - 1


class Part:
    """One level, and what of it is in the sums."""

    __slots__ = ("body_bytes", "bytes", "count", "level", "queue", "ready", "uneven")

    def __init__(self, level: i64, queue: RuledPaged) -> None:
        self.level: i64 = level
        self.queue = queue
        self.count: i64 = 0
        self.ready: i64 = 0
        self.bytes: i64 = 0
        self.body_bytes: i64 = 0
        self.uneven: i64 = 0


class PriorityLevels(PagedRecords):
    """parts: by level, None for one that never had a message while the queue paged; ready: of all;
    tail_list: of the parts; level_rules: what each goes by; index: where the log has what pages."""

    __slots__ = ("index", "level_rules", "parts", "ready", "tail_list")

    def __init__(self, rules: QueueRules, sink: DropSink, index: QueueIndex) -> None:
        super().__init__(rules, sink)
        self.index = index
        self.level_rules = rules.of_one_level()
        self.parts: list[Part | None] = [None] * (int(rules.max_priority) + 1)
        self.tail_list: list[PagedMessages] = []
        self.ready: i64 = 0

    def _make_levels(self) -> None:
        """Each level has its own."""

    def _part(self, level: i64) -> Part:
        part = self.parts[level]
        if part is None:
            tail = PagedMessages(self.index, self.index)
            tail.delta = SparseDelta()
            queue = RuledPaged(self.level_rules, self.sink, tail)
            # All levels together have as many as a queue without priorities.
            queue.arrivals.most = MARKS_MAX // len(self.parts)
            queue.next_position = self.next_position
            tail.taken = self.next_position
            part = Part(level, queue)
            self.parts[level] = part
            self.tail_list.append(tail)
        part.queue.now_ns = self.now_ns
        return part

    def _present(self) -> list[Part]:
        """Those that have messages, or may have some out, from the lowest on; in this turn."""
        found: list[Part] = []
        for part in self.parts:
            if part is not None:
                part.queue.now_ns = self.now_ns
                found.append(part)
        return found

    def _sum(self, part: Part) -> None:
        """`part` has changed."""
        queue = part.queue
        self.count += queue.count - part.count
        part.count = queue.count
        ready = queue.ready_count()
        self.ready += ready - part.ready
        part.ready = ready
        self.bytes_ready += queue.bytes_ready - part.bytes
        part.bytes = queue.bytes_ready
        self.body_bytes_ready += queue.body_bytes_ready - part.body_bytes
        part.body_bytes = queue.body_bytes_ready
        self.uneven_count += queue.uneven_count - part.uneven
        part.uneven = queue.uneven_count
        self.ack_count += queue.ack_count
        queue.ack_count = 0
        if ready > 0 and part.level > self.top:
            self.top = part.level

    def _first_part(self) -> Part | None:
        """The highest level that has a message, wherever it is."""
        while True:
            part = self.parts[self.top]
            if part is not None and part.ready > 0:
                part.queue.now_ns = self.now_ns
                return part
            if self.top == 0:
                return None
            self.top -= 1

    def _position(self, level: i64, place: i64) -> int:
        """What is out from `place` of `level` is known by this."""
        return int((level + 1 << LEVEL_AT) | place)

    def _part_of(self, position: i64) -> Part | None:
        """The level of what was taken at `position`, None if the queue did not page then."""
        level: i64 = (position >> LEVEL_AT) - 1
        return self.parts[level] if 0 <= level < len(self.parts) else None

    def ready_count(self) -> i64:
        return self.ready

    def at_hand(self) -> i64:
        count: i64 = 0
        level: i64 = self.top
        while level >= 0:
            part = self.parts[level]
            level -= 1
            if part is None or part.ready == 0:
                continue
            there = part.queue.at_hand()
            count += there
            if there < part.ready:
                break
        return count

    def tails(self) -> list[PagedMessages]:
        return self.tail_list

    def ready_messages(self, step: int = 1) -> list[Message]:
        found: list[Message] = []
        for part in self._present():
            found.extend(part.queue.ready_messages())
        return found[::step]

    def returned_messages(self) -> list[Message]:
        found: list[Message] = []
        for part in self._present():
            found.extend(part.queue.returned_messages())
        return found
