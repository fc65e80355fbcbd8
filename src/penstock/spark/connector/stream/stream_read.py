"""Reads a range of offsets from a stream: as whole chunks where the broker hands them out, else
over AMQP, message by message. IO.

Exactly the rows of the range, in every task and however often: over AMQP every delivery carries its
offset, and each is compared with the one that has to come next. Offsets that are missing are loss
(retention has taken them, or it is another stream by that name), never a shorter batch. A
connection that breaks is opened again where reading stopped.

Chunks give the same rows without a look at any of them. A worker keeps its connection for the next
range it is given, because a small batch is read sooner than a connection is opened; what keeps it
is the worker process, one connection at most.
"""

import logging
import os
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.events import Cancelled
from penstock.client.io_blocking import Connection
from penstock.protocol.values import Table
from penstock.spark.connector.common.decode import stream_offset
from penstock.spark.connector.common.endpoint import Endpoint
from penstock.spark.connector.common.labels import in_task
from penstock.spark.connector.common.link import QueueLink, check_channel
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.outage import Outage, patiently
from penstock.spark.connector.common.ranges import PREFETCH, Run, read_batches
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.chunk_columns import BatchMaker, RowRange
from penstock.spark.connector.stream.chunk_layout import ChunkView, chunks_of
from penstock.spark.connector.stream.chunk_link import ChunkLink, has_chunks

TASKS: Final = "tasks"
CONSUMER_TAG: Final = "spark"
_NS_PER_MS: Final = 1_000_000
_log = logging.getLogger("penstock.spark")
_kept: dict[tuple[int, Endpoint], ChunkLink] = {}


def read_rows(options: SourceOptions, first: int, stop: int, shape: Shape) -> Iterator[Any]:
    """Offsets first..stop-1 as Arrow batches, by the way `readMode` says.

    Raises: OperatorError for missing rows (failOnDataLoss), a queue that is no stream, after
    readTimeout without a row, for readMode=chunk with a broker that has no chunks, and for chunks
    that are damaged; ClientError when the broker refuses.
    """
    if first >= stop:
        return
    if options.read_mode == "amqp":
        yield from read_batches(options, first, stop, shape, _runs)
        return
    options = in_worker(options)
    link = _kept.pop((os.getpid(), options.endpoint), None)
    if link is None:
        connection = _open(options, TASKS)
        if not has_chunks(connection):
            if options.read_mode == "chunk":
                connection.close()
                raise OperatorError(
                    f"option readMode=chunk: the broker at {options.endpoint.url.address()} does "
                    "not hand out chunks of streams; leave the option out, or set readMode=amqp"
                )
            yield from read_batches(options, first, stop, shape, _runs, connection)
            return
        yield from read_chunks(options, first, stop, shape, None, connection=connection)
        return
    yield from read_chunks(options, first, stop, shape, link)


def in_worker(options: SourceOptions) -> SourceOptions:
    """For a task: a worker serves several queries, and a connection has the name of one of them."""
    labels = in_task(options.endpoint.labels)
    return replace(options, endpoint=replace(options.endpoint, labels=labels))


# --- chunks -------------------------------------------------------------------------------


def range_of_stream(options: SourceOptions, first: int, stop: int) -> Table:
    """What asks for offsets first..stop-1."""
    return {"x-stream-offset": first, "x-stream-until": stop, **_reads_for(options)}


def _reads_for(options: SourceOptions) -> Table:
    """Says whose rows a consumer reads, to a broker that shows readers; others ignore it."""
    if not options.group:
        return {}
    query = options.endpoint.labels.of_group(options.group)
    return {"x-stream-group": options.group, "x-stream-query": query}


def read_chunks(
    options: SourceOptions,
    first: int,
    stop: int,
    shape: Shape,
    link: ChunkLink | None = None,
    range_of: Callable[[SourceOptions, int, int], Table] = range_of_stream,
    cancelled: str = "",
    connection: Connection | None = None,
) -> Iterator[Any]:
    """The rows first..stop-1 as Arrow batches, as they lie in chunks, over as many connections as
    it takes. options: `in_worker`; link, or connection: one that is open, to begin with; range_of:
    the arguments that ask for a range; cancelled: what it means when the broker ends that, "" for a
    stream that was deleted. Raises: as `read_rows`."""
    if connection is None:
        link = link or _kept.pop((os.getpid(), options.endpoint), None)
    pieces = _pieces(options, first, stop, link, range_of, cancelled, connection)
    yield from BatchMaker(shape).batches(pieces)


