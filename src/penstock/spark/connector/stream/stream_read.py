"""Reads a range of offsets from a stream over AMQP: attach at the first, stop at the last. IO.

Exactly the rows of the range, in every task and however often: every delivery carries its
offset, and each is compared with the one that has to come next. Offsets that are missing are loss
(retention has taken them, or it is another stream by that name), never a shorter batch. A
connection that breaks is opened again where reading stopped.
"""

from collections.abc import Iterator
from typing import Any

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Connection
from penstock.protocol.values import Table
from penstock.spark.connector.common.decode import Shape, stream_offset
from penstock.spark.connector.common.link import QueueLink
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.ranges import Run, arrivals, read_batches


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
    return read_batches(options, first, stop, shape, _runs, connection)


def _runs(link: QueueLink, options: SourceOptions, first: int, stop: int) -> Iterator[Run]:
    expected = first

    def deleted() -> OperatorError:
        return OperatorError(f"stream {options.queue!r} was deleted while it was read")

    def too_late() -> OperatorError:
        return late(options, expected, first, stop)

    arguments: Table = {"x-stream-offset": first}
    for scanned in arrivals(link, arguments, options.read_timeout_ms, deleted, too_late):
        for start, raw, after in cut_runs(scanned.raw, scanned.ends, expected, stop, options):
            expected = after
            yield start, raw, after
        if expected >= stop:
            return


def late(options: SourceOptions, expected: int, first: int, stop: int) -> OperatorError:
    """The row at `expected`, of the range first..stop-1, did not come."""
    return OperatorError(
        f"stream {options.queue!r}: offset {expected} of the range {first}..{stop - 1} did not "
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
