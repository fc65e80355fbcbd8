"""What becomes of a queue that is broken, while the broker lives.

its turn failed          it ends, and its senders and consumers are told
messages are unreadable  it is paused and listed until a person has decided
"""

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.log import Log
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.vhost import VirtualHost


class FailureHandler:
    """vhosts: of the broker, live."""

    __slots__ = ("log", "vhosts")

    def __init__(self, log: Log, vhosts: dict[str, VirtualHost]) -> None:
        self.log = log
        self.vhosts = vhosts

    def failed(self, actor: Actor, error: Exception) -> None:
        """`error` left the turn of `actor`."""
        self.log.error(f"internal error in {actor.identity}, which is stopped", error)
        actor.is_alive = False
        vhost, name = actor.failing_queue()
        if name != "":
            queue = self.vhosts[vhost].queues.get(name)
            if queue is not None:
                self.vhosts[vhost].remove_queue(queue, True)


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
