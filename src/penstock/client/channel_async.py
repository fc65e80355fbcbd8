"""The verbs of an asyncio channel; `io_async` makes it and does the reading and writing."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from penstock.client.errors import NackedError, NoReplyError
from penstock.client.events import Delivery, Replied, Returned
from penstock.client.inbox import ChannelInbox, Inbox
from penstock.client.session import Session
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table

_Reply = TypeVar("_Reply", bound=m.Method)
_NO_PROPERTIES = Properties()


class AsyncShell:
    """What a channel needs of its connection; nominal base, `io_async.AsyncConnection` is it."""

    session: Session
    inbox: Inbox

    async def flush(self) -> None:
        """Write out everything said so far."""
        raise NotImplementedError

    async def wait(self, is_there: Callable[[], bool], timeout_ms: int | None, what: str) -> None:
        """Read and write until `is_there()`."""
        raise NotImplementedError

    async def wait_for_reply(self, inbox: ChannelInbox, request: m.Method) -> Replied:
        """Read and write until `request` is answered."""
        raise NotImplementedError


class AsyncChannel:
    """An open channel. Every verb raises ChannelClosedError or ConnectionClosedError with the
    broker's reply code and text, NoReplyError when no answer comes, ValueError for names and
    values the wire cannot hold."""

    def __init__(self, connection: AsyncShell, inbox: ChannelInbox) -> None:
        self.number = inbox.number
        self.inbox = inbox
        self._connection = connection
        self._session = connection.session

    # --- declaring ------------------------------------------------------------------------

    async def declare_queue(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> m.QueueDeclareOk:
        """Make a queue, or only look for it (`passive`); "" asks the broker for a name."""
        request = m.QueueDeclare(
            name, passive, durable, exclusive, auto_delete, False, arguments or {}
        )
        return await self._ask(request, m.QueueDeclareOk)

    async def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete a queue; how many messages went with it."""
        request = m.QueueDelete(name, if_unused, if_empty)
        return (await self._ask(request, m.QueueDeleteOk)).message_count

    async def purge_queue(self, name: str) -> int:
        """Drop every ready message; how many there were."""
        return (await self._ask(m.QueuePurge(name), m.QueuePurgeOk)).message_count

    async def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        """Make an exchange, or only look for it (`passive`)."""
        request = m.ExchangeDeclare(
            name, kind, passive, durable, auto_delete, internal, False, arguments or {}
        )
        await self._ask(request, m.ExchangeDeclareOk)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange."""
        await self._ask(m.ExchangeDelete(name, if_unused), m.ExchangeDeleteOk)

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Bind a queue to an exchange."""
        request = m.QueueBind(queue, exchange, routing_key, False, arguments or {})
        await self._ask(request, m.QueueBindOk)

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Undo `bind_queue` with the same arguments."""
        request = m.QueueUnbind(queue, exchange, routing_key, arguments or {})
        await self._ask(request, m.QueueUnbindOk)

    async def request(self, verb: str, arguments: Table | None = None) -> Table:
        """Ask what AMQP has no method for (docs/requests.md); a Penstock broker answers."""
        return (await self._ask(m.RequestAsk(verb, arguments or {}), m.RequestAskOk)).answer

    # --- publishing -----------------------------------------------------------------------

    async def confirm_select(self) -> None:
        """Have the broker confirm every later publish of this channel."""
        await self._ask(m.ConfirmSelect(), m.ConfirmSelectOk)

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: Properties = _NO_PROPERTIES,
        mandatory: bool = False,
    ) -> int:
        """Publish, and write it out; its sequence on a confirming channel, else 0."""
        sequence = self._session.publish(
            self.number, exchange, routing_key, body, properties, mandatory
        )
        await self._connection.flush()
        return sequence

    async def wait_for_confirms(self, timeout_ms: int | None = None) -> None:
        """Wait until every publish is settled. Raises: NackedError naming the refused ones."""

        def is_settled() -> bool:
            self.inbox.check()
            return self._session.unconfirmed(self.number) == 0

        await self._connection.wait(is_settled, timeout_ms, "confirm of every publish")
        if self.inbox.nacked:
            refused = tuple(sorted(self.inbox.nacked))
            self.inbox.nacked.clear()
            raise NackedError(refused)

    def take_returns(self) -> tuple[Returned, ...]:
        """The mandatory publishes that came back so far, once."""
        taken = tuple(self.inbox.returns)
        self.inbox.returns.clear()
        return taken

    # --- consuming ------------------------------------------------------------------------

    async def qos(self, prefetch_count: int, *, global_: bool = False) -> None:
        """Bound the unacknowledged deliveries of each later consumer, or of the channel."""
        await self._ask(m.BasicQos(0, prefetch_count, global_), m.BasicQosOk)

    async def get(self, queue: str, *, no_ack: bool = False) -> Delivery | None:
        """Take one message; None when there is none."""
        request = m.BasicGet(queue, no_ack)
        self._session.request(self.number, request)
        return (await self._connection.wait_for_reply(self.inbox, request)).delivery

    async def consume(
        self,
        queue: str,
        *,
        consumer_tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> str:
        """Start a consumer; its tag. Take what it gets with `next_delivery` or `deliveries`."""
        request = m.BasicConsume(
            queue, consumer_tag, False, no_ack, exclusive, False, arguments or {}
        )
        return (await self._ask(request, m.BasicConsumeOk)).consumer_tag

    async def cancel(self, consumer_tag: str) -> None:
        """End a consumer; deliveries already here can still be taken."""
        await self._ask(m.BasicCancel(consumer_tag), m.BasicCancelOk)

    async def next_delivery(self, timeout_ms: int | None = None) -> Delivery | None:
        """The next delivery of any consumer of this channel; None after `timeout_ms`."""
        waiting = self.inbox.deliveries

        def is_there() -> bool:
            if not waiting:
                self.inbox.check()
            return bool(waiting)

        try:
            await self._connection.wait(is_there, timeout_ms, "delivery")
        except NoReplyError:
            return None
        return waiting.popleft()

    async def deliveries(self, timeout_ms: int | None = None) -> AsyncIterator[Delivery]:
        """Deliveries one after the other, until none comes for `timeout_ms`."""
        while (delivery := await self.next_delivery(timeout_ms)) is not None:
            yield delivery

    async def ack(self, delivery: Delivery, *, multiple: bool = False) -> None:
        """Acknowledge a delivery, or all up to it."""
        self._session.ack(self.number, delivery.delivery_tag, multiple)
        await self._connection.flush()

    async def nack(
        self, delivery: Delivery, *, multiple: bool = False, requeue: bool = True
    ) -> None:
        """Refuse a delivery, or all up to it."""
        self._session.request(self.number, m.BasicNack(delivery.delivery_tag, multiple, requeue))
        await self._connection.flush()

    async def reject(self, delivery: Delivery, *, requeue: bool = True) -> None:
        """Refuse one delivery, as the specification knows it."""
        self._session.request(self.number, m.BasicReject(delivery.delivery_tag, requeue))
        await self._connection.flush()

    async def close(self) -> None:
        """Close the channel in order."""
        await self._ask(m.ChannelClose(200, "client closes"), m.ChannelCloseOk)
        self._connection.inbox.remove_channel(self.number)

    async def _ask(self, request: m.Method, kind: type[_Reply]) -> _Reply:
        self._session.request(self.number, request)
        reply = (await self._connection.wait_for_reply(self.inbox, request)).reply
        assert isinstance(reply, kind), "cannot happen because the session matches the kinds"
        return reply
