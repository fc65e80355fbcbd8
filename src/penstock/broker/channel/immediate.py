"""Publishes with `immediate`: only to queues that have a consumer for them at this moment.

Whoever is given one counts as waiting for it, so what lies in the queue or on its way there takes
its place among the consumers first. A window in bytes counts as room for one delivery.
Source: AMQP 0-9-1, basic.publish, field "immediate"; RabbitMQ before 3.0.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.lane import Lane
from penstock.broker.queue.queue_actor import QueueActor

NO_CONSUMERS: Final = 313


def with_consumers(lanes: list[Lane]) -> list[Lane]:
    """Those of `lanes` whose queue could give one more message to a consumer at once."""
    found: list[Lane] = []
    for lane in lanes:
        actor = lane.receiving
        if isinstance(actor, QueueActor) and has_idle_consumer(actor):
            found.append(lane)
    return found


def has_idle_consumer(actor: QueueActor) -> bool:
    """Whether the consumers of `actor` have room for more than what waits there already."""
    if not actor.ready or actor.stop_reason() != "":
        return False
    left: i64 = actor.messages.ready_count()
    for lane in actor.pending:
        left += len(lane.items) - lane.head
    for consumer in actor.ready:
        left -= consumer.room()
        if left < 0:
            return True
    return False
