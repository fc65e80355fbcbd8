"""Bodies in memory that may leave it, of a line whose entries stay: the last ones first.

    near     those that came back or were read, at the head
    fresh    those that came, behind them
Messages smaller than WHOLE_BELOW_BYTES stay whole: an entry and a place in the log take as much.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.queues.entry import Entry
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES

WHOLE_BELOW_BYTES: Final = 512
ENTRY_BYTES: Final = 250
"""What an entry and its key cost beside its message; charged while the body is on the disk."""
STALE_MAX: Final = 256
"""Listed entries whose bodies have left meanwhile, beside as many as there are others."""


class Bodies:
    """bytes, count: of large bodies in memory; near, fresh: their entries, and some whose body has
    left by another way."""

    __slots__ = ("bytes", "count", "fresh", "near")

    def __init__(self) -> None:
        self.near: deque[Entry] = deque()
        self.fresh: deque[Entry] = deque()
        self.bytes: i64 = 0
        self.count: i64 = 0

    def came(self, entry: Entry) -> None:
        """`entry` is ready, behind all others, or has a new message."""
        self._list(entry, self.fresh)

    def came_back(self, entry: Entry) -> None:
        """`entry` is ready again, or its body was read."""
        self._list(entry, self.near)

    def _list(self, entry: Entry, part: deque[Entry]) -> None:
        size: i64 = len(entry.message.raw)
        if size >= WHOLE_BELOW_BYTES:
            part.append(entry)
            self.bytes += size + MESSAGE_OVERHEAD_BYTES
            self.count += 1
            if len(self.near) + len(self.fresh) > 2 * self.count + STALE_MAX:
                self.near = self._whole(self.near)
                self.fresh = self._whole(self.fresh)

    def _whole(self, part: deque[Entry]) -> deque[Entry]:
        """Those of `part` that have a body, once each."""
        found: dict[Entry, None] = {}
        for entry in part:
            if is_large(entry):
                found[entry] = None
        return deque(found)

    def forgot(self, entry: Entry) -> None:
        """The message that `entry` has, with its body if it has one, is replaced."""
        size: i64 = len(entry.message.raw)
        if size >= WHOLE_BELOW_BYTES:
            self.bytes -= size + MESSAGE_OVERHEAD_BYTES
            self.count -= 1

    def left(self, entry: Entry) -> None:
        """`entry` has left the line."""
        self.forgot(entry)
        # Messages leave at the head, and a list must not keep their bodies.
        while self.near and not is_large(self.near[0]):
            self.near.popleft()
        while self.fresh and not is_large(self.fresh[0]):
            self.fresh.popleft()

    def last(self) -> Entry | None:
        """The last entry with a body that may leave."""
        for part in (self.fresh, self.near):
            while part:
                if is_large(part[-1]):
                    return part[-1]
                part.pop()
        return None

    def take_last(self) -> None:
        """`last` is not listed any more."""
        if self.fresh:
            self.fresh.pop()
        else:
            self.near.pop()

    def put_first(self, entry: Entry) -> None:
        """`entry` is listed, before all others."""
        self.near.appendleft(entry)

    def clear(self) -> None:
        """Everything has left."""
        self.near.clear()
        self.fresh.clear()
        self.bytes = 0
        self.count = 0


def is_large(entry: Entry) -> bool:
    """Whether `entry` is in its line with a body that may leave memory."""
    size: i64 = len(entry.message.raw)
    return entry.is_ready and size >= WHOLE_BELOW_BYTES
