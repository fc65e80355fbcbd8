"""Ranges of numbered messages, of a stream or a leased queue: planned here, read by tasks. IO.

A range is the same rows as often as it is read, so a connection that breaks is opened again where
reading stopped, for as long as reconnectTimeout says.
"""

import itertools
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.io_blocking import Connection
from penstock.spark.connector.common.decode import Gathered
from penstock.spark.connector.common.lag import Told
from penstock.spark.connector.common.link import QueueLink
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.outage import Outage
from penstock.spark.connector.common.shape import Shape

PREFETCH: Final = 4000
"""Deliveries on their way at most; half of them are acknowledged at once, which gives room and
nothing else."""
_NS_PER_MS: Final = 1_000_000
_log = logging.getLogger("penstock.spark")
Run = tuple[int, bytes, int]
"""Deliveries without a hole between them: number of the first, their bytes, the next number to be
read."""


class RangePlanner:
    """What the planners of streams and leased queues share: the end of what is there, how long it
    has been known, and a broker that is away. Numbers: of the next message to be read.

    Every verb raises OperatorError, or ClientError with the broker's own words.
    """

    KIND: ClassVar[str]
    """What messages call that which is read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target = -1
        self._tail = -1
        self._seen_ns = 0
        self._outage = Outage()
        self._row_bytes = 0.0
        self._held_ns = -1

    @abstractmethod
    def look(self, start: int) -> None:
        """Bring `_tail` up to date for a batch that begins at `start`."""

    def available(self, start: int) -> int:
        """Messages from `start` on; 0 while the broker is away for less than reconnectTimeout."""
        try:
            self.look(start)
        except ChannelClosedError:
            raise
        except ClientError as error:
            self._lose(error)
            return 0
        self._outage.end()
        end = self._tail if self._target < 0 else min(self._tail, self._target)
        self._seen_ns = (self._seen_ns or time.monotonic_ns()) if end > start else 0
        return max(0, end - start)

    def waited_ms(self) -> float:
        """How long it has been known that there are messages."""
        return (time.monotonic_ns() - self._seen_ns) / _NS_PER_MS if self._seen_ns else 0.0

    def is_pressing(self) -> bool:
        """Whether the query ends with what is there."""
        return self._target >= 0

    def tail(self) -> int | None:
        """The number behind the last message known, for showing the lag."""
        return self._tail if self._tail >= 0 else None

    def told(self) -> Told:
        """The size of rows and the held time of publishers, as far as known."""
        return Told(self._row_bytes, self._held_ns)

    def _lose(self, error: ClientError) -> None:
        """The connection broke, and could not be opened again. Raises: OperatorError when that has
        been so for reconnectTimeout; `error` where the broker is there and refuses."""
        name, was_on = self._options.queue, self._outage.is_on()
        limit_ms = self._options.endpoint.reconnect_timeout_ms
        self._outage.bear(error, limit_ms, f"{self.KIND} {name!r}")
        if not was_on:
            _log.warning("%s %s: connection lost: %s", self.KIND, name, error)


def split(start: int, stop: int, count: int) -> list[tuple[int, int]]:
    """start..stop-1 in at most `count` ranges (first, stop) of nearly equal length, none empty."""
    rows = max(0, stop - start)
    parts = min(count, rows)
    bounds = [start + rows * part // parts for part in range(parts + 1)] if parts else []
    return list(itertools.pairwise(bounds))


def read_batches(
    options: SourceOptions,
    first: int,
    stop: int,
    shape: Shape,
    runs: Callable[[QueueLink, SourceOptions, int, int], Iterator[Run]],
    connection: Connection | None = None,
) -> Iterator[Any]:
    """The messages first..stop-1 as Arrow batches, over as many connections as it takes.

    runs: those of a range that one connection delivers; connection: one that is open, to begin
    with. Raises: what `runs` raises; ClientError when the broker refuses, or is away for longer
    than reconnectTimeout.
    """
    expected = first
    gathered = Gathered(shape)
    outage = Outage()
    name = f"task {first}..{stop}"
    limit_ms = options.endpoint.reconnect_timeout_ms
    while expected < stop:
        # One that was found dead is not tried again.
        given, connection = connection, None
        try:
            link = QueueLink(options.endpoint, options.queue, PREFETCH, name, given)
        except ClientError as error:
            outage.wait(error, limit_ms, name)
            continue
        try:
            for start, raw, after in runs(link, options, expected, stop):
                outage.end()
                expected = after
                if raw:
                    yield from gathered.add(raw, start, after - start)
        except ChannelClosedError:
            raise
        except ClientError as error:
            # The connection broke; what has come stays, the rest is read from `expected` on. A
            # broker that takes connections and gives no row over any of them is away as well.
            if outage.is_on():
                outage.wait(error, limit_ms, name)
            outage.ms()
        finally:
            link.close()
    yield from gathered.rest()
