"""What a durable queue does so that its persistent messages survive: hand them to the store.

A message rests in the queue and may be delivered at once; whoever waits for its confirm is told
when the disk has it. A message that leaves the queue, however, is settled in the log. Messages that
are not persistent never get there.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.lane import Lane
from penstock.broker.queue_keeping import QueueKeeping
from penstock.broker.store_actor import StoreActor
from penstock.broker.store_lane import Parcel, StoreLane
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import PERSISTENT, delivery_mode
from penstock.storage.index import QueueIndex
from penstock.storage.stored import Stored

FLAGS_AT: Final = 19
HAS_DELIVERY_MODE: Final = 0x10
FIXED_HEADER_BYTES: Final = 14
"""Of a content header's payload without values: class, weight, body size, flags."""


UNCHARGED_BYTES: Final = 1_048_576
"""Messages that cost no credit may wait for the store up to this; then the queue takes no more, as
RabbitMQ's does while it writes its index (flow-semantics 6.8)."""


class Keeper(QueueKeeping):
    """lane: the queue's hop to `store`; embed_below: messages smaller than this, in bytes of body
    and properties, cost no credit on it (S1, queue_index_embed_msgs_below), 0 for none; held: those
    that stay in the log until their dead letters have arrived, bounded by the letters' window."""

    __slots__ = ("embed_below", "held", "index", "lane", "store")

    def __init__(
        self, store: StoreActor, lane: StoreLane, index: QueueIndex, embed_below: int
    ) -> None:
        self.store = store
        self.lane = lane
        self.index = index
        self.embed_below: i64 = embed_below
        self.held: dict[Message, None] = {}

    def has_room(self) -> bool:
        return self.lane.uncharged_bytes < UNCHARGED_BYTES

    def took(self, lane: Lane, messages: list[Message], count: i64) -> None:
        """The queue has taken the first `count` of `messages` out of `lane`."""
        kept: list[Message] = []
        fleeting: list[Message] = []
        charged: i64 = 0
        bytes_: i64 = 0
        uncharged_bytes: i64 = 0
        index: i64 = 0
        while index < count:
            message = messages[index]
            if is_persistent(message):
                self._reserve(message)
                kept.append(message)
                size: i64 = len(message.raw)
                if self._is_embedded(message):
                    uncharged_bytes += size
                else:
                    charged += 1
                    bytes_ += size
            else:
                fleeting.append(message)
            index += 1
        if fleeting and lane.wants_answers:
            lane.answerable.accepted(fleeting, len(fleeting))
        if kept:
            parcel = Parcel(
                self.lane, lane.origin, lane.answerable if lane.wants_answers else None, kept
            )
            parcel.count = charged
            parcel.bytes = bytes_
            parcel.uncharged_bytes = uncharged_bytes
            self.store.offered(parcel)

    def _reserve(self, message: Message) -> None:
        """`message` gets its place in the store's turn, unless it has left by then."""
        stored = message.stored
        if stored is None:
            stored = Stored()
            message.stored = stored
        assert isinstance(stored, Stored), "only the log gives messages a place"
        stored.join(self.index.queue_id)

    def _is_embedded(self, message: Message) -> bool:
        below: i64 = self.embed_below
        if below == 0 or message.body_bytes >= below:
            return False
        return message.body_bytes + message.header_bytes - FIXED_HEADER_BYTES < below

    def left(self, message: Message) -> None:
        """`message`, which has a place in the log, has left the queue for good."""
        if self.held and message in self.held:
            return
        stored = message.stored
        assert isinstance(stored, Stored), "only the log gives messages a place"
        position: i64 = stored.leave(self.index.queue_id)
        if position > 0:
            self.store.log.settle(self.index, position)
            self.store.has_settled()

    def hold(self, message: Message) -> None:
        self.held[message] = None

    def release(self, message: Message) -> None:
        if message in self.held:
            del self.held[message]
            self.left(message)

    def note_delivered(self, messages: list[Message]) -> None:
        """`messages` have been delivered and came back: they are redelivered after a restart."""
        last: i64 = 0
        for message in messages:
            stored = message.stored
            if isinstance(stored, Stored):
                position: i64 = stored.position_in(self.index.queue_id)
                if position > last:
                    last = position
        if last > 0:
            self.store.log.note_delivered(self.index, int(last + 1))

    def ended(self) -> None:
        """The queue is gone, and what it kept with it."""
        self.store.drop(self.lane)


def is_persistent(message: Message) -> bool:
    """Whether the publisher asked for delivery mode 2."""
    raw = message.raw
    flags: i64 = i64(raw[FLAGS_AT])
    if flags & HAS_DELIVERY_MODE == 0:
        return False
    if flags == HAS_DELIVERY_MODE:
        return raw[FLAGS_AT + 2] == PERSISTENT
    return delivery_mode(raw, FLAGS_AT, int(message.header_bytes) + 7) == PERSISTENT
