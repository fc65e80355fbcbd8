"""What of a line stands behind its front, most of it on the disk; in the order of delivery:

    front (ring) | q3: stubs | delta: pieces | q2: stubs | q1: newest messages
A message is whole, or a stub (its body is on the disk or on its way there), or one of a piece, of
which memory knows no more than its place in a log. A new message goes to q1, or to the front while
nothing is behind that.

    q2 is not empty  =>  delta is not empty
    q1 is not empty  =>  q3 or delta is not empty
Messages leave memory by bytes (our rule) or by counts (RabbitMQ's, two stages). Names and order of
the parts are those of RabbitMQ's variable queue (flow-semantics 6.1 to 6.4), but delta is read
straight into the front.

    by bytes     above the target: the newest messages, then the end of the front, so that the head
                 stays; what has a place in the log goes into delta, the rest are stubs until then
    by counts    stage 1, bodies: q1 from its head, then the front from its end; stage 2, positions:
                 stubs into delta, in chunks
"""

from collections import deque
from itertools import islice
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.protocol.content import Message, SharedMessage, Stub
from penstock.queues.delta import Delta
from penstock.queues.entry import Leaving, Returned, content_bytes, is_embedded, is_stub, stub_of
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, FoundRange, ReadRequest
from penstock.queues.ring import MessageRing, PackedMessages
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored
from penstock.storage.log.reading import Found

UNSAVED: Final = -1
AWAITED: Final = 0
UNBOUNDED: Final = 1 << 62
PAGED_AT_ONCE: Final = 512
"""Messages of one pass that need not be saved, however little each of them takes."""
SPLIT_AT_ONCE: Final = 16 * PAGED_AT_ONCE
"""Messages that are put in the order of delivery before the first of them leave."""
TOGETHER_MAX: Final = 4096
"""Stubs of q3 looked at for one read."""
SPARE_COUNT: Final = 16
"""Messages that a read of a piece asks for beyond what its average size lets expect."""


class Paged:
    """What one pass by counts has done. charged: bodies that have to be saved and cost credit, in
    the order in which they were paged; free: those that cost none, because they are embedded;
    count: messages that were paged, saved before or not; tail_charged, tail_free: so many of either
    came out of q1, from its head, and the others from the end of the front, backward."""

    __slots__ = ("charged", "count", "free", "tail_charged", "tail_free")

    def __init__(self) -> None:
        self.charged: list[Message] = []
        self.free: list[Message] = []
        self.count: i64 = 0
        self.tail_charged: i64 = 0
        self.tail_free: i64 = 0

    def in_order(self) -> list[Message]:
        """All that has to be saved, in an order in which it becomes long pieces: in the order of
        delivery, embedded ones apart."""
        found = self.charged[int(self.tail_charged) :]
        found.reverse()
        found.extend(self.charged[: int(self.tail_charged)])
        embedded = self.free[int(self.tail_free) :]
        embedded.reverse()
        found.extend(embedded)
        found.extend(self.free[: int(self.tail_free)])
        return found


