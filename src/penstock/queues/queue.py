"""The messages of one classic queue in memory, in order, with positions and counters.

    ready = returned (a heap by position, all below the ring) + ring
Fresh messages have no record of their own: the ring's head is at position `taken`. Messages that
come back keep the position they had, so they are served before the ring and in their first order
(original position; RabbitMQ's classic queue).
"""

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.queues.ring import MessageRing

MESSAGE_OVERHEAD_BYTES: Final = 130
"""What a queued message costs beside its frames: object, byte string header, place in the ring."""


class Returned:
    """A message that came back. Ordered by `position`."""

    __slots__ = ("message", "position")

    def __init__(self, position: i64, message: Message) -> None:
        self.position: i64 = position
        self.message = message

    def __lt__(self, other: "Returned") -> bool:
        return self.position < other.position


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicQueue:
    """Messages at rest. `taken`: messages ever taken from the ring = position of its head;
    is_ruled: each has a record of its own, see queues/ruled; redelivered_below: what lies before
    this position was found on the disk, where it may have been delivered from.

    After `take`, `position` and `redelivered` describe the message just taken."""

    __slots__ = (
        "ack_count",
        "bytes_ready",
        "deliver_count",
        "is_ruled",
        "position",
        "publish_count",
        "redelivered",
        "redelivered_below",
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
        self.is_ruled = False
        self.redelivered = False
        self.redelivered_below: i64 = 0
        self.publish_count: i64 = 0
        self.deliver_count: i64 = 0
        self.ack_count: i64 = 0
        self.requeue_count: i64 = 0

    def ready_count(self) -> i64:
        return len(self.ring.items) - self.ring.head + len(self.returned)

    def at_hand(self) -> i64:
        """How many of the ready messages can be taken in a row now: those whose bodies need not be
        read from the disk first. A lower bound, above 0 if the first one can be taken."""
        return self.ready_count()

    def add(self, message: Message) -> None:
        """A new message, behind all others."""
        size: i64 = len(message.raw)
        self.bytes_ready += size + MESSAGE_OVERHEAD_BYTES
        self.ring.items.append(message)
        self.publish_count += 1

    def add_all(self, messages: list[Message]) -> i64:
        """New messages, behind all others, in a queue that is plain; how many bytes they have."""
        bytes_: i64 = 0
        for message in messages:
            bytes_ += len(message.raw)
        count: i64 = len(messages)
        self.ring.items.extend(messages)
        self.bytes_ready += bytes_ + count * MESSAGE_OVERHEAD_BYTES
        self.publish_count += count
        return bytes_

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
            self.redelivered = self.position < self.redelivered_below
        size: i64 = len(message.raw)
        self.bytes_ready -= size + MESSAGE_OVERHEAD_BYTES
        self.deliver_count += 1
        return message

    def first_bytes(self) -> i64:
        """Bytes in the body of the first ready message. Raises: IndexError when there is none."""
        if self.returned:
            return self.returned[0].message.body_bytes
        ring = self.ring
        return ring.items[ring.head].body_bytes

    def put_back(self, position: i64, message: Message) -> None:
        """A delivered message comes back to where it was."""
        heappush(self.returned, Returned(position, message))
        self.bytes_ready += len(message.raw) + MESSAGE_OVERHEAD_BYTES
        self.requeue_count += 1

    def restore(self, message: Message, is_redelivered: bool, age_ns: i64) -> None:
        """A message that was found on the disk, behind those restored before it; `age_ns`: since
        it came. Those that had been delivered come first."""
        self.ring.items.append(message)
        if is_redelivered:
            self.redelivered_below = self.taken + len(self.ring)
        self.bytes_ready += len(message.raw) + MESSAGE_OVERHEAD_BYTES

    def settled(self, position: i64) -> None:
        """What was taken at `position` will not come back; a plain queue keeps no record of it."""

    def shed(self) -> Message:
        """Give up the first ready message, which nobody gets. Raises: IndexError when there is
        none."""
        message = self.take()
        self.deliver_count -= 1
        return message

    def copy_counts(self, other: "ClassicQueue") -> None:
        """Count on from where `other` is, which this queue takes the place of."""
        self.publish_count = other.publish_count
        self.deliver_count = other.deliver_count
        self.ack_count = other.ack_count
        self.requeue_count = other.requeue_count

    def ready_messages(self, step: int = 1) -> list[Message]:
        """Every `step`th message that is ready, for whoever counts them."""
        found = [entry.message for entry in self.returned[::step]]
        found.extend(self.ring.items[int(self.ring.head) :: step])
        return found

    def returned_messages(self) -> list[Message]:
        """Those that are ready and were delivered before."""
        return [entry.message for entry in self.returned]

    def purge(self) -> int:
        """Drop everything that is ready; how many there were. Each is repaid to its cause."""
        count = int(self.ready_count())
        for message in self.ring.items[self.ring.head :]:
            message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        for entry in self.returned:
            message = entry.message
            message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        self.taken += len(self.ring)
        self.ring.clear()
        self.returned.clear()
        self.bytes_ready = 0
        return count
