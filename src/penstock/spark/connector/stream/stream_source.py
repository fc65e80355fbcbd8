"""Reads streams: batches are ranges of offsets, read by the tasks themselves; exactly once.

A stream keeps its rows, so a range can be read as often as Spark likes and is the same each time.
With a sink that ignores a batch it has committed (Delta by transaction, files by manifest), every
row is in its result once. Nothing is acknowledged: what a stream keeps is its retention's business,
unless the query has a group, which the stream keeps its rows for (`stream_tail`).
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError, ConnectionClosedError
from penstock.spark.connector.common.engines import ReadLimit
from penstock.spark.connector.common.lag import Told
from penstock.spark.connector.common.offsets import (
    FROM,
    LACKING,
    beginning_of,
    begun_at,
    identified,
    ids_in,
)
from penstock.spark.connector.common.opening import (
    CONNECTION_NAME,
    first_look,
    partitions_of,
)
from penstock.spark.connector.common.option_values import time_ms
from penstock.spark.connector.common.options import SourceOptions, of_queue
from penstock.spark.connector.common.outage import RETRY_MS
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.common.planner import tasks_for
from penstock.spark.connector.common.ranges import RangePlanner, split
from penstock.spark.connector.common.reader import (
    AmqpStreamReader,
    RangePartition,
    read_part,
)
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.stream_read import check_loss, read_rows
from penstock.spark.connector.stream.stream_tail import GroupMember, StreamEnds

PARTITIONS_LOOK_NS: Final = 5_000_000_000
"""How often a query looks for new partitions of its super stream, over a connection of its own."""
TAIL_BUDGET_MS: Final = 30
"""What finding the end of a busy stream may add to a batch."""
TARGET_BUDGET_MS: Final = 2000
"""The same for availableNow and batch reads, once a query."""


class StreamPlanner(RangePlanner):
    """One query's planner, in one process. Offsets: of the next row to be read."""

    KIND = "stream"

    def __init__(self, options: SourceOptions, name: str) -> None:
        super().__init__(options)
        self._name = name
        self._ends: StreamEnds | None = None
        self._initial = -1
        self._first = -1
        self._is_known = False
        self._made_as = ""
        self._checked: StreamEnds | None = None
        self._group = GroupMember(options)

    def initial(self) -> int:
        """Where a new query begins (startingOffsets and its like)."""
        if self._initial < 0:
            self._initial = self._number(self._options.starting or "latest")
            self._made_as = "" if self._ends is None else self._ends.made_as
        return self._initial

    def first(self) -> int:
        """The first row there is: a stream the query has not known before is read whole."""
        if self._first < 0:
            self._first = self._opened().first()
        return self._first

    def made_as(self) -> str:
        """Which stream of that name it is, "" while that is not known."""
        return self._made_as

    def expect(self, made_as: str) -> None:
        """The checkpoint speaks of the stream `made_as`, "" if it does not say. Another one of its
        name is refused by `available` and `check_made`. What a run has found before it was told of
        its first batch, which died, counts for nothing."""
        if made_as and made_as != self._made_as:
            self._made_as = made_as
            self._checked = None

    def check_made(self, start: int) -> None:
        """Before rows are read that were planned earlier, maybe by a run that died. A broker that
        is away is waited for, for reconnectTimeout. Raises: OperatorError when there is another
        stream of that name now."""
        while True:
            try:
                if self._ends is None or self._ends is not self._checked:
                    self._look_for_another(start)
                self._outage.end()
                return
            except ChannelClosedError:
                raise
            except ClientError as error:
                self._lose(error)
            time.sleep(RETRY_MS / 1000)

    def prepare_available_now(self) -> None:
        """What is in the stream now is all that will be read."""
        self._target = self._tail = self._opened().next_offset(TARGET_BUDGET_MS)

    def whole(self) -> tuple[int, int]:
        """The range of a batch read: from the first row there is to the last, or as options say.

        Never a negative one: what ends before it begins is empty.
        """
        options = self._options
        ends = self._opened()
        first, stop = ends.first(), ends.next_offset(TARGET_BUDGET_MS)
        start = first
        if options.starting:
            start = self._number(options.starting)
            if start < first:
                check_loss(options, start, first)
        if options.ending.isdigit() and int(options.ending) > stop:
            raise OperatorError(
                f"option endingOffsets is {options.ending}, and stream {options.queue!r} ends at "
                f"{stop} (exclusive)"
            )
        if options.ending:
            stop = min(stop, self._number(options.ending))
        return max(start, first), stop

    def begin(self, start: int) -> None:
        """Nothing: a stream is not acknowledged. A group is told by `available`, which minds
        connections that break."""

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        """The end of a batch of `rows` rows, of about `bytes_max` bytes at most. What is gone, and
        may be, is passed with them: else it would take as many batches as reading it."""
        ends = self._ends
        if bytes_max > 0 and rows > 0 and ends is not None and ends.bytes_per_row > 0:
            rows = max(1, min(rows, int(bytes_max / ends.bytes_per_row)))
        if rows == 0:
            return start
        self._seen_ns = 0
        if ends is None or self._options.fails_on_data_loss:
            return start + rows
        behind = self._tail if self._target < 0 else min(self._tail, self._target)
        return min(behind, max(start, ends.begins) + rows)

    def told(self) -> Told:
        """The size of rows and, with a group, the held time of publishers, as far as known."""
        if self._ends is not None and self._ends.bytes_per_row > 0:
            self._row_bytes = self._ends.bytes_per_row
        return Told(self._row_bytes, self._group.held_ns)

    def stop(self) -> None:
        """Close the connection. Idempotent."""
        if self._ends is not None:
            self._ends.close()
            self._ends = None

    def look(self, start: int) -> None:
        """`_look`, over a new connection if the old one has ended: nothing was said on it between
        two triggers, which a broker with heartbeats does not put up with for long."""
        try:
            self._look(start)
        except ConnectionClosedError:
            self.stop()
            self._look(start)

    def _look(self, start: int) -> None:
        """Bring `_tail` up to date, as far as the next batch needs it."""
        found = -1
        if self._tail != start or self._ends is None or self._ends is not self._checked:
            found = self._look_for_another(start)
        # Else there is a consumer at the end, which is cancelled when the stream is deleted.
        if not self._group.passed(self._opened(), start):
            self.stop()
            found = self._look_for_another(start)
            self._group.passed(self._opened(), start)
        if self._target >= 0:
            self._check_same(start, self._target)
            return
        ends = self._opened()
        if self._tail == start and not ends.has_more(start):
            return
        if self._tail - start < self._options.max_rows:
            if found < 0:
                found = ends.next_offset(TAIL_BUDGET_MS)
                self._refuse_another(ends, start)
            self._check_same(start, found)
            self._tail = max(self._tail, found, start)

    def _look_for_another(self, start: int) -> int:
        """The offset behind the last row, of the stream that the checkpoint is at `start` of; -1
        where no broker can be asked. Raises: OperatorError when it is another stream by now."""
        ends = self._opened()
        if not ends.can_ask:
            return -1
        _, behind = ends.extent()
        self._made_as = self._made_as or ends.made_as
        self._refuse_another(ends, start)
        self._checked = ends
        return behind

    def _refuse_another(self, ends: StreamEnds, start: int) -> None:
        """Raises: OperatorError when what was asked last was about another stream."""
        if ends.can_ask and self._made_as != ends.made_as:
            first, behind = ends.extent()
            raise OperatorError(
                f"stream {self._options.queue!r} was deleted and made anew: it has the offsets "
                f"{first} to {behind}, exclusive, and the checkpoint is at {start} of the one that "
                "was there before. Start with a new checkpointLocation"
            )

    def _check_same(self, start: int, end: int) -> None:
        """Once a query. Raises: OperatorError when the stream ends before the checkpoint, `start`.

        end: as far as known. A short look may have missed rows; that the last one read is gone is
        no mistake.
        """
        if self._is_known:
            return
        if end < start and not self._opened().has(start - 1):
            if start == self._initial:
                raise OperatorError(
                    f"option startingOffsets is {start}, and stream {self._options.queue!r} ends "
                    f"at {end} (exclusive)"
                )
            raise OperatorError(
                f"stream {self._options.queue!r} ends at {end}, and the checkpoint is at {start}: "
                "the stream was made anew, or is another one. Start with a new checkpointLocation"
            )
        self._is_known = True

    def _number(self, place: str) -> int:
        """The offset of a place, see `places`."""
        moment_ms = time_ms(place)
        if moment_ms >= 0:
            return self._opened().offset_at(moment_ms, TARGET_BUDGET_MS)
        if place == "earliest":
            return self._opened().first()
        if place == "latest":
            return self._opened().next_offset(TARGET_BUDGET_MS)
        return int(place)

    def _opened(self) -> StreamEnds:
        if self._ends is None:
            self._ends = StreamEnds(self._options, self._name)
        return self._ends

    def _lose(self, error: ClientError) -> None:
        """The connection is gone; the next call opens another one. Raises: OperatorError."""
        self.stop()
        super()._lose(error)


