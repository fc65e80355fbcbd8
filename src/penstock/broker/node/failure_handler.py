"""Ends a queue whose turn failed: its senders and consumers are told, the broker lives."""

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.log import Log
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
