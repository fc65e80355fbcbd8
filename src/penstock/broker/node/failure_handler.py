"""Ends a queue whose turn failed: its senders and consumers are told, the broker lives."""

from penstock.broker.actors.actor import Actor, FailureHandler
from penstock.broker.actors.log import Log
from penstock.broker.lease.lease_actor import LeaseActor
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.vhost import VirtualHost


class QueueFailureHandler(FailureHandler):
    """vhosts: of the broker, live."""

    __slots__ = ("log", "vhosts")

    def __init__(self, log: Log, vhosts: dict[str, VirtualHost]) -> None:
        self.log = log
        self.vhosts = vhosts

    def failed(self, actor: Actor, error: Exception) -> None:
        self.log.error(f"internal error in {actor.identity}, which is stopped", error)
        actor.is_alive = False
        if isinstance(actor, QueueActor):
            self.vhosts[actor.vhost].remove_queue(actor, True)
        elif isinstance(actor, LeaseActor):
            self.vhosts[actor.queue.vhost].remove_queue(actor.queue, True)
