"""What the actor and the pager of a queue ask of its messages. Nominal base, and a read request.

    MessageLine   one FIFO, in memory or partly on the disk   queues without rules (line.py)
    PriorityQueue 1..256 lines, one entry a message, hooks    queues with rules (priorities.py)
A message on the disk is named by its position in a log; what stands for it in memory is a stub
(entry.py), or nothing but its place in a piece (delta.py). Neither queue reads or writes: it says
what has to be saved or read, and is given what was read.
"""

from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.protocol.content import Message, SharedMessage
from penstock.queues.entry import Returned
from penstock.queues.ring import PackedMessages, unpacked
from penstock.queues.rules import NEVER
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

MESSAGE_OVERHEAD_BYTES: Final = 130
"""What a queued message costs beside its frames: object, byte string header, place in the ring. In
the middle of a long ring it is about 60 less (queues/ring), which is not counted: it would change
when a list is unpacked."""


NO_BOUND: Final = 1 << 60


@mypyc_attr(allow_interpreted_subclasses=True)
class DropSink:
    """Gets the messages that a queue gives up. Nominal base."""

    __slots__ = ()

    def dropped(self, message: Message, reason: i64) -> None:
        """`message` has left the queue for `reason` (rules.REASON_*)."""
        raise NotImplementedError

    def came_back(self, message: Message, count: i64) -> None:
        """`message`, of a queue that counts it, has come back for the `count`th time."""

    def returns_of(self, message: Message) -> i64:
        """How often `message`, which a log has, came back, as far as that is known beside it; at
        most as often as it did."""
        return 0

    def room(self, reason: i64) -> i64:
        """How many messages it takes for `reason` just now, 0.. ; those that only expire stay in
        the queue while there is none, and the queue is woken when there is some again."""
        return NO_BOUND


class FoundRange:
    """What a start has found in a log: the unsettled positions first..last of `index`. count,
    bytes: of its messages, 1.. and an estimate; origin: pays for them when they are read;
    redelivered_count: the first so many may have been delivered."""

    __slots__ = ("bytes", "count", "first", "index", "last", "origin", "redelivered_count")

    def __init__(
        self, index: QueueIndex, first: i64, last: i64, count: i64, bytes_: i64, origin: Cause
    ) -> None:
        self.index = index
        self.first: i64 = first
        self.last: i64 = last
        self.count: i64 = count
        self.bytes: i64 = bytes_
        self.origin = origin
        self.redelivered_count: i64 = 0


class ReadRequest:
    """The next read of a queue: up to `count` unsettled positions of `index` from `first` on, which
    is what MessageLog.plan_reads takes.

    level: the priority of the line that asks;
    has_entries: each message has an entry or a stub that waits for its body;
    is_ahead: what comes before is in memory;
    chosen: the only positions to be read, None for all of them;
    bytes: of headers and bodies; an estimate for what was found on the disk at the start."""

    __slots__ = ("bytes", "chosen", "count", "first", "has_entries", "index", "is_ahead", "level")

    def __init__(self, index: QueueIndex, first: i64, count: i64, bytes_: i64) -> None:
        self.index = index
        self.first: i64 = first
        self.count: i64 = count
        self.bytes: i64 = bytes_
        self.level: i64 = 0
        self.has_entries = False
        self.is_ahead = False
        self.chosen: list[int] | None = None

    def average_bytes(self) -> i64:
        """Header and body of one message."""
        return self.bytes // self.count


class Dropped:
    """A message that was read from the disk only to be given up, for `reason` (rules.REASON_*)."""

    __slots__ = ("message", "reason")

    def __init__(self, message: Message, reason: i64) -> None:
        self.message = message
        self.reason: i64 = reason


@mypyc_attr(allow_interpreted_subclasses=True)
class Rows:
    """What a rule knew before a purge, as far as one has to look at it. Nominal base."""

    __slots__ = ()

    def forget(self, most: i64) -> i64:
        """Look at up to `most`; how many are left."""
        raise NotImplementedError


