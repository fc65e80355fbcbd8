"""A FIFO of messages: lists with a moving head, so that taking one costs an index.

Taken places are blanked at once, so that a message is not kept alive by its place, and the front
of a list is cut off when it is more than half of it. That moves what is left, and of a list of two
million it takes 60 ms, in which nobody else is served; so a long ring is a row of lists of about
BLOCK messages, and only the last of them grows.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message

BLANK: Final = Message(b"", 0)
BLOCK: Final = 8192
"""Messages in one list: to move half of them takes some microseconds."""
TRIM: Final = 512
"""Places that are taken before it is worth while to cut them off."""


class MessageRing:
    """Messages in order. items: the first list, head: index of the next message to take in it;
    later: the lists behind it; last: the one that grows, which is `items` when it is the only one;
    count: of messages; bytes: what the owner counts."""

    __slots__ = ("bytes", "count", "head", "items", "last", "later")

    def __init__(self) -> None:
        self.items: list[Message] = []
        self.later: list[list[Message]] = NO_LISTS
        self.last: list[Message] = self.items
        self.head: i64 = 0
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
        """Behind all others, in their order."""
        for at in range(0, len(messages), BLOCK):
            some = messages[at : at + BLOCK] if len(messages) > BLOCK else messages
            last = self.last
            if len(last) >= BLOCK:
                last = self._begin()
            last.extend(some)
            self.count += len(some)

    def join(self, other: "MessageRing") -> None:
        """Everything of `other` behind all others; nothing is left there."""
        if self.count > 0:
            for messages in other.clear():
                self.extend(messages)
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
            self.items = self.later.pop(0)
            head = 0
        elif head >= TRIM and head * 2 >= len(items) and not self.later:
            del items[:head]
            head = 0
        self.head = head
        return message

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
            self.last = self.later[-1] if self.later else self.items
        return message

    def every(self, step: int = 1) -> list[Message]:
        """Every `step`-th message from the oldest on, 1.. ; all of them by default."""
        found = self.items[int(self.head) :: step]
        passed = len(self.items) - int(self.head)
        for messages in self.later:
            found.extend(messages[-passed % step :: step])
            passed += len(messages)
        return found

    def clear(self) -> list[list[Message]]:
        """Take everything, oldest first."""
        rest = [self.items[int(self.head) :], *self.later]
        self.items = []
        self.later = NO_LISTS
        self.last = self.items
        self.head = 0
        self.count = 0
        self.bytes = 0
        return rest

    def _begin(self) -> list[Message]:
        """The list that grows from now on."""
        begun: list[Message] = []
        if self.later is NO_LISTS:
            self.later = []
        if self.count == 0 and not self.later:
            self.items = begun
            self.head = 0
        else:
            self.later.append(begun)
        self.last = begun
        return begun


NO_LISTS: Final[list[list[Message]]] = []
"""What all short rings share."""
