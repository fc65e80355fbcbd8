"""What the streaming readers of all modes share: offsets, limits, pace, several queues.

`spare_worker` spares a reused Python worker of Spark most of the garbage collection after every
task. The worker would collect among all objects of pyspark, numpy, pandas and pyarrow; that takes
longer than reading a small batch, and finds nothing. The objects that exist at a worker's first two
tasks are put out of the collector's sight; at two, because pyarrow imports pandas for the first
array of the first task.
"""

import gc
import heapq
import logging
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Generic, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.base.errors import OperatorError
from penstock.spark.connector.common import offsets
from penstock.spark.connector.common.engines import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from penstock.spark.connector.common.lag import Progress
from penstock.spark.connector.common.option_values import check_count
from penstock.spark.connector.common.options import SourceOptions, of_queue
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.common.planner import (
    BatchPace,
    PaceWatch,
    Planner,
    plan_batch,
    tasks_for,
)
from penstock.spark.connector.common.ranges import split
from penstock.spark.connector.common.shape import Shape

_log = logging.getLogger("penstock.spark")
TIMES: Final = 2
_spared: dict[int, int] = {}
ALL_ROWS = 2**62
P = TypeVar("P", bound=Planner)


def spare_worker() -> bool:
    """In the first two tasks of each worker process; elsewhere, and in later ones, nothing. Whether
    it was done."""
    process = os.getpid()
    done = _spared.get(process, 0)
    if done == TIMES or TaskContext.get() is None:
        return False
    # The pid of the process that this one was forked from is of no use.
    _spared.clear()
    _spared[process] = done + 1
    gc.collect()
    gc.freeze()
    return True


@dataclass
class RangePartition(InputPartition):
    """Numbers first..stop-1 of a stream, or of a group of a queue, which the task reads from the
    broker itself."""

    queue: str
    first: int
    stop: int
    group: str = ""


@dataclass
class SeveralRanges(InputPartition):
    """Ranges of several queues, which one task reads one after the other."""

    ranges: tuple[RangePartition, ...]


def packed(parts: Sequence[InputPartition], tasks: int) -> Sequence[InputPartition]:
    """`parts` for at most `tasks` tasks, 1.., of which each has about as many rows; as they are
    where there are not so many, or where they are not ranges."""
    ranges = [one for one in parts if isinstance(one, RangePartition)]
    if len(ranges) <= tasks or len(ranges) < len(parts):
        return parts
    bins: list[list[RangePartition]] = [[] for _ in range(tasks)]
    loads = [(0, number) for number in range(tasks)]
    for one in sorted(ranges, key=lambda one: one.first - one.stop):
        rows, number = loads[0]
        bins[number].append(one)
        heapq.heapreplace(loads, (rows + one.stop - one.first, number))
    return [SeveralRanges(tuple(found)) if len(found) > 1 else found[0] for found in bins]


def read_part(
    partition: InputPartition,
    options: SourceOptions,
    shape: Shape,
    read: Callable[[SourceOptions, int, int, Shape], Iterator[Any]],
) -> Iterator[Any]:
    """What a task does with a range: it reads the queue that the partition names, which options
    may not, because patterns are matched in each process anew."""
    spare_worker()
    ranges = partition.ranges if isinstance(partition, SeveralRanges) else (partition,)
    for one in ranges:
        assert isinstance(one, RangePartition), "partitions come from partitions()"
        of_one = replace(options, queue=one.queue, group=one.group)
        yield from read(of_one, one.first, one.stop, replace(shape, queue=one.queue))


