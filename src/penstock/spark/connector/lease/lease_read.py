"""Reads a range of leased messages: exactly those, in order, as often as it is asked for. IO.

The broker refuses a range of which it does not hold every message, and numbers have no holes, so
the k-th delivery is number first + k. A connection that breaks is opened again where it stopped.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.events import Cancelled, ChannelClosed
from penstock.protocol.values import Table
from penstock.spark.connector.common.decode import Gathered, Shape
from penstock.spark.connector.common.link import Link
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.lease.lease_plan import LOST, LeaseAsker, check_loss

_log = logging.getLogger("penstock.spark")
PREFETCH: Final = 4000
"""Deliveries on their way at most; half of them are acknowledged at once, which gives room and
nothing else."""
CONSUMER_TAG: Final = "penstock-spark"
RETRY_MS: Final = 500
_NS_PER_MS: Final = 1_000_000


def read_lease(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    """Numbers first..stop-1 as Arrow batches.

    Raises: OperatorError for messages that are not there (failOnDataLoss), and after readTimeout
    without a row; ClientError when the broker refuses.
    """
    for begin, end in _runs_there(options, first, stop):
        yield from _read_run(options, begin, end, shape)


def _runs_there(options: SourceOptions, first: int, stop: int) -> list[tuple[int, int]]:
    """What has to be read: all of it, or with failOnDataLoss off what is left of it."""
    if options.fails_on_data_loss:
        return [(first, stop)]
    asker = LeaseAsker(options, f"Spark task {first}..{stop}")
    try:
        found = asker.state(first, stop)["runs"]
    finally:
        asker.close()
    assert isinstance(found, list), "the broker answers as it says"
    numbers = [value for value in found if isinstance(value, int)]
    runs = list(zip(numbers[::2], numbers[1::2], strict=True))
    lost = stop - first - sum(end - begin for begin, end in runs)
    if lost > 0:
        _log.warning(
            "queue %s: %d of the messages %d..%d are gone; going on, because failOnDataLoss is off",
            options.queue, lost, first, stop - 1,
        )  # fmt: skip
    return runs


def _read_run(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    expected = first
    gathered = Gathered(shape)
    lost_ns = 0
    while expected < stop:
        try:
            name = f"Spark task {first}..{stop}"
            link = Link(options.endpoint, options.queue, PREFETCH, name)
        except ChannelClosedError:
            raise
        except ClientError:
            now_ns = time.monotonic_ns()
            lost_ns = lost_ns or now_ns
            if now_ns - lost_ns > options.endpoint.reconnect_timeout_ms * _NS_PER_MS:
                raise
            time.sleep(RETRY_MS / 1000)
            continue
        try:
            for raw, count in _deliveries(link, options, expected, stop):
                lost_ns = 0
                start, expected = expected, expected + count
                yield from gathered.add(raw, start, count)
        except ChannelClosedError as error:
            check_loss(options, error)
            raise OperatorError(f"{error.text}; that was while it was read") from error
        except ClientError:
            # The connection broke; what has come stays, the rest is read from `expected` on.
            lost_ns = lost_ns or time.monotonic_ns()
        finally:
            link.close()
    yield from gathered.rest()


def _deliveries(
    link: Link, options: SourceOptions, first: int, stop: int
) -> Iterator[tuple[bytes, int]]:
    """The deliveries of first..stop-1: their bytes, and how many they are."""
    arguments: Table = {"x-lease-group": options.group, "x-lease-from": first, "x-lease-to": stop}
    link.consume(CONSUMER_TAG, arguments)
    taken, acknowledged = 0, 0
    quiet_ns = time.monotonic_ns()
    while taken < stop - first:
        scanned, events = link.exchange(1000)
        if scanned.ends:
            quiet_ns = time.monotonic_ns()
            taken += len(scanned.ends)
            if taken - acknowledged >= PREFETCH // 2:
                acknowledged = taken
                link.acknowledge(taken)
                link.write()
            yield scanned.raw, len(scanned.ends)
            continue
        for event in events:
            if isinstance(event, ChannelClosed):
                raise ChannelClosedError(event.channel, event.code, event.text)
            if isinstance(event, Cancelled):
                raise ChannelClosedError(
                    link.number, 406, f"{LOST}queue {options.queue!r}: what was read went back to "
                    f"the queue, or with it, at {first + taken} of {first}..{stop - 1}"
                )  # fmt: skip
        if time.monotonic_ns() - quiet_ns > options.read_timeout_ms * _NS_PER_MS:
            raise OperatorError(
                f"queue {options.queue!r}: message {first + taken} of the range {first}.."
                f"{stop - 1} did not come within {options.read_timeout_ms} ms (readTimeout)"
            )
