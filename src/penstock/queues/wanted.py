"""What a paged queue asks for: messages to be read from a log, and messages to be saved in one."""

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.storage.layout.index import QueueIndex


class Wanted:
    """The next read of a queue: up to `count` unsettled positions of `index` from `first` on, which
    is what MessageLog.plan_reads takes. is_returned: they are of messages that came back, whose
    places are before all others; chosen: the only positions to be read, None for all of them;
    bytes: of their headers and bodies, 0 where only the average is known."""

    __slots__ = ("bytes", "chosen", "count", "first", "index", "is_returned")

    def __init__(self, index: QueueIndex, first: i64, count: i64, is_returned: bool) -> None:
        self.index = index
        self.first: i64 = first
        self.count: i64 = count
        self.is_returned = is_returned
        self.chosen: list[int] | None = None
        self.bytes: i64 = 0


class Paged:
    """What one pass has done. charged: bodies that have to be saved and cost credit, in the order
    in which they were paged; free: those that cost none, because they are embedded; count: messages
    that were paged, saved before or not; tail_charged, tail_free: so many of either came out of q1,
    from its head, and the others from the end of the front, backward."""

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
