"""One FIFO of messages, in memory or partly on the disk: a queue without rules, or one level of a
queue with rules. In the order of delivery:

    returned | ring or entries | backlog: what stands behind, most of it on the disk
A queue without rules has its front in the ring and no entries: the message at the ring's head is at
position `taken`. One with rules (priorities.py) has an entry for each message of the front, and
what is read from the disk goes through the ring into the entries. Messages that come back keep
their position, so they are served first and in their first order (RabbitMQ's classic queue). How
much a line may forget is its residence:

    WHOLE      nothing: it does not page
    BODIES     bodies of entries: these stay in the order they have in memory, because rules need to
               know something of every message; bodies leave from the end and are read at the head
    ENTRIES    everything but what came back
`bytes_ready` is memory: frames of whole messages, MESSAGE_OVERHEAD_BYTES for each message or stub,
PIECE_BYTES for each piece; all of it is charged to the causes of the messages.
"""

from heapq import heapify, heappop, heappush
from typing import Final, cast

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.protocol.content import Message, SharedMessage
from penstock.queues.backlog import PAGED_AT_ONCE, UNSAVED, Backlog, Paged, fill
from penstock.queues.bodies import Bodies
from penstock.queues.entry import Entry, Leaving, Returned, content_bytes, is_stub, stub_of
from penstock.queues.queue import (
    MESSAGE_OVERHEAD_BYTES,
    ClassicQueue,
    Dropped,
    FoundRange,
    Purged,
    ReadRequest,
)
from penstock.queues.ring import BLANK, BLOCK, MessageRing
from penstock.queues.rules import REASON_REJECTED
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

WHOLE: Final = 0
BODIES: Final = 1
ENTRIES: Final = 2

HAND_MAX: Final = 64
"""Whole messages at the head that are counted at a time, where there are stubs among them."""
TOGETHER_MAX: Final = 4096
"""Entries looked at for one read."""
LOOKED_AT: Final = 512
"""Whole messages at the head among which a stub to be read ahead is looked for."""
NO_INDEX: Final = QueueIndex(0)
NO_BACKLOG: Final = Backlog(MessageRing(), NO_INDEX, NO_INDEX, False)
NO_BODIES: Final = Bodies()
NO_ENTRIES: Final[list[Entry]] = []
"""Of lines that do not page, and of those without entries; nothing is put into them."""
TAKEN: Final = Entry(0, BLANK, 0)


