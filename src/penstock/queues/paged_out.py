"""How a paged queue leaves memory: by bytes (our rule), by counts (RabbitMQ's, two stages).

by bytes     above the target: the newest messages, then the end of the front, so that the head
             stays; what has a place in the log goes into delta, the rest are husks until then
by counts    stage 1, bodies: q1 from its head, then the front from its end; stage 2, positions:
             husks into delta, in chunks (flow-semantics 6.3, 6.4)
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.queues.husks import husk_of, is_husk
from penstock.queues.paged_forms import UNSAVED, PagedForms
from penstock.queues.paging_rules import is_embedded
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.wanted import Paged

UNBOUNDED: Final = 1 << 62


@mypyc_attr(allow_interpreted_subclasses=True)
class PagingOut(PagedForms):
    """What puts a queue on the disk."""

    __slots__ = ()

    # -- by bytes --------------------------------------------------------------------------------

    def page_bytes(
        self, target_bytes: i64, pass_bytes: i64, pass_count: i64 = UNBOUNDED
    ) -> list[Message]:
        """Let memory above `target_bytes`, 0.. , go. Returns the messages that have to be appended
        to `spill` for that, in this order: no more than `pass_bytes`, but one at least, and
        `pass_count`, the credit there is for them. Without either nothing is saved, and nothing
        behind one that has to be saved is paged.

        What has a place in the log, or is on its way there, costs nothing. A husk keeps its
        MESSAGE_OVERHEAD_BYTES until a later pass finds that it got its place; that is not held
        against the target, or small messages would drive out the head meanwhile. The first message
        stays, unless it alone is above the target.
        """
        saves: list[Message] = []
        self.settle_husks()
        if self._lasting_bytes() <= target_bytes:
            return saves
        if not self.is_split:
            if (pass_bytes <= 0 or pass_count <= 0) and self._is_end_unsaved():
                return saves
            self._split(self._lasting_bytes() - target_bytes, target_bytes)
        room: i64 = self._page_tail(saves, target_bytes, pass_bytes, pass_count)
        if len(self.q1) == 0:
            self._page_front(saves, target_bytes, room, pass_count)
        self.close_gaps()
        return saves

    def _lasting_bytes(self) -> i64:
        """What is in memory and will not leave it by itself."""
        leaving: i64 = len(self.q3) + len(self.q2)
        return self.bytes_ready - leaving * MESSAGE_OVERHEAD_BYTES

    def _is_end_unsaved(self) -> bool:
        """Whether the newest message of the front has to be saved before it can be paged."""
        return len(self.ring) > 0 and self.place_of(self.ring.items[-1]) == UNSAVED

    def _split(self, excess: i64, target_bytes: i64) -> None:
        """All there is is in the front: its end, of about `excess` bytes, becomes q1, so that it
        is saved in the order in which it will be read."""
        at: i64 = self._behind_head(target_bytes)
        ring = self.ring
        items = ring.items
        cut: i64 = len(items)
        moved: i64 = 0
        while cut > at and moved < excess:
            cut -= 1
            moved += len(items[cut].raw) + MESSAGE_OVERHEAD_BYTES
        self.q1.items = items[cut:]
        self.q1.head = 0
        del items[cut:]
        self.front_bytes -= moved
        self.tail_bytes = moved

    def _behind_head(self, target_bytes: i64) -> i64:
        """Up to which index of the front messages may be paged: its first one stays, unless it
        alone is above the target."""
        ring = self.ring
        at: i64 = ring.head
        if at < len(ring.items):
            size: i64 = len(ring.items[at].raw)
            if size + MESSAGE_OVERHEAD_BYTES <= target_bytes:
                at += 1
        return at

    def _page_tail(
        self, saves: list[Message], target_bytes: i64, pass_bytes: i64, pass_count: i64
    ) -> i64:
        """Page q1 from its head; what is left of `pass_bytes`."""
        q1 = self.q1
        room: i64 = pass_bytes
        while self._lasting_bytes() > target_bytes and len(q1) > 0:
            message = q1.items[q1.head]
            size: i64 = len(message.raw)
            position = self.place_of(message)
            if position == UNSAVED:
                if room <= 0 or (size > room and saves) or len(saves) >= pass_count:
                    return 0
                room -= size
                self.reserve(message)
                saves.append(message)
            q1.take()
            self.tail_bytes -= size + MESSAGE_OVERHEAD_BYTES
            if position > 0 and not self.q2:
                self.roll(message, position, True)
            else:
                self._behind(self.husked(message))
        return room

    def _behind(self, message: Message) -> None:
        """Put what comes out of q1 to where it belongs."""
        if self.delta.count > 0:
            self.q2.append(message)
        else:
            self.q3.append(message)

    def _page_front(
        self, saves: list[Message], target_bytes: i64, room: i64, pass_count: i64
    ) -> None:
        """Page the end of the front, a part of it that is saved in the order of delivery."""
        items = self.ring.items
        stop: i64 = self._behind_head(target_bytes)
        excess: i64 = self._lasting_bytes() - target_bytes
        at: i64 = len(items)
        # Without a pass left nothing is saved; otherwise one message is, whatever its size.
        has_saves = len(saves) > 0 or room <= 0
        left: i64 = pass_count - len(saves)
        while at > stop and excess > 0:
            message = items[at - 1]
            size: i64 = len(message.raw)
            position = self.place_of(message)
            if position == UNSAVED:
                if (size > room and has_saves) or left <= 0:
                    break
                has_saves = True
                left -= 1
                room -= size
            excess -= size + MESSAGE_OVERHEAD_BYTES
            at -= 1
        part = items[at:]
        del items[at:]
        for message in part:
            if self.place_of(message) == UNSAVED:
                self.reserve(message)
                saves.append(message)
        part.reverse()
        for message in part:
            size = len(message.raw)
            self.front_bytes -= size + MESSAGE_OVERHEAD_BYTES
            position = self.place_of(message)
            if position > 0 and not self.q3:
                self.roll(message, position, False)
            else:
                self.q3.appendleft(self.husked(message))

    def settle_husks(self) -> None:
        """Husks that have got their place in the log go into delta, as far as the order lets
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
            self.roll(message, position, False)
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
            self.roll(message, position, True)
            rolled += 1
        return rolled

    # -- by counts -------------------------------------------------------------------------------

    def page_bodies_count(self, quota: i64, target: i64, credit: i64, embed_below: i64) -> Paged:
        """Stage 1 for messages: up to `quota`, until no more than `target` are in memory, while
        credit is left; a body that has to be saved costs one. Messages of less than `embed_below`
        bytes cost none, and stay in memory."""
        paged = Paged()
        ram: i64 = self.ram_count()
        q1 = self.q1
        items = self.ring.items
        while quota > paged.count and ram > target and credit > len(paged.charged):
            if len(q1) > 0:
                message = q1.take()
                self.tail_bytes -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
                message = self._to_save(message, paged, embed_below)
                self._behind(message)
                paged.tail_charged = len(paged.charged)
                paged.tail_free = len(paged.free)
            elif len(items) > self.ring.head:
                message = items.pop()
                self.front_bytes -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
                message = self._to_save(message, paged, embed_below)
                self.q3.appendleft(message)
            else:
                break
            paged.count += 1
            if is_husk(message):
                ram -= 1
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
        return message if embedded else self.husked(message)

    def page_positions(self, permitted: i64, batch: i64, most: i64, entries: i64) -> i64:
        """Stage 2: if at least `batch` more than `permitted` stand in q3 and q2, those go into
        delta, no more than `most`: q3 from its end, but not what is in one index segment, of so
        many `entries`, with its head; then q2 from its head. Only those with a place in the log
        can. Returns how many went."""
        chunk: i64 = len(self.q2) + len(self.q3) - permitted
        if chunk < batch:
            return 0
        if chunk > most:
            chunk = most
        first: i64 = self.taken + len(self.ring)
        moved = self._roll_back(entries - first % entries, chunk)
        moved += self._roll_on(chunk - moved)
        self.close_gaps()
        return moved

    def page_out(self, message: Message, paged: Paged) -> Message:
        """A husk of a message that is out with a consumer, whose body is charged to nobody any
        more. The caller puts it in the message's place and mends the bytes it counts as unanswered;
        in `paged` the message is noted if it has to be saved."""
        if self.place_of(message) == UNSAVED:
            self.reserve(message)
            paged.charged.append(message)
        paged.count += 1
        message.origin.unstore(0, len(message.raw))
        return husk_of(message)
