"""Changes of topology and messages over AMQP, as the user who asks: the broker's own checks decide,
and its own texts are the errors. One short connection a change, on a thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.base.errors import OperatorError
from penstock.base.limits import MANAGEMENT_MOVERS, MANAGEMENT_WRITERS
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
    """host, port, tls: of the broker. Bound: MANAGEMENT_WRITERS at a time, and of what may take
    seconds MANAGEMENT_MOVERS, so that it never has all the turns; others wait."""

    def __init__(self, host: str, port: int, tls: bool) -> None:
        self.host = host
        self.port = port
        self.tls = tls
        self._turns = asyncio.Semaphore(MANAGEMENT_WRITERS.default)
        self._long_turns = asyncio.Semaphore(MANAGEMENT_MOVERS.default)
        # One a turn: asyncio's own are fewer on a small machine, and others need them.
        self._threads = ThreadPoolExecutor(MANAGEMENT_WRITERS.default + MANAGEMENT_MOVERS.default)

    async def do(
        self, visitor: Visitor, vhost: str, work: Callable[[Channel], T], is_long: bool = False
    ) -> T:
        """Do `work` on a channel of `visitor` in `vhost`. is_long: it may wait for its queues as
        long as they like. Raises: HttpFault."""
        url = BrokerUrl(self.host, self.port, visitor.name, visitor.password, vhost, self.tls)
        async with self._long_turns if is_long else self._turns:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, _do, url, work)


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
