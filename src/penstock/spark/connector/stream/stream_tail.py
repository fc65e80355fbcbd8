"""Asks where a stream begins and ends, and tells its broker how far a query has read it. IO.

Penstock says the ends (`stream.offsets`). For other brokers the length in queue.declare-ok lags by
seconds, so the last chunk is read (`x-stream-offset` = last), for a short time, because a busy
stream never goes quiet; what is missed comes with the next batch. While nothing comes, one consumer
with a prefetch of 1 stands at the known end, and costs nothing until the next row wakes it.

`StreamGroup` tells Penstock how far the query has read, so that the stream waits for it. Spark's
commit of a batch is certain when it asks for the next one, so a group moves then, to the start of
that batch, and never in `commit` (`source`). What lies behind it may go by retention; a query that
falls too far behind holds the stream's publishers (docs/streams.md).
"""

import time
from typing import Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.client.events import Cancelled, ChannelClosed, ClientEvent
from penstock.protocol import methods as m
from penstock.protocol.constants import NOT_FOUND, PRECONDITION_FAILED
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table, Value
from penstock.spark.connector.common.decode import stream_offset
from penstock.spark.connector.common.link import QueueLink, check_channel
from penstock.spark.connector.common.opening import REQUESTS
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.scan import Scanned

CONSUMER_TAG: Final = "spark-tail"
PROBE_PREFETCH: Final = 10_000
FIRST_ROW_MS: Final = 300
"""How long the first row of the last chunk may take before the stream counts as empty; or as long
as the budget, which is long where an empty stream would be the whole answer."""
QUIET_MS: Final = 10
"""A chunk has ended when no row has come for so long, or for a tenth of the budget."""
ATTACH_MS: Final = 100
_NS_PER_MS: Final = 1_000_000


