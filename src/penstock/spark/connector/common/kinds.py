"""Finds out what a queue is and how its broker lets it be read: mode=auto. IO.

Penstock says it. Other brokers are asked for a consumer at an offset (x-stream-offset=next): for a
stream there is one, and it gets nothing before the next row; for an ordinary queue RabbitMQ refuses
it with 406 before it is given anything.
"""

from typing import Final

from penstock.client.errors import ChannelClosedError
from penstock.client.io_blocking import Connection
from penstock.protocol.constants import NOT_FOUND, PRECONDITION_FAILED

STREAM: Final = "stream"
LEASE: Final = "lease"
QUEUE: Final = "queue"
REQUESTS: Final = "penstock.requests"
LEASES: Final = "penstock.leases"
NO_GROUP: Final = "mode=auto"
"""A group that nobody makes; asking for it changes nothing."""


def mode_of(connection: Connection, queue: str) -> tuple[str, str]:
    """The best mode for `queue`, and why rows come at least once where they do, "" elsewhere.

    Raises: ChannelClosedError 404 for a queue that is not there; ClientError."""
    connection.channel().declare_queue(queue, passive=True)
    if is_stream(connection, queue):
        return STREAM, ""
    if LEASES not in connection.session.server_capabilities():
        return QUEUE, "this broker has no leases, as Penstock has"
    try:
        connection.channel().request("lease.state", {"queue": queue, "group": NO_GROUP})
    except ChannelClosedError as error:
        if error.code == NOT_FOUND:
            raise
        return QUEUE, f"it cannot be leased ({error.text})"
    return LEASE, ""


def is_stream(connection: Connection, queue: str) -> bool:
    """Whether `queue` is a stream. Raises: ClientError."""
    channel = connection.channel()
    try:
        if REQUESTS in connection.session.server_capabilities():
            channel.request("stream.offsets", {"queue": queue})
            return True
        channel.qos(1)
        channel.cancel(channel.consume(queue, arguments={"x-stream-offset": "next"}))
    except ChannelClosedError as error:
        if error.code != PRECONDITION_FAILED:
            raise
        return False
    # A broker that does not know the argument has given the consumer what there was.
    delivery = channel.next_delivery(0)
    return delivery is None or "x-stream-offset" in (delivery.properties.headers or {})