@plainly
class StreamStreamReader(AmqpStreamReader[StreamPlanner]):
    """A streaming query over streams.

    Spark writes down where a batch ends, and of the first one that died it asks again where it
    begins: with startingOffsets=latest somewhere else. So the end of the first batch says it.

    What a super stream or a pattern has more than before is read from its first row, and the batch
    that finds it says where that was: retention may have moved it when the batch is run again.

    _began: where the query begins, None until Spark has asked; _looked_ns: when the broker was
    asked for partitions; _is_ending: what is there now is all that will be read.
    """

    MODE = "stream"

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        self._began: dict[str, Any] | None = None
        self._looked_ns = time.monotonic_ns()
        self._is_ending = False

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end."""
        self._is_ending = True
        super().prepareForTriggerAvailableNow()

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        self._began = super().initialOffset()
        return self._began

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As every reader; of the first batch with its beginning."""
        self._look_for_partitions()
        has_new = LACKING in self._check(start)
        numbers = self._numbers(start)
        self._expect(start)
        end = super().latestOffset(start, limit)
        if has_new:
            return begun_at(end, self._written(numbers))
        is_known = FROM in start or not self._options.may_change
        if is_known and self._numbers(end) == numbers:
            # Spark compares texts: without new rows it has to be the same one.
            return start
        if FROM in start:
            return end
        return begun_at(end, start) if start == self._began != end else end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a batch, which may say itself where it begins. Raises: OperatorError when
        they are those of a stream that was deleted and made anew."""
        begun = beginning_of(end, start)
        known, numbers = self._expect(end), self._numbers(begun)
        for planner, made_as, number in zip(self._opened(), known, numbers, strict=True):
            if made_as:
                planner.check_made(number)
        return super().partitions(begun, end)

    def _look_for_partitions(self) -> None:
        """Now and then: a super stream may have got another one. A broker that is away is asked
        the next time. Raises: OperatorError, ClientError when the super stream is gone."""
        now_ns = time.monotonic_ns()
        options = self._options
        if not options.super_stream or self._is_ending:
            return
        if now_ns - self._looked_ns < PARTITIONS_LOOK_NS:
            return
        self._looked_ns = now_ns
        found: list[str] = []
        first_look(
            options.endpoint,
            f"{CONNECTION_NAME}: partitions",
            lambda connection: found.extend(partitions_of(options, connection)),
        )
        new = [name for name in found if name not in options.queues]
        if new:
            self._widen(new)

    def _expect(self, offset: dict[str, Any]) -> list[str]:
        """Tell the planners which streams `offset` is of, "" where it does not say."""
        known = ids_in(offset, self._options.queues)
        for planner, made_as in zip(self._opened(), known, strict=True):
            planner.expect(made_as)
        return known

    def _written(self, numbers: list[int]) -> dict[str, Any]:
        ids = [planner.made_as() for planner in self._opened()]
        return identified(super()._written(numbers), self._options.queues, ids)

    def planner_of(self, options: SourceOptions) -> StreamPlanner:
        """One that finds the ends of that stream."""
        return StreamPlanner(options, CONNECTION_NAME)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        return read_part(partition, self._options, self._shape, read_rows)


@plainly
class StreamBatchReader(DataSourceReader):
    """`spark.read` of streams: from startingOffsets to endingOffsets, or between times."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        """About minPartitions ranges, or see `tasks_for`. Raises: OperatorError, ClientError."""
        ranges = [self.range_of(number) for number in range(len(self._options.queues))]
        rows = [max(0, stop - first) for first, stop in ranges]
        counts = tasks_for(self._options, rows)
        parts: list[InputPartition] = [
            RangePartition(self._options.queues[number], *part)
            for number, (first, stop) in enumerate(ranges)
            for part in split(first, stop, counts[number])
        ]
        # Spark wants a partition even for no rows.
        return parts or [RangePartition(self._options.queue, 0, 0)]

    def range_of(self, number: int) -> tuple[int, int]:
        """What is read of the stream of that number. Raises: OperatorError, ClientError."""
        planner = StreamPlanner(of_queue(self._options, number), CONNECTION_NAME)
        try:
            return planner.whole()
        finally:
            planner.stop()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches; in a worker. Raises: OperatorError, ClientError."""
        return read_part(partition, self._options, self._shape, read_rows)
