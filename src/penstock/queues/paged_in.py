"""How a paged queue comes back into memory: what is to be read next, and where it goes."""

from heapq import heapify, heappush
from itertools import islice
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.queues.husks import content_bytes, is_husk
from penstock.queues.paged_out import PagingOut
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Returned
from penstock.queues.wanted import Wanted
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found

SPARE_COUNT: Final = 16
"""Messages that a read of a piece asks for beyond what its average size lets expect."""
TOGETHER_MAX: Final = 4096
"""Husks looked at for one read."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PagingIn(PagingOut):
    """What brings a queue back from the disk."""

    __slots__ = ()

    def wanted(self, bytes_max: i64) -> Wanted | None:
        """The next read, of about `bytes_max` bytes: give it to MessageLog.plan_reads with the same
        bound, and what was found to `arrived`.

        None if there is nothing to read, the front has that much already, or what comes next is on
        its way to the disk and has no place yet: then ask again when the next batch was written.
        """
        if self.husks_back:
            # The front waits meanwhile: what came back is before it.
            if self.returned and self.returned[0] < self.husks_back[0] and not self.rejected:
                return None
            self.husks_back.sort()
            first = self.husks_back[:TOGETHER_MAX]
            return self._wanted_husks([entry.message for entry in first], bytes_max, True)
        if not self.is_split or self.front_bytes >= bytes_max:
            return None
        if self.q3:
            return self._wanted_husks(list(islice(self.q3, TOGETHER_MAX)), bytes_max, False)
        if self.delta.count == 0:
            return None
        piece = self.delta.pieces[0]
        count: i64 = bytes_max * piece.count // (piece.bytes + 1) + SPARE_COUNT
        if count > piece.count:
            count = piece.count
        wanted = Wanted(piece.index, piece.first, count, False)
        wanted.chosen = piece.chosen(count)
        return wanted

    def _wanted_husks(
        self, husks: list[Message], bytes_max: i64, is_returned: bool
    ) -> Wanted | None:
        """A read of as many of `husks` as follow each other in one log."""
        first: i64 = 0
        count: i64 = 0
        size: i64 = 0
        index: QueueIndex = self.index
        for husk in husks:
            if size >= bytes_max or not is_husk(husk):
                break
            position = self.place_of(husk)
            if position <= 0:
                break
            if count == 0:
                first = position
                index = self.place
            elif self.place is not index or position != first + count:
                break
            size += content_bytes(husk)
            count += 1
        return Wanted(index, first, count, is_returned) if count > 0 else None

    def arrived(self, wanted: Wanted, found: list[Found]) -> i64:
        """What was read for `wanted`, in order. What still is what comes next is put in its place
        and charged to its cause; the rest is dropped, because the queue was purged, or paged on,
        meanwhile. Nothing is put behind one that is missing. Returns how many are in memory now.
        """
        if wanted.is_returned:
            return self._came_back(wanted, found)
        count: i64 = 0
        for one in found:
            if not self._put_in_front(wanted.index, one):
                break
            count += 1
        self.close_gaps()
        return count

    def _put_in_front(self, index: QueueIndex, one: Found) -> bool:
        message = one.message
        size: i64 = len(message.raw)
        if self.q3:
            husk = self.q3[0]
            if self.place_of(husk) != one.position or self.place is not index or not is_husk(husk):
                return False
            self.q3.popleft()
            self._fill(husk, message)
        else:
            delta = self.delta
            if delta.count == 0 or delta.pieces[0].index is not index:
                return False
            if delta.first_position() != one.position:
                return False
            pieces_bytes = delta.ram_bytes
            message.origin = delta.take_first(one.position, content_bytes(message))
            message.origin.store(1, size + MESSAGE_OVERHEAD_BYTES)
            self.bytes_ready += delta.ram_bytes - pieces_bytes + size + MESSAGE_OVERHEAD_BYTES
        self.ring.items.append(message)
        self.front_bytes += size + MESSAGE_OVERHEAD_BYTES
        if not self.q3 and self.delta.count == 0 and self.q2:
            self.close_gaps()
        return True

    def _fill(self, husk: Message, message: Message) -> None:
        """`message` was read for `husk` and takes its place: memory holds its body again."""
        size: i64 = len(message.raw)
        message.address = husk.address
        message.origin = husk.origin
        message.stored = husk.stored
        self.unhusked(husk)
        self.bytes_ready += size
        message.origin.store(0, size)

    def _came_back(self, wanted: Wanted, found: list[Found]) -> i64:
        read: dict[int, Message] = {}
        for one in found:
            read[int(one.position)] = one.message
        rest: list[Returned] = []
        count: i64 = 0
        for entry in self.husks_back:
            position = self.place_of(entry.message)
            if position > 0 and self.place is wanted.index and int(position) in read:
                message = read[int(position)]
                self._fill(entry.message, message)
                heappush(self.returned, Returned(entry.position, message))
                count += 1
            else:
                rest.append(entry)
        heapify(rest)
        self.husks_back = rest
        return count

    def lost(self, wanted: Wanted, position: i64) -> bool:
        """The message at log position `position` of `wanted` cannot be read and is given up: it is
        repaid, and the caller settles it in the log. False if it does not come next."""
        if wanted.is_returned:
            return self._lost_returned(wanted.index, position)
        if self.q3:
            husk = self.q3[0]
            if self.place_of(husk) != position or self.place is not wanted.index:
                return False
            self.q3.popleft()
            self._lose(husk)
        else:
            delta = self.delta
            if delta.count == 0 or delta.pieces[0].index is not wanted.index:
                return False
            if delta.first_position() != position:
                return False
            pieces_bytes = delta.ram_bytes
            piece = delta.pieces[0]
            delta.take_first(position, piece.bytes // piece.count)
            self.bytes_ready += delta.ram_bytes - pieces_bytes
        if self.redelivered_below > self.taken + len(self.ring):
            self.redelivered_below -= 1
        self.close_gaps()
        return True

    def _lost_returned(self, index: QueueIndex, position: i64) -> bool:
        for at in range(len(self.husks_back)):
            husk = self.husks_back[at].message
            if self.place_of(husk) == position and self.place is index:
                self.rejected.discard(int(self.husks_back[at].position))
                del self.husks_back[at]
                heapify(self.husks_back)
                self._lose(husk)
                return True
        return False

    def _lose(self, husk: Message) -> None:
        self.unhusked(husk)
        self.bytes_ready -= MESSAGE_OVERHEAD_BYTES
        husk.origin.unstore(1, MESSAGE_OVERHEAD_BYTES)