class Purged:
    """What a queue gives up all at once, to be forgotten piece by piece. What its messages cost
    stays with their causes until then, because so long they are in memory.

    count: of messages, those of which memory knows nothing too; messages, entries: those it does
    know; bytes: what these still cost, above 0 while there are any; tables: what rules kept of them
    beside, which costs nobody anything; rows: what of that has to be looked at, None for
    nothing."""

    __slots__ = ("bytes", "count", "entries", "messages", "rows", "tables")

    def __init__(self, count: int, bytes_: i64) -> None:
        self.count = count
        self.bytes: i64 = bytes_
        self.messages: list[list[Message] | PackedMessages] = []
        self.entries: list[list[Returned]] = []
        self.tables: list[dict[Any, Any]] = []
        self.rows: Rows | None = None

    def forget(self, most: i64) -> list[Message]:
        """Up to `most`, which are repaid to their causes; none when there are no others."""
        some = self._take(most)
        for message in some:
            if isinstance(message, SharedMessage):
                message.left()
            size: i64 = len(message.raw) + MESSAGE_OVERHEAD_BYTES
            self.bytes -= size
            message.origin.unstore(1, size)
        return some

    def forget_rows(self, most: i64) -> bool:
        """Up to `most` rows of rules; True if there are more."""
        while self.tables:
            table = self.tables[-1]
            while table:
                if most == 0:
                    return True
                table.popitem()
                most -= 1
            self.tables.pop()
        return self.rows is not None and self.rows.forget(most) > 0

    def _take(self, most: i64) -> list[Message]:
        while self.messages:
            messages = unpacked(self.messages[-1])
            if messages:
                self.messages[-1] = messages
                some = messages[-most:]
                del messages[-most:]
                return some
            self.messages.pop()
        while self.entries:
            entries = self.entries[-1]
            if entries:
                some = [one.message for one in entries[-most:]]
                del entries[-most:]
                return some
            self.entries.pop()
        return []


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicQueue:
    """Messages at rest, in order. Nominal base.

    position, redelivered: of the message just taken; deliveries: how often it had come back, where
    entries count that; has_entries: each message has an entry, for rules; is_paging: some may be on
    the disk."""

    __slots__ = (
        "ack_count",
        "bytes_ready",
        "deliver_count",
        "deliveries",
        "has_entries",
        "is_paging",
        "position",
        "publish_count",
        "redelivered",
        "requeue_count",
    )

    def __init__(self) -> None:
        self.bytes_ready: i64 = 0
        self.position: i64 = 0
        self.has_entries = False
        self.is_paging = False
        self.redelivered = False
        self.deliveries: i64 = 0
        self.publish_count: i64 = 0
        self.deliver_count: i64 = 0
        self.ack_count: i64 = 0
        self.requeue_count: i64 = 0

    def copy_counts(self, other: "ClassicQueue") -> None:
        """Count on from where `other` is, which this queue takes the place of."""
        self.publish_count = other.publish_count
        self.deliver_count = other.deliver_count
        self.ack_count = other.ack_count
        self.requeue_count = other.requeue_count
        self.position = other.position
        self.redelivered = other.redelivered
        self.deliveries = other.deliveries

    # -- in and out ------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """A new message."""
        raise NotImplementedError

    def add_all(self, messages: list[Message], bytes_: i64) -> None:
        """New messages, of a queue without rules, which have so many `bytes_`."""
        raise NotImplementedError

    def take(self) -> Message:
        """The first ready message, for a delivery. Raises: IndexError when there is none, or it is
        on the disk."""
        raise NotImplementedError

    def next_run(self, most: i64) -> list[Message]:
        """The first ready messages, which stay: `most` at most, those that can be taken together
        and were never delivered. Empty where they have to be taken one by one."""
        return []

    def run_position(self) -> i64:
        """The position of the first message of `next_run`."""
        raise NotImplementedError

    def drop_run(self, count: i64, bytes_: i64) -> None:
        """Take the first `count` of what `next_run` has given, `bytes_` of frames, for deliveries;
        `position` is that of the last one then."""
        raise NotImplementedError

    def put_back(self, position: i64, message: Message) -> None:
        """A delivered message, or its stub, comes back to where it was."""
        raise NotImplementedError

    def restores_at(self, now_ns: i64) -> None:
        """What `restore` brings back from here on has its age at `now_ns`, monotonic."""

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        """A message that was found on the disk, behind those restored before it; `age_ns`: since
        it came. Those that had been delivered come first."""
        raise NotImplementedError

    def restore_delta(self, found: FoundRange) -> None:
        """What the disk has in `found`, behind everything restored before it; nothing was published
        yet."""
        raise NotImplementedError

    def restored_unread(self, body_bytes: i64) -> None:
        """What `restore_delta` has put in is all there is, and only the disk knows when it came.
        body_bytes: of all of them, 0 if no limit asks for that."""

    def can_restore_unread(self) -> bool:
        """Whether nothing has to be known of messages that are restored but where they lie."""
        return True

    def restored_out(self, position: i64, message: Message, now_ns: i64) -> None:
        """`message` is out at `position` since before the start."""

    def settled(self, position: i64) -> None:
        """What was taken at `position` will not come back."""

    def shed(self) -> Message:
        """Give up the first ready message, or its stub. Raises: IndexError when there is none."""
        raise NotImplementedError

    def purge(self) -> Purged:
        """Give up everything that is ready. The caller has settled `stretches` in their logs, and
        settles what it is told to forget there."""
        return Purged(0, 0)

    # -- looking ---------------------------------------------------------------------------------

    def ready_count(self) -> i64:
        """Messages that are ready, wherever they are, and those that are leaving."""
        raise NotImplementedError

    def leaving_count(self) -> i64:
        """Messages that are read from the disk only to be dropped; no limit counts them."""
        return 0

    def at_hand(self) -> i64:
        """How many of the ready messages can be taken in a row now: those whose bodies need not be
        read from the disk first. A lower bound, above 0 if the first one can be taken."""
        return self.ready_count()

    def next_expiry_ns(self) -> i64:
        """When the next message dies, rules.NEVER for none."""
        return NEVER

    def first_bytes(self) -> i64:
        """Bytes in the body of the first ready message; of a piece the average. Raises: IndexError
        when there is none."""
        raise NotImplementedError

    def ready_messages(self, step: int = 1) -> list[Message]:
        """Every `step`th message or stub that is ready, not in order. What is in pieces is not
        among them, see `stretches`."""
        return []

    def some_messages(self, most: i64) -> list[Message]:
        """About `most` of what is ready and in memory, from all over it, for whoever estimates; the
        cost does not grow with the queue."""
        return []

    def returned_messages(self) -> list[Message]:
        """Those that are ready and were delivered before."""
        return []

    def paged_count(self) -> i64:
        """Ready messages whose bodies are not in memory."""
        return 0

    def paged_bytes(self) -> i64:
        """Their headers and bodies; of those found on the disk at the start an estimate."""
        return 0

    def in_pieces(self) -> list[tuple[Cause, int, int]]:
        """Cause, number and bytes of messages of which memory knows only where they lie; a cause
        may come again."""
        return []

    def pieces_count(self) -> i64:
        """Those of them of which memory has no stub."""
        return 0

    def stretches(self) -> list[tuple[QueueIndex, int, int]]:
        """(index, first, last) of the log positions that are in pieces."""
        return []

    # -- out of memory and back ------------------------------------------------------------------

    def begin_paging(self, index: QueueIndex, spill: QueueIndex) -> None:
        """Messages may leave memory from now on. index: where the log has the queue's persistent
        messages; spill: where others go when they are paged, which may be the same."""
        raise NotImplementedError

    def end_paging(self) -> None:
        """Everything is in memory (`is_whole`), and stays there."""
        raise NotImplementedError

    def is_whole(self) -> bool:
        """Whether everything that is ready is in memory."""
        return True

    def lacks_head(self) -> bool:
        """Whether a message that may be first, may die first, or is to be dropped is on the
        disk."""
        return False

    def head_bytes(self) -> i64:
        """What the first message takes in memory, 0 when it is not there."""
        return 0

    def resting_bytes(self) -> i64:
        """Of `bytes_ready`, what cannot leave memory."""
        return 0

    def tail_bytes_ready(self) -> i64:
        """Of `bytes_ready`, what came last and stands behind what is on the disk."""
        return 0

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        """Let memory above `target_bytes`, 0.. , go. Returns the messages that have to be appended
        to the log for that, in this order: no more than `pass_bytes`, but one at least, and
        `pass_count`, the credit there is for them. No more messages leave than one pass may move;
        what takes less memory than before may take still less after another one."""
        raise NotImplementedError

    def next_read(self, bytes_max: i64, has_room: bool) -> ReadRequest | None:
        """The next read, of about `bytes_max` bytes; None if there is nothing to read, or it has no
        place in the log yet: then ask again when the next batch was written. has_room: for more
        than what is missing at the head."""
        return None

    def arrived(self, request: ReadRequest, found: list[Found]) -> i64:
        """What was read for `request`, in order, or a part of it; how many were of use. The rest is
        dropped, because the queue was purged, or paged on, meanwhile."""
        raise NotImplementedError

    def lost(self, request: ReadRequest, position: i64) -> bool:
        """The message at log position `position` of `request` cannot be read and is given up: it is
        repaid, and the caller settles it in the log. False if it does not come next."""
        raise NotImplementedError

    def take_in(self, found: list[Found], now_ns: i64, wall_ahead_ns: i64) -> list[Dropped]:
        """All of a read has arrived, or is lost: what came gets its entries. What was read only for
        that has left, and is for the caller to drop. wall_ahead_ns: the wall clock's time without
        `now_ns`."""
        raise NotImplementedError

    def place_of(self, message: Message) -> i64:
        """The message's position in the log, 1.. ; below it has none yet, see line.py."""
        raise NotImplementedError

    def stubbed_out(self, position: i64, message: Message, stub: Message) -> None:
        """The body of `message`, which was taken at `position`, has left memory; `stub` stands for
        it."""

    def reject(self, position: i64, stub: Message) -> bool:
        """What was taken at `position` was rejected: it is read, and dropped then (`take_in`).
        False where the queue does not page."""
        return False
