"""What has passed through the whole broker since it started, whoever it was for.

Connections, channels and queues keep their own counts, which end with them; here is what those that
have ended have left, so that a sum over all of them never falls. Owner: the broker.
"""

from penstock.broker.channel.channel import Channel
from penstock.broker.queue.queue_actor import QueueActor


class NodeCounts:
    """connections_*, channels_*, queues_*: how often; the rest: messages of channels and queues
    that have ended. received: publishes; routed: copies in queues."""

    __slots__ = (
        "acked",
        "channels_closed",
        "channels_opened",
        "confirmed",
        "connections_closed",
        "connections_opened",
        "delivered",
        "queues_created",
        "queues_declared",
        "queues_deleted",
        "received",
        "redelivered",
        "returned",
        "routed",
        "unroutable",
    )

    def __init__(self) -> None:
        self.connections_opened = 0
        self.connections_closed = 0
        self.channels_opened = 0
        self.channels_closed = 0
        self.queues_declared = 0
        self.queues_created = 0
        self.queues_deleted = 0
        self.received = 0
        self.confirmed = 0
        self.returned = 0
        self.unroutable = 0
        self.routed = 0
        self.delivered = 0
        self.acked = 0
        self.redelivered = 0

    def channel_gone(self, channel: Channel) -> None:
        """`channel` is about to close, and still has its counts."""
        self.channels_closed += 1
        add_channel(self, channel)

    def queue_gone(self, queue: QueueActor) -> None:
        """`queue` is deleted."""
        self.queues_deleted += 1
        add_queue(self, queue)

    def copy(self) -> "NodeCounts":
        """The same numbers, to add those of what is alive to."""
        found = NodeCounts()
        for name in NodeCounts.__slots__:
            setattr(found, name, getattr(self, name))
        return found


def confirmed_by(channel: Channel) -> int:
    """Publishes that `channel` has confirmed, 0 without confirms."""
    confirms = channel.publisher.confirms
    if confirms is None or confirms.commits is not None:
        return 0
    return int(confirms.base + confirms.head - 1)


def add_channel(counts: NodeCounts, channel: Channel) -> None:
    """Add what has passed through `channel`."""
    publisher = channel.publisher
    counts.received += int(publisher.publish_count)
    counts.returned += int(publisher.return_count)
    counts.unroutable += int(publisher.unroutable_count)
    counts.confirmed += confirmed_by(channel)


def add_queue(counts: NodeCounts, queue: QueueActor) -> None:
    """Add what has passed through `queue`."""
    messages = queue.messages
    counts.routed += int(messages.publish_count)
    counts.delivered += int(messages.deliver_count)
    counts.acked += int(messages.ack_count)
    counts.redelivered += int(messages.requeue_count)
