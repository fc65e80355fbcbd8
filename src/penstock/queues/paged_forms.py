"""The parts of a paged queue, their counts, and how a message goes from one form to another; see
paged.py for the picture."""

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.protocol.content import Message
from penstock.queues.delta import Delta
from penstock.queues.husks import content_bytes, husk_of, is_husk
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue, Returned
from penstock.queues.ring import MessageRing
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored

UNSAVED: Final = -1
AWAITED: Final = 0
EMBEDDED_AT_HAND: Final = 64
"""Whole messages in q3 that are counted at a time."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PagedForms(ClassicQueue):
    """index: where the log has what the queue keeps anyway; spill: where messages go that are saved
    only because they are paged, of a queue that keeps nothing the same; husks_back: husks that came
    back, a heap; is_split: something lies behind the front; husk_count: of all husks; front_bytes:
    of memory in the front; rejected: at these positions messages are read only to be dropped, no
    more than there are husks that came back; place: the index that the last `place_of` found a
    position in."""

    __slots__ = (
        "delta",
        "front_bytes",
        "husk_bytes",
        "husk_count",
        "husks_back",
        "index",
        "is_split",
        "place",
        "q1",
        "q2",
        "q3",
        "rejected",
        "spill",
        "tail_bytes",
    )

    def __init__(self, index: QueueIndex, spill: QueueIndex) -> None:
        super().__init__()
        self.index = index
        self.spill = spill
        self.place = index
        self.q3: deque[Message] = deque()
        self.delta = Delta()
        self.q2: deque[Message] = deque()
        self.q1 = MessageRing()
        self.husks_back: list[Returned] = []
        self.rejected: set[int] = set()
        self.is_split = False
        self.husk_count: i64 = 0
        self.husk_bytes: i64 = 0
        self.front_bytes: i64 = 0
        self.tail_bytes: i64 = 0

    # -- counting --------------------------------------------------------------------------------

    def ready_count(self) -> i64:
        front: i64 = len(self.ring.items) - self.ring.head + len(self.returned)
        if not self.is_split:
            return front + len(self.husks_back)
        behind: i64 = len(self.q3) + self.delta.count + len(self.q2) + len(self.q1)
        return front + behind + len(self.husks_back)

    def at_hand(self) -> i64:
        if self.husks_back:
            returned = self.returned
            return 1 if returned and returned[0] < self.husks_back[0] else 0
        count: i64 = len(self.ring.items) - self.ring.head + len(self.returned)
        if count > 0 or not self.q3:
            return count
        for message in self.q3:
            if count == EMBEDDED_AT_HAND or is_husk(message):
                break
            count += 1
        return count

    def paged_count(self) -> i64:
        """Messages whose bodies are not in memory."""
        return self.husk_count + self.delta.count

    def paged_bytes(self) -> i64:
        """Their headers and bodies; of those found on the disk at the start an estimate."""
        return self.husk_bytes + self.delta.bytes

    def ram_count(self) -> i64:
        """Messages whose bodies are in memory; RabbitMQ's ram_msg_count."""
        return self.ready_count() - self.paged_count()

    def place_of(self, message: Message) -> i64:
        """The message's position in the log, see `place`; AWAITED while it is on its way there,
        UNSAVED if it has to be saved first."""
        stored = message.stored
        if not isinstance(stored, Stored):
            return UNSAVED
        position = stored.position_in(self.index.queue_id)
        if position > 0:
            self.place = self.index
            return position
        if stored.awaits(self.index.queue_id):
            return AWAITED
        position = stored.position_in(self.spill.queue_id)
        if position > 0:
            self.place = self.spill
            return position
        return AWAITED if stored.awaits(self.spill.queue_id) else UNSAVED

    # -- changing forms --------------------------------------------------------------------------

    def reserve(self, message: Message) -> None:
        """`message` will be appended to `spill`, unless it has left the queue by then. It joins its
        place here, once, so whoever hands it to the store does not."""
        stored = message.stored
        if stored is None:
            stored = Stored()
            message.stored = stored
        assert isinstance(stored, Stored), "only the log gives messages a place"
        stored.join(self.spill.queue_id)

    def husked(self, message: Message) -> Message:
        """A husk of a ready message; its body is not in memory any more."""
        size: i64 = len(message.raw)
        husk = husk_of(message)
        self.husk_count += 1
        self.husk_bytes += content_bytes(husk)
        self.bytes_ready -= size
        message.origin.unstore(0, size)
        return husk

    def husk_embedded(self) -> None:
        """What stands with its body where bodies have gone elsewhere (RabbitMQ's small messages)
        becomes husks. It has its place in the log, or is on its way there."""
        for part in (self.q3, self.q2):
            for at in range(len(part)):
                message = part[at]
                if not is_husk(message):
                    part[at] = self.husked(message)

    def unhusked(self, husk: Message) -> None:
        """A husk has left: it was read, rolled into delta, taken or dropped."""
        self.husk_count -= 1
        self.husk_bytes -= content_bytes(husk)

    def roll(self, message: Message, position: i64, is_last: bool) -> None:
        """A message or husk that lies at `position` of `place` leaves memory for delta: behind what
        is there (is_last) or before it."""
        origin: Cause = message.origin
        size: i64 = len(message.raw)
        if size == 0:
            self.unhusked(message)
        delta = self.delta
        pieces_bytes = delta.ram_bytes
        if is_last:
            delta.append(self.place, position, content_bytes(message), origin)
        else:
            delta.prepend(self.place, position, content_bytes(message), origin)
        size += MESSAGE_OVERHEAD_BYTES
        self.bytes_ready += delta.ram_bytes - pieces_bytes - size
        origin.unstore(1, size)

    def close_gaps(self) -> None:
        """What lies behind moves up to where nothing is between any more."""
        if not self.q3 and self.delta.count == 0:
            if self.q2:
                self.q3 = self.q2
                self.q2 = deque()
            elif len(self.q1) > 0:
                if len(self.ring) == 0:
                    self.ring, self.q1 = self.q1, self.ring
                    self.q1.clear()
                else:
                    self.ring.items.extend(self.q1.clear())
                self.front_bytes += self.tail_bytes
                self.tail_bytes = 0
        self.is_split = bool(self.q3) or self.delta.count > 0
