"""A FIFO of messages: lists with a moving head, so that taking one costs an index.

Taken places are blanked at once, so that a message is not kept alive by its place, and the front
of a list is cut off when it is more than half of it. That moves what is left, and of a list of two
million it takes 60 ms, in which nobody else is served; so a long ring is a row of lists of about
BLOCK messages, and only the last of them grows. While hardly anything is taken, what lies between
the first and the last list is packed: an object for each message would be two fifths of what a
small one takes. The garbage collector does not look at these lists (base/untracked).
"""

from typing import Final

from mypy_extensions import i64, u8

from penstock.base.cause import Cause
from penstock.base.untracked import untracked
from penstock.base.wire import BytesWriter, read_i32_be
from penstock.protocol.content import UNNUMBERED, Address, Message, SharedMessage

BLANK: Final = Message(b"", 0)
BLOCK: Final = 1024
"""Messages in one list: to move half of them, or to pack or unpack all, takes microseconds."""
TRIM: Final = 512
"""Places that are taken before it is worth while to cut them off."""
RUN_SHARE: Final = 8
"""Places of several messages that are taken together are cut off when they are one part in so many:
that moves eight times as many, which takes less time than blanking them."""
STILL: Final = 4
"""A list is packed when at most one message was taken while so many came."""
BODY_SIZE_AT: Final = 15
"""In a message's frames: the lower half of the body's size."""
RAW_MIN: Final = 22
"""Bytes of the content header frame of a message without properties."""
PAYERS_MAX: Final = 64


class PackedMessages:
    """Messages of which nothing but their frames differs, or that are of a few publishers. raws:
    their frames; kinds: for each, a byte, where in `addresses` and `origins` its own are.

    No message in it has a place in a log, or is shared, or is waited for by a confirm: the object
    that is made for it when it is unpacked is as good as the one that was packed."""

    __slots__ = ("addresses", "kinds", "origins", "raws")

    def __init__(self, raws: list[bytes], kinds: bytes) -> None:
        self.raws = raws
        self.kinds = kinds
        self.addresses: list[Address] = []
        self.origins: list[Cause] = []

    def every(self, start: int = 0, step: int = 1) -> list[Message]:
        """Every `step`-th message from `start` on."""
        found: list[Message] = []
        kinds = self.kinds
        end: i64 = len(kinds)
        at: i64 = start
        stride: i64 = step
        while at < end:
            raw = self.raws[at]
            kind: i64 = i64(kinds[at])
            body_bytes: i64 = i64(read_i32_be(raw, BODY_SIZE_AT))
            message = Message(raw, body_bytes, self.addresses[kind])
            message.origin = self.origins[kind]
            found.append(message)
            at += stride
        return found


def pack(messages: list[Message]) -> "list[Message] | PackedMessages":
    """`messages` packed, or as they are where one of them cannot be."""
    addresses: list[Address] = []
    origins: list[Cause] = []
    kinds = BytesWriter()
    kind: i64 = -1
    for message in messages:
        raw = message.raw
        if (
            message.stored is not None
            or message.sequence < UNNUMBERED
            or isinstance(message, SharedMessage)
            or len(raw) < RAW_MIN
            or i64(read_i32_be(raw, BODY_SIZE_AT)) != message.body_bytes
        ):
            return messages
        if (
            kind < 0
            or message.address is not addresses[kind]
            or message.origin is not origins[kind]
        ):
            kind = 0
            while kind < len(origins) and (
                message.address is not addresses[kind] or message.origin is not origins[kind]
            ):
                kind += 1
            if kind == PAYERS_MAX:
                return messages
            if kind == len(origins):
                addresses.append(message.address)
                origins.append(message.origin)
        kinds.append(u8(kind))
    raws = untracked([message.raw for message in messages])
    packed = PackedMessages(raws, kinds.getvalue())
    packed.addresses = addresses
    packed.origins = origins
    return packed


def unpacked(run: "list[Message] | PackedMessages") -> list[Message]:
    """The messages of a list, packed or not."""
    return run.every() if isinstance(run, PackedMessages) else run


