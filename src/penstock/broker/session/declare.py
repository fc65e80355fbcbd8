"""Exchanges, queues and bindings: declare, bind, unbind, purge, delete.

Reply codes and texts are RabbitMQ's (rabbit_channel). Each verb answers with the method to send.
"""

from typing import Final

from penstock.base.errors import ChannelFault
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.session import Session
from penstock.broker.vhost.equivalence import check_arguments, check_field
from penstock.broker.vhost.queue_arguments import (
    check_exchange,
    check_properties,
    check_queue,
    check_type,
)
from penstock.broker.vhost.rights import CONFIGURE, EXCHANGE, QUEUE, READ, WRITE
from penstock.broker.vhost.vhost import REPLY_PREFIX, REPLY_TO_NAME
from penstock.protocol import methods as m
from penstock.protocol.handshake import GOES_ON
from penstock.routing.exchange import Exchange
from penstock.routing.factory import check_kind, make_exchange

QUEUE_ARGUMENT_KEYS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-delivery-limit",
    "x-depth-mark",
    "x-last-value-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-age",
    "x-max-lag-bytes",
    "x-max-lag-messages",
    "x-overflow",
    "x-max-priority",
    "x-queue-type",
    "x-stream-filter-size-bytes",
    "x-stream-max-segment-size-bytes",
    "x-single-active-consumer",
)


NO_NAMES: Final[dict[int, str]] = {}
"""What all sessions share that have declared nothing."""

FRESH: Final = "amq.gen-"


