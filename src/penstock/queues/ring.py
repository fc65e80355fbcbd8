"""A FIFO of messages: a list with a moving head, so that taking one costs an index.

Taken places are blanked at once, so that a message is not kept alive by its place, and the front
of the list is cut off when it is more than half of it.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message

BLANK: Final = Message(b"", 0)


class MessageRing:
    """Messages in order. head: index of the next one to take; bytes: what the owner counts."""

    __slots__ = ("bytes", "head", "items")

    def __init__(self) -> None:
        self.items: list[Message] = []
        self.head: i64 = 0
        self.bytes: i64 = 0

    def __len__(self) -> int:
        return len(self.items) - self.head

    def append(self, message: Message) -> None:
        self.items.append(message)

    def take(self) -> Message:
        """The oldest message. Raises: IndexError when there is none."""
        items = self.items
        head: i64 = self.head
        message = items[head]
        items[head] = BLANK
        head += 1
        if head >= 512 and head * 2 >= len(items):
            del items[:head]
            head = 0
        self.head = head
        return message

    def clear(self) -> list[Message]:
        """Take everything."""
        rest = self.items[self.head :]
        self.items = []
        self.head = 0
        self.bytes = 0
        return rest