class MessageRing:
    """Messages in order. items: the first list, head: index of the next message to take in it;
    later: the lists behind it, some packed; last: the one that grows, which is `items` when it is
    the only one; began: how many messages there were when it was begun; count: of messages; bytes:
    what the owner counts."""

    __slots__ = ("began", "bytes", "count", "head", "items", "last", "later")

    def __init__(self) -> None:
        self.items: list[Message] = []
        self.later: list[list[Message] | PackedMessages] = NO_LISTS
        self.last: list[Message] = self.items
        self.head: i64 = 0
        self.began: i64 = 0
        self.count: i64 = 0
        self.bytes: i64 = 0

    def __len__(self) -> int:
        return int(self.count)

    def append(self, message: Message) -> None:
        """Behind all others."""
        last = self.last
        if len(last) >= BLOCK:
            last = self._begin()
        last.append(message)
        self.count += 1

    def extend(self, messages: list[Message]) -> None:
        """Behind all others, in their order. What was there before may be packed: whoever has put
        it in is done with it, which is not so of `messages`."""
        for at in range(0, len(messages), BLOCK):
            some = messages[at : at + BLOCK] if len(messages) > BLOCK else messages
            last = self.last
            if len(last) >= BLOCK:
                if at == 0:
                    self._pack_last()
                last = self._begin()
            last.extend(some)
            self.count += len(some)

    def join(self, other: "MessageRing") -> None:
        """Everything of `other` behind all others; nothing is left there."""
        if self.count > 0:
            if other.later:
                if self.later is NO_LISTS:
                    self.later = []
                self.last = other.last
                self.count += other.count
                self.later.extend(other.clear())
            else:
                self.extend(other.items[int(other.head) :])
                other.clear()
            return
        self.items, self.later, self.last = other.items, other.later, other.last
        self.head = other.head
        self.count = other.count
        other.items = []
        other.later = NO_LISTS
        other.last = other.items
        other.head = 0
        other.count = 0

    def take(self) -> Message:
        """The oldest message. Raises: IndexError when there is none."""
        items = self.items
        head: i64 = self.head
        message = items[head]
        items[head] = BLANK
        head += 1
        self.count -= 1
        if head >= len(items) and self.later:
            self.items = unpacked(self.later.pop(0))
            head = 0
        elif head >= TRIM and head * 2 >= len(items) and not self.later:
            del items[:head]
            head = 0
        self.head = head
        return message

    def next_run(self, most: i64) -> list[Message]:
        """The oldest messages, which stay: `most` at most, and no more than lie in one list."""
        return self.items[self.head : self.head + most]

    def drop_run(self, count: i64) -> None:
        """Take `count` messages that `next_run` has given."""
        items = self.items
        head: i64 = self.head + count
        self.count -= count
        if head >= len(items):
            if self.later:
                self.items = unpacked(self.later.pop(0))
            else:
                items.clear()
            head = 0
        elif head * RUN_SHARE >= len(items):
            del items[:head]
            head = 0
        else:
            at: i64 = self.head
            while at < head:
                items[at] = BLANK
                at += 1
        self.head = head

    def first(self) -> Message:
        """The oldest message, which stays. Raises: IndexError when there is none."""
        return self.items[self.head]

    def newest(self) -> Message:
        """The newest message, which stays; there is one."""
        return self.last[-1]

    def pop(self) -> Message:
        """The newest message; there is one."""
        message = self.last.pop()
        self.count -= 1
        if not self.last and self.later:
            self.later.pop()
            self.last = self.items
            if self.later:
                self.last = unpacked(self.later[-1])
                self.later[-1] = self.last
        return message

    def every(self, step: int = 1) -> list[Message]:
        """Every `step`-th message from the oldest on, 1.. ; all of them by default."""
        found = self.items[int(self.head) :: step]
        passed = len(self.items) - int(self.head)
        for run in self.later:
            start = -passed % step
            if isinstance(run, PackedMessages):
                found.extend(run.every(start, step))
                passed += len(run.raws)
            else:
                found.extend(run[start::step])
                passed += len(run)
        return found

    def clear(self) -> list[list[Message] | PackedMessages]:
        """Take everything, oldest first."""
        rest: list[list[Message] | PackedMessages] = [self.items[int(self.head) :], *self.later]
        self.items = []
        self.later = NO_LISTS
        self.last = self.items
        self.head = 0
        self.count = 0
        self.bytes = 0
        return rest

    def _pack_last(self) -> None:
        """Pack the list that grew until now, unless it is the first or more was taken meanwhile."""
        if self.later:
            size: i64 = len(self.last)
            taken: i64 = self.began + size - self.count
            if taken * STILL <= size:
                self.later[-1] = pack(self.last)

    def _begin(self) -> list[Message]:
        """The list that grows from now on."""
        self.began = self.count
        begun: list[Message] = untracked([])
        if self.later is NO_LISTS:
            self.later = []
        if self.count == 0 and not self.later:
            self.items = begun
            self.head = 0
        else:
            self.later.append(begun)
        self.last = begun
        return begun


NO_LISTS: Final[list[list[Message] | PackedMessages]] = []
"""What all short rings share."""
