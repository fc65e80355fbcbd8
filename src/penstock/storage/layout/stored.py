"""Where a message's body lies in the log, and its positions in the queues that keep it."""

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Resting
from penstock.storage.layout.segment import NO_SEGMENT, Segment


@mypyc_attr(acyclic=True)
class Stored(Resting):
    """Hung on `Message.stored`. segment, offset, size: where the record with the body lies, size 0
    until there is one.

    A queue first joins, gets its position when the log takes the message, and leaves. Most messages
    are kept by one queue, which needs no table: others holds the positions in further queues.
    """

    __slots__ = ("offset", "others", "position", "queue_id", "segment", "size")

    def __init__(self, queue_id: i64 = 0) -> None:
        """queue_id: of the queue that joins, 0 for none."""
        self.segment: Segment = NO_SEGMENT
        self.offset: i64 = 0
        self.size: i64 = 0
        self.queue_id: i64 = queue_id
        self.position: i64 = 0
        self.others: dict[int, int] | None = None

    def join(self, queue_id: i64) -> None:
        """The queue will keep this message: `append` gives it a position."""
        if self.queue_id == 0:
            self.queue_id = queue_id
            self.position = 0
            return
        if self.others is None:
            self.others = {}
        self.others[int(queue_id)] = 0

    def awaits(self, queue_id: i64) -> bool:
        """Whether the queue has joined, has not left, and has no position yet."""
        if self.queue_id == queue_id:
            return self.position == 0
        return self.others is not None and self.others.get(int(queue_id)) == 0

    def position_in(self, queue_id: i64) -> i64:
        """The message's position in the queue, 0 when it has none."""
        if self.queue_id == queue_id:
            return self.position
        return 0 if self.others is None else self.others.get(int(queue_id), 0)

    def placed(self, queue_id: i64, position: i64) -> None:
        """The log has given the message a position in the queue, 1.. ."""
        if self.queue_id == queue_id:
            self.position = position
            return
        others = self.others
        assert others is not None and int(queue_id) in others, "only who has joined gets a position"
        others[int(queue_id)] = int(position)

    def leave(self, queue_id: i64) -> i64:
        """The message has left the queue. Returns its position, 0 when it never got one."""
        if self.queue_id == queue_id:
            position: i64 = self.position
            self.queue_id = 0
            self.position = 0
            return position
        return 0 if self.others is None else self.others.pop(int(queue_id), 0)
