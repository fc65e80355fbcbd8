"""Short spellings for the steps of the scripts in the conformance tables."""

from collections.abc import Mapping
from typing import Any, Final

from pamqp.commands import Basic, Channel, Exchange, Queue

from tests.conformance.peer import Content

CLOSE_CHANNEL: Final = Channel.Close(200, "done", 0, 0)
# class basic, weight 0, a body of 3 bytes, no properties
HEADER_OF_3: Final = b"\x00\x3c\x00\x00" + (3).to_bytes(8, "big") + b"\x00\x00"


def q(name: str = "", **flags: Any) -> Queue.Declare:
    """queue.declare of any name, also of names pamqp would refuse."""
    declare = Queue.Declare(queue="", **flags)
    declare.queue = name
    return declare


def x(name: str, kind: str = "direct", **flags: Any) -> Exchange.Declare:
    """exchange.declare of any name."""
    declare = Exchange.Declare(exchange="", exchange_type=kind, **flags)
    declare.exchange = name
    return declare


def bind(
    queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None
) -> Queue.Bind:
    """queue.bind."""
    table = dict(arguments or {})
    return Queue.Bind(queue=queue, exchange=exchange, routing_key=key, arguments=table)


def unbind(queue: str, exchange: str, key: str = "k", **arguments: Any) -> Queue.Unbind:
    """queue.unbind; keyword arguments are the binding's arguments."""
    return Queue.Unbind(queue=queue, exchange=exchange, routing_key=key, arguments=arguments)


def delete(queue: str, **flags: bool) -> Queue.Delete:
    """queue.delete."""
    return Queue.Delete(queue=queue, **flags)


def bind_exchange(destination: str, source: str) -> Exchange.Bind:
    """exchange.bind with a key."""
    return Exchange.Bind(destination=destination, source=source, routing_key="k")


def unbind_exchange(destination: str, source: str) -> Exchange.Unbind:
    """exchange.unbind of the same."""
    return Exchange.Unbind(destination=destination, source=source, routing_key="k")


def put(
    exchange: str,
    key: str,
    body: bytes = b"m",
    *,
    mandatory: bool = False,
    immediate: bool = False,
    **properties: Any,
) -> Content:
    """basic.publish with its content; keyword arguments are message properties."""
    publish = Basic.Publish(
        exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate
    )
    return Content(publish, body, Basic.Properties(**properties))


def consume(queue: str, tag: str = "tag", **flags: Any) -> Basic.Consume:
    """basic.consume with a tag of the test's choosing."""
    return Basic.Consume(queue=queue, consumer_tag=tag, **flags)


def raw(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    """One frame as bytes, right or wrong."""
    head = kind.to_bytes(1, "big") + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + end
