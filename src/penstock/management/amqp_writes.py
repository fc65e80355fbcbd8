"""Changes of topology and messages over AMQP, as the user who asks: the broker's own checks decide,
and its own texts are the errors. One short connection a change, on a thread."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.base.errors import OperatorError
from penstock.base.limits import MANAGEMENT_WRITERS
from penstock.client.errors import (
    ChannelClosedError,
    ClientError,
    ConnectError,
    ConnectionClosedError,
)
from penstock.client.io_blocking import Channel, Connection, connect
from penstock.client.url import BrokerUrl
from penstock.management.access import Visitor
from penstock.management.errors import HttpFault, bad_request, not_authorised

T = TypeVar("T")
NAME: Final = "penstock management"
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
NO_VHOST: Final = 530


class AmqpWrites:
    """host, port, tls: of the broker. Bound: MANAGEMENT_WRITERS at a time, others wait."""

    def __init__(self, host: str, port: int, tls: bool) -> None:
        self.host = host
        self.port = port
        self.tls = tls
        self._turns = asyncio.Semaphore(MANAGEMENT_WRITERS.default)

    async def do(self, visitor: Visitor, vhost: str, work: Callable[[Channel], T]) -> T:
        """Do `work` on a channel of `visitor` in `vhost`. Raises: HttpFault."""
        url = BrokerUrl(self.host, self.port, visitor.name, visitor.password, vhost, self.tls)
        async with self._turns:
            return await asyncio.to_thread(_do, url, work)


def _do(url: BrokerUrl, work: Callable[[Channel], T]) -> T:
    try:
        connection = connect(url, NAME)
    except ConnectError as error:
        if error.code == NO_VHOST:
            raise not_authorised("User not authorised to access virtual host") from error
        if error.code == ACCESS_REFUSED:
            raise not_authorised("Login failed") from error
        raise HttpFault(503, "service_unavailable", str(error)) from error
    try:
        return _on_channel(connection, work)
    except ChannelClosedError as error:
        raise _fault(error.code, error.text) from error
    except ConnectionClosedError as error:
        raise _fault(error.code, error.text) from error
    except ClientError as error:
        raise HttpFault(503, "service_unavailable", str(error)) from error
    except (OperatorError, ValueError, TypeError, OverflowError) as error:
        raise bad_request(str(error)) from error
    finally:
        connection.close()


def _on_channel(connection: Connection, work: Callable[[Channel], T]) -> T:
    channel = connection.channel()
    return work(channel)


def _fault(code: int, text: str) -> HttpFault:
    """text: of the broker, `PRECONDITION_FAILED - inequivalent arg ...`."""
    said = text.partition(" - ")[2] or text
    if code == NOT_FOUND:
        return HttpFault(404, "not_found", said)
    if code == ACCESS_REFUSED:
        return not_authorised(said)
    return bad_request(said)
