"""Reads a range of offsets from a stream over AMQP: attach at the first, stop at the last. IO.

Exactly the rows of the range, in every task and however often: every delivery carries its
offset, and each is compared with the one that has to come next. Offsets that are missing are loss
(retention has taken them, or it is another stream by that name), never a shorter batch. A
connection that breaks is opened again where reading stopped.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.events import Cancelled, ChannelClosed
from penstock.client.io_blocking import Connection
from penstock.spark.connector.common.decode import Gathered, Shape, stream_offset
from penstock.spark.connector.common.link import QueueLink
from penstock.spark.connector.common.options import SourceOptions

PREFETCH: Final = 4000
"""Deliveries on their way at most; half of them are acknowledged at once."""
CONSUMER_TAG: Final = "penstock-spark"
RETRY_MS: Final = 500
_NS_PER_MS: Final = 1_000_000


def read_range(
    options: SourceOptions,
    first: int,
    stop: int,
    shape: Shape,
    connection: Connection | None = None,
) -> Iterator[Any]:
    """Offsets first..stop-1 as Arrow batches. connection: one that is open, to begin with.

    Raises: OperatorError for missing rows (failOnDataLoss), a queue that is no stream, and after
    readTimeout without a row; ClientError when the broker refuses.
    """
    expected = first
    gathered = Gathered(shape)
    lost_ns = 0
    while expected < stop:
        try:
            name = f"Spark task {first}..{stop}"
            link = QueueLink(options.endpoint, options.queue, PREFETCH, name, connection)
            connection = None
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
            for start, raw, after in _runs(link, options, expected, stop):
                lost_ns = 0
                expected = after
                if raw:
                    yield from gathered.add(raw, start, after - start)
        except ChannelClosedError:
            raise
        except ClientError:
            # The connection broke; what has come stays, the rest is read from `expected` on.
            lost_ns = lost_ns or time.monotonic_ns()
        finally:
            link.close()
    yield from gathered.rest()


def _runs(
    link: QueueLink, options: SourceOptions, first: int, stop: int
) -> Iterator[tuple[int, bytes, int]]:
    """Deliveries without a hole between them: the first one's offset, their bytes, the next offset
    to be read."""
    link.consume(CONSUMER_TAG, {"x-stream-offset": first})
    expected, taken, acknowledged = first, 0, 0
    quiet_ns = time.monotonic_ns()
    while expected < stop:
        scanned, events = link.exchange(1000)
        for event in events:
            if isinstance(event, ChannelClosed):
                raise ChannelClosedError(event.channel, event.code, event.text)
            if isinstance(event, Cancelled):
                raise OperatorError(f"stream {options.queue!r} was deleted while it was read")
        if not scanned.ends:
            if time.monotonic_ns() - quiet_ns > options.read_timeout_ms * _NS_PER_MS:
                raise OperatorError(
                    f"stream {options.queue!r}: offset {expected} of the range {first}..{stop - 1} "
                    f"did not come within {options.read_timeout_ms} ms (readTimeout)"
                )
            continue
        quiet_ns = time.monotonic_ns()
        taken += len(scanned.ends)
        if taken - acknowledged >= PREFETCH // 2:
            acknowledged = taken
            link.acknowledge(taken)
            link.write()
        for start, raw, after in cut_runs(scanned.raw, scanned.ends, expected, stop, options):
            expected = after
            yield start, raw, after


def cut_runs(
    raw: bytes, ends: list[int], expected: int, stop: int, options: SourceOptions
) -> Iterator[tuple[int, bytes, int]]:
    """The deliveries in `raw` (see `scan`) that belong to expected..stop-1, as runs without a hole.

    A broker may begin before the offset asked for, at the start of its chunk; that is left out.
    Raises: OperatorError for a hole, unless failOnDataLoss is off.
    """
    at, run_at, run_first = 0, 0, expected
    for end in ends:
        offset = stream_offset(raw, at, expected)
        if offset == expected and offset < stop:
            expected += 1
        elif offset < 0:
            raise OperatorError(
                f"queue {options.queue!r} is no stream: its messages carry no x-stream-offset. "
                "Read it with option mode=queue"
            )
        else:
            if expected > run_first:
                yield run_first, raw[run_at:at], expected
            if offset >= stop and expected >= stop:
                return
            if offset > expected:
                check_loss(options, expected, min(offset, stop))
                expected = min(offset, stop)
                if offset >= stop:
                    yield stop, b"", stop
                    return
                run_at = at
                run_first = offset
                expected = offset + 1
            else:
                run_at, run_first = end, expected
        at = end
    if expected > run_first:
        yield run_first, raw[run_at:at], expected


def check_loss(options: SourceOptions, expected: int, found: int) -> None:
    """Raises: OperatorError with the numbers, when failOnDataLoss is on."""
    if options.fails_on_data_loss:
        raise OperatorError(
            f"stream {options.queue!r}: offsets {expected}..{found - 1} ({found - expected} rows) "
            "are gone, by retention (x-max-age, x-max-length-bytes) or because the stream was made "
            "anew. Set failOnDataLoss=false to go on without them, or start with a new "
            "checkpointLocation"
        )
