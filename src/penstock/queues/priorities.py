"""A queue with priorities, lifetimes or another rule: an entry for each message, in 1..256 lines,
one for each level of priority.

    level 9   returned | entries | what is on the disk (queues/line)      <- next: the first of the
    level 0   returned | entries | what is on the disk                       highest that has any
An entry keeps its lifetime and its deliveries while the message is out with a consumer, so what
comes back expires when it would have, and counts on. Rules are hooks, told when an entry has
entered or left: lifetimes (message_ttl.py), last values (last_values.py), keys of a queue that
takes no duplicates (deduplication.py). Expiry looks at the first message of each level only, as
RabbitMQ does: what stands behind it goes when it gets there, before it would be delivered.

What a queue forgets when it pages is its residence. One with last values needs each entry, and
forgets bodies only. Of any other, entries leave memory with their messages, and are made anew when
these are read; what came back stays, so its deliveries are never on the disk. The lowest levels
leave first, from their ends; the first message of each level stays in memory, or is read, so that
it dies in time. There is one read at a time, for the highest level that lacks its first message.

A message is known by its position: level << LEVEL_AT | number in its line. Level 0 counts as a
queue without rules does, whose line it goes on with; what was out then has no entry, and gets one
when it comes back. Positions below 0 were leased before a restart.
"""

