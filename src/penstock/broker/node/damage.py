"""A queue whose messages cannot all be read: closed and listed until a person has decided."""

from penstock.broker.actors.log import Log
from penstock.broker.queue.queue_actor import QueueActor


def close_damaged(log: Log, actor: QueueActor, lost_count: int) -> None:
    """`lost_count` more messages of `actor` do not fit their checksums, or are not where they have
    to be: its consumers are given nothing, so that nobody takes the rest for all there was; every
    other queue goes on (reliability F13, F14)."""
    actor.pause(True)
    actor.damaged_count += lost_count
    log.warning(
        f"{actor.identity}: damaged, {lost_count} of its messages cannot be read; the queue is "
        f"paused: `penstock queues resume {actor.name}` lets consumers have the others"
    )
