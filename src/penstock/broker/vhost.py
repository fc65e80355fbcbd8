"""One virtual host: its exchanges and queues by name, and what deleting one drags along."""

from mypy_extensions import mypyc_attr

from penstock.base.errors import ChannelFault
from penstock.base.limits import BINDINGS_PER_VHOST
from penstock.broker.queue_actor import QueueActor, QueueTarget
from penstock.protocol.values import Table
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange
from penstock.routing.router import Router

PREDECLARED = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    ("amq.rabbitmq.trace", "topic"),
)


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueListener:
    """Who wants to know of a queue's end: channels that publish to it. Nominal base."""

    __slots__ = ()

    def queue_gone(self, actor: QueueActor) -> None:
        raise NotImplementedError


class VirtualHost:
    """name: as clients open it; queues: by name, reply queues of direct reply-to among them;
    owned: the exclusive ones of each connection, by its identity; allows_immediate: whether its
    publishers may ask for `immediate`."""

    __slots__ = (
        "allows_immediate",
        "bindings_max",
        "directory",
        "listeners",
        "name",
        "owned",
        "queues",
        "queues_max",
        "router",
    )

    def __init__(
        self, name: str, queues_max: int, bindings_max: int = BINDINGS_PER_VHOST.default
    ) -> None:
        self.name = name
        self.bindings_max = bindings_max
        self.allows_immediate = False
        self.queues: dict[str, QueueActor] = {}
        self.owned: dict[str, dict[str, QueueActor]] = {}
        self.queues_max = queues_max
        self.directory = QueueDirectory()
        self.router = Router(self.directory)
        self.listeners: dict[QueueListener, None] = {}
        for exchange_name, kind in PREDECLARED:
            internal = exchange_name == "amq.rabbitmq.trace"
            self.router.add_exchange(make_exchange(kind, exchange_name, True, False, internal))

    def find_exchange(self, name: str) -> Exchange | None:
        """The exchange called `name`; "" is the default exchange."""
        return self.router.find(name)

    def route(self, exchange: Exchange, keys: list[str], headers: Table) -> list[QueueTarget]:
        """The queues a publish goes to, each once."""
        found: list[QueueTarget] = []
        for destination in self.router.route(exchange, keys, headers):
            assert isinstance(destination, QueueTarget), "a route ends in queues"
            found.append(destination)
        return found

    def bind(
        self,
        source: Exchange,
        destination: Destination,
        routing_key: str,
        arguments: Table,
        class_id: int,
    ) -> None:
        """Bind, unless it is a new binding and there are `bindings_max` already.

        Raises: ChannelFault 406 at the bound, or what the exchange refuses. class_id: 40 or 50."""
        is_new = source.bind(destination, routing_key, arguments)
        if is_new and self.router.binding_count > self.bindings_max:
            source.unbind(destination, routing_key, arguments)
            raise ChannelFault(
                406,
                f"cannot bind '{destination.name}' to exchange '{source.name}' in vhost "
                f"'{self.name}': binding limit ({self.bindings_max}) is reached",
                class_id,
                20 if class_id == 50 else 30,
            )

    def add_queue(self, actor: QueueActor) -> None:
        """Raises: ChannelFault 406 when there are `queues_max` queues already."""
        if len(self.queues) >= self.queues_max:
            raise ChannelFault(
                406,
                f"cannot declare queue '{actor.name}' in vhost '{self.name}': "
                f"queue limit ({self.queues_max}) is reached",
                50,
                10,
            )
        self.queues[actor.name] = actor
        self.directory.add(actor.target)
        if actor.owner != "":
            self.owned.setdefault(actor.owner, {})[actor.name] = actor

    def remove_owned(self, owner: str) -> None:
        """A connection is gone, and its exclusive queues with it."""
        for actor in list(self.owned.get(owner, {}).values()):
            self.remove_queue(actor)

    def remove_queue(self, actor: QueueActor, is_crash: bool = False) -> None:
        """Unbind, tell whoever publishes to it, end its consumers, drop its messages."""
        if self.queues.get(actor.name) is not actor:
            return
        del self.queues[actor.name]
        self.directory.remove(actor.target)
        self.router.drop_destination(actor.target)
        mine = self.owned.get(actor.owner)
        if mine is not None:
            mine.pop(actor.name, None)
            if not mine:
                del self.owned[actor.owner]
        actor.finish(is_crash)
        for listener in list(self.listeners):
            listener.queue_gone(actor)

    def listen(self, listener: QueueListener) -> None:
        """Tell `listener` of every queue that goes."""
        self.listeners[listener] = None

    def unlisten(self, listener: QueueListener) -> None:
        self.listeners.pop(listener, None)