class Backlog:
    """index, spill: see ClassicQueue.begin_paging; place: the index in which the last `place_of`
    found a position; front: the line's ring; is_split: something stands behind it; bytes: of memory
    without the front: frames of whole messages, MESSAGE_OVERHEAD_BYTES for each message or stub,
    and pieces; stub_count, stub_bytes: of stubs in q3 and q2.

    Of the front: leaving: stubs that are read only to be dropped; waiting: what is being read for
    its stub, by position in the log; filled, gone: what has got its body, and what cannot be read,
    since the last `take_in` of the line; has_gap: something behind the front could not be read
    since then."""

    __slots__ = (
        "bytes",
        "delta",
        "filled",
        "front",
        "gone",
        "has_gap",
        "index",
        "is_split",
        "leaving",
        "place",
        "q1",
        "q2",
        "q3",
        "spill",
        "stub_bytes",
        "stub_count",
        "waiting",
    )

    def __init__(
        self, front: MessageRing, index: QueueIndex, spill: QueueIndex, is_shared: bool
    ) -> None:
        self.front = front
        self.index = index
        self.spill = spill
        self.place = index
        self.q3: deque[Message] = deque()
        self.delta = Delta(is_shared)
        self.q2: deque[Message] = deque()
        self.q1 = MessageRing()
        self.is_split = False
        self.bytes: i64 = 0
        self.stub_count: i64 = 0
        self.stub_bytes: i64 = 0
        self.leaving: list[Leaving] = []
        self.waiting: dict[int, Returned] = {}
        self.filled: list[Returned] = []
        self.gone: list[Returned] = []
        self.has_gap = False

    def count(self) -> i64:
        """Messages behind the front."""
        return len(self.q3) + self.delta.count + len(self.q2) + len(self.q1)

    def whole_head(self, most: i64) -> i64:
        """How many whole messages stand first in q3, up to `most`: RabbitMQ's embedded ones are
        whole where bodies have gone elsewhere."""
        count: i64 = 0
        for message in self.q3:
            if count == most or is_stub(message):
                break
            count += 1
        return count

    def messages(self) -> list[Message]:
        """What memory has of them."""
        found = [*self.q3, *self.q2]
        found.extend(self.q1.every())
        return found

    def first_bytes(self) -> i64:
        """Bytes in the body of the first message; of a piece the average."""
        if self.q3:
            return self.q3[0].body_bytes
        piece = self.delta.pieces[0]
        return piece.bytes // piece.count

    def take_embedded(self) -> Message:
        """The first message, which is whole. Raises: IndexError when it is not, or there is
        none."""
        if not self.q3 or is_stub(self.q3[0]):
            raise IndexError("the queue is empty, or its first message is on the disk")
        message = self.q3.popleft()
        self.bytes -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.close_gaps()
        return message

    def count_stub(self, stub: Message, sign: i64) -> None:
        """A stub has come (1) or goes (-1): it was read, rolled, or dropped."""
        self.stub_count += sign
        self.stub_bytes += sign * content_bytes(stub)

    def place_of(self, message: Message) -> i64:
        """See `place`; AWAITED while the message is on its way to the log, UNSAVED if it has to be
        saved first."""
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
        place here, once, so the store need not do it."""
        stored = message.stored
        if stored is None:
            stored = Stored()
            message.stored = stored
        assert isinstance(stored, Stored), "only the log gives messages a place"
        stored.join(self.spill.queue_id)

    def stubbed(self, message: Message) -> Message:
        """A stub of a ready message behind the front; its body is not in memory any more."""
        size: i64 = len(message.raw)
        stub = stub_of(message)
        self.count_stub(stub, 1)
        self.bytes -= size
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(0, size)
        return stub

    def stub_embedded(self) -> None:
        """What stands with its body where bodies have gone elsewhere (RabbitMQ's small messages)
        becomes stubs. It has its place in the log, or is on its way there."""
        for part in (self.q3, self.q2):
            for at in range(len(part)):
                message = part[at]
                if not is_stub(message):
                    part[at] = self.stubbed(message)

    def _roll(self, message: Message, position: i64, is_last: bool) -> None:
        """A message or stub that lies at `position` of `place` leaves memory for delta: behind what
        is there (is_last) or before it."""
        origin: Cause = message.origin
        size: i64 = len(message.raw)
        if size == 0:
            self.count_stub(message, -1)
        elif isinstance(message, SharedMessage):
            message.left()
        delta = self.delta
        pieces_bytes = delta.ram_bytes
        if is_last:
            delta.append(self.place, position, content_bytes(message), origin)
        else:
            delta.prepend(self.place, position, content_bytes(message), origin)
        size += MESSAGE_OVERHEAD_BYTES
        self.bytes += delta.ram_bytes - pieces_bytes - size
        origin.unstore(1, size)

    def close_gaps(self) -> None:
        """What lies behind moves up to where nothing is between any more."""
        if not self.q3 and self.delta.count == 0:
            if self.q2:
                self.q3 = self.q2
                self.q2 = deque()
            elif len(self.q1) > 0:
                self.bytes -= self.q1.bytes
                self.front.bytes += self.q1.bytes
                self.q1.bytes = 0
                self.front.join(self.q1)
        self.is_split = bool(self.q3) or self.delta.count > 0

    def restore(self, found: FoundRange) -> None:
        """See ClassicQueue.restore_delta."""
        assert not self.q2 and len(self.q1) == 0, "the queue was used before it was restored"
        pieces_bytes = self.delta.ram_bytes
        self.delta.restore(found)
        self.bytes += self.delta.ram_bytes - pieces_bytes
        self.is_split = True

    def shed(self) -> Message:
        """The first message leaves, as a stub. Raises: IndexError when there is none."""
        if not self.q3 and self.delta.count == 0:
            raise IndexError("the queue is empty")
        stub = self._shed_of_piece() if not self.q3 else self.q3.popleft()
        self.count_stub(stub, -1)
        self.bytes -= MESSAGE_OVERHEAD_BYTES
        self.close_gaps()
        return stub

    def _shed_of_piece(self) -> Message:
        """A stub of the first message of delta, charged as one that was a stub before."""
        delta = self.delta
        piece = delta.pieces[0]
        position = delta.first_position()
        assert position > 0, "delta has only what the log has"
        stored = Stored()
        stored.join(piece.index.queue_id)
        stored.placed(piece.index.queue_id, position)
        size: i64 = piece.bytes // piece.count
        stub = Stub(0, size)
        stub.stored = stored
        pieces_bytes = delta.ram_bytes
        stub.origin = delta.take_first(position, size)
        stub.origin.store(1, MESSAGE_OVERHEAD_BYTES)
        self.bytes += delta.ram_bytes - pieces_bytes + MESSAGE_OVERHEAD_BYTES
        self.count_stub(stub, 1)
        return stub

    def clear(self) -> list[list[Message] | PackedMessages]:
        """Everything leaves; what memory has of it but for `leaving`. The front has left."""
        gone: list[list[Message] | PackedMessages] = [list(self.q3), list(self.q2)]
        gone.extend(self.q1.clear())
        self.q3 = deque()
        self.q2 = deque()
        self.delta.clear()
        self.leaving = []
        self.waiting = {}
        self.is_split = False
        self.bytes = 0
        self.stub_count = 0
        self.stub_bytes = 0
        return gone

    # -- out of memory, by bytes -----------------------------------------------------------------

    def held(self) -> i64:
        """Memory that paging by bytes lets go: all but stubs, which leave by themselves."""
        stubs: i64 = len(self.q3) + len(self.q2)
        return self.front.bytes + self.bytes - stubs * MESSAGE_OVERHEAD_BYTES

    def page_bytes(
        self, target_bytes: i64, kept: i64, pass_bytes: i64, pass_count: i64
    ) -> list[Message]:
        """See ClassicQueue.page_bytes. kept: so many messages at the head of the front stay.

        Without pass_bytes or pass_count nothing is saved, and nothing behind one that has to be
        saved is paged. What has a place in the log, or is on its way there, costs nothing. A stub
        keeps its MESSAGE_OVERHEAD_BYTES until a later pass finds that it got its place; that is not
        held against the target, or small messages would drive out the head meanwhile. Of
        those that need not be saved about PAGED_AT_ONCE leave: there may be more if `held` has
        fallen.
        """
        saves: list[Message] = []
        self.settle_stubs()
        if self.held() <= target_bytes:
            return saves
        if not self.is_split:
            if (pass_bytes <= 0 or pass_count <= 0) and self._is_end_unsaved():
                return saves
            self._split(self.held() - target_bytes, kept)
        room: i64 = self._page_tail(saves, target_bytes, pass_bytes, pass_count)
        if len(self.q1) == 0:
            self._page_front(saves, target_bytes, kept, room, pass_count)
        self.close_gaps()
        return saves

    def _is_end_unsaved(self) -> bool:
        """Whether the newest message of the front has to be saved before it can be paged."""
        return len(self.front) > 0 and self.place_of(self.front.newest()) == UNSAVED

    def _split(self, excess: i64, kept: i64) -> None:
        """All there is is in the front: its end, of about `excess` bytes, becomes q1, so that it
        is saved in the order in which it will be read."""
        front = self.front
        end: list[Message] = []
        moved: i64 = 0
        while front.count > kept and moved < excess and len(end) < SPLIT_AT_ONCE:
            message = front.pop()
            moved += len(message.raw) + MESSAGE_OVERHEAD_BYTES
            end.append(message)
        end.reverse()
        self.q1.extend(end)
        front.bytes -= moved
        self.q1.bytes = moved
        self.bytes += moved

    def _page_tail(
        self, saves: list[Message], target_bytes: i64, pass_bytes: i64, pass_count: i64
    ) -> i64:
        """Page q1 from its head; what is left of `pass_bytes`."""
        q1 = self.q1
        room: i64 = pass_bytes
        count: i64 = PAGED_AT_ONCE
        while self.held() > target_bytes and len(q1) > 0:
            message = q1.first()
            size: i64 = len(message.raw)
            position = self.place_of(message)
            if position != UNSAVED:
                if count == 0:
                    return 0
                count -= 1
            else:
                if room <= 0 or (size > room and saves) or len(saves) >= pass_count:
                    return 0
                room -= size
                self.reserve(message)
                saves.append(message)
            q1.take()
            q1.bytes -= size + MESSAGE_OVERHEAD_BYTES
            if position > 0 and not self.q2:
                self._roll(message, position, True)
            else:
                self._put_behind(self.stubbed(message))
        return room

    def _put_behind(self, message: Message) -> None:
        """Put what comes out of q1 to where it belongs."""
        if self.delta.count > 0:
            self.q2.append(message)
        else:
            self.q3.append(message)

    def _page_front(
        self, saves: list[Message], target_bytes: i64, kept: i64, room: i64, pass_count: i64
    ) -> None:
        """Page the end of the front, a part of it that is saved in the order of delivery."""
        front = self.front
        excess: i64 = self.held() - target_bytes
        # Without a pass left nothing is saved; otherwise one message is, whatever its size.
        has_saves = len(saves) > 0 or room <= 0
        left: i64 = pass_count - len(saves)
        part: list[Message] = []
        count: i64 = PAGED_AT_ONCE
        while front.count > kept and excess > 0 and count > 0:
            message = front.newest()
            size: i64 = len(message.raw)
            position = self.place_of(message)
            if position == UNSAVED:
                if (size > room and has_saves) or left <= 0:
                    break
                has_saves = True
                left -= 1
                room -= size
            else:
                count -= 1
            excess -= size + MESSAGE_OVERHEAD_BYTES
            part.append(front.pop())
        for message in reversed(part):
            if self.place_of(message) == UNSAVED:
                self.reserve(message)
                saves.append(message)
        for message in part:
            size = len(message.raw)
            self.front.bytes -= size + MESSAGE_OVERHEAD_BYTES
            self.bytes += size + MESSAGE_OVERHEAD_BYTES
            position = self.place_of(message)
            if position > 0 and not self.q3:
                self._roll(message, position, False)
            else:
                self.q3.appendleft(self.stubbed(message))

    def settle_stubs(self) -> None:
        """Stubs that have got their place in the log go into delta, as far as the order lets
        them."""
        if self.delta.count == 0:
            if not self.q3 or self.place_of(self.q3[0]) <= 0:
                return
            # q2 is empty without delta, and what is in q3 is contiguous with what would be there.
            self.q2, self.q3 = self.q3, self.q2
        self._roll_back(0, UNBOUNDED)
        self._roll_on(UNBOUNDED)
        self.close_gaps()

    def _roll_back(self, kept: i64, count: i64) -> i64:
        """q3 from its end into delta: up to `count`, while it has more than `kept`; how many."""
        rolled: i64 = 0
        while rolled < count and len(self.q3) > kept:
            message = self.q3[-1]
            position = self.place_of(message)
            if position <= 0:
                break
            self.q3.pop()
            self._roll(message, position, False)
            rolled += 1
        return rolled

    def _roll_on(self, count: i64) -> i64:
        """q2 from its head into delta: up to `count`; how many."""
        rolled: i64 = 0
        while rolled < count and self.q2:
            message = self.q2[0]
            position = self.place_of(message)
            if position <= 0:
                break
            self.q2.popleft()
            self._roll(message, position, True)
            rolled += 1
        return rolled

    # -- out of memory, by counts ----------------------------------------------------------------

    def page_bodies_count(
        self, ram: i64, quota: i64, target: i64, credit: i64, embed_below: i64
    ) -> Paged:
        """RabbitMQ's stage 1 for messages, of which `ram` are in memory: up to `quota`, until no
        more than `target` are, while credit is left; a body that has to be saved costs one.
        Messages of less than `embed_below` bytes cost none, and stay in memory."""
        paged = Paged()
        left: i64 = ram
        q1 = self.q1
        front = self.front
        while quota > paged.count and left > target and credit > len(paged.charged):
            if len(q1) > 0:
                message = q1.take()
                q1.bytes -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
                message = self._to_save(message, paged, embed_below)
                self._put_behind(message)
                paged.tail_charged = len(paged.charged)
                paged.tail_free = len(paged.free)
            elif len(front) > 0:
                message = front.pop()
                size: i64 = len(message.raw) + MESSAGE_OVERHEAD_BYTES
                front.bytes -= size
                self.bytes += size
                message = self._to_save(message, paged, embed_below)
                self.q3.appendleft(message)
            else:
                break
            paged.count += 1
            if is_stub(message):
                left -= 1
        self.close_gaps()
        return paged

    def _to_save(self, message: Message, paged: Paged, embed_below: i64) -> Message:
        """Note in `paged` what `message` needs; what stands for it afterwards."""
        embedded = is_embedded(message, embed_below)
        if self.place_of(message) == UNSAVED:
            self.reserve(message)
            if embedded:
                paged.free.append(message)
            else:
                paged.charged.append(message)
        return message if embedded else self.stubbed(message)

    def page_positions(
        self, first: i64, permitted: i64, batch: i64, most: i64, entries: i64
    ) -> i64:
        """RabbitMQ's stage 2: if at least `batch` more than `permitted` stand in q3 and q2, those
        go into delta, no more than `most`: q3 from its end, but not what is in one index segment,
        of so many `entries`, with its head, which stands at `first`; then q2 from its head. Only
        those with a place in the log can. Returns how many went."""
        chunk: i64 = len(self.q2) + len(self.q3) - permitted
        if chunk < batch:
            return 0
        if chunk > most:
            chunk = most
        moved = self._roll_back(entries - first % entries, chunk)
        moved += self._roll_on(chunk - moved)
        self.close_gaps()
        return moved

    # -- back into memory ------------------------------------------------------------------------

    def next_read(self, bytes_max: i64) -> ReadRequest | None:
        """The next read, of about `bytes_max`; None as well where the front has that already."""
        if not self.is_split or self.front.bytes >= bytes_max:
            return None
        if self.q3:
            return self._read_of_q3(bytes_max)
        piece = self.delta.pieces[0]
        count: i64 = bytes_max * piece.count // (piece.bytes + 1) + SPARE_COUNT
        if count > piece.count:
            count = piece.count
        size: i64 = piece.bytes * count // piece.count
        request = ReadRequest(piece.index, piece.first, count, size)
        request.chosen = piece.chosen(count)
        return request

    def _read_of_q3(self, bytes_max: i64) -> ReadRequest | None:
        """As many of its stubs as follow each other in one log."""
        first: i64 = 0
        count: i64 = 0
        size: i64 = 0
        index = self.index
        for stub in islice(self.q3, TOGETHER_MAX):
            if size >= bytes_max or not is_stub(stub):
                break
            position = self.place_of(stub)
            if position <= 0:
                break
            if count == 0:
                first = position
                index = self.place
            elif self.place is not index or position != first + count:
                break
            size += content_bytes(stub)
            count += 1
        return ReadRequest(index, first, count, size) if count > 0 else None

    def arrived(self, request: ReadRequest, one: Found) -> bool:
        """Put what was read for `request` at the end of the front, if it still comes next."""
        message = one.message
        size: i64 = len(message.raw) + MESSAGE_OVERHEAD_BYTES
        if self.q3:
            stub = self.q3[0]
            if not is_stub(stub) or not self._is_at(stub, request, one.position):
                return False
            self.q3.popleft()
            self.count_stub(stub, -1)
            fill(stub, message)
            self.bytes -= MESSAGE_OVERHEAD_BYTES
        else:
            if not self._is_first(request, one.position):
                return False
            delta = self.delta
            pieces_bytes = delta.ram_bytes
            message.origin = delta.take_first(one.position, content_bytes(message))
            message.origin.store(1, size)
            self.bytes += delta.ram_bytes - pieces_bytes
        self.front.append(message)
        self.front.bytes += size
        if not self.q3 and self.delta.count == 0 and self.q2:
            self.close_gaps()
        return True

    def lost(self, request: ReadRequest, position: i64) -> bool:
        """See ClassicQueue.lost."""
        if self.q3:
            stub = self.q3[0]
            if not self._is_at(stub, request, position):
                return False
            self.q3.popleft()
            self.count_stub(stub, -1)
            self.bytes -= MESSAGE_OVERHEAD_BYTES
            stub.origin.unstore(1, MESSAGE_OVERHEAD_BYTES)
        else:
            if not self._is_first(request, position):
                return False
            delta = self.delta
            pieces_bytes = delta.ram_bytes
            piece = delta.pieces[0]
            delta.take_first(position, piece.bytes // piece.count)
            self.bytes += delta.ram_bytes - pieces_bytes
        self.close_gaps()
        return True

    def _is_at(self, stub: Message, request: ReadRequest, position: i64) -> bool:
        """Whether `position` of what was asked for is that of `stub`."""
        return self.place_of(stub) == position and self.place is request.index

    def _is_first(self, request: ReadRequest, position: i64) -> bool:
        """Whether the first message of delta lies at `position` of what was asked for."""
        delta = self.delta
        if delta.count == 0 or delta.pieces[0].index is not request.index:
            return False
        return delta.first_position() == position


def fill(stub: Message, message: Message) -> None:
    """`message` was read for `stub` and takes its place: memory holds its body again."""
    message.address = stub.address
    message.origin = stub.origin
    message.stored = stub.stored
    message.origin.store(0, len(message.raw))
