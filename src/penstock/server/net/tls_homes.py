"""Which process the next client by TLS is probably for, before anything of it is known.

TLS cannot be moved once it has begun, and to relay it costs as much as TLS itself, so a client is
best served where its virtual host is from its first byte on. Clients of one host mostly want what
those before them wanted; of a host that is new, what most have wanted lately. A wrong guess costs
a relay, as no guess would.
"""

from collections import Counter, deque
from typing import Final

from penstock.base.limits import TLS_HOMES
from penstock.broker.session.handover import NOT_ELSEWHERE

LATELY: Final = 64
"""Clients that are counted for hosts that are new."""
FRESH_S: Final = 60.0
"""How long what a client of a host wanted says something of the next one."""


class TlsHomes:
    """Bound: TLS_HOMES hosts, of which the one that was told first goes."""

    def __init__(self) -> None:
        self._homes: dict[str, tuple[int, float]] = {}
        self._lately: deque[int] = deque(maxlen=LATELY)

    def told(self, host: str, worker: int, now_s: float) -> None:
        """A client of `host` was for `worker`, NOT_ELSEWHERE for this one. Were only others told,
        one client for another worker would send away all that follow."""
        self._homes.pop(host, None)
        if len(self._homes) >= TLS_HOMES.default:
            del self._homes[next(iter(self._homes))]
        self._homes[host] = (worker, now_s)
        self._lately.append(worker)

    def of(self, host: str, now_s: float) -> int:
        """NOT_ELSEWHERE for this one, and where nothing speaks for any."""
        found = self._homes.get(host)
        if found is not None and now_s - found[1] < FRESH_S:
            return found[0]
        return Counter(self._lately).most_common(1)[0][0] if self._lately else NOT_ELSEWHERE
