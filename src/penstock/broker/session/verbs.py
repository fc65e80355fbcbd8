"""From a method's bytes on a channel to the verb that does it, and the answer back.

One table: method identity (class << 16 | method) to handler; what is absent is 503 or 540.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import BATCH
from penstock.broker.channel.channel import Channel, Verbs
from penstock.broker.channel.content_rules import PropertyRules
from penstock.broker.session.audit import note_method
from penstock.broker.session.consume import Consuming
from penstock.broker.session.declare import Declarations
from penstock.broker.session.piecewise import PIECE, end_commit, keeps_commit, perform_again
from penstock.broker.session.requests import Requests
from penstock.broker.session.session import Session
from penstock.protocol import methods as m
from penstock.protocol.content import EVENT_ACK, Event
from penstock.protocol.methods.codec import decode_method, method_frame

Handler = Callable[["ChannelVerbs", Channel, Any], m.Method | None]

GOES_PAST = frozenset(
    (kind.CLASS_ID << 16) | kind.METHOD_ID
    for kind in (
        m.BasicAck,
        m.BasicNack,
        m.BasicReject,
        m.BasicRecover,
        m.BasicRecoverAsync,
        m.BasicQos,
        m.ChannelFlow,
        m.ChannelFlowOk,
        m.BasicConsume,
        m.BasicCancel,
        m.BasicCancelOk,
        m.BasicGet,
        m.QueuePurge,
        m.QueueDeclare,
    )
)

WITHOUT_BOUND: Final = 1 << 40


class LastConsumers(Errand):
    """Those of a channel that ends, which is not given anything any more."""

    __slots__ = ("channel", "consuming")

    def __init__(self, consuming: Consuming, channel: Channel) -> None:
        self.consuming = consuming
        self.channel = channel

    def step(self) -> bool:
        self.consuming.remove_some(self.channel, BATCH)
        return len(self.channel.consumers) > 0


class ChannelVerbs(Verbs):
    """The verbs of every channel of one session. rules: what these look at in the properties of
    their publishes, but for those with a direct reply-to queue, which have rules of their own."""

    __slots__ = ("_consuming", "_declarations", "_requests", "rules", "session")

    def __init__(self, session: Session, rules: PropertyRules) -> None:
        self.session = session
        self.rules = rules
        # Each is made when it is needed first: most of thousands of connections only wait.
        self._declarations: Declarations | None = None
        self._consuming: Consuming | None = None
        self._requests: Requests | None = None

    @property
    def declarations(self) -> Declarations:
        """The verbs on topology."""
        found = self._declarations
        if found is None:
            found = self._declarations = Declarations(self.session)
        return found

    @property
    def consuming(self) -> Consuming:
        """The verbs on consumers."""
        found = self._consuming
        if found is None:
            found = self._consuming = Consuming(self.session, self.declarations)
        return found

    @property
    def requests(self) -> Requests:
        """Those beyond AMQP."""
        found = self._requests
        if found is None:
            found = self._requests = Requests(self.session, self.declarations)
        return found

    def perform(self, channel: Channel, event: Event) -> None:
        if event.kind == EVENT_ACK:
            self.consuming.acknowledge(channel, int(event.tag), event.flag)
            return
        if channel.fault is not None and not event.payload:
            raise channel.fault
        method = decode_method(event.payload)
        handler = HANDLERS.get(type(method))
        if handler is None:
            if isinstance(method, m.ChannelOpen):
                raise ConnectionFault(504, "second 'channel.open' seen", 20, 10)
            raise ConnectionFault(503, "unimplemented method", method.CLASS_ID, method.METHOD_ID)
        writer = channel.output.writer
        before = len(writer)
        last = self.declarations.last_queue.get(int(channel.number), "")
        try:
            answer = handler(self, channel, method)
        except PeerError as fault:
            if fault.class_id == 0:
                # What an exchange refuses is told without the method that has asked.
                fault.class_id, fault.method_id = method.CLASS_ID, method.METHOD_ID
            raise
        if isinstance(method, m.QueueDeclare):
            last = self.declarations.last_queue.get(int(channel.number), "")
        session = self.session
        name = session.connection.name
        note_method(session.host.audit, session.user, name, session.vhost.name, method, last)
        settling = channel.settling
        if channel.inbox.is_parked and (settling is None or settling.is_again):
            channel.note_request(channel.inbox.arrived)
            channel.times.is_asked = True
            channel.inbox.put_first(event)
            return
        if answer is not None:
            writer.write(method_frame(int(channel.number), answer))
        if isinstance(method, m.TxCommit):
            # Answered later, with what was published.
            channel.note_request(channel.inbox.arrived)
        elif len(writer) != before:
            channel.note_request(channel.inbox.arrived)
            channel.note_reply(event.tag)
        channel.output.mark()

    def closing(self, channel: Channel) -> None:
        end_commit(channel, WITHOUT_BOUND)
        host = self.session.host
        host.counts.channel_gone(channel)
        host.limits.channel_closed(self.session.user)

    def keeps_commit(self, channel: Channel) -> bool:
        return keeps_commit(channel, self.session.connection)

    def goes_past(self, event: Event) -> bool:
        return event.kind == EVENT_ACK or int(event.tag) in GOES_PAST

    def queue_delete(self, channel: Channel, q: m.QueueDelete) -> m.Method | None:
        """delete-ok goes out before the basic.cancel of the queue's consumers. What the channel has
        parked for the queue came before, and counts."""
        name = q.queue or self.declarations.last_queue.get(int(channel.number), "")
        left = channel.force_queue(name)
        actor = self.declarations.queue_to_delete(int(channel.number), q)
        if left > 0 and q.if_empty:
            where = self.session.vhost.name
            raise ChannelFault(406, f"queue '{name}' in vhost '{where}' not empty", 50, 40)
        count = left
        if actor is not None:
            count += int(actor.messages.ready_count() + actor.uncommitted_count())
        if not q.no_wait:
            answer = method_frame(int(channel.number), m.QueueDeleteOk(count))
            channel.output.writer.write(answer)
        if actor is not None:
            self.session.vhost.remove_queue(actor)
        return None

    def close(self, channel: Channel, q: m.ChannelClose) -> m.Method | None:
        """Answered when its consumers have gone: who has the answer finds their queues without."""
        channel.sink.is_flow_active = False
        self.consuming.remove_some(channel, PIECE)
        if channel.consumers:
            perform_again(channel)
            return None
        self.release(channel)
        self.session.connection.remove_channel(channel)
        return cast(m.Method, m.ChannelCloseOk())

    def release(self, channel: Channel) -> None:
        """Consumers of a channel that ends go first, those of very many in turns; nothing is
        delivered to it again."""
        channel.sink.is_flow_active = False
        if channel.consumers:
            self.session.host.cleanup.begin(LastConsumers(self.consuming, channel))
        if self._declarations is not None:
            self._declarations.last_queue.pop(int(channel.number), None)
        if self._requests is not None:
            self._requests.release(int(channel.number))


def _nothing(verbs: ChannelVerbs, channel: Channel, q: m.Method) -> None:
    """An answer to us that changes nothing."""


def _acknowledge(verbs: ChannelVerbs, channel: Channel, q: m.BasicAck) -> None:
    channel.acknowledge(q.delivery_tag, q.multiple)


def _flow_answered(verbs: ChannelVerbs, channel: Channel, q: m.ChannelFlowOk) -> None:
    """What it says is not looked at: a client may echo the bit wrong, and it has answered."""
    verbs.session.connection.notifier.flow_answered(channel)


# One table for all channels: thousands of connections share it.
HANDLERS: Final[Mapping[type[m.Method], Handler]] = MappingProxyType(
    {
        m.AccessRequest: lambda v, c, q: m.AccessRequestOk(),
        m.ExchangeDeclare: lambda v, c, q: v.declarations.exchange_declare(c.number, q),
        m.ExchangeDelete: lambda v, c, q: v.declarations.exchange_delete(c.number, q),
        m.ExchangeBind: lambda v, c, q: v.declarations.exchange_bind(c.number, q),
        m.ExchangeUnbind: lambda v, c, q: v.declarations.exchange_unbind(c.number, q),
        m.QueueDeclare: lambda v, c, q: v.declarations.queue_declare(c.number, q),
        m.QueueBind: lambda v, c, q: v.declarations.queue_bind(c.number, q),
        m.QueueUnbind: lambda v, c, q: v.declarations.queue_unbind(c.number, q),
        m.QueuePurge: lambda v, c, q: v.declarations.queue_purge(c.number, q),
        m.QueueDelete: ChannelVerbs.queue_delete,
        m.BasicConsume: lambda v, c, q: v.consuming.consume(c, q),
        m.BasicCancel: lambda v, c, q: v.consuming.cancel(c, q),
        m.BasicCancelOk: _nothing,
        m.BasicGet: lambda v, c, q: v.consuming.get(c, q),
        m.BasicQos: lambda v, c, q: v.consuming.qos(c, q),
        m.BasicAck: _acknowledge,
        m.BasicReject: lambda v, c, q: v.consuming.reject(c, q),
        m.BasicNack: lambda v, c, q: v.consuming.nack(c, q),
        m.BasicRecover: lambda v, c, q: v.consuming.recover(c, q.requeue, 110),
        m.BasicRecoverAsync: lambda v, c, q: v.consuming.recover(c, q.requeue, 100),
        m.ChannelFlow: lambda v, c, q: v.consuming.flow(c, q),
        m.ChannelFlowOk: _flow_answered,
        m.ChannelClose: ChannelVerbs.close,
        m.ConfirmSelect: lambda v, c, q: v.consuming.confirm_select(c, q),
        m.RequestAsk: lambda v, c, q: v.requests.ask(c, q),
        m.TxSelect: lambda v, c, q: v.consuming.tx_select(c),
        m.TxCommit: lambda v, c, q: v.consuming.tx_commit(c),
        m.TxRollback: lambda v, c, q: v.consuming.tx_rollback(c),
    }
)
