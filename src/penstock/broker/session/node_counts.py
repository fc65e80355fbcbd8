"""What has passed through the whole broker since it started, whoever it was for.

Connections, channels and queues keep their own counts, which end with them; here is what those that
have ended have left, so that a sum over all of them never falls. Owner: the broker.
"""

from typing import Final

from penstock.broker.channel.channel import Channel
from penstock.broker.dead_letter.dead_letters import DeadLetters
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.message_sizes import BOUNDS
from penstock.broker.vhost.queue_arguments import type_of
from penstock.broker.vhost.vhost import VirtualHost
from penstock.queues.rules import DROP_NAMES

QUEUE_TYPES: Final = ("classic", "quorum", "stream")
PASSED: Final = (
    *("routed", "delivered", "auto_delivered", "acked", "redelivered"),
    *("got", "auto_got", "got_empty"),
)
"""What is counted of each type of queue. delivered: also by basic.get; auto_delivered: of these,
what consumers need not acknowledge; got, auto_got: what basic.get took and must, or need not, be
acknowledged; got_empty: answers to it that were empty; acked: what was acknowledged, or rejected
for good."""
LETTER_REASONS: Final = DROP_NAMES[:4]
"""RabbitMQ's words for why a message is dead-lettered."""
DISABLED, AT_MOST_ONCE, AT_LEAST_ONCE = "disabled", "at_most_once", "at_least_once"
STRATEGIES: Final = (DISABLED, AT_MOST_ONCE, AT_LEAST_ONCE)
"""How queues give dead letters on: not at all, as most do, or confirmed."""


class NodeCounts:
    """connections_*, channels_*, queues_*: how often; the rest: messages of channels and queues
    that have ended. received: publishes; by_type: of each type of queue, as PASSED; dropped: what
    queues gave up, by type, strategy and one of LETTER_REASONS; sizes: publishes by class of
    MessageSizes, size_bytes: of all their bodies."""

    __slots__ = (
        "by_type",
        "channels_closed",
        "channels_opened",
        "confirmed",
        "connections_closed",
        "connections_opened",
        "dropped",
        "queues_created",
        "queues_declared",
        "queues_deleted",
        "received",
        "received_confirm",
        "returned",
        "size_bytes",
        "sizes",
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
        self.received_confirm = 0
        self.confirmed = 0
        self.returned = 0
        self.unroutable = 0
        self.by_type = {kind: dict.fromkeys(PASSED, 0) for kind in QUEUE_TYPES}
        self.dropped: dict[tuple[str, str, str], int] = {}
        self.sizes = [0] * (len(BOUNDS) + 1)
        self.size_bytes = 0

    def channel_gone(self, channel: Channel) -> None:
        """`channel` is about to close, and still has its counts."""
        self.channels_closed += 1
        self.add_channel(channel)

    def queue_gone(self, queue: QueueActor) -> None:
        """`queue` is deleted."""
        self.queues_deleted += 1
        self.add_queue(queue)

    def add_channel(self, channel: Channel) -> None:
        """Add what has passed through `channel`."""
        publisher = channel.publisher
        self.received += int(publisher.publish_count)
        self.returned += int(publisher.return_count)
        self.unroutable += int(publisher.unroutable_count)
        confirms = publisher.confirms
        if confirms is not None and confirms.commits is None:
            self.received_confirm += int(publisher.publish_count)
            self.confirmed += int(confirms.base + confirms.head - 1)

    def add_queue(self, queue: QueueActor) -> None:
        """Add what has passed through `queue`."""
        of_type = self.by_type[type_of(queue.arguments)]
        for name, count in passed(queue).items():
            of_type[name] += count
        limits = queue.queue_limits
        if limits is not None:
            letters = limits.dead_letters
            strategy = DISABLED
            if isinstance(letters, DeadLetters) and letters.exchange is not None:
                strategy = AT_LEAST_ONCE if letters.is_confirmed else AT_MOST_ONCE
            for name, dropped in zip(LETTER_REASONS, limits.drops, strict=False):
                key = (type_of(queue.arguments), strategy, name)
                if dropped > 0:
                    self.dropped[key] = self.dropped.get(key, 0) + dropped

    def add_vhost(self, vhost: VirtualHost) -> None:
        """Add what was published in `vhost`, which is deleted."""
        self.size_bytes += int(vhost.sizes.total_bytes)
        self.sizes = [
            before + more for before, more in zip(self.sizes, vhost.sizes.counts(), strict=True)
        ]

    def copy(self) -> "NodeCounts":
        """The same numbers, to add those of what is alive to."""
        found = NodeCounts()
        for name in NodeCounts.__slots__:
            setattr(found, name, getattr(self, name))
        found.by_type = {kind: dict(counts) for kind, counts in self.by_type.items()}
        found.dropped = dict(self.dropped)
        found.sizes = list(self.sizes)
        return found

    def all(self, name: str) -> int:
        """One of PASSED, of all types."""
        return sum(counts[name] for counts in self.by_type.values())


def passed(queue: QueueActor) -> dict[str, int]:
    """What has passed through a queue since it is there, as PASSED."""
    messages = queue.messages
    auto = sum(int(one.delivered) for one in queue.consumers if one.is_no_ack)
    auto_delivered, auto_got = int(queue.auto_delivered) + auto, int(queue.auto_got_count)
    return {
        "routed": int(messages.publish_count),
        "delivered": int(messages.deliver_count),
        "auto_delivered": auto_delivered,
        # What needs no acknowledgement leaves the queue as if it had one.
        "acked": max(0, int(messages.ack_count) - auto_delivered - auto_got),
        "redelivered": int(messages.requeue_count),
        "got": int(queue.got_count),
        "auto_got": auto_got,
        "got_empty": int(queue.got_empty_count),
    }
