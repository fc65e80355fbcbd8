"""Deliveries a channel has made and the client has not answered, by delivery tag.

A list indexed by `tag - base`: settling one, many, or out of order costs an index each; settled
places are blanked and the front is cut off as it becomes blank. When few deliveries are left in a
long list (one is held for hours while others come and go) they move to a dictionary, so that the
table grows with what is unanswered and not with what was delivered since:

    len(entries) <= 2 * SPARSE_PLACES + 16 * count          whenever the list grows
"""

from typing import Final, cast

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery

SPARSE_PLACES: Final = 1024
"""Places a list may have whatever is in it."""


class Stamp:
    """A time that is good to a second, set by the broker's once-a-second work: a delivery is dated
    without reading a clock. `now_ns`: monotonic nanoseconds, at most about STAMP_NS ago."""

    __slots__ = ("now_ns",)

    def __init__(self, now_ns: int) -> None:
        self.now_ns: i64 = now_ns


STAMP_NS: Final = 1_000_000_000


NO_DELIVERIES: Final[list[Delivery | None]] = []
NONE_OLD: Final[dict[int, Delivery]] = {}
"""What all channels share that have nothing unanswered, or nothing old."""


class UnackedTable:
    """Unanswered deliveries of one channel. `next_tag`: the tag of the next delivery, 1.. ;
    `old`: those whose tags are below `base`, in the order of their tags."""

    __slots__ = ("base", "count", "entries", "head", "next_tag", "old", "stamp")

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp
        self.entries: list[Delivery | None] = NO_DELIVERIES
        self.old: dict[int, Delivery] = NONE_OLD
        self.base: i64 = 1
        self.head: i64 = 0
        self.next_tag: i64 = 1
        self.count: i64 = 0

    def skip(self) -> i64:
        """A tag for a delivery that needs no answer."""
        tag: i64 = self.next_tag
        self.next_tag = tag + 1
        if self.count == 0:
            if len(self.entries) > 0:
                self.entries.clear()
            self.head = 0
            self.base = tag + 1
        else:
            self.entries.append(None)
            self._thin_out()
        return tag

    def skip_run(self, count: i64) -> None:
        """As `skip` of so many deliveries."""
        if self.count > 0:
            while count > 0:
                self.skip()
                count -= 1
            return
        if len(self.entries) > 0:
            self.entries.clear()
        self.head = 0
        self.next_tag += count
        self.base = self.next_tag

    def add(
        self, message: Message, queue: ConsumerQueue, consumer: Consumer | None, position: i64
    ) -> i64:
        """Remember a delivery; its tag."""
        tag: i64 = self.next_tag
        self.next_tag = tag + 1
        if self.entries is NO_DELIVERIES:
            self.entries = []
        self.entries.append(Delivery(tag, message, queue, consumer, position, self.stamp.now_ns))
        self.count += 1
        if len(self.entries) > 2 * SPARSE_PLACES:
            self._thin_out()
        return tag

    def take(self, tag: i64) -> Delivery | None:
        """The delivery with `tag`, which is no longer remembered; None if there is none."""
        index: i64 = tag - self.base
        if index < self.head or index >= len(self.entries):
            return self._take_old(tag)
        entry = self.entries[index]
        if entry is None:
            return None
        self.entries[index] = None
        self.count -= 1
        if index == self.head:
            self._trim()
        return entry

    def take_run(self, tag: i64, count: i64) -> list[Delivery]:
        """The deliveries with `count` tags from `tag` on, which are no longer remembered; none, and
        all stay, where one of them is not there or is old."""
        entries = self.entries
        index: i64 = tag - self.base
        end: i64 = index + count
        taken: list[Delivery] = []
        if index < self.head or end > len(entries):
            return taken
        at: i64 = index
        while at < end:
            entry = entries[at]
            if entry is None:
                return []
            taken.append(entry)
            at += 1
        self.count -= count
        at = index
        while at < end:
            entries[at] = None
            at += 1
        if index == self.head:
            self._trim()
        return taken

    def find(self, tag: i64) -> Delivery | None:
        """The delivery with `tag`, which stays; None if there is none."""
        index: i64 = tag - self.base
        if index < self.head or index >= len(self.entries):
            return self.old.get(int(tag))
        return self.entries[index]

    def take_up_to(self, tag: i64) -> list[Delivery]:
        """Every remembered delivery with a tag up to `tag`, oldest first; 0 means all."""
        last: i64 = tag - self.base
        end: i64 = len(self.entries)
        if tag == 0 or last >= end:
            last = end - 1
        is_whole = not self.old and self.count == end - self.head
        if is_whole and last >= self.head and end - last <= SPARSE_PLACES:
            return self._take_front(last + 1)
        taken: list[Delivery] = []
        if self.old:
            for old_tag in list(self.old):
                if tag == 0 or old_tag <= tag:
                    taken.append(self.old.pop(old_tag))
        index: i64 = self.head
        while index <= last:
            entry = self.entries[index]
            if entry is not None:
                taken.append(entry)
                self.entries[index] = None
            index += 1
        self.count -= len(taken)
        if last >= self.head:
            self.head = last + 1
        self._trim()
        return taken

    def _take_front(self, end: i64) -> list[Delivery]:
        """Every delivery before the place `end`; none is missing between those that are there."""
        taken = cast("list[Delivery]", self.entries[self.head : end])
        del self.entries[:end]
        self.base += end
        self.head = 0
        self.count -= len(taken)
        return taken

    def remembered(self) -> list[Delivery]:
        """Every delivery that is unanswered, oldest first."""
        found = list(self.old.values())
        for entry in self.entries:
            if entry is not None:
                found.append(entry)
        return found

    def oldest(self) -> Delivery | None:
        """The delivery with the lowest tag; None when nothing is unanswered."""
        for delivery in self.old.values():
            return delivery
        index: i64 = self.head
        while index < len(self.entries):
            entry = self.entries[index]
            if entry is not None:
                return entry
            index += 1
        return None

    def is_known(self, tag: i64) -> bool:
        """True if `tag` was delivered and is unanswered."""
        index: i64 = tag - self.base
        if self.head <= index < len(self.entries):
            return self.entries[index] is not None
        return int(tag) in self.old

    def _take_old(self, tag: i64) -> Delivery | None:
        delivery = self.old.pop(int(tag), None)
        if delivery is not None:
            self.count -= 1
        return delivery

    def _thin_out(self) -> None:
        """Move what is left in a long list to the dictionary, if it is little."""
        entries = self.entries
        end: i64 = len(entries)
        if end - self.head <= 2 * SPARSE_PLACES or (self.count - len(self.old)) * 16 > end:
            return
        if self.old is NONE_OLD:
            self.old = {}
        index: i64 = self.head
        while index < end:
            entry = entries[index]
            if entry is not None:
                self.old[int(entry.tag)] = entry
            index += 1
        entries.clear()
        self.base = self.next_tag
        self.head = 0

    def _trim(self) -> None:
        entries = self.entries
        head: i64 = self.head
        end: i64 = len(entries)
        while head < end and entries[head] is None:
            head += 1
        if head == end:
            entries.clear()
            self.base += head
            head = 0
        elif head >= 512 and head * 2 >= end:
            del entries[:head]
            self.base += head
            head = 0
        self.head = head
