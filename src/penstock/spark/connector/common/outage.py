"""A broker that is away, and how long a query outlives that (`reconnectTimeout`). IO.

A broker that refuses a login is there: it is not waited for. One that closes the channel has said
what is wrong with the request, which would be wrong again.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError, ConnectError
from penstock.protocol.constants import ACCESS_REFUSED, NOT_ALLOWED

RETRY_MS: Final = 500
PASSING: Final = ("is down", "is reached")
"""In what is said of virtual hosts that come with their broker, and of limits of connections, which
end. Others are not there, or not for this user."""
_NS_PER_MS: Final = 1_000_000
_log = logging.getLogger("penstock.spark")
T = TypeVar("T")


def is_final(error: ClientError) -> bool:
    """Whether the same thing tried again would end the same way."""
    if isinstance(error, ConnectError):
        is_passing = any(words in str(error) for words in PASSING)
        return error.code == ACCESS_REFUSED or (error.code == NOT_ALLOWED and not is_passing)
    return isinstance(error, ChannelClosedError)


class Outage:
    """How long a broker has been away."""

    def __init__(self) -> None:
        self._since_ns = 0

    def ms(self) -> float:
        """It is away: for so long by now, 0.0 where this is new."""
        now_ns = time.monotonic_ns()
        self._since_ns = self._since_ns or now_ns
        return (now_ns - self._since_ns) / _NS_PER_MS

    def is_on(self) -> bool:
        """Whether it was away when last looked at."""
        return self._since_ns > 0

    def end(self) -> None:
        """It is there."""
        self._since_ns = 0

    def bear(self, error: ClientError, limit_ms: int, what: str) -> None:
        """It is away, as `error` says: return where the query has time for another try.

        Raises: `error` when it is final, OperatorError after `limit_ms` without `end`."""
        if is_final(error):
            raise error
        if self.ms() >= limit_ms:
            raise OperatorError(
                f"{what}: no connection for {limit_ms / 1000:g} s (reconnectTimeout): {error}"
            ) from error

    def wait(self, error: ClientError, limit_ms: int, what: str) -> None:
        """It is away, as `error` says: return when `what` is worth another try.

        Raises: `error` when it is final, and after `limit_ms` without `end`."""
        if is_final(error) or self.ms() >= limit_ms:
            raise error
        if self.ms() < RETRY_MS:
            _log.warning("%s: %s; tried again for %g s", what, error, limit_ms / 1000)
        time.sleep(RETRY_MS / 1000)


def patiently(work: Callable[[], T], limit_ms: int, what: str) -> T:
    """What `work` returns, which is tried again while the broker is away. Raises: what `work`
    raises; the last ClientError when it is final, and after `limit_ms`."""
    outage = Outage()
    while True:
        try:
            return work()
        except ClientError as error:
            outage.wait(error, limit_ms, what)
