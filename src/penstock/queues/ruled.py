"""Messages of a queue whose rules look at single ones: a record each, in levels of priority.

    level 9   returned (a heap by position, below its line)   line (by position)
    level 0   ...
The first ready message is the first of the highest level that has any. A record keeps its lifetime
and its deliveries while the message is out with a consumer, so a message that comes back expires
when it would have, and counts on.

    dead at `now`  <=>  expires_ns <= now     (a lifetime of 0: < now, so it lives for one instant)
Expiry looks at the first message of each level only, as RabbitMQ does: what stands behind it goes
when it gets there, before it would be delivered.
"""

from heapq import heappush

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue
from penstock.queues.records import (
    FLAG_EXPIRATION,
    FLAGS_AT,
    DropSink,
    Level,
    Record,
    flags_of,
    last_value_key,
    level_of,
    own_lifetime_ms,
)
from penstock.queues.rules import (
    LIFETIME_MS_MAX,
    NEVER,
    NS_PER_MS,
    REASON_DELIVERY_LIMIT,
    REASON_EXPIRED,
    REASON_SUPERSEDED,
    QueueRules,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class RuledMessages(ClassicQueue):
    """rules: see QueueRules; sink: gets what is dropped; now_ns: the time of this turn, set by the
    queue's actor; out: records of what is out with consumers, by position; deliveries: how often
    the message just taken had come back."""

    __slots__ = (
        "body_bytes_ready",
        "by_key",
        "count",
        "deliveries",
        "levels",
        "next_position",
        "now_ns",
        "out",
        "rules",
        "sink",
        "top",
        "uneven_count",
    )

    def __init__(self, rules: QueueRules, sink: DropSink) -> None:
        super().__init__()
        self.is_ruled = True
        self.rules = rules
        self.sink = sink
        self.now_ns: i64 = 0
        self.levels: list[Level] = []
        self.body_bytes_ready: i64 = 0
        self.top: i64 = 0
        self.count: i64 = 0
        self.deliveries: i64 = 0
        self.next_position: i64 = 0
        self.uneven_count: i64 = 0
        self.out: dict[int, Record] = {}
        self.by_key: dict[str, Record] = {}
        self._make_levels()

    def _make_levels(self) -> None:
        self.levels = [Level() for _ in range(int(self.rules.max_priority) + 1)]

    def ready_count(self) -> i64:
        return self.count

    def add(self, message: Message) -> None:
        """A new message, behind all others of its level; or in the place of the one whose last
        value it is."""
        self.publish_count += 1
        self._place(message)

    def _place(self, message: Message) -> Record:
        """Make `message` ready; its record."""
        rules = self.rules
        flags: i64 = i64(message.raw[FLAGS_AT])
        key = ""
        if rules.last_value_key != "":
            key = last_value_key(message, rules.last_value_key)
            old = self.by_key.get(key) if key != "" else None
            if old is not None:
                self._supersede(old, message, flags)
                return old
        record = self._appended(message, flags)
        if key != "":
            record.key = key
            record.nth = self.publish_count
            self.by_key[key] = record
        return record

    def _appended(self, message: Message, flags: i64) -> Record:
        """`message` is ready, behind all others of its level; its record."""
        record = self._record(self.next_position, message, flags)
        self.next_position += 1
        self.levels[record.level].line.append(record)
        self._counted(record, 1)
        return record

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        """As in the plain queue; its lifetime began when it came."""
        now_ns: i64 = self.now_ns
        self.now_ns = now_ns - age_ns
        record = self._place(message)
        self.now_ns = now_ns
        if record.expires_ns != NEVER and record.expires_ns < 1:
            # Dead since before the machine was started.
            record.expires_ns = 1
        if is_redelivered:
            record.deliveries = 1

    def _record(self, position: i64, message: Message, flags: i64) -> Record:
        """A record whose lifetime begins now."""
        record = Record(position, message)
        if self.rules.max_priority > 0:
            record.level = level_of(message, self.rules.max_priority)
        self._begin_lifetime(record, flags)
        return record

    def _supersede(self, record: Record, message: Message, flags: i64) -> None:
        overtaken = record.message
        self._counted(record, -1)
        record.message = message
        record.nth = self.publish_count
        record.deliveries = 0
        self._begin_lifetime(record, flags)
        record.is_uneven = True
        self._counted(record, 1)
        self.sink.dropped(overtaken, REASON_SUPERSEDED)

    def _come_back_over(self, record: Record, newer: Record) -> None:
        """`newer`, which comes back, takes the place of `record`, whose key it has."""
        overtaken = record.message
        self._counted(record, -1)
        record.continue_as(newer)
        self._counted(record, 1)
        self.sink.dropped(overtaken, REASON_SUPERSEDED)

    def _begin_lifetime(self, record: Record, flags: i64) -> None:
        """The shorter of the queue's lifetime and the message's own, from now on."""
        lifetime_ms: i64 = self.rules.ttl_ms
        record.came_ns = self.now_ns
        record.is_uneven = False
        if (flags & FLAG_EXPIRATION) != 0:
            own: i64 = own_lifetime_ms(record.message)
            if own < LIFETIME_MS_MAX and (lifetime_ms == NEVER or own < lifetime_ms):
                lifetime_ms = own
                record.is_uneven = True
        record.is_fleeting = lifetime_ms == 0
        if lifetime_ms == NEVER or lifetime_ms >= LIFETIME_MS_MAX:
            record.expires_ns = NEVER
        else:
            record.expires_ns = self.now_ns + lifetime_ms * NS_PER_MS

    def _counted(self, record: Record, sign: i64) -> None:
        """`record` became ready (1) or is not any more (-1)."""
        self.count += sign
        self.bytes_ready += sign * (len(record.message.raw) + MESSAGE_OVERHEAD_BYTES)
        self.body_bytes_ready += sign * record.message.body_bytes
        if record.is_uneven:
            self.uneven_count += sign
        if sign > 0 and record.level > self.top:
            self.top = record.level

    def _first_level(self) -> Level | None:
        """The highest level that has a message."""
        while True:
            level = self.levels[self.top]
            if level.count() > 0:
                return level
            if self.top == 0:
                return None
            self.top -= 1

    def take(self) -> Message:
        """The first ready message, for a delivery. Raises: IndexError when there is none."""
        level = self._first_level()
        if level is None:
            raise IndexError("the queue is empty")
        record = self._taken(level)
        self.out[int(record.position)] = record
        self.position = record.position
        self.deliveries = record.deliveries
        self.redelivered = record.deliveries > 0
        self.deliver_count += 1
        return record.message

    def _taken(self, level: Level) -> Record:
        record = level.take()
        self._counted(record, -1)
        if record.key != "" and self.by_key.get(record.key) is record:
            del self.by_key[record.key]
        return record

    def _given_up(self, level: Level) -> Message:
        """The first of `level` leaves the queue, and nobody gets it."""
        return self._taken(level).message

    def supersedes(self, message: Message) -> bool:
        """Whether `message` would take the place of one that is ready."""
        name = self.rules.last_value_key
        return name != "" and last_value_key(message, name) in self.by_key

    def kept_bytes(self) -> i64:
        """What the rules keep in memory beside messages, and is charged to nobody."""
        return 0

    def settled(self, position: i64) -> None:
        """What was taken at `position` will not come back."""
        self.out.pop(int(position), None)

    def put_back(self, position: i64, message: Message) -> None:
        """A delivered message comes back to where it was, unless it came back too often."""
        record = self.out.pop(int(position), None)
        if record is None:
            # It was taken before the queue had rules.
            record = self._record(position, message, i64(message.raw[FLAGS_AT]))
            record.is_uneven = True
        record.deliveries += 1
        self.requeue_count += 1
        limit: i64 = self.rules.delivery_limit
        if limit != NEVER and record.deliveries > limit:
            self.sink.dropped(message, REASON_DELIVERY_LIMIT)
            return
        if record.key != "":
            known = self.by_key.get(record.key)
            if known is not None:
                if known.is_newer(record):
                    self.sink.dropped(message, REASON_SUPERSEDED)
                else:
                    self._come_back_over(known, record)
                return
            self.by_key[record.key] = record
        heappush(self.levels[record.level].returned, record)
        self._counted(record, 1)

    def expire(self, now_ns: i64, budget: i64) -> i64:
        """Drop up to `budget` messages from the heads whose time is up at `now_ns`, as far as the
        sink has room; how many."""
        dropped: i64 = 0
        if self.count == 0:
            return 0
        for level in self.levels:
            while dropped < budget:
                first = level.first()
                if first is None or first.expires_ns == NEVER or first.expires_ns > now_ns:
                    break
                if self.sink.room(REASON_EXPIRED) <= 0:
                    return dropped
                self.sink.dropped(self._given_up(level), REASON_EXPIRED)
                dropped += 1
        return dropped

    def find_live(self, now_ns: i64, budget: i64) -> bool:
        """Drop up to `budget` dead messages until the first one may be delivered at `now_ns`;
        False if none is left, too many were dead, or the sink has no room for them."""
        while True:
            level = self._first_level()
            if level is None:
                return False
            first = level.first()
            assert first is not None, "because the level has a message"
            if not first.is_dead(now_ns):
                return True
            if budget <= 0 or self.sink.room(REASON_EXPIRED) <= 0:
                return False
            budget -= 1
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
            first = level.first()
            if first is None or first.expires_ns == NEVER:
                continue
            if soonest == NEVER or first.expires_ns < soonest:
                soonest = first.expires_ns
        return soonest

    def first_bytes(self) -> i64:
        level = self._first_level()
        first = None if level is None else level.first()
        if first is None:
            raise IndexError("the queue is empty")
        return first.message.body_bytes

    def shed(self) -> Message:
        level = self._first_level()
        if level is None:
            raise IndexError("the queue is empty")
        return self._given_up(level)

    def ready_messages(self, step: int = 1) -> list[Message]:
        found: list[Message] = []
        for level in self.levels:
            found.extend(record.message for record in level.returned)
            found.extend(record.message for record in level.line[int(level.head) :])
        return found[::step]

    def returned_messages(self) -> list[Message]:
        found: list[Message] = []
        for level in self.levels:
            found.extend(record.message for record in level.returned)
        return found

    def has_lifetimes(self) -> bool:
        """Whether a message that is ready, or out, will die."""
        for out in self.out.values():
            if out.expires_ns != NEVER:
                return True
        for level in self.levels:
            for record in (*level.returned, *level.line[int(level.head) :]):
                if record.expires_ns != NEVER:
                    return True
        return False

    def change_rules(self, rules: QueueRules, now_ns: i64) -> None:
        """Go by `rules` from now on. Lifetimes that have begun stay as they are; messages without
        one get the new one now. Levels stay: how many there are is said once, at declaration."""
        self.now_ns = now_ns
        has_other_keys = rules.last_value_key != self.rules.last_value_key
        self.rules = rules
        for out in self.out.values():
            out.is_uneven = True
        for level in self.levels:
            for record in (*level.returned, *level.line[int(level.head) :]):
                if record.is_uneven:
                    self.uneven_count -= 1
                if record.expires_ns == NEVER:
                    self._begin_lifetime(record, flags_of(record.message))
                record.is_uneven = True
                self.uneven_count += 1
        if has_other_keys:
            self._index_keys()

    def _index_keys(self) -> None:
        """What is ready counts as the last value of its key, the newest of several. Until now
        messages have stood in the order in which they came."""
        self.by_key.clear()
        name = self.rules.last_value_key
        for out in self.out.values():
            out.set_key(name)
        for level in self.levels:
            for record in (*level.returned, *level.line[int(level.head) :]):
                record.set_key(name)
                known = self.by_key.get(record.key)
                if record.key != "" and (known is None or known.position < record.position):
                    self.by_key[record.key] = record

    def purge(self) -> int:
        """Drop everything that is ready, for no reason but being asked to; how many there were.
        Each is repaid to its cause."""
        count = int(self.count)
        for message in self.ready_messages():
            message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        self._make_levels()
        self.by_key.clear()
        self.top = 0
        self.count = 0
        self.uneven_count = 0
        self.bytes_ready = 0
        self.body_bytes_ready = 0
        return count
