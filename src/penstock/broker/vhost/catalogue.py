"""Who is told of every change to the topology that has to outlive the broker.

The base keeps nothing (`--memory`); broker/vhost/metadata_store hands changes to the disk. What is
kept:
durable exchanges, durable queues unless they are exclusive, bindings between these, and whatever
is set while the broker runs: virtual hosts, users, policies, limits. Bindings from or to something
that goes are not told one by one, they go with it. Source: RabbitMQ's durability of each.
"""

from typing import Final

from penstock.base.config import UserConfig
from penstock.broker.queue.queue_actor import QueueActor, QueueTarget
from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange

UNBOUNDED = 1 << 62

BY_EXCHANGE: Final = "exchange"
"""In place of the connection that owns an exclusive queue: a delayed message exchange owns it."""


class Catalogue:
    """Keeps nothing. Every verb that adds something may raise ChannelFault 406 while too many
    changes wait for the disk, and then nothing has changed; what goes is always taken."""

    __slots__ = ()

    def check_binding(
        self, source: Exchange, destination: Destination, class_id: int, method_id: int
    ) -> None:
        """Raise ChannelFault 406 if a binding like this cannot be kept now."""

    def queue_added(self, actor: QueueActor) -> int:
        """The id under which `actor` is kept, 1.. and never given twice; 0 if it is not."""
        return 0

    def queue_removed(self, actor: QueueActor, is_crash: bool) -> None:
        """`actor` is gone. After a crash it is kept, with its bindings, until the next start or
        until another of its name is declared."""

    def exchange_added(self, vhost: str, exchange: Exchange) -> None:
        """`exchange` is declared."""

    def exchange_removed(self, vhost: str, exchange: Exchange) -> None:
        """`exchange` is gone."""

    def bound(self, vhost: str, source: Exchange, binding: Binding) -> None:
        """A new binding."""

    def unbound(self, vhost: str, source: Exchange, binding: Binding) -> None:
        """A binding was undone by itself."""

    def parameter_set(self, vhost: str, component: str, name: str, value: object) -> None:
        """A policy, a limit: `value` can be written as JSON. vhost: "" for all."""

    def parameter_cleared(self, vhost: str, component: str, name: str) -> None:
        """It is no more."""

    def vhost_added(self, name: str) -> None:
        """A virtual host that the configuration does not name."""

    def vhost_removed(self, name: str) -> None:
        """It is no more; all that was in it has been removed before, but crashed queues."""

    def user_set(self, user: UserConfig) -> None:
        """A user that the configuration does not name, with a hashed password."""

    def user_removed(self, name: str) -> None:
        """It is no more, its password with it."""

    def room(self) -> int:
        """How many changes can be taken before some have to wait."""
        return UNBOUNDED

    def hand_over(self) -> int:
        """Submit to the disk what was not submitted yet, and answer with a mark for `has`. To be
        called before every batch of messages, which may need it."""
        return 0

    def has(self, mark: int) -> bool:
        """Whether the disk has everything that `hand_over` meant when it gave `mark`. No message
        may be confirmed before."""
        return True

    def tick(self) -> None:
        """Once a second: what a full disk has refused is tried again."""


def is_kept_queue(actor: QueueActor) -> bool:
    """Durable and nobody's own: an exclusive queue goes with its connection, which does not outlive
    the broker. The store of a durable delayed message exchange is as durable as that."""
    return actor.durable and actor.owner in ("", BY_EXCHANGE)


def is_kept(destination: Destination) -> bool:
    """Whether bindings to it are kept, if their source is."""
    if isinstance(destination, QueueTarget):
        return is_kept_queue(destination.actor)
    return isinstance(destination, Exchange) and destination.durable


NOTHING_KEPT = Catalogue()
"""For a broker in memory, and while what was kept is brought back."""
