"""One virtual host: its exchanges and queues by name, and what deleting one drags along."""

from collections.abc import Callable
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.base.limits import BINDINGS_PER_VHOST, MESSAGE_HEADERS
from penstock.broker.queue.queue_actor import QueueActor, QueueTarget
from penstock.broker.vhost.catalogue import NOTHING_KEPT, Catalogue
from penstock.broker.vhost.message_sizes import MessageSizes
from penstock.protocol.values import Table
from penstock.queues.rules import NEVER
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange
from penstock.routing.router import Router

REPLY_TO_NAME: Final = "amq.rabbitmq.reply-to"
REPLY_PREFIX = REPLY_TO_NAME + "."
PREDECLARED: Final = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    ("amq.rabbitmq.trace", "topic"),
)


class VirtualHost:
    """name: as clients open it; queues: by name, reply queues of direct reply-to and stores of
    delayed message exchanges among them; owned: the exclusive ones of each connection, by its
    identity; allows_immediate: whether its publishers may ask for `immediate`; queue_limit: how
    many queues clients may declare, NEVER for any number; hidden_count: those of `queues` that do
    not count as theirs; has_alarm_actions: a policy has said of one of them what an alarm does to
    publishes for it; is_leaving: it is being deleted, nobody can open it; exchange_added,
    queue_added: called for every new one, the latter to give durable queues their way to the disk;
    queue_gone: for every one that goes; catalogue: told of every change, keeps what is durable;
    sizes: of everything that is published here."""

    __slots__ = (
        "allows_immediate",
        "binding_bounds",
        "bindings_max",
        "catalogue",
        "directory",
        "exchange_added",
        "has_alarm_actions",
        "headers_max",
        "hidden_count",
        "is_leaving",
        "name",
        "owned",
        "queue_added",
        "queue_gone",
        "queue_limit",
        "queues",
        "queues_max",
        "router",
        "sizes",
    )

    def __init__(
        self, name: str, queues_max: int, bindings_max: int = BINDINGS_PER_VHOST.default
    ) -> None:
        self.name = name
        self.bindings_max = bindings_max
        self.sizes = MessageSizes()
        self.binding_bounds = BindingBounds()
        self.headers_max = MESSAGE_HEADERS.default
        self.allows_immediate = False
        self.queues: dict[str, QueueActor] = {}
        self.owned: dict[str, dict[str, QueueActor]] = {}
        self.queues_max = queues_max
        self.queue_limit = NEVER
        self.has_alarm_actions = False
        self.hidden_count = 0
        self.is_leaving = False
        self.directory = QueueDirectory()
        self.router = Router(self.directory)
        self.exchange_added: Callable[[VirtualHost, Exchange], None] | None = None
        self.queue_added: Callable[[QueueActor], None] | None = None
        self.queue_gone: Callable[[QueueActor], None] | None = None
        self.catalogue: Catalogue = NOTHING_KEPT
        for exchange_name, kind in PREDECLARED:
            internal = exchange_name == "amq.rabbitmq.trace"
            self.router.add_exchange(make_exchange(kind, exchange_name, True, False, internal))

    def add_exchange(self, exchange: Exchange) -> None:
        """Take a new exchange in under its name, which must be free.

        Raises: ChannelFault 406 while it cannot be kept."""
        self.catalogue.exchange_added(self.name, exchange)
        if self.exchange_added is not None:
            try:
                self.exchange_added(self, exchange)
            except ChannelFault as fault:
                self.catalogue.exchange_removed(self.name, exchange)
                raise ChannelFault(fault.code, fault.text, 40, 10) from fault
        self.router.add_exchange(exchange)

    def remove_exchange(self, exchange: Exchange) -> None:
        """Delete `exchange`, its bindings, and auto-delete exchanges that lose their last one."""
        for gone in self.router.remove_exchange(exchange):
            self.catalogue.exchange_removed(self.name, gone)

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

        Raises: ChannelFault 406 at the bound, 403 for a queue that is the broker's own, or what the
        exchange refuses. class_id: 40 or 50."""
        method_id = 20 if class_id == 50 else 30
        if isinstance(destination, QueueTarget) and self.is_internal(destination.name):
            text = f"cannot bind internal queue '{destination.name}' in vhost '{self.name}'"
            raise ChannelFault(403, text, class_id, method_id)
        self.catalogue.check_binding(source, destination, class_id, method_id)
        binding = Binding(destination, routing_key, arguments)
        source.check_bounds(binding, self.binding_bounds)
        is_new = source.bind(destination, routing_key, arguments)
        if is_new and self.router.binding_count > self.bindings_max:
            source.unbind(destination, routing_key, arguments)
            raise ChannelFault(
                406,
                f"cannot bind '{destination.name}' to exchange '{source.name}' in vhost "
                f"'{self.name}': binding limit ({self.bindings_max}) is reached",
                class_id,
                method_id,
            )
        if is_new:
            self.catalogue.bound(self.name, source, binding)

    def unbind(
        self, source: Exchange, destination: Destination, routing_key: str, arguments: Table
    ) -> None:
        """Undo a binding, if there is one; an auto-delete exchange that loses its last one goes."""
        if source.unbind(destination, routing_key, arguments):
            self.catalogue.unbound(self.name, source, Binding(destination, routing_key, arguments))
        if source.is_due:
            self.remove_exchange(source)

    def is_internal(self, name: str) -> bool:
        """Whether the queue `name` is one that nothing can be routed to; see `add_store`."""
        actor = self.queues.get(name)
        return actor is not None and self.directory.find_queue(name) is not actor.target

    def counted_queues(self) -> int:
        """Queues that clients have declared, or were given."""
        return len(self.queues) - self.hidden_count

    def check_room(self, name: str) -> None:
        """Raise ChannelFault 406 if clients have declared as many queues as they may."""
        limit = self.queue_limit
        if limit != NEVER and self.counted_queues() >= limit:
            raise self._full(name, int(limit))

    def _full(self, name: str, limit: int) -> ChannelFault:
        text = f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is "
        return ChannelFault(406, text + "reached", 50, 10)

    def add_queue(self, actor: QueueActor) -> None:
        """Raises: ChannelFault 406 when there are `queues_max` queues already, or while it cannot
        be kept."""
        if len(self.queues) >= self.queues_max:
            raise self._full(actor.name, self.queues_max)
        actor.queue_id = self.catalogue.queue_added(actor)
        self.take_queue(actor)

    def take_queue(self, actor: QueueActor) -> None:
        """A queue that is kept already comes back, however many there are."""
        self.queues[actor.name] = actor
        self.directory.add(actor.target)
        if actor.name.startswith(REPLY_PREFIX):
            self.hidden_count += 1
        if actor.owner != "":
            self.owned.setdefault(actor.owner, {})[actor.name] = actor
        if self.queue_added is not None:
            self.queue_added(actor)

    def add_store(self, actor: QueueActor) -> None:
        """A queue that belongs to an exchange, or to the broker: nobody can publish to it by its
        name."""
        self.queues[actor.name] = actor
        self.hidden_count += 1
        if self.queue_added is not None:
            self.queue_added(actor)

    def remove_owned(self, owner: str) -> None:
        """A connection is gone, and its exclusive queues with it."""
        for actor in list(self.owned.get(owner, {}).values()):
            self.remove_queue(actor)

    def remove_queue(self, actor: QueueActor, is_crash: bool = False) -> None:
        """Unbind, tell whoever publishes to it, end its consumers, drop its messages."""
        if self.queues.get(actor.name) is not actor:
            return
        del self.queues[actor.name]
        is_store = self.directory.find_queue(actor.name) is not actor.target
        if is_store or actor.name.startswith(REPLY_PREFIX):
            self.hidden_count -= 1
        if not is_store:
            self.directory.remove(actor.target)
        self.catalogue.queue_removed(actor, is_crash)
        for gone in self.router.drop_destination(actor.target):
            self.catalogue.exchange_removed(self.name, gone)
        mine = self.owned.get(actor.owner)
        if mine is not None:
            mine.pop(actor.name, None)
            if not mine:
                del self.owned[actor.owner]
        lanes = list(actor.lanes)
        actor.finish(is_crash)
        if self.queue_gone is not None:
            self.queue_gone(actor)
        for lane in lanes:
            lane.answerable.receiver_gone(lane)
        actor.unlink()
