"""Deliveries a channel has made and the client has not answered, by delivery tag.

A list indexed by `tag - base`: settling one, many, or out of order costs an index each; settled
places are blanked and the front is cut off as it becomes blank.
"""

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery


class UnackedTable:
    """Unanswered deliveries of one channel. `next_tag`: the tag of the next delivery, 1.. ."""

    __slots__ = ("base", "count", "entries", "head", "next_tag")

    def __init__(self) -> None:
        self.entries: list[Delivery | None] = []
        self.base: i64 = 1
        self.head: i64 = 0
        self.next_tag: i64 = 1
        self.count: i64 = 0

    def skip(self) -> i64:
        """A tag for a delivery that needs no answer."""
        tag: i64 = self.next_tag
        self.next_tag = tag + 1
        if self.count == 0:
            self.entries.clear()
            self.head = 0
            self.base = tag + 1
        else:
            self.entries.append(None)
        return tag

    def add(
        self, message: Message, queue: ConsumerQueue, consumer: Consumer | None, position: i64
    ) -> i64:
        """Remember a delivery; its tag."""
        tag: i64 = self.next_tag
        self.next_tag = tag + 1
        self.entries.append(Delivery(tag, message, queue, consumer, position))
        self.count += 1
        return tag

    def take(self, tag: i64) -> Delivery | None:
        """The delivery with `tag`, which is no longer remembered; None if there is none."""
        index: i64 = tag - self.base
        if index < self.head or index >= len(self.entries):
            return None
        entry = self.entries[index]
        if entry is None:
            return None
        self.entries[index] = None
        self.count -= 1
        if index == self.head:
            self._trim()
        return entry

    def take_up_to(self, tag: i64) -> list[Delivery]:
        """Every remembered delivery with a tag up to `tag`, oldest first; 0 means all."""
        last: i64 = tag - self.base
        end: i64 = len(self.entries)
        if tag == 0 or last >= end:
            last = end - 1
        taken: list[Delivery] = []
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

    def is_known(self, tag: i64) -> bool:
        """True if `tag` was delivered and is unanswered."""
        index: i64 = tag - self.base
        return self.head <= index < len(self.entries) and self.entries[index] is not None

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