class MessageLine(ClassicQueue):
    """taken: the position of the first message behind the entries, or of the ring's head;
    redelivered_below: what lies before this position was found on the disk, where it may have been
    delivered from;
    is_simple: it has no entries and does not page;
    entries, at: entries of the front, and the index of the first one;
    returned: what came back, a heap, stubs among it;
    residence: see above; behind: what stands behind the front; bodies: of residence BODIES;
    stub_count, stub_bytes: of stubs in `returned` and `entries`, and of those that are leaving;
    stub_entries: those in the first two; entry_bytes: of memory in these;
    hand: so many entries at the head are whole, 0 if that was not counted."""

    __slots__ = (
        "at",
        "behind",
        "bodies",
        "entries",
        "entry_bytes",
        "hand",
        "is_simple",
        "level",
        "redelivered_below",
        "residence",
        "returned",
        "ring",
        "stub_bytes",
        "stub_count",
        "stub_entries",
        "taken",
    )

    def __init__(self) -> None:
        super().__init__()
        self.ring = MessageRing()
        self.returned: list[Returned] = []
        self.taken: i64 = 0
        self.redelivered_below: i64 = 0
        self.is_simple = True
        self.level: i64 = 0
        self.entries: list[Entry] = NO_ENTRIES
        self.at: i64 = 0
        self.entry_bytes: i64 = 0
        self.residence: i64 = WHOLE
        self.behind = NO_BACKLOG
        self.bodies = NO_BODIES
        self.stub_count: i64 = 0
        self.stub_bytes: i64 = 0
        self.stub_entries: i64 = 0
        self.hand: i64 = 0

    # -- counting --------------------------------------------------------------------------------

    def ready_count(self) -> i64:
        count: i64 = self.ring.count + len(self.returned)
        if self.is_simple:
            return count
        count += len(self.entries) - self.at + len(self.behind.leaving)
        return count + self.behind.count() if self.behind.is_split else count

    def leaving_count(self) -> i64:
        return 0 if self.is_simple else len(self.behind.leaving)

    def at_hand(self) -> i64:
        count: i64 = self.ring.count + len(self.returned)
        if self.is_simple:
            return count
        if self.has_entries:
            if self.stub_entries == 0:
                return len(self.entries) - self.at + len(self.returned)
            if self.hand == 0:
                self.hand = self._count_hand()
            return self.hand
        if self.stub_entries > 0:
            return 0 if is_stub(self.returned[0].message) else 1
        return count if count > 0 else self.behind.whole_head(HAND_MAX)

    def _count_hand(self) -> i64:
        count: i64 = 0
        if len(self.returned) > 1:
            self.returned.sort()
        for one in self.returned:
            if count == HAND_MAX or is_stub(one.message):
                return count
            count += 1
        at: i64 = self.at
        while at < len(self.entries):
            if count == HAND_MAX or is_stub(self.entries[at].message):
                return count
            count += 1
            at += 1
        return count

    def end_position(self) -> i64:
        """The position of the next new message."""
        return self.taken + len(self.ring) + self.behind.count()

    def paged_count(self) -> i64:
        return self.stub_count + self.behind.stub_count + self.behind.delta.count

    def paged_bytes(self) -> i64:
        return self.stub_bytes + self.behind.stub_bytes + self.behind.delta.bytes

    def in_pieces(self) -> list[tuple[Cause, int, int]]:
        return self.behind.delta.by_payer() if self.is_paging else []

    def pieces_count(self) -> i64:
        return self.behind.delta.count

    def ram_count(self) -> i64:
        """Messages whose bodies are in memory; RabbitMQ's ram_msg_count."""
        return self.ready_count() - self.paged_count()

    def is_whole(self) -> bool:
        return not self.behind.is_split and self.stub_count == 0

    def _count_stub(self, stub: Message, sign: i64) -> None:
        """A stub has come into the front (1), or left it (-1)."""
        self.stub_count += sign
        self.stub_bytes += sign * content_bytes(stub)

    def _sum(self) -> None:
        """The front, what is behind it, or both have changed."""
        memory: i64 = self.entry_bytes + len(self.behind.leaving) * MESSAGE_OVERHEAD_BYTES
        self.bytes_ready = memory + self.ring.bytes + self.behind.bytes

    # -- in and out, without entries -------------------------------------------------------------

    def add(self, message: Message) -> None:
        """Behind all others; of a line with entries only where it is split."""
        size: i64 = len(message.raw)
        size += MESSAGE_OVERHEAD_BYTES
        self.bytes_ready += size
        self.publish_count += 1
        ring = self.ring
        if self.behind.is_split:
            self.behind.bytes += size
            ring = self.behind.q1
        ring.bytes += size
        # As ring.append, which is called for the first message of a list only.
        if len(ring.last) < BLOCK:
            ring.last.append(message)
            ring.count += 1
        else:
            ring.append(message)

    def add_all(self, messages: list[Message], bytes_: i64) -> None:
        count: i64 = len(messages)
        memory: i64 = bytes_ + count * MESSAGE_OVERHEAD_BYTES
        ring = self.ring
        if self.behind.is_split:
            self.behind.bytes += memory
            ring = self.behind.q1
        ring.bytes += memory
        if len(ring.last) + count <= BLOCK:
            ring.last.extend(messages)
            ring.count += count
        else:
            ring.extend(messages)
        self.bytes_ready += memory
        self.publish_count += count

    def take(self) -> Message:
        if self.returned or not self.is_simple:
            return self._take_any()
        ring = self.ring
        message = ring.take()
        position: i64 = self.taken
        self.position = position
        self.taken = position + 1
        self.redelivered = position < self.redelivered_below
        size: i64 = len(message.raw)
        size += MESSAGE_OVERHEAD_BYTES
        ring.bytes -= size
        self.bytes_ready -= size
        self.deliver_count += 1
        return message

    def run_position(self) -> i64:
        return self.taken

    def next_run(self, most: i64) -> list[Message]:
        if self.returned or self.has_entries or self.taken < self.redelivered_below:
            return []
        return self.ring.next_run(most)

    def drop_run(self, count: i64, bytes_: i64) -> None:
        ring = self.ring
        ring.drop_run(count)
        self.taken += count
        self.position = self.taken - 1
        self.redelivered = False
        memory: i64 = bytes_ + count * MESSAGE_OVERHEAD_BYTES
        ring.bytes -= memory
        self.bytes_ready -= memory
        self.deliver_count += count

    def _take_any(self) -> Message:
        if self.returned:
            if is_stub(self.returned[0].message):
                raise IndexError("the first message is on the disk")
            first = heappop(self.returned)
            message = first.message
            self.entry_bytes -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
            self.position = first.position
            self.redelivered = True
        else:
            if len(self.ring) > 0:
                message = self.ring.take()
                self.ring.bytes -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
            else:
                message = self.behind.take_embedded()
            self.position = self.taken
            self.taken += 1
            self.redelivered = self.position < self.redelivered_below
        self.bytes_ready -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.deliver_count += 1
        return message

    def first_bytes(self) -> i64:
        if self.returned:
            return self.returned[0].message.body_bytes
        if self.at < len(self.entries):
            return self.entries[self.at].message.body_bytes
        ring = self.ring
        if len(ring) > 0 or not self.behind.is_split:
            return ring.first().body_bytes
        return self.behind.first_bytes()

    def put_back(self, position: i64, message: Message) -> None:
        self.come_back(Returned(position, message))
        self.requeue_count += 1

    def come_back(self, one: Returned) -> None:
        """What was out is ready again; with an entry or without."""
        heappush(self.returned, one)
        message = one.message
        size: i64 = len(message.raw)
        if size == 0:
            self._count_stub(message, 1)
            self.stub_entries += 1
            self.hand = 0
        size += MESSAGE_OVERHEAD_BYTES
        self.bytes_ready += size
        self.entry_bytes += size
        if self.residence == BODIES:
            self.bodies.came_back(cast(Entry, one))

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        self.add(message)
        self.publish_count -= 1
        if is_redelivered:
            self.redelivered_below = self.end_position()

    def restore_delta(self, found: FoundRange) -> None:
        if found.redelivered_count > 0:
            self.redelivered_below = self.end_position() + found.redelivered_count
        self.behind.restore(found)
        self._sum()

    def reject(self, position: i64, stub: Message) -> bool:
        if self.is_paging:
            self.leave(position, stub, REASON_REJECTED)
        return self.is_paging

    def leave(self, position: i64, stub: Message, reason: i64) -> None:
        """`stub`, which was out at `position`, is read, and dropped then for `reason`."""
        self.behind.leaving.append(Leaving(position, stub, reason))
        self._count_stub(stub, 1)
        self.bytes_ready += MESSAGE_OVERHEAD_BYTES

    def shed(self) -> Message:
        if self.at_hand() > 0:
            message = self.take()
            self.deliver_count -= 1
            return message
        if self.returned:
            message = heappop(self.returned).message
            self._count_stub(message, -1)
            self.stub_entries -= 1
            self.entry_bytes -= MESSAGE_OVERHEAD_BYTES
            self.behind.waiting = {}
        else:
            message = self.behind.shed()
            self.taken += 1
        self._sum()
        return message

    def purge(self) -> Purged:
        purged = Purged(int(self.ready_count()), self.bytes_ready - self.behind.delta.ram_bytes)
        end: i64 = self.end_position()
        purged.entries.append(self.returned)
        if self.has_entries:
            purged.entries.append(cast("list[Returned]", self.entries[int(self.at) :]))
            self.entries = []
        purged.messages.extend(self.ring.clear())
        if self.is_paging:
            purged.entries.append(cast("list[Returned]", self.behind.leaving))
            purged.messages.extend(self.behind.clear())
            self.bodies.clear()
        self.taken = end
        self.returned = []
        self.at = 0
        self.stub_count = 0
        self.stub_bytes = 0
        self.stub_entries = 0
        self.hand = 0
        self.entry_bytes = 0
        self.bytes_ready = 0
        return purged

    # -- entries ---------------------------------------------------------------------------------

    def keep_entries(self) -> None:
        """It is a level of a queue with rules from now on."""
        self.is_simple = False
        self.has_entries = True
        self.entries = []

    def first(self) -> Entry | None:
        """The entry of the first message, None where there is none, or it is in a piece."""
        if self.returned:
            return cast(Entry, self.returned[0])
        if self.at < len(self.entries):
            return self.entries[self.at]
        return None

    def present(self) -> list[Entry]:
        """All entries, in no order."""
        found = self.entries[int(self.at) :]
        if self.returned:
            found.extend(cast("list[Entry]", self.returned))
        return found

    def append(self, entry: Entry) -> None:
        """`entry` is the last one of the front, and of the line where that is not split."""
        size: i64 = len(entry.message.raw)
        size += MESSAGE_OVERHEAD_BYTES
        entry.is_ready = True
        self.entries.append(entry)
        self.entry_bytes += size
        self.bytes_ready += size
        if self.residence == BODIES:
            self.bodies.came(entry)

    def take_entry(self) -> Entry:
        """The entry of the first message, which leaves. Raises: IndexError when there is none."""
        if self.returned:
            entry = cast(Entry, heappop(self.returned))
        else:
            entries = self.entries
            at: i64 = self.at
            entry = entries[at]
            # Its place, which is cut off later, must not keep its message.
            entries[at] = TAKEN
            at += 1
            if at >= 512 and at * 2 >= len(entries):
                del entries[:at]
                at = 0
            self.at = at
        size: i64 = len(entry.message.raw)
        if size == 0:
            self._count_stub(entry.message, -1)
            self.stub_entries -= 1
            self.behind.waiting = {}
        elif self.hand > 0:
            self.hand -= 1
        size += MESSAGE_OVERHEAD_BYTES
        self.entry_bytes -= size
        self.bytes_ready -= size
        entry.is_ready = False
        if self.residence == BODIES:
            self.bodies.left(entry)
        return entry

    def replace(self, entry: Entry, message: Message) -> None:
        """`message` takes the place of the one that `entry` has, with its body or without."""
        if self.residence == BODIES:
            self.bodies.forgot(entry)
        old = entry.message
        more: i64 = len(message.raw) - len(old.raw)
        if is_stub(old):
            self._count_stub(old, -1)
            self.stub_entries -= 1
        entry.message = message
        if is_stub(message):
            self._count_stub(message, 1)
            self.stub_entries += 1
        self.hand = 0
        self.entry_bytes += more
        self.bytes_ready += more
        if self.residence == BODIES:
            self.bodies.came(entry)

    def lend(self, target_bytes: i64) -> list[Entry]:
        """Entries from the end of the front, which no longer have one, PAGED_AT_ONCE at most: the
        front keeps `target_bytes` and its first message. Their messages are in the ring, and leave
        memory."""
        entries = self.entries
        stop: i64 = self.at if self.returned else self.at + 1
        at: i64 = len(entries)
        least: i64 = at - PAGED_AT_ONCE
        while at > stop and at > least and self.entry_bytes > target_bytes:
            at -= 1
            entry = entries[at]
            size: i64 = len(entry.message.raw) + MESSAGE_OVERHEAD_BYTES
            self.entry_bytes -= size
            self.ring.bytes += size
            self.taken = entry.position
            if entry.deliveries > 0 and self.redelivered_below <= entry.position:
                self.redelivered_below = entry.position + 1
        lent = entries[int(at) :]
        del entries[int(at) :]
        if lent:
            assert len(self.ring) == 0, "what was read has its entry"
            self.ring.extend([one.message for one in lent])
        lent.reverse()
        return lent

    def take_front(self) -> Message:
        """The message at `taken`, which was read or lent and gets an entry now."""
        message = self.ring.take()
        size: i64 = len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.ring.bytes -= size
        self.bytes_ready -= size
        self.taken += 1
        return message

    # -- looking ---------------------------------------------------------------------------------

    def ready_messages(self, step: int = 1) -> list[Message]:
        if self.is_simple:
            found = [one.message for one in self.returned[::step]]
            found.extend(self.ring.every(step))
            return found
        found = [one.message for one in self.returned]
        found.extend([one.message for one in self.behind.leaving])
        found.extend([one.message for one in self.entries[int(self.at) :]])
        found.extend(self.ring.every())
        found.extend(self.behind.messages())
        return found if step == 1 else found[::step]

    def some_messages(self, most: i64) -> list[Message]:
        ring = self.ring
        newest = self.behind.q1
        entries = self.entries
        at = int(self.at)
        count = len(ring) + len(entries) - at + len(newest) + len(self.returned)
        step = max(1, count // int(most))
        found = [one.message for one in self.returned[::step]]
        found.extend([one.message for one in entries[at::step]])
        found.extend(ring.every(step))
        found.extend(newest.every(step))
        return found

    def returned_messages(self) -> list[Message]:
        found = [one.message for one in self.returned]
        found.extend([one.message for one in self.behind.leaving])
        return found

    def stretches(self) -> list[tuple[QueueIndex, int, int]]:
        return self.behind.delta.stretches()

    def head_bytes(self) -> i64:
        if self.has_entries:
            entry = self.first()
            if entry is None or is_stub(entry.message):
                return 0
            return len(entry.message.raw) + MESSAGE_OVERHEAD_BYTES
        if self.returned:
            message = self.returned[0].message
        elif len(self.ring) > 0:
            message = self.ring.first()
        else:
            return 0
        size: i64 = len(message.raw)
        return size + MESSAGE_OVERHEAD_BYTES

    def tail_bytes_ready(self) -> i64:
        return self.behind.q1.bytes

    def resting_bytes(self) -> i64:
        return self.bytes_ready - self.bodies.bytes if self.residence == BODIES else 0

    def lacks_head(self) -> bool:
        if self.behind.leaving:
            return True
        return self.at_hand() == 0 and self.ready_count() > 0

    def place_of(self, message: Message) -> i64:
        return self.behind.place_of(message)

    # -- paging: beginning, ending, changing forms -----------------------------------------------

    def begin_paging(self, index: QueueIndex, spill: QueueIndex) -> None:
        self.page_as(index, spill, ENTRIES, False)

    def page_as(
        self, index: QueueIndex, spill: QueueIndex, residence: i64, is_shared: bool
    ) -> None:
        """As `begin_paging`. residence: BODIES or ENTRIES; is_shared: messages of other lines lie
        between those of this one in the log."""
        assert not self.is_paging, "it pages already"
        self.is_paging = True
        self.is_simple = False
        self.residence = residence
        self.behind = Backlog(self.ring, index, spill, is_shared)
        if residence == BODIES:
            self.bodies = Bodies()
            for one in sorted(self.returned):
                self.bodies.came_back(cast(Entry, one))
            for entry in self.entries[int(self.at) :]:
                self.bodies.came(entry)

    def end_paging(self) -> None:
        assert self.is_whole(), "something is on the disk"
        self.is_paging = False
        self.is_simple = not self.has_entries
        self.residence = WHOLE
        self.behind = NO_BACKLOG
        self.bodies = NO_BODIES

    def stub_embedded(self) -> None:
        """See Backlog.stub_embedded."""
        self.behind.stub_embedded()
        self._sum()

    # -- out of memory, by bytes -----------------------------------------------------------------

    def leaving_bytes(self) -> i64:
        """Memory that paging by bytes lets go; of residence BODIES that of large bodies."""
        if self.residence == BODIES:
            return self.bodies.bytes
        front: i64 = self.entry_bytes + len(self.behind.leaving) * MESSAGE_OVERHEAD_BYTES
        return front + self.behind.held()

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        """The first message stays, unless it alone is above the target."""
        if self.residence == BODIES:
            return self._page_bodies(target_bytes, pass_bytes, pass_count)
        ring = self.ring
        kept: i64 = 0
        if len(ring) > 0 and not self.has_entries:
            size: i64 = len(ring.first().raw)
            kept = 1 if size + MESSAGE_OVERHEAD_BYTES <= target_bytes else 0
        left: i64 = target_bytes - (self.leaving_bytes() - self.behind.held())
        saves = self.behind.page_bytes(left, kept, pass_bytes, pass_count)
        self._sum()
        return saves

    def _page_bodies(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        """Large bodies leave from the end, but not that of the first message."""
        saves: list[Message] = []
        bodies = self.bodies
        first = self.first()
        room: i64 = pass_bytes
        kept = False
        count: i64 = PAGED_AT_ONCE
        while bodies.bytes > target_bytes and count > 0:
            count -= 1
            entry = bodies.last()
            if entry is None:
                break
            if entry is first:
                bodies.take_last()
                kept = True
                continue
            message = entry.message
            size: i64 = len(message.raw)
            if self.behind.place_of(message) == UNSAVED:
                if room <= 0 or (size > room and saves) or len(saves) >= pass_count:
                    break
                room = room - size if room > size else 0
                self.behind.reserve(message)
                saves.append(message)
            bodies.take_last()
            self.replace(entry, stub_of(message))
            if isinstance(message, SharedMessage):
                message.left()
            message.origin.unstore(0, size)
        if kept and first is not None:
            bodies.put_first(first)
        # What is appended together lies together as it will be read.
        saves.reverse()
        return saves

    # -- out of memory, by counts ----------------------------------------------------------------

    def page_bodies_count(self, quota: i64, target: i64, credit: i64, embed_below: i64) -> Paged:
        """See Backlog.page_bodies_count."""
        ram = self.ram_count()
        paged = self.behind.page_bodies_count(ram, quota, target, credit, embed_below)
        self._sum()
        return paged

    def page_positions(self, permitted: i64, batch: i64, most: i64, entries: i64) -> i64:
        """See Backlog.page_positions."""
        first: i64 = self.taken + len(self.ring)
        moved = self.behind.page_positions(first, permitted, batch, most, entries)
        self._sum()
        return moved

    def page_out(self, message: Message, paged: Paged) -> Message:
        """A stub of a message that is out with a consumer, whose body is charged to nobody any
        more. The caller puts it in the message's place and mends the bytes it counts as unanswered;
        in `paged` the message is noted if it has to be saved."""
        if self.behind.place_of(message) == UNSAVED:
            self.behind.reserve(message)
            paged.charged.append(message)
        paged.count += 1
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(0, len(message.raw))
        return stub_of(message)

    # -- back into memory ------------------------------------------------------------------------

    def next_read(self, bytes_max: i64, has_room: bool) -> ReadRequest | None:
        if not has_room and not self.behind.leaving:
            return None
        request = self.read_next(bytes_max)
        if request is not None:
            # What is only to be dropped takes no room.
            request.is_ahead = self.at_hand() > 0 and not self.behind.leaving
        return request

    def read_next(self, bytes_max: i64) -> ReadRequest | None:
        """As `next_read`, and None as well where the front has `bytes_max` already."""
        if self.behind.leaving:
            return self._read_of_stubs(
                cast("list[Returned]", self.behind.leaving[:TOGETHER_MAX]), bytes_max
            )
        if self.stub_entries > 0:
            if not self.has_entries and not is_stub(self.returned[0].message):
                # The front waits meanwhile: what came back is before it.
                return None
            self.returned.sort()
            near = self.returned[:TOGETHER_MAX]
            if self.residence == BODIES:
                at = int(self.at)
                near.extend(cast("list[Returned]", self.entries[at : at + TOGETHER_MAX]))
            return self._read_of_stubs(near, bytes_max)
        request = self.behind.next_read(bytes_max)
        if request is not None:
            request.level = self.level
        return request

    def _read_of_stubs(self, near: list[Returned], bytes_max: i64) -> ReadRequest | None:
        """The first stubs of `near`, of about `bytes_max`, but one at least; None if there is none,
        or it has no place yet."""
        waiting: dict[int, Returned] = {}
        behind = self.behind
        index = behind.index
        bytes_: i64 = 0
        whole: i64 = 0
        for one in near:
            if not is_stub(one.message):
                whole += 1
                if whole >= LOOKED_AT:
                    break
                continue
            position = behind.place_of(one.message)
            size: i64 = content_bytes(one.message)
            more: i64 = bytes_ + size + (len(waiting) + 1) * MESSAGE_OVERHEAD_BYTES
            if position <= 0 or (waiting and (more > bytes_max or behind.place is not index)):
                break
            index = behind.place
            waiting[int(position)] = one
            bytes_ += size
        self.behind.waiting = waiting
        if not waiting:
            return None
        chosen = sorted(waiting)
        request = ReadRequest(index, chosen[0], len(chosen), bytes_)
        request.level = self.level
        request.has_entries = True
        request.chosen = chosen
        return request

    def arrived(self, request: ReadRequest, found: list[Found]) -> i64:
        """What still is what comes next is put in its place and charged to its cause. Nothing is
        put behind one that is missing."""
        count: i64 = 0
        for one in found:
            if request.has_entries:
                waiting = self._waiting_at(request.index, one.position)
                if waiting is None:
                    continue
                self._fill_entry(waiting, one.message)
            elif not self.behind.arrived(request, one):
                break
            count += 1
        self.behind.close_gaps()
        self._sum()
        return count

    def _waiting_at(self, index: QueueIndex, position: i64) -> Returned | None:
        """What waits for the message that `index` has at `position`; None if it is gone by now, or
        has another message."""
        one = self.behind.waiting.get(int(position))
        if one is None or not is_stub(one.message):
            return None
        behind = self.behind
        return one if behind.place_of(one.message) == position and behind.place is index else None

    def _fill_entry(self, one: Returned, message: Message) -> None:
        self._count_stub(one.message, -1)
        fill(one.message, message)
        one.message = message
        if isinstance(one, Leaving):
            self.behind.leaving.remove(one)
            self.behind.filled.append(one)
            return
        self.entry_bytes += len(message.raw)
        self.stub_entries -= 1
        self.hand = 0
        if self.has_entries:
            self.behind.filled.append(one)
        if self.residence == BODIES:
            self.bodies.came_back(cast(Entry, one))

    def lost(self, request: ReadRequest, position: i64) -> bool:
        if request.has_entries:
            one = self._waiting_at(request.index, position)
            if one is None:
                return False
            del self.behind.waiting[int(position)]
            self._lose_entry(one)
        else:
            if not self.behind.lost(request, position):
                return False
            if self.redelivered_below > self.taken + len(self.ring):
                self.redelivered_below -= 1
            self.behind.has_gap = True
        self._sum()
        return True

    def _lose_entry(self, one: Returned) -> None:
        self._count_stub(one.message, -1)
        one.message.origin.unstore(1, MESSAGE_OVERHEAD_BYTES)
        self.behind.gone.append(one)
        if isinstance(one, Leaving):
            self.behind.leaving.remove(one)
            return
        self.stub_entries -= 1
        self.entry_bytes -= MESSAGE_OVERHEAD_BYTES
        self.hand = 0
        if one in self.returned:
            self.returned.remove(one)
            heapify(self.returned)
        else:
            entry = cast(Entry, one)
            del self.entries[self.entries.index(entry, int(self.at))]

    def take_in(self, found: list[Found], now_ns: i64, wall_ahead_ns: i64) -> list[Dropped]:
        behind = self.behind
        behind.gone = []
        behind.has_gap = False
        dropped: list[Dropped] = []
        for one in behind.filled:
            assert isinstance(one, Leaving), "others have no entries here"
            dropped.append(Dropped(one.message, one.reason))
        behind.filled = []
        self.ack_count += len(dropped)
        return dropped