from typing import Final, cast

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.protocol.content import Message
from penstock.queues.bodies import ENTRY_BYTES
from penstock.queues.deduplication import Keys
from penstock.queues.entry import UNBORN, Entry, Leaving, Returned, is_stub, level_of
from penstock.queues.last_values import LastValues
from penstock.queues.line import BODIES, ENTRIES, MessageLine
from penstock.queues.message_ttl import MARKS_MAX, Arrivals, Lifetimes
from penstock.queues.queue import (
    ClassicQueue,
    Dropped,
    DropSink,
    FoundRange,
    Purged,
    ReadRequest,
)
from penstock.queues.rules import (
    NEVER,
    NS_PER_MS,
    REASON_DELIVERY_LIMIT,
    REASON_DUPLICATE,
    REASON_EXPIRED,
    REASON_REJECTED,
    REASON_SUPERSEDED,
    QueueRules,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

LEVEL_AT: Final = 48
LONG_AGO_NS: Final = -(1 << 62)
HEAD_READ_BYTES: Final = 16_384
"""Of a read for the first message of a level that does not come next."""


class PriorityLevel:
    """The messages of one priority. line: where they stand; arrivals: of those without an entry;
    mixed_below: what lies before may die in another order than it stands in; sized_from: bodies
    without an entry count from this position on, those before when they are read; ready, bytes: of
    the line, as they are in the sums of all."""

    __slots__ = ("arrivals", "bytes", "line", "mixed_below", "ready", "sized_from")

    def __init__(self, line: MessageLine, marks_max: i64) -> None:
        self.line = line
        self.arrivals = Arrivals(marks_max)
        self.mixed_below: i64 = 0
        self.sized_from: i64 = 0
        self.ready: i64 = 0
        self.bytes: i64 = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class PriorityQueue(ClassicQueue):
    """rules: see QueueRules; sink: gets what is dropped; now_ns: the time of this turn, set by the
    queue's actor; levels: those that ever had a message, from the lowest on; by_level: the same, at
    their priorities; top: no level above has a message; out: entries of what is out with consumers,
    by position; count: ready entries; ready: of all messages; body_bytes_ready: of their bodies;
    arrived: messages that ever came; lifetimes, last, keys: hooks, None for none; index, spill: see
    begin_paging."""

    __slots__ = (
        "arrived_count",
        "body_bytes_ready",
        "by_level",
        "count",
        "index",
        "keys",
        "last",
        "levels",
        "lifetimes",
        "now_ns",
        "out",
        "ready",
        "residence",
        "rules",
        "sink",
        "spill",
        "top",
    )

    def __init__(self, rules: QueueRules, sink: DropSink) -> None:
        super().__init__()
        self.has_entries = True
        self.rules = rules
        self.sink = sink
        self.now_ns: i64 = 0
        self.by_level: list[PriorityLevel | None] = [None] * (int(rules.max_priority) + 1)
        self.levels: list[PriorityLevel] = []
        self.top: i64 = 0
        self.out: dict[int, Entry] = {}
        self.count: i64 = 0
        self.ready: i64 = 0
        self.body_bytes_ready: i64 = 0
        self.arrived_count: i64 = 0
        self.lifetimes = Lifetimes(rules.ttl_ms)
        self.last = LastValues(rules.last_value_key) if rules.last_value_key != "" else None
        self.keys = Keys() if rules.is_deduplicated else None
        self.residence: i64 = ENTRIES
        self.index: QueueIndex | None = None
        self.spill: QueueIndex | None = None
        self._level(0)

    # -- from a queue without rules, and back ----------------------------------------------------

    def adopt(self, line: MessageLine, now_ns: i64) -> None:
        """Everything that is in `line`, which pages or not, is in this queue, which is empty.
        Lifetimes begin now, because a line does not know when a message came."""
        self.now_ns = now_ns
        self.copy_counts(line)
        level = self.levels[0]
        level.line = line
        line.keep_entries()
        if line.is_paging:
            self.is_paging = True
            self.index = line.behind.index
            self.spill = line.behind.spill
            # Last values begin when everything is in memory.
            self.last = None
            line.stub_embedded()
            line.behind.waiting = {}
        back: list[Returned] = []
        for one in line.returned:
            entry = Entry(one.position, one.message, 0)
            entry.deliveries = self._returns(one.message)
            entry.is_ready = True
            self._begin(entry)
            self._entered(entry)
            back.append(entry)
        line.returned = back
        if line.behind.is_split:
            behind: i64 = line.taken + len(line.ring)
            level.arrivals.note_unknown(behind, self.lifetimes.ttl_ns(), now_ns)
            level.sized_from = line.end_position()
        while len(line.ring) > 0:
            entry = Entry(line.taken, line.take_front(), 0)
            if entry.position < line.redelivered_below:
                entry.deliveries = self._returns(entry.message)
            self._begin(entry)
            line.append(entry)
            self._entered(entry)
        self._sum(level)
        if self.rules.max_priority > 0 and not self.is_paging:
            self._sort_levels()

    def _sort_levels(self) -> None:
        """What stands in level 0 goes to the level it belongs to."""
        level = self.levels[0]
        line = level.line
        kept: list[Entry] = []
        while line.ready_count() > 0:
            entry = line.take_entry()
            self._left(entry)
            kept.append(entry)
        for entry in kept:
            entry.level = level_of(entry.message, self.rules.max_priority)
            other = self._level(entry.level)
            if entry.deliveries > 0:
                self._come_back(other, entry)
                continue
            if entry.level > 0:
                entry.position = other.line.taken
                other.line.taken += 1
            other.line.append(entry)
            self._entered(entry)
            self._sum(other)
        self._sum(level)

    def to_line(self) -> MessageLine:
        """A line without rules with all that is ready, in the order of delivery. What is out comes
        back in front of it, as ever."""
        line = MessageLine()
        line.copy_counts(self)
        for level in reversed(self.levels):
            end = level.line.end_position()
            if end > line.taken:
                line.taken = end
        for level in reversed(self.levels):
            for one in level.line.returned:
                line.come_back(Returned(one.position, one.message))
            for entry in level.line.entries[int(level.line.at) :]:
                line.restore(entry.message, entry.deliveries > 0, 0)
        return line

    # -- levels and hooks ------------------------------------------------------------------------

    def _level(self, number: i64) -> PriorityLevel:
        level = self.by_level[number]
        if level is None:
            line = MessageLine()
            line.keep_entries()
            line.level = number
            line.taken = number << LEVEL_AT
            line.redelivered_below = line.taken
            if self.is_paging:
                self._page_line(line)
            # All levels together have as many marks as a queue without priorities.
            level = PriorityLevel(line, MARKS_MAX // len(self.by_level))
            self.by_level[number] = level
            self.levels = [one for one in self.by_level if one is not None]
        return level

    def _first_level(self) -> PriorityLevel | None:
        """The highest level that has a message, wherever it is."""
        while True:
            level = self.by_level[self.top]
            if level is not None and level.ready > 0:
                return level
            if self.top == 0:
                return None
            self.top -= 1

    def _sum(self, level: PriorityLevel) -> None:
        """The line of `level` has changed."""
        line = level.line
        ready = line.ready_count()
        self.ready += ready - level.ready
        level.ready = ready
        self.bytes_ready += line.bytes_ready - level.bytes
        level.bytes = line.bytes_ready
        if ready > 0 and line.level > self.top:
            self.top = line.level

    def _entered(self, entry: Entry) -> None:
        """`entry` is ready."""
        self.count += 1
        self.body_bytes_ready += entry.message.body_bytes
        self.lifetimes.entered(entry)
        if self.last is not None:
            self.last.entered(entry)

    def _left(self, entry: Entry) -> None:
        """`entry` is not ready any more."""
        self.count -= 1
        self.body_bytes_ready -= entry.message.body_bytes
        self.lifetimes.left(entry)
        if self.last is not None:
            self.last.left(entry)

    def _begin(self, entry: Entry) -> None:
        """The lifetime of `entry`, which is not ready, begins; it gets its key."""
        self.lifetimes.begin(entry, self.now_ns)
        if self.last is not None:
            self.last.name_entry(entry)

    def _returns(self, message: Message) -> i64:
        """How often `message`, which may have been delivered before the start, came back: once, or
        as often as the log knows."""
        known: i64 = self.sink.returns_of(message) if self.rules.is_counted else 0
        return known if known > 1 else 1

    def _forget(self, position: i64) -> None:
        """What was at `position` is not here any more, ready or out."""
        if self.keys is not None:
            self.keys.forget(position)

    def _recall(self, position: i64) -> None:
        """What is at `position` will not be out any more, and its key counts all the same."""
        if self.keys is not None:
            self.keys.recall(position)

    # -- in and out ------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """Behind all others of its level, or in the place of the one whose last value it is; not at
        all if one with its key is here, in a queue that takes no duplicates."""
        self.publish_count += 1
        if self.is_duplicate(message):
            self.sink.dropped(message, REASON_DUPLICATE)
        else:
            self._place(message, False)

    def is_duplicate(self, message: Message) -> bool:
        """Whether one with the key of `message` is here, in a queue that takes no duplicates."""
        return self.keys is not None and self.keys.has(message, self.now_ns)

    def restores_at(self, now_ns: i64) -> None:
        self.now_ns = now_ns

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        now_ns: i64 = self.now_ns
        self.now_ns = now_ns - age_ns
        self._place(message, is_redelivered)
        self.now_ns = now_ns

    def restored_out(self, position: i64, message: Message, now_ns: i64) -> None:
        # One that is published again is still a duplicate.
        if self.keys is not None:
            self.keys.note(message, position, now_ns)

    def _place(self, message: Message, is_redelivered: bool) -> None:
        """Make `message` ready; it came at `now_ns`."""
        number: i64 = level_of(message, self.rules.max_priority)
        level = self._level(number)
        line = level.line
        self.arrived_count += 1
        position: i64 = line.end_position()
        if line.behind.is_split:
            level.arrivals.note(position, self.now_ns, self.lifetimes.ttl_ns())
            line.add(message)
            self.body_bytes_ready += message.body_bytes
            if is_redelivered:
                line.redelivered_below = position + 1
        else:
            known = None if self.last is None else self.last.known(message)
            if known is not None:
                position = known.position
                self._supersede(known, message, is_redelivered)
            else:
                entry = Entry(position, message, number)
                line.taken = position + 1
                self._arrive(entry, is_redelivered)
                line.append(entry)
                self._entered(entry)
        if self.keys is not None:
            self.keys.note(message, position, self.now_ns)
        self._sum(level)

    def _arrive(self, entry: Entry, is_redelivered: bool) -> None:
        """The message of `entry` has just come."""
        entry.nth = self.arrived_count
        entry.deliveries = self._returns(entry.message) if is_redelivered else 0
        self._begin(entry)
        if entry.expires_ns != NEVER and entry.expires_ns < 1:
            # Dead since before the machine was started.
            entry.expires_ns = 1

    def _supersede(self, entry: Entry, message: Message, is_redelivered: bool) -> None:
        """`message` takes the place of the one that `entry` has."""
        overtaken = entry.message
        level = self._level(entry.level)
        self._left(entry)
        level.line.replace(entry, message)
        self._arrive(entry, is_redelivered)
        entry.is_uneven = True
        self._entered(entry)
        self._sum(level)
        self.sink.dropped(overtaken, REASON_SUPERSEDED)

    def _come_back_over(self, entry: Entry, newer: Entry) -> None:
        """`newer`, which comes back, takes the place of `entry`, whose key it has."""
        overtaken = entry.message
        level = self._level(entry.level)
        self._left(entry)
        level.line.replace(entry, newer.message)
        entry.continue_as(newer)
        self._entered(entry)
        self._sum(level)
        if self.keys is not None:
            self.keys.move(newer.position, entry.position)
        self.sink.dropped(overtaken, REASON_SUPERSEDED)

    def take(self) -> Message:
        level = self._first_level()
        if level is None or level.line.at_hand() == 0:
            raise IndexError("the queue is empty, or its first message is on the disk")
        entry = level.line.take_entry()
        self._left(entry)
        self._sum(level)
        self.out[int(entry.position)] = entry
        self.position = entry.position
        self.deliveries = entry.deliveries
        self.redelivered = entry.deliveries > 0
        self.deliver_count += 1
        return entry.message

    def _given_up(self, level: PriorityLevel) -> Message:
        """The first message of `level` leaves the queue without a delivery."""
        entry = level.line.take_entry()
        self._left(entry)
        self._sum(level)
        self._forget(entry.position)
        return entry.message

    def shed(self) -> Message:
        level = self._first_level()
        if level is None or level.line.at_hand() == 0:
            raise IndexError("the queue is empty, or its first message is on the disk")
        return self._given_up(level)

    def settled(self, position: i64) -> None:
        self.out.pop(int(position), None)
        self._forget(position)

    def put_back(self, position: i64, message: Message) -> None:
        """To where it was, unless it came back too often, or is not the last value any more."""
        self._recall(position)
        entry = self.out.pop(int(position), None)
        if entry is None:
            # It was taken before the queue had rules.
            entry = Entry(position, message, level_of(message, self.rules.max_priority))
            if self.rules.is_counted:
                entry.deliveries = self.sink.returns_of(message)
        entry.message = message
        if entry.came_ns == UNBORN:
            self._begin(entry)
            entry.is_uneven = True
        entry.deliveries += 1
        self.requeue_count += 1
        level = self._level(entry.level)
        limit: i64 = self.rules.delivery_limit
        if limit != NEVER and entry.deliveries > limit:
            if is_stub(message):
                # Its dead letter has to have its body.
                self._leave(level, position, message, REASON_DELIVERY_LIMIT)
                return
            self._forget(position)
            self.sink.dropped(message, REASON_DELIVERY_LIMIT)
            return
        if self.rules.is_counted:
            self.sink.came_back(message, entry.deliveries)
        known = None
        if self.last is not None and entry.key != "":
            known = self.last.by_key.get(entry.key)
        if known is None:
            self._come_back(level, entry)
        elif known.is_newer(entry):
            self._forget(position)
            self.sink.dropped(message, REASON_SUPERSEDED)
        else:
            self._come_back_over(known, entry)

    def _come_back(self, level: PriorityLevel, entry: Entry) -> None:
        entry.is_ready = True
        level.line.come_back(entry)
        self._entered(entry)
        self._sum(level)

    def stubbed_out(self, position: i64, message: Message, stub: Message) -> None:
        entry = self.out.get(int(position))
        if entry is None:
            # Taken before the queue had rules. Without its body its level could not be told.
            entry = Entry(position, message, level_of(message, self.rules.max_priority))
            self.out[int(position)] = entry
        entry.message = stub

    def reject(self, position: i64, stub: Message) -> bool:
        if not self.is_paging:
            return False
        self._recall(position)
        entry = self.out.pop(int(position), None)
        self._leave(
            self._level(0 if entry is None else entry.level), position, stub, REASON_REJECTED
        )
        return True

    def _leave(self, level: PriorityLevel, position: i64, stub: Message, reason: i64) -> None:
        """`stub`, which was out, is read, and dropped then."""
        level.line.leave(position, stub, reason)
        self._sum(level)

    def purge(self) -> Purged:
        purged = Purged(int(self.ready), 0)
        for level in self.levels:
            part = level.line.purge()
            purged.bytes += part.bytes
            purged.messages.extend(part.messages)
            purged.entries.extend(part.entries)
            level.arrivals = Arrivals(level.arrivals.most)
            self._sum(level)
        if self.last is not None:
            purged.tables.append(self.last.by_key)
            self.last.by_key = {}
        if self.keys is not None:
            purged.rows = self.keys.purge(self.out)
        self.top = 0
        self.count = 0
        self.lifetimes.uneven_count = 0
        self.body_bytes_ready = 0
        return purged

    # -- lifetimes -------------------------------------------------------------------------------

    def expire(self, now_ns: i64, budget: i64) -> i64:
        """Drop up to `budget` messages from the heads whose time is up at `now_ns`, as far as the
        sink has room; how many. One that is on the disk is read before."""
        dropped: i64 = 0
        if self.count == 0:
            return dropped
        for level in self.levels:
            while dropped < budget:
                first = level.line.first()
                if first is None or first.expires_ns == NEVER or first.expires_ns > now_ns:
                    break
                if is_stub(first.message):
                    break
                if self.sink.room(REASON_EXPIRED) <= 0:
                    return dropped
                self.sink.dropped(self._given_up(level), REASON_EXPIRED)
                dropped += 1
        return dropped

    def find_live(self, now_ns: i64, budget: i64) -> bool:
        """Drop up to `budget` dead messages until the first one may be delivered at `now_ns`;
        False if none is left, it is on the disk, too many were dead, or the sink has no room for
        them."""
        left: i64 = budget
        while True:
            level = self._first_level()
            if level is None or level.line.at_hand() == 0:
                return False
            first = level.line.first()
            assert first is not None, "because it is at hand"
            if not first.is_dead(now_ns):
                return True
            if left <= 0 or self.sink.room(REASON_EXPIRED) <= 0:
                return False
            left -= 1
            self.sink.dropped(self._given_up(level), REASON_EXPIRED)

    def is_due(self, now_ns: i64) -> bool:
        """Whether the time of one of the heads is up at `now_ns`."""
        due_ns: i64 = self.next_expiry_ns()
        return due_ns != NEVER and due_ns <= now_ns

    def next_expiry_ns(self) -> i64:
        """When the first of the heads expires, NEVER if none does."""
        soonest: i64 = NEVER
        if self.count == 0:
            return soonest
        for level in self.levels:
            first = level.line.first()
            if first is None or first.expires_ns == NEVER:
                continue
            if soonest == NEVER or first.expires_ns < soonest:
                soonest = first.expires_ns
        return soonest

    def has_lifetimes(self) -> bool:
        """Whether a message that is ready, or out, will die. What is on the disk may."""
        if self.is_paging:
            return True
        for out in self.out.values():
            if out.expires_ns != NEVER:
                return True
        for level in self.levels:
            for entry in level.line.present():
                if entry.expires_ns != NEVER:
                    return True
        return False

    # -- rules -----------------------------------------------------------------------------------

    def supersedes(self, message: Message) -> bool:
        """Whether `message` would take the place of one that is ready."""
        return self.last is not None and self.last.known(message) is not None

    def kept_bytes(self) -> i64:
        """What the rules keep in memory beside messages, and is charged to nobody."""
        kept: i64 = 0 if self.keys is None else self.keys.kept_bytes()
        if self.residence == BODIES:
            for level in self.levels:
                kept += level.line.stub_entries * ENTRY_BYTES
        return kept

    def change_rules(self, rules: QueueRules, now_ns: i64) -> None:
        """Go by `rules` from now on. Lifetimes that have begun stay as they are; messages without
        one get the new one now. Levels stay: how many there are is said once, at declaration."""
        self.now_ns = now_ns
        self.rules = rules
        self.lifetimes.ttl_ms = rules.ttl_ms
        for out in self.out.values():
            out.is_uneven = True
        for level in self.levels:
            for entry in level.line.present():
                self.lifetimes.change(entry, now_ns)
            level.arrivals.give(self.lifetimes.ttl_ns(), now_ns)
            level.mixed_below = level.line.end_position()
        self._change_keys()

    def _change_keys(self) -> None:
        """What is ready counts as the last value of its key, the newest of several. Last values
        begin when every message has its entry."""
        name = self.rules.last_value_key
        if name == ("" if self.last is None else self.last.name):
            return
        if name == "":
            self.last = None
            return
        if self.is_paging and self.residence == ENTRIES:
            return
        last = LastValues(name)
        self.last = last
        for out in self.out.values():
            last.name_entry(out)
        for level in self.levels:
            for entry in level.line.present():
                last.name_entry(entry)
                last.entered(entry)

    # -- looking ---------------------------------------------------------------------------------

    def ready_count(self) -> i64:
        return self.ready

    def leaving_count(self) -> i64:
        count: i64 = 0
        if self.is_paging:
            for level in self.levels:
                count += level.line.leaving_count()
        return count

    def at_hand(self) -> i64:
        if not self.is_paging:
            return self.count
        count: i64 = 0
        for level in reversed(self.levels):
            if level.ready > 0:
                there = level.line.at_hand()
                count += there
                if there < level.ready:
                    break
        return count

    def first_bytes(self) -> i64:
        level = self._first_level()
        if level is None:
            raise IndexError("the queue is empty")
        return level.line.first_bytes()

    def ready_messages(self, step: int = 1) -> list[Message]:
        found: list[Message] = []
        for level in self.levels:
            found.extend(level.line.ready_messages())
        return found if step == 1 else found[::step]

    def some_messages(self, most: i64) -> list[Message]:
        found: list[Message] = []
        each: i64 = most // len(self.levels)
        for level in self.levels:
            found.extend(level.line.some_messages(each if each > 0 else 1))
        return found

    def returned_messages(self) -> list[Message]:
        found: list[Message] = []
        for level in self.levels:
            found.extend(level.line.returned_messages())
        return found

    def paged_count(self) -> i64:
        count: i64 = 0
        for level in self.levels:
            count += level.line.paged_count()
        return count

    def paged_bytes(self) -> i64:
        bytes_: i64 = 0
        for level in self.levels:
            bytes_ += level.line.paged_bytes()
        return bytes_

    def in_pieces(self) -> list[tuple[Cause, int, int]]:
        found: list[tuple[Cause, int, int]] = []
        for level in self.levels:
            found.extend(level.line.in_pieces())
        return found

    def pieces_count(self) -> i64:
        count: i64 = 0
        for level in self.levels:
            count += level.line.pieces_count()
        return count

    def stretches(self) -> list[tuple[QueueIndex, int, int]]:
        found: list[tuple[QueueIndex, int, int]] = []
        for level in self.levels:
            found.extend(level.line.stretches())
        return found

    def is_whole(self) -> bool:
        return all(level.line.is_whole() for level in self.levels)

    def lacks_head(self) -> bool:
        return any(level.line.lacks_head() for level in self.levels)

    def head_bytes(self) -> i64:
        level = self._first_level()
        return 0 if level is None else level.line.head_bytes()

    def resting_bytes(self) -> i64:
        bytes_: i64 = 0
        for level in self.levels:
            bytes_ += level.line.resting_bytes()
        return bytes_

    def tail_bytes_ready(self) -> i64:
        bytes_: i64 = 0
        for level in self.levels:
            bytes_ += level.line.tail_bytes_ready()
        return bytes_

    def place_of(self, message: Message) -> i64:
        return self.levels[0].line.place_of(message)

    # -- out of memory and back ------------------------------------------------------------------

    def begin_paging(self, index: QueueIndex, spill: QueueIndex) -> None:
        self.is_paging = True
        self.index = index
        self.spill = spill
        self.residence = ENTRIES if self.last is None else BODIES
        for level in self.levels:
            self._page_line(level.line)

    def _page_line(self, line: MessageLine) -> None:
        assert self.index is not None and self.spill is not None, "the queue pages"
        line.page_as(self.index, self.spill, self.residence, len(self.by_level) > 1)

    def end_paging(self) -> None:
        self.is_paging = False
        self.residence = ENTRIES
        self.body_bytes_ready = 0
        for level in self.levels:
            level.line.end_paging()
            level.arrivals = Arrivals(level.arrivals.most)
            level.mixed_below = 0
            level.sized_from = 0
            # What could not be read has left without its size.
            for entry in level.line.present():
                self.body_bytes_ready += entry.message.body_bytes
        self._change_keys()

    def restore_delta(self, found: FoundRange) -> None:
        level = self.levels[0]
        level.line.restore_delta(found)
        self._sum(level)

    def can_restore_unread(self) -> bool:
        return len(self.by_level) == 1 and self.keys is None and self.last is None

    def restored_unread(self, body_bytes: i64) -> None:
        level = self.levels[0]
        line = level.line
        self.body_bytes_ready = body_bytes
        level.arrivals.note_unknown(line.taken, self.lifetimes.ttl_ns(), LONG_AGO_NS)
        if body_bytes == 0:
            level.sized_from = line.end_position()

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        saves: list[Message] = []
        room: i64 = pass_bytes
        total: i64 = 0
        for level in self.levels:
            total += level.line.leaving_bytes()
        for level in self.levels:
            line = level.line
            keep: i64 = line.leaving_bytes()
            total -= keep
            excess: i64 = total + keep - target_bytes
            if excess > 0:
                keep = keep - excess if keep > excess else 0
            if self.residence == ENTRIES:
                # Pieces stay, and levels above would have to make room for them.
                self._lend(level, keep - line.behind.delta.ram_bytes)
            for message in line.page_bytes(keep, room, pass_count - len(saves)):
                room -= len(message.raw)
                saves.append(message)
            self._refill(level, [], 0)
            total += line.leaving_bytes()
        return saves

    def _lend(self, level: PriorityLevel, target_bytes: i64) -> None:
        """Entries at the end of the front leave memory, until it has no more than `target_bytes`,
        but its first message stays."""
        for entry in level.line.lend(target_bytes):
            given_ns: i64 = self.lifetimes.given(entry)
            level.arrivals.note_first(entry.position, entry.came_ns, given_ns)
            self._left(entry)
            if entry.position >= level.sized_from:
                self.body_bytes_ready += entry.message.body_bytes

    def _refill(self, level: PriorityLevel, found: list[Found], wall_ahead_ns: i64) -> None:
        """What was read gets its entries, with the lifetimes it would have had all along. found:
        what was read last, in order."""
        line = level.line
        at: i64 = 0
        while len(line.ring) > 0:
            position: i64 = line.taken
            message = line.take_front()
            mark = level.arrivals.at(position)
            came_ns: i64 = mark.came_ns
            if not mark.is_known:
                while at < len(found) and found[at].message is not message:
                    at += 1
                came_ns = self.now_ns
                if at < len(found):
                    came_ns = found[at].stored_ms * NS_PER_MS - wall_ahead_ns
            entry = Entry(position, message, line.level)
            entry.is_uneven = position < level.mixed_below
            self.lifetimes.recall(entry, mark, came_ns)
            if position < line.redelivered_below:
                entry.deliveries = self._returns(message)
            line.append(entry)
            self._entered(entry)
            if position >= level.sized_from:
                self.body_bytes_ready -= message.body_bytes
        if not line.behind.is_split and level.arrivals.marks:
            # What leaves memory later came later, and must not be taken for what was there.
            level.arrivals = Arrivals(level.arrivals.most)
        self._sum(level)

    def next_read(self, bytes_max: i64, has_room: bool) -> ReadRequest | None:
        """A level that comes next and lacks its first message holds back those below it; one that
        is read ahead does not hold back those above it, because a read is small."""
        for level in self.levels:
            if level.line.behind.leaving:
                request = level.line.next_read(bytes_max, True)
                if request is not None:
                    return request
        may_read_ahead = has_room
        for level in reversed(self.levels):
            line = level.line
            if line.is_whole():
                continue
            there = line.at_hand()
            if not may_read_ahead and there > 0:
                continue
            size: i64 = bytes_max
            if not may_read_ahead and size > HEAD_READ_BYTES:
                size = HEAD_READ_BYTES
            request = line.next_read(size, True)
            if request is not None:
                return request
            may_read_ahead = False
        return None

    def arrived(self, request: ReadRequest, found: list[Found]) -> i64:
        level = self._level(request.level)
        count = level.line.arrived(request, found)
        self._sum(level)
        return count

    def lost(self, request: ReadRequest, position: i64) -> bool:
        level = self._level(request.level)
        is_lost = level.line.lost(request, position)
        self._sum(level)
        return is_lost

    def take_in(self, found: list[Found], now_ns: i64, wall_ahead_ns: i64) -> list[Dropped]:
        self.now_ns = now_ns
        dropped: list[Dropped] = []
        for level in self.levels:
            self._take_gone(level.line)
            for one in level.line.behind.filled:
                if isinstance(one, Leaving):
                    self._forget(one.position)
                    if one.reason == REASON_REJECTED:
                        self.ack_count += 1
                    dropped.append(Dropped(one.message, one.reason))
                elif self.last is not None:
                    entry = cast(Entry, one)
                    if entry.key == "":
                        self.last.name_entry(entry)
                        self.last.entered(entry)
            level.line.behind.filled = []
            self._refill(level, found, wall_ahead_ns)
        return dropped

    def _take_gone(self, line: MessageLine) -> None:
        """What could not be read is not here any more."""
        for one in line.behind.gone:
            if isinstance(one, Entry):
                self._left(one)
            self._forget(one.position)
        line.behind.gone = []
        if line.behind.has_gap:
            line.behind.has_gap = False
            if self.keys is not None:
                # Those behind it are at other positions now.
                self.keys = Keys()
