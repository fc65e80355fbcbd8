"""The messages of one classic queue in memory, in order, with positions and counters.

    ready = returned (a heap by position, all below the ring) + ring
Fresh messages have no record of their own: the ring's head is at position `taken`. Messages that
come back keep the position they had, so they are served before the ring and in their first order
(original position; RabbitMQ's classic queue).
"""

from heapq import heappop, heappush

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.ring import MessageRing

MESSAGE_OVERHEAD_BYTES = 130
"""What a queued message costs beside its frames: object, byte string header, place in the ring."""


class Returned:
    """A message that came back. Ordered by `position`."""

    __slots__ = ("message", "position")

    def __init__(self, position: i64, message: Message) -> None:
        self.position: i64 = position
        self.message = message

    def __lt__(self, other: "Returned") -> bool:
        return self.position < other.position


class ClassicQueue:
    """Messages at rest. `taken`: messages ever taken from the ring = position of its head.

    After `take`, `position` and `redelivered` describe the message just taken."""

    __slots__ = (
        "ack_count",
        "bytes_ready",
        "deliver_count",
        "position",
        "publish_count",
        "redelivered",
        "requeue_count",
        "returned",
        "ring",
        "taken",
    )

    def __init__(self) -> None:
        self.ring = MessageRing()
        self.returned: list[Returned] = []
        self.taken: i64 = 0
        self.bytes_ready: i64 = 0
        self.position: i64 = 0
        self.redelivered = False
        self.publish_count: i64 = 0
        self.deliver_count: i64 = 0
        self.ack_count: i64 = 0
        self.requeue_count: i64 = 0

    def ready_count(self) -> i64:
        return len(self.ring.items) - self.ring.head + len(self.returned)

    def add(self, message: Message) -> None:
        """A new message, behind all others."""
        self.ring.items.append(message)
        self.publish_count += 1
        self.bytes_ready += len(message.raw) + MESSAGE_OVERHEAD_BYTES

    def take(self) -> Message:
        """The first ready message. Raises: IndexError when there is none."""
        if self.returned:
            first = heappop(self.returned)
            message = first.message
            self.position = first.position
            self.redelivered = True
        else:
            message = self.ring.take()
            self.position = self.taken
            self.taken += 1
            self.redelivered = False
        self.bytes_ready -= len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.deliver_count += 1
        return message

    def put_back(self, position: i64, message: Message) -> None:
        """A delivered message comes back to where it was."""
        heappush(self.returned, Returned(position, message))
        self.bytes_ready += len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.requeue_count += 1

    def purge(self) -> int:
        """Drop everything that is ready; how many there were."""
        count = int(self.ready_count())
        self.taken += len(self.ring)
        self.ring.clear()
        self.returned.clear()
        self.bytes_ready = 0
        return count
