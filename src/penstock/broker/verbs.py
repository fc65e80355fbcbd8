"""From a method's bytes on a channel to the verb that does it, and the answer back.

One table: method identity (class << 16 | method) to handler; what is absent is 503 or 540.
"""

from collections.abc import Callable
from typing import Any, cast

from penstock.base.errors import ConnectionFault
from penstock.broker.channel import Channel, Verbs
from penstock.broker.consume import Consuming
from penstock.broker.declare import Declarations
from penstock.broker.session import Session
from penstock.protocol import methods as m
from penstock.protocol.content import EVENT_ACK, Event
from penstock.protocol.methods.codec import decode_method, method_frame

Handler = Callable[[Channel, Any], m.Method | None]

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


class ChannelVerbs(Verbs):
    """The verbs of every channel of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.declarations = Declarations(session)
        self.consuming = Consuming(session, self.declarations)
        self.handlers: dict[type[m.Method], Handler] = self._table()

    def _table(self) -> dict[type[m.Method], Handler]:
        d = self.declarations
        c = self.consuming
        table: dict[type[m.Method], Handler] = {
            m.ExchangeDeclare: lambda channel, q: d.exchange_declare(channel.number, q),
            m.ExchangeDelete: lambda channel, q: d.exchange_delete(channel.number, q),
            m.ExchangeBind: lambda channel, q: d.exchange_bind(channel.number, q),
            m.ExchangeUnbind: lambda channel, q: d.exchange_unbind(channel.number, q),
            m.QueueDeclare: lambda channel, q: d.queue_declare(channel.number, q),
            m.QueueBind: lambda channel, q: d.queue_bind(channel.number, q),
            m.QueueUnbind: lambda channel, q: d.queue_unbind(channel.number, q),
            m.QueuePurge: lambda channel, q: d.queue_purge(channel.number, q),
            m.QueueDelete: self._queue_delete,
            m.BasicConsume: c.consume,
            m.BasicCancel: c.cancel,
            m.BasicCancelOk: lambda channel, q: None,
            m.BasicGet: c.get,
            m.BasicQos: c.qos,
            m.BasicAck: lambda channel, q: self._ack(channel, q.delivery_tag, q.multiple),
            m.BasicReject: c.reject,
            m.BasicNack: c.nack,
            m.BasicRecover: lambda channel, q: c.recover(channel, q.requeue, 110),
            m.BasicRecoverAsync: lambda channel, q: c.recover(channel, q.requeue, 100),
            m.ChannelFlow: c.flow,
            m.ChannelFlowOk: lambda channel, q: None,
            m.ChannelClose: self._close,
            m.ConfirmSelect: c.confirm_select,
            m.TxSelect: lambda channel, q: c.tx_select(channel),
            m.TxCommit: lambda channel, q: c.tx_commit(channel),
            m.TxRollback: lambda channel, q: c.tx_rollback(channel),
        }
        return table

    def perform(self, channel: Channel, event: Event) -> None:
        if event.kind == EVENT_ACK:
            self.consuming.acknowledge(channel, int(event.tag), event.flag)
            return
        method = decode_method(event.payload)
        handler = self.handlers.get(type(method))
        if handler is None:
            if isinstance(method, m.ChannelOpen):
                raise ConnectionFault(504, "second 'channel.open' seen", 20, 10)
            raise ConnectionFault(503, "unimplemented method", method.CLASS_ID, method.METHOD_ID)
        answer = handler(channel, method)
        if answer is not None:
            channel.output.writer.write(method_frame(int(channel.number), answer))
        channel.output.mark()

    def goes_past(self, event: Event) -> bool:
        return event.kind == EVENT_ACK or int(event.tag) in GOES_PAST

    def _queue_delete(self, channel: Channel, q: m.QueueDelete) -> m.Method | None:
        """delete-ok goes out before the basic.cancel of the queue's consumers."""
        actor = self.declarations.queue_to_delete(int(channel.number), q)
        count = 0 if actor is None else int(actor.messages.ready_count())
        if not q.no_wait:
            answer = method_frame(int(channel.number), m.QueueDeleteOk(count))
            channel.output.writer.write(answer)
        if actor is not None:
            self.session.vhost.remove_queue(actor)
        return None

    def _ack(self, channel: Channel, tag: int, is_multiple: bool) -> None:
        channel.acknowledge(tag, is_multiple)

    def _close(self, channel: Channel, q: m.ChannelClose) -> m.Method | None:
        self.release(channel)
        self.session.connection.remove_channel(channel)
        return cast(m.Method, m.ChannelCloseOk())

    def release(self, channel: Channel) -> None:
        """Consumers of a channel that ends go first, so that nothing is delivered to it again."""
        for tag in list(channel.consumers):
            self.consuming.remove(channel, tag)
        self.declarations.last_queue.pop(int(channel.number), None)