class StreamEnds:
    """One connection to a stream that answers where it begins and ends.

    bytes_per_row: mean size of the rows last seen, 0.0 before; can_ask: the broker answers
    requests; made_as: which stream it says that this is, "" before and where it does not say;
    begins: its first offset when the broker was asked last, 0 before.
    Owner: one thread.
    Raises, from every verb: OperatorError, ClientError.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self.bytes_per_row = 0.0
        self.made_as = ""
        self.begins = 0
        self._options = options
        self._link = QueueLink(options.endpoint, options.queue, 1, name)
        self.can_ask = REQUESTS in self._link.session.server_capabilities()
        self._is_consuming = False
        self._watched = -1
        self._consumers = 0

    def first(self) -> int:
        """The first offset there is; 0 for an empty stream."""
        if self.can_ask:
            return self.extent()[0]
        seen = self._read("first", 1, FIRST_ROW_MS)
        return seen[0] if seen else 0

    def next_offset(self, budget_ms: int) -> int:
        """The offset behind the last row, or a little before it when the stream is busy for all of
        `budget_ms`; 0 for an empty stream."""
        if self.can_ask:
            return self.extent()[1]
        seen = self._read("last", PROBE_PREFETCH, budget_ms)
        return seen[1] + 1 if seen else 0

    def offset_at(self, moment_ms: int, budget_ms: int) -> int:
        """The first offset that came at `moment_ms` (since 1970) or later; the end if none did.

        AMQP has whole seconds. Brokers that look at chunks only answer with the first row of one,
        which may be a little too early.
        """
        seen = self._read(Timestamp(moment_ms // 1000), 1, FIRST_ROW_MS)
        return self.next_offset(budget_ms) if seen is None else seen[0]

    def has(self, offset: int) -> bool:
        """Whether the row at `offset` is there."""
        if self.can_ask:
            first, stop = self.extent()
            return first <= offset < stop
        seen = self._read(offset, 1, FIRST_ROW_MS)
        return seen is not None and seen[0] == offset

    def has_more(self, offset: int) -> bool:
        """Whether there are rows from `offset` on; costs nothing while there are none."""
        end_ns = time.monotonic_ns()
        if self._watched != offset:
            if self.can_ask and self.extent()[1] > offset:
                return True
            self._attach(offset, 1)
            self._watched = offset
            if not self.can_ask:
                # Rows that are there already come now; later calls only look whether one has come.
                end_ns += ATTACH_MS * _NS_PER_MS
        while True:
            left_ms = max(0.0, (end_ns - time.monotonic_ns()) / _NS_PER_MS)
            scanned, events = self._link.exchange(left_ms)
            self._check(events)
            if scanned.ends:
                self._watched = -1
                return True
            if left_ms == 0:
                return False

    def extent(self) -> tuple[int, int]:
        """The first offset and the one behind the last row; only where `can_ask`. `made_as` is
        that of the same answer."""
        answer = self.request("stream.offsets", {"queue": self._options.queue})
        first, stop, size = answer["first"], answer["next"], answer["bytes"]
        assert isinstance(first, int) and isinstance(stop, int) and isinstance(size, int), (
            "the broker answers as it says"
        )
        self.made_as, self.begins = str(answer.get("id", "")), first
        if stop > first:
            self.bytes_per_row = size / (stop - first)
        return first, stop

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._link.close()

    def request(self, verb: str, arguments: Table) -> Table:
        """What AMQP has no method for; only where `can_ask`."""
        try:
            return self._link.request(verb, arguments, self._check)
        except ChannelClosedError as error:
            if error.code == PRECONDITION_FAILED and error.text.endswith("is no stream"):
                raise self._no_stream() from error
            raise

    def _read(self, where: Value, prefetch: int, budget_ms: int) -> tuple[int, int] | None:
        """Offsets of the first and last row that came, attached at `where`; None for none."""
        self._attach(where, prefetch)
        self._watched = -1
        first, last, rows, size = -1, -1, 0, 0
        end_ns = time.monotonic_ns() + max(budget_ms, FIRST_ROW_MS) * _NS_PER_MS
        quiet_ms = float(max(budget_ms, FIRST_ROW_MS))
        while True:
            left_ms = (end_ns - time.monotonic_ns()) / _NS_PER_MS
            if left_ms <= 0:
                break
            scanned, events = self._link.exchange(min(left_ms, quiet_ms))
            self._check(events)
            if scanned.ends:
                if first < 0:
                    first = self._offset(scanned, 0)
                    end_ns = time.monotonic_ns() + budget_ms * _NS_PER_MS
                    quiet_ms = max(QUIET_MS, budget_ms / 10)
                last = self._offset(scanned, len(scanned.ends) - 1)
                rows += len(scanned.ends)
                size += len(scanned.raw)
            elif not events:
                break
            if rows >= prefetch:
                break
        self._detach()
        if rows > 0:
            self.bytes_per_row = size / rows
            return first, last
        return None

    def _attach(self, where: Value, prefetch: int) -> None:
        self._detach()
        self._link.answer(m.BasicQos(0, prefetch, False), self._check)
        self._consumers += 1
        tag = f"{CONSUMER_TAG}-{self._consumers}"
        self._link.consume(tag, {"x-stream-offset": where})
        self._is_consuming = True

    def _detach(self) -> None:
        if self._is_consuming:
            self._is_consuming = False
            self._watched = -1
            tag = f"{CONSUMER_TAG}-{self._consumers}"
            self._link.answer(m.BasicCancel(tag), self._check)

    def _check(self, events: list[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, ChannelClosed):
                # RabbitMQ: invalid arg 'x-stream-offset' for queue ... of queue type ...
                if event.code == PRECONDITION_FAILED and "of queue type" in event.text:
                    raise self._no_stream()
                check_channel([event])
            if isinstance(event, Cancelled):
                raise OperatorError(f"stream {self._options.queue!r} was deleted")

    def _offset(self, scanned: Scanned, index: int) -> int:
        at = scanned.ends[index - 1] if index else 0
        offset = stream_offset(scanned.raw, at, -1)
        if offset < 0:
            raise self._no_stream()
        return offset

    def _no_stream(self) -> OperatorError:
        return OperatorError(
            f"queue {self._options.queue!r} is no stream: its messages carry no x-stream-offset. "
            "Leave option mode out"
        )


class GroupMember:
    """The group of one query on one stream; nothing at all for a query without one. held_ns: how
    long it has held publishers, -1 where that is not known."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._is_registered = False
        self._passed = -1
        self.held_ns = -1

    def passed(self, ends: StreamEnds, start: int) -> bool:
        """Everything before `start` is committed. False when the broker did not know the group any
        more, and `ends` is of no use now; then once again, over another connection.

        Raises: OperatorError for a broker that has no groups; ClientError.
        """
        options = self._options
        if not options.group or self._passed == start:
            return True
        if not ends.can_ask:
            raise OperatorError(
                f"option group: the broker at {options.endpoint.url.address()} has no groups that "
                "read streams; leave the option out"
            )
        table: Table = {"queue": options.queue, "group": options.group, "offset": start}
        if not self._is_registered:
            if options.max_lag_rows > 0:
                table["max_lag_messages"] = options.max_lag_rows
            if options.max_lag_bytes > 0:
                table["max_lag_bytes"] = options.max_lag_bytes
            self._note(ends.request("stream.group.register", table))
        else:
            try:
                self._note(ends.request("stream.group.advance", table))
            except ChannelClosedError as error:
                if error.code != NOT_FOUND or "no group" not in error.text:
                    raise
                # It was removed, or the stream was made anew.
                self._is_registered = False
                return False
        self._is_registered = True
        self._passed = start
        return True

    def _note(self, answer: Table) -> None:
        held_ns = answer.get("held_ns", -1)
        if isinstance(held_ns, int):
            self.held_ns = held_ns
