"""The header in which a quorum queue says how often a message has come back to it.

As RabbitMQ has it: basic.get always adds it, a consumer sees it from the second delivery on, and it
takes the place of one that the publisher set. The message in the queue stays as it is. Source:
RabbitMQ's rabbit_fifo_client (add_delivery_count_header), seen on 3.10.8.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ConnectionFault
from penstock.protocol.content import Message
from penstock.protocol.integers import LongInteger
from penstock.protocol.property_lookup import (
    HEADERS,
    PROPERTIES_OFFSET,
    headers_table_span,
    replace_property,
)
from penstock.protocol.values import encode_table, remove_field
from penstock.queues.dead_letter import NO_HEADERS, reframed

DELIVERY_COUNT: Final = "x-delivery-count"


def with_delivery_count(message: Message, count: i64) -> Message:
    """`message` as it is to be sent: a copy that says it has come back `count` times, or the
    message itself where its headers are not sound."""
    try:
        header = _counted(message.header(), count)
    except ConnectionFault:
        return message
    shown = Message(reframed(message, header), message.body_bytes, message.address)
    shown.origin = message.origin
    return shown


def _counted(header: bytes, count: i64) -> bytes:
    span = headers_table_span(header, PROPERTIES_OFFSET)
    table = NO_HEADERS if span is None else header[span[0] : span[1]]
    table = remove_field(table, DELIVERY_COUNT)
    fields = table[4:] + encode_table({DELIVERY_COUNT: LongInteger(int(count))})[4:]
    return replace_property(header, HEADERS, len(fields).to_bytes(4, "big") + fields)
