"""Acknowledging many deliveries at once: what runs of one queue and one consumer share.

Books that one delivery after the other would change are changed once for each run. A queue with
rules, or a stream, looks at every delivery by itself.
"""

from mypy_extensions import i64

from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.queues.consumers import Consumer, Delivery
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


def settle_all(deliveries: list[Delivery]) -> None:
    """The client has acknowledged `deliveries`, in the order in which they were made."""
    at: i64 = 0
    end: i64 = len(deliveries)
    while at < end:
        delivery = deliveries[at]
        queue = delivery.queue
        consumer = delivery.consumer
        if consumer is not None and isinstance(queue, QueueClient) and is_plain(queue.actor):
            at = _settle_run(queue, consumer, deliveries, at)
        else:
            queue.settle(delivery)
            at += 1


def is_plain(actor: QueueActor) -> bool:
    """Whether nobody but the books looks at what is settled."""
    return type(actor) is QueueActor and actor.ruling is None


def _settle_run(
    queue: QueueClient, consumer: Consumer, deliveries: list[Delivery], first: i64
) -> i64:
    """Settle from the place `first` on what is of the same queue and consumer; the place behind."""
    actor = queue.actor
    keeper = actor.keeper
    origin = deliveries[first].message.origin
    at: i64 = first
    end: i64 = len(deliveries)
    body_bytes: i64 = 0
    raw_bytes: i64 = 0
    paid: i64 = 0
    paid_bytes: i64 = 0
    while at < end:
        delivery = deliveries[at]
        if delivery.queue is not queue or delivery.consumer is not consumer:
            break
        message = delivery.message
        if message.origin is not origin:
            origin.unstore(paid, paid_bytes)
            origin = message.origin
            paid = 0
            paid_bytes = 0
        size: i64 = len(message.raw)
        paid += 1
        paid_bytes += size + MESSAGE_OVERHEAD_BYTES
        raw_bytes += size
        body_bytes += message.body_bytes
        at += 1
    if keeper is not None:
        keeper.left_all(deliveries, first, at)
    origin.unstore(paid, paid_bytes)
    count: i64 = at - first
    actor.messages.ack_count += count
    actor.unacked_count -= count
    actor.unacked_bytes -= raw_bytes
    consumer.unacked -= count
    consumer.unacked_bytes -= body_bytes
    if not consumer.is_ready:
        actor.offer(consumer)
    if actor.is_deep:
        actor.wake()
    return at
