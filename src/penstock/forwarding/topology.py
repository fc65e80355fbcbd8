"""What one client has declared that ends with the node which leads, so that the next one has it.

Queues that are exclusive or not durable, exchanges that are not durable, and bindings of those.
Everything else is in the log, and comes back by itself.
"""

from typing import Final

from penstock.forwarding.asked import ENTRY_BYTES, Share
from penstock.protocol.methods import table as m
from penstock.protocol.methods.base import Method
from penstock.protocol.methods.codec import encode_method

_Key = tuple[str, ...]
_NO_KEYS: Final[frozenset[_Key]] = frozenset()


class Topology:
    """declared: in its order; bindings: keys of those at a queue or an exchange; share: what all of
    it takes is charged there."""

    __slots__ = ("bindings", "declared", "share")

    def __init__(self, share: Share) -> None:
        self.share = share
        self.declared: dict[_Key, Method] = {}
        self.bindings: dict[_Key, set[_Key]] = {}

    def note(self, asked: Method, name: str) -> None:
        """`asked` was done. name: of the queue that was declared, which may be the broker's."""
        match asked:
            case m.QueueDeclare(passive=False):
                is_transient = asked.exclusive or not asked.durable
                self._declared(("queue", name), is_transient, _queue(asked, name))
            case m.ExchangeDeclare(passive=False):
                again = _exchange(asked)
                self._declared(("exchange", asked.exchange), not asked.durable, again)
            case m.QueueBind():
                ends = ("queue", asked.queue), ("exchange", asked.exchange)
                self._bound(ends, asked.routing_key, repr(asked.arguments), _waited(asked))
            case m.ExchangeBind():
                ends = ("exchange", asked.destination), ("exchange", asked.source)
                self._bound(ends, asked.routing_key, repr(asked.arguments), _waited(asked))
            case m.QueueUnbind():
                ends = ("queue", asked.queue), ("exchange", asked.exchange)
                self._unbound(ends, asked.routing_key, repr(asked.arguments))
            case m.ExchangeUnbind():
                ends = ("exchange", asked.destination), ("exchange", asked.source)
                self._unbound(ends, asked.routing_key, repr(asked.arguments))
            case m.QueueDelete():
                self.gone("queue", asked.queue)
            case m.ExchangeDelete():
                self.gone("exchange", asked.exchange)

    def gone(self, kind: str, name: str) -> None:
        """A queue or an exchange is no more, and no binding of it."""
        self._drop((kind, name))
        for key in tuple(self.bindings.pop((kind, name), _NO_KEYS)):
            self._unbind(key)

    def deserted(self, queue: str) -> None:
        """The last consumer of this connection has left: a queue that deletes itself is gone."""
        asked = self.declared.get(("queue", queue))
        if isinstance(asked, m.QueueDeclare) and asked.auto_delete:
            self.gone("queue", queue)

    def _declared(self, key: _Key, is_transient: bool, asked: Method) -> None:
        if not is_transient:
            self.gone(*key)
        else:
            self._put(key, asked)

    def _put(self, key: _Key, asked: Method) -> bool:
        if key not in self.declared and not self.share.keep(_size_of(asked)):
            return False
        self.declared.setdefault(key, asked)
        return True

    def _drop(self, key: _Key) -> None:
        asked = self.declared.pop(key, None)
        if asked is not None:
            self.share.repay(_size_of(asked))

    def _bound(self, ends: tuple[_Key, _Key], key: str, arguments: str, asked: Method) -> None:
        whole = ("bound", *ends[0], *ends[1], key, arguments)
        if any(end in self.declared for end in ends) and self._put(whole, asked):
            for end in ends:
                self.bindings.setdefault(end, set()).add(whole)

    def _unbound(self, ends: tuple[_Key, _Key], key: str, arguments: str) -> None:
        self._unbind(("bound", *ends[0], *ends[1], key, arguments))

    def _unbind(self, whole: _Key) -> None:
        self._drop(whole)
        for end in (whole[1:3], whole[3:5]):
            there = self.bindings.get(end)
            if there is not None:
                there.discard(whole)
                if not there:
                    del self.bindings[end]


def _size_of(asked: Method) -> int:
    return ENTRY_BYTES + len(encode_method(asked))


def _queue(asked: m.QueueDeclare, name: str) -> m.QueueDeclare:
    return m.QueueDeclare(
        queue=name,
        durable=asked.durable,
        exclusive=asked.exclusive,
        auto_delete=asked.auto_delete,
        arguments=asked.arguments,
    )


def _exchange(asked: m.ExchangeDeclare) -> m.ExchangeDeclare:
    return m.ExchangeDeclare(
        exchange=asked.exchange,
        type=asked.type,
        auto_delete=asked.auto_delete,
        internal=asked.internal,
        arguments=asked.arguments,
    )


def _waited(asked: m.QueueBind | m.ExchangeBind) -> Method:
    """With an answer."""
    if isinstance(asked, m.QueueBind):
        return m.QueueBind(
            queue=asked.queue,
            exchange=asked.exchange,
            routing_key=asked.routing_key,
            arguments=asked.arguments,
        )
    return m.ExchangeBind(
        destination=asked.destination,
        source=asked.source,
        routing_key=asked.routing_key,
        arguments=asked.arguments,
    )
