"""A classic queue of which part is on the disk, in the order of delivery:

    returned | front (ring) | q3: husks | delta: pieces | q2: husks | q1: newest messages
A message is whole, or a husk (its body is on the disk or on its way there), or one of a piece, of
which memory knows no more than its place in a log. A publish goes to q1, or to the front while
there is nothing behind that. Positions count on as in the plain queue, whatever the form.

    q2 is not empty  =>  delta is not empty
    q1 is not empty  =>  q3 or delta is not empty
`bytes_ready` is memory: frames of whole messages, MESSAGE_OVERHEAD_BYTES for each message or husk,
PIECE_BYTES for each piece; all of it is charged to the causes of the messages. Nothing here reads
or writes: what has to be saved or read is asked for. Names and order of the parts are those of
RabbitMQ's variable queue (flow-semantics 6.1), but delta is read straight into the front.
"""

from heapq import heapify, heappop, heappush

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.protocol.content import Message
from penstock.queues.delta import Piece
from penstock.queues.husks import content_bytes, is_husk
from penstock.queues.paged_in import PagingIn
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue, Returned
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored


@mypyc_attr(allow_interpreted_subclasses=True)
class PagedMessages(PagingIn):
    """The queue as its actor sees it. A queue becomes one when it has to page, and is a plain one
    again when everything is in memory (broker/paging/pager)."""

    __slots__ = ()

    @staticmethod
    def from_plain(plain: ClassicQueue, index: QueueIndex, spill: QueueIndex) -> "PagedMessages":
        """A queue with everything that is in `plain`, which is given up. index: where the log has
        the queue's persistent messages; spill: where others go when they are paged, which is the
        same for a queue that keeps nothing."""
        paged = PagedMessages(index, spill)
        paged.ring = plain.ring
        paged.returned = plain.returned
        paged.taken = plain.taken
        paged.position = plain.position
        paged.redelivered = plain.redelivered
        paged.redelivered_below = plain.redelivered_below
        paged.bytes_ready = plain.bytes_ready
        paged.front_bytes = plain.bytes_ready
        for entry in plain.returned:
            paged.front_bytes -= len(entry.message.raw) + MESSAGE_OVERHEAD_BYTES
        paged.copy_counts(plain)
        return paged

    # -- in and out ------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        size: i64 = len(message.raw)
        size += MESSAGE_OVERHEAD_BYTES
        self.bytes_ready += size
        self.publish_count += 1
        if self.is_split:
            self.tail_bytes += size
            self.q1.items.append(message)
        else:
            self.front_bytes += size
            self.ring.items.append(message)

    def take(self) -> Message:
        """The first ready message. Raises: IndexError when there is none or it is on the disk."""
        if self.husks_back and self.at_hand() == 0:
            raise IndexError("the first message is on the disk")
        if self.returned:
            first = heappop(self.returned)
            message = first.message
            size: i64 = len(message.raw)
            self.position = first.position
            self.redelivered = True
        elif len(self.ring) > 0:
            message = self.ring.take()
            size = len(message.raw)
            self.front_bytes -= size + MESSAGE_OVERHEAD_BYTES
            self._step()
        else:
            if not self.q3 or is_husk(self.q3[0]):
                raise IndexError("the queue is empty, or its first message is on the disk")
            message = self.q3.popleft()
            size = len(message.raw)
            self._step()
            self.close_gaps()
        self.bytes_ready -= size + MESSAGE_OVERHEAD_BYTES
        self.deliver_count += 1
        return message

    def _step(self) -> None:
        """The first message of those that never came back has been taken."""
        self.position = self.taken
        self.taken += 1
        self.redelivered = self.position < self.redelivered_below

    def first_bytes(self) -> i64:
        """As in the plain queue; of a piece the average."""
        if self.husks_back:
            husk = self.husks_back[0]
            if not self.returned or husk < self.returned[0]:
                return husk.message.body_bytes
        if self.returned or len(self.ring) > 0:
            return super().first_bytes()
        if self.q3:
            return self.q3[0].body_bytes
        piece: Piece = self.delta.pieces[0]
        return piece.bytes // piece.count

    def put_back(self, position: i64, message: Message) -> None:
        if not is_husk(message):
            super().put_back(position, message)
            return
        heappush(self.husks_back, Returned(position, message))
        self.husk_count += 1
        self.husk_bytes += content_bytes(message)
        self.bytes_ready += MESSAGE_OVERHEAD_BYTES
        self.requeue_count += 1

    def reject(self, position: i64, husk: Message) -> None:
        """What was taken at `position` was rejected: it is read, and dropped then."""
        self.put_back(position, husk)
        self.requeue_count -= 1
        self.rejected.add(int(position))

    def take_rejected(self) -> list[Message]:
        """Those of them that were read since: they leave the queue."""
        if not self.rejected:
            return []
        kept: list[Returned] = []
        gone: list[Message] = []
        for entry in self.returned:
            if int(entry.position) in self.rejected:
                self.rejected.remove(int(entry.position))
                self.bytes_ready -= len(entry.message.raw) + MESSAGE_OVERHEAD_BYTES
                self.ack_count += 1
                gone.append(entry.message)
            else:
                kept.append(entry)
        heapify(kept)
        self.returned = kept
        return gone

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        before: i64 = self.publish_count
        self.add(message)
        self.publish_count = before
        if is_redelivered:
            self.redelivered_below = self._end_position()

    def _end_position(self) -> i64:
        """The position that the next new message will be taken at."""
        return self.taken + self.ready_count() - len(self.returned) - len(self.husks_back)

    def restore_delta(
        self,
        index: QueueIndex,
        first: i64,
        last: i64,
        count: i64,
        bytes_: i64,
        origin: Cause,
        redelivered_count: i64,
    ) -> None:
        """What the disk has at first..last of `index`, behind everything restored before it;
        nothing was published yet. count, bytes_: of its messages, 1.. and an estimate; origin: pays
        for them when they are read; redelivered_count: the first so many may have been delivered.
        """
        assert not self.q2 and len(self.q1) == 0, "the queue was used before it was restored"
        if redelivered_count > 0:
            self.redelivered_below = self._end_position() + redelivered_count
        pieces_bytes = self.delta.ram_bytes
        self.delta.restore(index, first, last, count, bytes_, origin)
        self.bytes_ready += self.delta.ram_bytes - pieces_bytes
        self.is_split = True

    def shed(self) -> Message:
        """As in the plain queue; a husk if the message is on the disk."""
        if self.at_hand() > 0:
            return super().shed()
        if self.husks_back:
            message = heappop(self.husks_back).message
        elif self.q3:
            message = self.q3.popleft()
            self.taken += 1
        elif self.delta.count > 0:
            return self._shed_of_piece()
        else:
            raise IndexError("the queue is empty")
        self.unhusked(message)
        self.bytes_ready -= MESSAGE_OVERHEAD_BYTES
        self.close_gaps()
        return message

    def _shed_of_piece(self) -> Message:
        """A husk of the first message of delta, charged as one that was a husk before."""
        piece = self.delta.pieces[0]
        position = self.delta.first_position()
        assert position > 0, "delta has only what the log has"
        stored = Stored()
        stored.join(piece.index.queue_id)
        stored.placed(piece.index.queue_id, position)
        size: i64 = piece.bytes // piece.count
        husk = Message(0, b"", b"", 0, size)
        husk.stored = stored
        pieces_bytes = self.delta.ram_bytes
        husk.origin = self.delta.take_first(position, size)
        husk.origin.store(1, MESSAGE_OVERHEAD_BYTES)
        self.bytes_ready += self.delta.ram_bytes - pieces_bytes
        self.taken += 1
        self.close_gaps()
        return husk

    # -- looking ---------------------------------------------------------------------------------

    def ready_messages(self, step: int = 1) -> list[Message]:
        """Every `step`th message or husk that is ready, not in order; what is in delta is not among
        them, see `pieces`."""
        found = [entry.message for entry in self.returned]
        found.extend([entry.message for entry in self.husks_back])
        found.extend(self.ring.items[int(self.ring.head) :])
        found.extend(self.q3)
        found.extend(self.q2)
        found.extend(self.q1.items[int(self.q1.head) :])
        return found if step == 1 else found[::step]

    def returned_messages(self) -> list[Message]:
        found = [entry.message for entry in self.returned]
        found.extend([entry.message for entry in self.husks_back])
        return found

    def pieces(self) -> list[Piece]:
        """What delta is made of; whoever purges settles them in their logs before."""
        return list(self.delta.pieces)

    def purge(self) -> int:
        """As in the plain queue. The caller settles `ready_messages` and `pieces` before."""
        count = int(self.ready_count())
        self.taken = self._end_position()
        for message in self.ready_messages():
            message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        self.ring.clear()
        self.returned.clear()
        self.husks_back.clear()
        self.rejected.clear()
        self.q3.clear()
        self.delta.clear()
        self.q2.clear()
        self.q1.clear()
        self.is_split = False
        self.husk_count = 0
        self.husk_bytes = 0
        self.front_bytes = 0
        self.tail_bytes = 0
        self.bytes_ready = 0
        return count