class Declarations:
    """The verbs on topology for one session. `last_queue` lives in the channel's own record."""

    __slots__ = ("last_queue", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.last_queue: dict[int, str] = NO_NAMES

    # -- exchanges -------------------------------------------------------------------------------

    def exchange_declare(self, number: int, q: m.ExchangeDeclare) -> m.Method | None:
        vhost = self.session.vhost
        name = _cleaned(q.exchange)
        if q.passive:
            self._not_default(name, 40, 10)
            self._exchange(name, 40, 10)
        else:
            check_kind(q.type)
            self._not_default(name, 40, 10)
            rights = self.session.rights
            rights.check(CONFIGURE, EXCHANGE, name, 40, 10)
            found = vhost.find_exchange(name)
            if found is None:
                self._not_reserved("exchange", name, 40)
                check_exchange(name, vhost.name, q.arguments)
                alternate = q.arguments.get("alternate-exchange")
                if isinstance(alternate, str):
                    rights.check(READ, EXCHANGE, name, 40, 10)
                    rights.check(WRITE, EXCHANGE, alternate, 40, 10)
                made = make_exchange(
                    q.type, name, q.durable, q.auto_delete, q.internal, q.arguments
                )
                vhost.add_exchange(made)
                self.session.host.exchange_made(vhost, made)
            else:
                self._same_exchange(found, q)
        return None if q.no_wait else m.ExchangeDeclareOk()

    def _same_exchange(self, found: Exchange, q: m.ExchangeDeclare) -> None:
        vhost = self.session.vhost.name
        for field, received, current in (
            ("type", q.type, found.kind),
            ("durable", q.durable, found.durable),
            ("auto_delete", q.auto_delete, found.auto_delete),
            ("internal", q.internal, found.internal),
        ):
            check_field("exchange", q.exchange, vhost, field, received, current, 40)
        check_arguments(
            "exchange",
            q.exchange,
            vhost,
            ("alternate-exchange",),
            q.arguments,
            found.arguments,
            40,
        )

    def exchange_delete(self, number: int, q: m.ExchangeDelete) -> m.Method | None:
        name = q.exchange
        self._not_default(name, 40, 20)
        found = self.session.vhost.find_exchange(name)
        if name.startswith("amq."):
            raise ChannelFault(
                403,
                f"deletion of system exchange '{name}' in vhost "
                f"'{self.session.vhost.name}' not allowed",
                40,
                20,
            )
        self.session.rights.check(CONFIGURE, EXCHANGE, name, 40, 20)
        if found is not None:
            if q.if_unused and not found.is_unused:
                raise ChannelFault(
                    406, f"exchange '{name}' in vhost '{self.session.vhost.name}' in use", 40, 20
                )
            self.session.vhost.remove_exchange(found)
        return None if q.no_wait else m.ExchangeDeleteOk()

    def exchange_bind(self, number: int, q: m.ExchangeBind) -> m.Method | None:
        self._may_bind(EXCHANGE, q.destination, q.source, q.routing_key, 40, 30)
        source = self._exchange(q.source, 40, 30)
        destination = self._exchange(q.destination, 40, 30)
        self.session.vhost.bind(source, destination, q.routing_key, q.arguments, 40)
        return None if q.no_wait else m.ExchangeBindOk()

    def exchange_unbind(self, number: int, q: m.ExchangeUnbind) -> m.Method | None:
        self._may_bind(EXCHANGE, q.destination, q.source, q.routing_key, 40, 40)
        source = self.session.vhost.find_exchange(q.source)
        destination = self.session.vhost.find_exchange(q.destination)
        if source is not None and destination is not None:
            self.session.vhost.unbind(source, destination, q.routing_key, q.arguments)
        return None if q.no_wait else m.ExchangeUnbindOk()

    # -- queues ----------------------------------------------------------------------------------

    def queue_declare(self, number: int, q: m.QueueDeclare) -> m.Method | None:
        vhost = self.session.vhost
        name = _cleaned(q.queue)
        if name == REPLY_TO_NAME or name.startswith(REPLY_PREFIX):
            if name != REPLY_TO_NAME and name not in vhost.queues:
                raise self._no_queue(name, 10)
            return None if q.no_wait else m.QueueDeclareOk(name, 0, 1)
        actor = self._passive(name) if q.passive else self._declare(name, q)
        actor.catch_up()
        actor.used()
        if self.last_queue is NO_NAMES:
            self.last_queue = {}
        self.last_queue[number] = actor.name
        self.session.host.counts.queues_declared += 1
        if q.no_wait:
            return None
        return m.QueueDeclareOk(actor.name, int(actor.messages.ready_count()), len(actor.consumers))

    def _passive(self, name: str) -> QueueActor:
        """The queue `name`, which has to be there; "" is none, and not the last declared one."""
        actor = self._find(name)
        if actor is None:
            raise self._no_queue(name, 10)
        self._not_locked(actor, 10)
        return actor

    def _declare(self, name: str, q: m.QueueDeclare) -> QueueActor:
        vhost = self.session.vhost
        owner = self.session.owner if q.exclusive else ""
        # Whatever was asked for: it ends with its connection.
        durable = q.durable and not q.exclusive
        rights = self.session.rights
        fresh = self.session.host.fresh_name(FRESH) if name == "" else name
        rights.check(CONFIGURE, QUEUE, fresh, 50, 10)
        found = vhost.queues.get(name) if name != "" else None
        if found is not None:
            if found.owner != owner:
                raise self._locked(name, 10)
            for field, received, current in (
                ("durable", durable, found.durable),
                ("auto_delete", q.auto_delete, found.auto_delete),
            ):
                check_field("queue", name, vhost.name, field, received, current, 50)
            check_arguments(
                "queue",
                name,
                vhost.name,
                QUEUE_ARGUMENT_KEYS,
                q.arguments,
                found.arguments,
                50,
            )
        # In RabbitMQ's order: of a queue that is there it is first said what differs.
        check_queue(name, vhost.name, q.arguments)
        check_type(name, vhost.name, q.arguments)
        if found is not None:
            return found
        check_properties(name, vhost.name, q.durable, q.auto_delete, q.exclusive, q.arguments)
        is_again = q.exclusive and name.startswith(FRESH) and GOES_ON in self.session.capabilities
        if name != "" and not is_again:
            self._not_reserved("queue", name, 50)
        name = fresh
        letters = q.arguments.get("x-dead-letter-exchange")
        if isinstance(letters, str):
            rights.check(READ, QUEUE, name, 50, 10)
            rights.check(WRITE, EXCHANGE, letters, 50, 10)
        vhost.check_room(name)
        actor = self.session.host.make_queue(
            vhost, name, durable, q.auto_delete, owner, q.arguments
        )
        vhost.add_queue(actor)
        return actor

    def queue_bind(self, number: int, q: m.QueueBind) -> m.Method | None:
        name = self.named(number, q.queue, 50, 20)
        key = name if q.routing_key == "" and q.queue == "" else q.routing_key
        self._may_bind(QUEUE, name, q.exchange, key, 50, 20)
        exchange = self._exchange(q.exchange, 50, 20)
        target = self.queue(number, name, 50, 20).target
        self.session.vhost.bind(exchange, target, key, q.arguments, 50)
        return None if q.no_wait else m.QueueBindOk()

    def queue_unbind(self, number: int, q: m.QueueUnbind) -> m.Method | None:
        name = self.named(number, q.queue, 50, 50)
        key = name if q.routing_key == "" and q.queue == "" else q.routing_key
        self._may_bind(QUEUE, name, q.exchange, key, 50, 50)
        vhost = self.session.vhost
        actor = vhost.queues.get(name)
        exchange = vhost.find_exchange(q.exchange)
        # Undoing a binding that is not there is no fault in RabbitMQ, even of a locked queue.
        if actor is not None and exchange is not None:
            if exchange.has_binding(actor.target, key, q.arguments):
                self._not_locked(actor, 50)
            vhost.unbind(exchange, actor.target, key, q.arguments)
        return m.QueueUnbindOk()

    def queue_purge(self, number: int, q: m.QueuePurge) -> m.Method | None:
        actor = self.readable(number, q.queue, 50, 30)
        actor.check_ending("purge", 30)
        actor.check_verb("queue.purge", 50, 30)
        count = actor.purge()
        return None if q.no_wait else m.QueuePurgeOk(count)

    def queue_to_delete(self, number: int, q: m.QueueDelete) -> QueueActor | None:
        """The queue that queue.delete means, None if there is none, which is no fault in RabbitMQ.

        Raises: ChannelFault 405, 403 for the broker's own, or 406 while a condition does not
        hold."""
        vhost = self.session.vhost
        name = self.named(number, q.queue, 50, 40)
        self.session.rights.check(CONFIGURE, QUEUE, name, 50, 40)
        actor = self._find(name)
        if actor is None:
            return None
        self._not_locked(actor, 40)
        actor.check_ending("deletion", 40)
        actor.catch_up()
        if q.if_unused and actor.consumers:
            raise ChannelFault(406, f"queue '{name}' in vhost '{vhost.name}' in use", 50, 40)
        if q.if_empty and actor.messages.ready_count() + actor.uncommitted_count() > 0:
            raise ChannelFault(406, f"queue '{name}' in vhost '{vhost.name}' not empty", 50, 40)
        return actor

    def readable(self, number: int, name: str, class_id: int, method_id: int) -> QueueActor:
        """As `queue`, if the user may read it. Raises: ChannelFault 403 before anything else."""
        name = self.named(number, name, class_id, method_id)
        self.session.rights.check(READ, QUEUE, name, class_id, method_id)
        return self.queue(number, name, class_id, method_id)

    def queue(self, number: int, name: str, class_id: int, method_id: int) -> QueueActor:
        """The queue `name` ("" for the channel's last declared one), not locked by another.

        Raises: ChannelFault 404, 405."""
        name = self.named(number, name, class_id, method_id)
        actor = self._find(name)
        if actor is None:
            raise self._no_queue(name, method_id, class_id)
        self._not_locked(actor, method_id, class_id)
        # What this connection published before has to be in the queue before anybody looks at it.
        actor.catch_up()
        return actor

    def _may_bind(
        self, kind: str, name: str, source: str, key: str, class_id: int, method_id: int
    ) -> None:
        """To write to what is bound, and to read what it is bound to: binding and unbinding."""
        rights = self.session.rights
        rights.check(WRITE, kind, name, class_id, method_id)
        self._not_default(name, class_id, method_id)
        self._not_default(source, class_id, method_id)
        rights.check(READ, EXCHANGE, source, class_id, method_id)
        found = self.session.vhost.find_exchange(source)
        if found is not None:
            rights.check_topic(READ, source, found.kind, key, class_id, method_id)

    def _find(self, name: str) -> QueueActor | None:
        """The queue `name`. What direct reply-to has made is none to its clients, as in RabbitMQ:
        they can only publish to it, and ask whether it is there."""
        return None if name.startswith(REPLY_PREFIX) else self.session.vhost.queues.get(name)

    def named(self, number: int, name: str, class_id: int, method_id: int) -> str:
        """`name`, or the channel's last declared queue for "". Raises: ChannelFault 404."""
        if name != "":
            return name
        last = self.last_queue.get(number)
        if last is None:
            raise ChannelFault(404, "no previously declared queue", class_id, method_id)
        return last

    # -- faults ----------------------------------------------------------------------------------

    def _no_queue(self, name: str, method_id: int, class_id: int = 50) -> ChannelFault:
        return ChannelFault(
            404, f"no queue '{name}' in vhost '{self.session.vhost.name}'", class_id, method_id
        )

    def _locked(self, name: str, method_id: int, class_id: int = 50) -> ChannelFault:
        return ChannelFault(
            405,
            f"cannot obtain exclusive access to locked queue '{name}' in vhost "
            f"'{self.session.vhost.name}'. It could be originally declared on another connection "
            "or the exclusive property value does not match that of the original declaration.",
            class_id,
            method_id,
        )

    def _not_locked(self, actor: QueueActor, method_id: int, class_id: int = 50) -> None:
        if actor.owner not in ("", self.session.owner):
            raise self._locked(actor.name, method_id, class_id)

    def _exchange(self, name: str, class_id: int, method_id: int) -> Exchange:
        found = self.session.vhost.find_exchange(name)
        if found is None:
            raise ChannelFault(
                404,
                f"no exchange '{name}' in vhost '{self.session.vhost.name}'",
                class_id,
                method_id,
            )
        return found

    def _not_default(self, name: str, class_id: int, method_id: int) -> None:
        if name == "":
            raise ChannelFault(
                403, "operation not permitted on the default exchange", class_id, method_id
            )

    def _not_reserved(self, kind: str, name: str, class_id: int) -> None:
        if name.startswith("amq."):
            raise ChannelFault(
                403, f"{kind} name '{name}' contains reserved prefix 'amq.*'", class_id, 10
            )


def _cleaned(name: str) -> str:
    """The name to declare: line ends are taken out, as RabbitMQ does."""
    return name.replace("\r", "").replace("\n", "")