def _pieces(
    options: SourceOptions,
    first: int,
    stop: int,
    link: ChunkLink | None,
    range_of: Callable[[SourceOptions, int, int], Table] = range_of_stream,
    cancelled: str = "",
    connection: Connection | None = None,
) -> Generator[RowRange, None, None]:
    cancelled = cancelled or f"stream {options.queue!r} was deleted while it was read"
    expected = first
    outage = Outage()
    while expected < stop:
        if link is None and connection is None:
            connection = _open(options, TASKS)
        try:
            if connection is not None:
                # Whatever becomes of it, it is not tried again.
                opened, connection = connection, None
                link = ChunkLink(opened)
            assert link is not None, "one of both is there"
            link.begin(options.queue, range_of(options, expected, stop), cancelled)
            while expected < stop:
                chunks = _next(link, options, expected, first, stop)
                outage.end()
                for piece, after in cut(chunks, options, expected, stop):
                    expected = after
                    if piece is not None:
                        yield piece
            link.end()
        except ClientError as error:
            if link is not None:
                link.drop()
            if isinstance(error, ChannelClosedError):
                raise
            # The connection broke, or had ended since the last range. What was handed over stays.
            link = None
            if outage.is_on():
                outage.wait(error, options.endpoint.reconnect_timeout_ms, options.queue)
            outage.ms()
        except BaseException:
            if link is not None:
                link.drop()
            raise
    if link is not None:
        _keep(options.endpoint, link)


def _next(
    link: ChunkLink, options: SourceOptions, expected: int, first: int, stop: int
) -> list[ChunkView]:
    """The chunks of the next delivery, each found whole."""
    delivery = link.next(options.read_timeout_ms)
    if delivery is None:
        raise late(options, expected, first, stop)
    return list(chunks_of(delivery.body, delivery.version, delivery.seed, options.queue))


def cut(
    chunks: list[ChunkView], options: SourceOptions, expected: int, stop: int
) -> Iterator[tuple[RowRange | None, int]]:
    """The rows of expected..stop-1 among `chunks`, and the offset behind them; no piece where
    nothing is left of the range.

    A chunk may begin before the offset asked for, and end behind the range. Raises: OperatorError
    for a hole, unless failOnDataLoss is off.
    """
    for chunk in chunks:
        if chunk.first > expected:
            found = min(chunk.first, stop)
            check_loss(options, expected, found)
            expected = found
        end = min(chunk.first + chunk.count, stop)
        if expected >= stop:
            yield None, expected
            return
        if end > expected:
            yield RowRange(chunk, expected - chunk.first, end - chunk.first), end
            expected = end


def _open(options: SourceOptions, name: str) -> Connection:
    """A connection, tried for as long as reconnectTimeout says. Raises: OperatorError, ClientError.

    Without heartbeats unless the url wants them: a worker between two batches is silent for as
    long as it likes, and readTimeout notices a broker that is gone.
    """
    endpoint = options.endpoint
    if endpoint.url.heartbeat_s is None:
        endpoint = replace(endpoint, url=replace(endpoint.url, heartbeat_s=0))
    return patiently(lambda: open_connection(endpoint, name), endpoint.reconnect_timeout_ms, name)


def _keep(endpoint: Endpoint, link: ChunkLink) -> None:
    for other in list(_kept):
        _kept.pop(other).drop()
    _kept[os.getpid(), endpoint] = link


# --- messages -----------------------------------------------------------------------------


def _runs(link: QueueLink, options: SourceOptions, first: int, stop: int) -> Iterator[Run]:
    """What one connection delivers of first..stop-1, acknowledged as it comes. Raises: as
    `read_rows`."""
    link.consume(CONSUMER_TAG, {"x-stream-offset": first, **_reads_for(options)})
    expected = first
    taken = acknowledged = 0
    quiet_ns = time.monotonic_ns()
    while True:
        scanned, events = link.exchange(1000)
        if scanned.ends:
            quiet_ns = time.monotonic_ns()
            taken += len(scanned.ends)
            if taken - acknowledged >= PREFETCH // 2:
                acknowledged = taken
                link.acknowledge(taken)
                link.write()
            for start, raw, after in cut_runs(scanned.raw, scanned.ends, expected, stop, options):
                expected = after
                yield start, raw, after
            if expected >= stop:
                return
        check_channel(events)
        if any(isinstance(event, Cancelled) for event in events):
            raise OperatorError(f"stream {options.queue!r} was deleted while it was read")
        if time.monotonic_ns() - quiet_ns > options.read_timeout_ms * _NS_PER_MS:
            raise late(options, expected, first, stop)


def late(options: SourceOptions, expected: int, first: int, stop: int) -> OperatorError:
    """The row at `expected`, of the range first..stop-1, did not come."""
    kind = "queue" if options.mode == "lease" else "stream"
    return OperatorError(
        f"{kind} {options.queue!r}: offset {expected} of the range {first}..{stop - 1} did not "
        f"come within {options.read_timeout_ms} ms (readTimeout)"
    )


def cut_runs(
    raw: bytes, ends: list[int], expected: int, stop: int, options: SourceOptions
) -> Iterator[Run]:
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
                "Leave option mode out"
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
    """Raises: OperatorError with the numbers, when failOnDataLoss is on; else they are logged."""
    gone = (
        f"stream {options.queue!r}: offsets {expected}..{found - 1} ({found - expected} rows) are "
        "gone, by retention (x-max-age, x-max-length-bytes) or because the stream was made anew"
    )
    if options.fails_on_data_loss:
        raise OperatorError(
            f"{gone}. Set failOnDataLoss=false to go on without them, or start with a new "
            "checkpointLocation"
        )
    _log.warning("%s; going on, because failOnDataLoss is off", gone)
