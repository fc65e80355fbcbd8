"""What the tests of penstock.testing share: pika connections, as patient as the tests are."""

from collections.abc import Iterator
from contextlib import contextmanager

import pika
from pika.adapters.blocking_connection import BlockingChannel

from penstock.testing import VirtualHost
from tests.patience import PATIENCE_S


@contextmanager
def channel_of(
    vhost: VirtualHost, name: str = "", confirms: bool = True
) -> Iterator[BlockingChannel]:
    """A channel on a connection of its own. name: what the connection calls itself; confirms: a
    publish returns when it is confirmed."""
    parameters = pika.URLParameters(vhost.url)
    parameters.socket_timeout = parameters.stack_timeout = PATIENCE_S
    parameters.blocked_connection_timeout = PATIENCE_S
    if name:
        parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        yield channel
    finally:
        if connection.is_open:
            connection.close()


def put(channel: BlockingChannel, queue: str, count: int = 1) -> None:
    """`count` messages in `queue`, which is declared."""
    channel.queue_declare(queue)
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)