@plainly
class AmqpStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[P]):
    """A streaming query over one or several queues, or streams, each with a planner of its own.

    Connections are opened by the first call that needs them, and belong to this process: a pickled
    copy has none. Verbs raise OperatorError, or ClientError with the broker's own words.
    """

    MODE: ClassVar[str]
    DELIVERY: ClassVar[str] = "exactly once"
    """To a sink that ignores a batch it has committed."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._group = options.group
        self._planners: list[P] = []
        self._watch: PaceWatch | None = None
        self._is_told = False
        self._ends: list[int] = []
        self._progress: Progress | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_planners": [], "_watch": None, "_progress": None}

    @abstractmethod
    def planner_of(self, options: SourceOptions) -> P:
        """A new planner for the one queue that `options` name. Opens nothing yet."""

    def parts_of(
        self, number: int, planner: P, start: int, end: int, count: int
    ) -> Sequence[InputPartition]:
        """The rows start..end of the queue of that number, in about `count` parts."""
        queue = self._options.queues[number]
        return [RangePartition(queue, *part, self._group) for part in split(start, end, count)]

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self._written([planner.initial() for planner in self._opened()])

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger; the other bounds are kept beside it."""
        return ReadMaxRows(self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle what is done, plan the next batch."""
        now_ns = time.monotonic_ns()
        starts = self._numbers(start)
        rows_max = rows_of(limit)
        watch = self._paced(rows_max)
        if watch is not None:
            rows_max = min(rows_max, watch.asked(now_ns))
        ends = self._ends = plan_batch(self._opened(), starts, rows_max, self._options)
        if watch is not None:
            watch.planned(sum(ends) - sum(starts), now_ns)
        return self._written(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of each queue, as far as known, for showing the lag; and what else
        `lastProgress` is to show, which has no other place in a Python source."""
        planners = self._opened()
        tails: list[int] = []
        for planner in planners:
            tail = planner.tail()
            if tail is None:
                return None
            tails.append(tail)
        said = {**self._written(tails), "mode": self.MODE, "delivery": self.DELIVERY}
        if self._ends:
            if self._progress is None:
                self._progress = Progress(len(planners))
            told = [planner.told() for planner in planners]
            said |= self._progress.report(time.monotonic_ns(), tails, self._ends, told)
        return said

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end."""
        for planner in self._opened():
            planner.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """About minPartitions parts, or what `tasks_for` says, divided among the queues by rows; a
        task reads several queues where there are more of them than that, but of a super stream."""
        starts, ends = self._numbers(start), self._numbers(end)
        rows = [max(0, stop - first) for first, stop in zip(starts, ends, strict=True)]
        options = self._options
        counts = tasks_for(options, rows)
        parts: list[InputPartition] = []
        for number, planner in enumerate(self._opened()):
            if rows[number] > 0:
                first, stop = starts[number], ends[number]
                parts += self.parts_of(number, planner, first, stop, counts[number])
        if options.super_stream:
            return parts
        return packed(parts, max(1, options.partitions, options.cores))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: what is done is settled when Spark asks for the next batch."""

    def stop(self) -> None:
        """Close the connections."""
        for planner in self._planners:
            planner.stop()

    def _widen(self, names: Sequence[str]) -> None:
        """Read the queues `names`, too, which were not there before. Raises: OperatorError when
        they are too many."""
        options = self._options
        check_count(f"option superStream is {options.super_stream!r}, which has",
                    len(options.queues) + len(names))  # fmt: skip
        unsaid = ("",) * len(names)
        first = len(options.queues)
        self._options = options = replace(
            options,
            queues=(*options.queues, *names),
            starts=options.starts + unsaid,
            ends=options.ends + unsaid,
        )
        if self._planners:
            more = range(first, len(options.queues))
            self._planners += [self.planner_of(of_queue(options, number)) for number in more]
        if self._progress is not None:
            self._progress.widen(len(names))

    def _opened(self) -> list[P]:
        if not self._planners:
            if self._options.note and not self._is_told:
                # In this process only: workers have readers too, and open nothing.
                self._is_told = True
                _log.warning("%s", self._options.note)
            count = len(self._options.queues)
            self._planners = [
                self.planner_of(of_queue(self._options, number)) for number in range(count)
            ]
        return self._planners

    def _paced(self, rows_max: int) -> PaceWatch | None:
        """None without targetBatchDuration, and where Spark wants everything in one batch."""
        options = self._options
        if options.target_ms == 0 or rows_max == ALL_ROWS:
            return None
        if self._watch is None:
            lowest = max(1, options.min_rows, len(options.queues))
            self._watch = PaceWatch(BatchPace(options.target_ms, lowest, options.max_rows))
        return self._watch

    def _written(self, numbers: list[int]) -> dict[str, Any]:
        options = self._options
        return offsets.written(self.MODE, options.queues, numbers, options.may_change)

    def _check(self, offset: dict[str, Any]) -> list[int]:
        """The numbers in `offset`. Raises: OperatorError when it is that of something else."""
        return offsets.read(self.MODE, self._options.queues, offset, self._options.may_change)

    def _numbers(self, offset: dict[str, Any]) -> list[int]:
        numbers = self._check(offset)
        if offsets.LACKING not in numbers:
            return numbers
        # A queue that was not found before.
        return [
            planner.first() if number == offsets.LACKING else number
            for planner, number in zip(self._opened(), numbers, strict=True)
        ]


def rows_of(limit: ReadLimit) -> int:
    """Rows the engine wants at most; ALL_ROWS where it wants all there are (trigger once).

    Raises: OperatorError for a limit this source never offered.
    """
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return ALL_ROWS
    raise OperatorError(f"read limit {type(limit).__name__} is not supported by the source amqp")
