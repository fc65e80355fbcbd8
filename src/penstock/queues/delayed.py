"""Messages that wait for their time, in order of that and then of arrival; and how they go on.

They are the messages of the store behind a delayed message exchange: a queue nobody consumes from.
What expires in other queues is released here, by the same verbs.
"""

from heapq import heappop, heappush

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message, dead_letter, is_dead_letter
from penstock.protocol.integers import LongInteger
from penstock.protocol.property_lookup import (
    HEADERS,
    PROPERTIES_OFFSET,
    headers_table_span,
    replace_property,
)
from penstock.protocol.values import Table, encode_table, find_field, read_field
from penstock.protocol.values import remove_field as without
from penstock.queues.dead_letter import NO_HEADERS, Obituary, reframed
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, DropSink, Purged
from penstock.queues.rules import NEVER, NS_PER_MS, REASON_EXPIRED, QueueRules
from penstock.routing.delayed import DELAY_HEADER, delay_ms, delay_number

LONG_OCTETS = b"lLiu"
"""Types of field whose negative is written as one of 64 bits: those that have 64 bits, and those
without a sign. The others are written as 32 bits."""

COPIES = ("CC", "BCC")


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedMessages(PriorityQueue):
    """waiting: (due time, position, message), a heap; next_position: of the next that comes."""

    __slots__ = ("next_position", "waiting")

    def __init__(self, rules: QueueRules, sink: DropSink) -> None:
        super().__init__(rules, sink)
        self.waiting: list[tuple[int, int, Message]] = []
        self.next_position: i64 = 0

    def ready_count(self) -> i64:
        return self.count

    def add(self, message: Message) -> None:
        """A new message: its delay begins now."""
        self.publish_count += 1
        due_ns: i64 = self.now_ns + i64(delay_of(message)) * NS_PER_MS
        heappush(self.waiting, (due_ns, self.next_position, message))
        self.next_position += 1
        self._note(message, 1)

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        """Its delay began when it came; it may be over, and even have been when this machine was
        started."""
        due_ns: i64 = self.now_ns - age_ns + i64(delay_of(message)) * NS_PER_MS
        heappush(self.waiting, (due_ns, self.next_position, message))
        self.next_position += 1
        self._note(message, 1)

    def _note(self, message: Message, sign: i64) -> None:
        """`message` came (1) or goes (-1)."""
        self.count += sign
        self.bytes_ready += sign * (len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        self.body_bytes_ready += sign * message.body_bytes

    def expire(self, now_ns: i64, budget: i64) -> i64:
        """Release up to `budget` messages that are due, as far as the sink has room; how many."""
        released: i64 = 0
        waiting = self.waiting
        while released < budget and waiting and waiting[0][0] <= now_ns:
            if self.sink.room(REASON_EXPIRED) <= 0:
                break
            message = heappop(waiting)[2]
            self._note(message, -1)
            self.sink.dropped(message, REASON_EXPIRED)
            released += 1
        return released

    def find_live(self, now_ns: i64, budget: i64) -> bool:
        """No message here may be delivered."""
        return False

    def next_expiry_ns(self) -> i64:
        """When the first one is due, 1.. , NEVER if there is none."""
        if not self.waiting:
            return NEVER
        due_ns: i64 = self.waiting[0][0]
        return due_ns if due_ns > 0 else 1

    def ready_messages(self, step: int = 1) -> list[Message]:
        return [entry[2] for entry in self.waiting[::step]]

    def some_messages(self, most: i64) -> list[Message]:
        return self.ready_messages(max(1, len(self.waiting) // int(most)))

    def purge(self) -> Purged:
        purged = Purged(len(self.waiting), self.bytes_ready)
        purged.messages.append(self.ready_messages())
        self.waiting = []
        self.count = 0
        self.bytes_ready = 0
        self.body_bytes_ready = 0
        return purged


def delay_of(message: Message) -> int:
    """For how many milliseconds `message` asks to be delayed, 0.. . Raises: ConnectionFault 502 on
    headers that are not sound."""
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    if span is None:
        return 0
    return delay_ms(read_field(header, span[0], span[1], DELAY_HEADER))


def release(message: Message) -> Obituary:
    """What to publish when the time of `message` has come: its x-delay is negated, so that it is
    not delayed again and its consumers see that it was; BCC goes. It keeps its address and its
    keys, those of CC and BCC among them. Raises: ConnectionFault 502 on headers that were never
    sound."""
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    table = NO_HEADERS if span is None else header[span[0] : span[1]]
    keys = [message.address.routing_key]
    for name in COPIES:
        if table.find(name.encode()) >= 0:
            copies = read_field(table, 0, len(table), name)
            if isinstance(copies, list):
                keys.extend(one for one in copies if isinstance(one, str))
    table = without(_negated(table), "BCC")
    header = replace_property(header, HEADERS, table)
    raw = reframed(message, header)
    if is_dead_letter(message):
        copy: Message = dead_letter(raw, message.body_bytes, message.address)
    else:
        copy = Message(raw, message.body_bytes, message.address)
    copy.origin = message.origin
    return Obituary(copy, keys, {})


def _negated(table: bytes) -> bytes:
    """A table, as on the wire, with the x-delay it has negated."""
    place = find_field(table, 0, len(table), DELAY_HEADER)
    if place is None:
        return table
    number = -delay_number(read_field(table, 0, len(table), DELAY_HEADER))
    changed: Table = {DELAY_HEADER: number}
    if table[place[0]] in LONG_OCTETS:
        # Not by a conditional expression: compiled, its value would be a plain int.
        changed[DELAY_HEADER] = LongInteger(number)
    fields = without(table, DELAY_HEADER)[4:] + encode_table(changed)[4:]
    return len(fields).to_bytes(4, "big") + fields
