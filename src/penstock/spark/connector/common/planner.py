"""Plans one batch over one or several queues or streams: whether, how much of each, how many tasks.

Each queue or stream has a planner of its own, which knows what is there and where its rows end.
What belongs to the batch as a whole is decided here: whether it is worth one
(`minOffsetsPerTrigger`, `maxTriggerDelay`), and how `maxOffsetsPerTrigger` and `maxBytesPerTrigger`
are divided, in proportion to what waits in each. A task is one thread of Java and one Python
worker, and neither can be faster than its core: a large batch is cut into as many tasks as there
are cores, a small one is read by a single task, because another costs more than it saves.

`targetBatchDuration` is kept by a controller (docs/spark-connector.md, tuning). A batch takes about
`fixed + rows / speed`. Longer batches never take more than proportionally longer, so the loop gain
stays below one: sizes approach what fits from one side, and do not swing. The fixed part and the
speed are fitted to the batches that were too long since one was not, older ones counting less.
Pure: the owner says how long a batch took.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from penstock.spark.connector.common.lag import Told
from penstock.spark.connector.common.options import SourceOptions

FIRST_ROWS: Final = 1000
"""Where a query begins: with a slow sink a batch of the largest size could take hours."""
SOFTNESS: Final = 0.7
"""Exponent of target/took: one late batch among many must not halve the size."""
STEP_MAX: Final = 2.0
MEMORY: Final = 0.8
"""What a batch's weight in the fit is multiplied by with each later one."""
ROWS_SHARE_LEAST: Final = 0.1
ROWS_PER_TASK: Final = 100_000
"""What a task is worth starting for: it costs 25 to 40 ms, in which another one reads as many rows
as half of these, or fewer."""


class BatchPace:
    """Rows of the next batch, lowest..highest. target_ms: 1.., what a batch is to take.

    Only batches that were as large as allowed say that there may be more; a batch that took too
    long says so whatever its size.
    """

    def __init__(self, target_ms: int, lowest: int, highest: int) -> None:
        assert 1 <= lowest <= highest, "a range has room for a batch"
        self._target_ms = target_ms
        self._lowest = lowest
        self._highest = highest
        self._rows = float(min(highest, max(lowest, FIRST_ROWS)))
        self._sum = self._sum_rows = self._sum_ms = self._sum_rows_ms = self._sum_squares = 0.0

    def rows(self) -> int:
        """How many rows the next batch may have."""
        return int(self._rows)

    def took(self, rows: int, took_ms: float) -> None:
        """A batch of `rows` (1..) took `took_ms`, from its planning to that of the next."""
        took_ms = max(took_ms, 1.0)
        factor = (self._target_ms / took_ms) ** SOFTNESS
        factor = min(STEP_MAX, max(1 / STEP_MAX, factor))
        if factor >= 1:
            self._sum = self._sum_rows = self._sum_ms = self._sum_rows_ms = self._sum_squares = 0.0
            if rows >= int(self._rows):
                self._rows = min(self._highest, self._rows * factor)
            return
        self._remember(rows, took_ms)
        # Of the batch that was too long, which may have been smaller than allowed.
        wanted = min(self._rows, rows * factor)
        wanted = max(wanted, min(self._rows * STEP_MAX, self._least_useful()))
        self._rows = min(float(self._highest), max(float(self._lowest), wanted))

    def _least_useful(self) -> float:
        """The size at which rows take ROWS_SHARE_LEAST of the time; 0.0 while little is known."""
        mean_rows = self._sum_rows / self._sum
        mean_ms = self._sum_ms / self._sum
        spread = self._sum_squares / self._sum - mean_rows * mean_rows
        if spread < (0.05 * mean_rows) ** 2:
            # Sizes that hardly differ say nothing about what one row costs.
            return 0.0
        row_ms = (self._sum_rows_ms / self._sum - mean_rows * mean_ms) / spread
        fixed_ms = mean_ms - row_ms * mean_rows
        if fixed_ms < (1 - ROWS_SHARE_LEAST) * self._target_ms:
            return 0.0
        if row_ms <= 0.0:
            return float(self._highest)
        return ROWS_SHARE_LEAST / (1 - ROWS_SHARE_LEAST) * fixed_ms / row_ms

    def _remember(self, rows: int, took_ms: float) -> None:
        self._sum = self._sum * MEMORY + 1.0
        self._sum_rows = self._sum_rows * MEMORY + rows
        self._sum_ms = self._sum_ms * MEMORY + took_ms
        self._sum_rows_ms = self._sum_rows_ms * MEMORY + rows * took_ms
        self._sum_squares = self._sum_squares * MEMORY + float(rows) * rows


class PaceWatch:
    """Times batches for a `BatchPace`: from the call that planned one to the next call for it.

    Spark asks for the batch after the last when that one is committed, at once with the default
    trigger. The first batch of a process is left out: it starts workers and warms Java up.
    """

    def __init__(self, pace: BatchPace) -> None:
        self._pace = pace
        self._rows = 0
        self._begun_ns = 0
        self._is_warm = False

    def asked(self, now_ns: int) -> int:
        """Spark asks for a batch: how many rows it may have. The one before is done."""
        if self._rows > 0:
            if self._is_warm:
                self._pace.took(self._rows, (now_ns - self._begun_ns) / 1_000_000)
            self._is_warm = True
            self._rows = 0
        return self._pace.rows()

    def planned(self, rows: int, now_ns: int) -> None:
        """A batch of `rows` (0: none) was planned for the question asked at `now_ns`."""
        self._rows = rows
        self._begun_ns = now_ns


def tasks_for(options: SourceOptions, rows: Sequence[int]) -> list[int]:
    """`tasks_of`, and of a super stream one for each partition with rows, unless minPartitions says
    more: within a task the rows of a key are in order."""
    if options.super_stream:
        return tasks_of(rows, options.partitions or 1, options.cores)
    return tasks_of(rows, options.partitions, options.cores)


def tasks_of(rows: Sequence[int], asked: int, cores: int) -> list[int]:
    """The tasks for each queue, of which those with rows get at least one.

    rows: what the batch has of each, 0...; asked: option minPartitions, which is then about their
    number, 0 for none; cores: for all tasks of the query, 1...
    """
    wanted = asked or min(cores, sum(rows) // ROWS_PER_TASK)
    filled = sum(count > 0 for count in rows)
    return share(max(wanted, filled), rows)


def share(total: int, backlogs: Sequence[int]) -> list[int]:
    """`total` in proportion to `backlogs`, none more than its own, and whole.

    Each queue that has something gets at least one, because a queue with little would otherwise
    wait until a long one is empty; where `total` is less than their number, the longest get one.
    What rounding leaves goes to those that lost most by it. total: 0..; backlogs: 0... each.
    """
    everything = sum(backlogs)
    if everything <= total:
        return list(backlogs)
    filled = [number for number, backlog in enumerate(backlogs) if backlog > 0]
    parts = [0] * len(backlogs)
    if total <= len(filled):
        for number in sorted(filled, key=lambda number: -backlogs[number])[:total]:
            parts[number] = 1
        return parts
    for number in filled:
        parts[number] = max(1, total * backlogs[number] // everything)
    over = sum(parts) - total
    # Those that were lifted to one row may have made it too much: the largest give it back.
    for number in sorted(filled, key=lambda number: -parts[number]):
        given = min(max(0, over), parts[number] - 1)
        parts[number] -= given
        over -= given
    by_loss = sorted(filled, key=lambda number: -(total * backlogs[number] % everything))
    while over < 0:
        for number in by_loss:
            if over < 0 and parts[number] < backlogs[number]:
                parts[number] += 1
                over += 1
    return parts


class Planner(Protocol):
    """One queue or stream of a query. Opens nothing before it has to. Every verb raises
    OperatorError, or ClientError with the broker's own words."""

    def initial(self) -> int:
        """Where a new query begins."""

    def first(self) -> int:
        """Where a queue begins that the query has not known before; the same each time."""

    def prepare_available_now(self) -> None:
        """What is there now is all that will be read."""

    def begin(self, start: int) -> None:
        """Everything before `start` is committed. Before anything else in a trigger."""

    def available(self, start: int) -> int:
        """Rows from `start` on that a batch could have now, 0..."""

    def waited_ms(self) -> float:
        """How long the first of them has waited, as far as known."""

    def is_pressing(self) -> bool:
        """Whether it makes no sense to wait for more: there will be none before these go."""

    def plan(self, start: int, rows: int, bytes_max: int) -> int:
        """Plan `rows` (0..available) or fewer; the end. bytes_max: 0 means no bound."""

    def tail(self) -> int | None:
        """The end of what is there, as far as known."""

    def told(self) -> Told:
        """What else is known of what is there."""

    def stop(self) -> None:
        """Close the connection. Idempotent."""


def plan_batch(
    planners: Sequence[Planner], starts: Sequence[int], rows_max: int, options: SourceOptions
) -> list[int]:
    """Where the next batch ends in each; all equal to `starts` when there is nothing to do.

    rows_max: 1...
    """
    for planner, start in zip(planners, starts, strict=True):
        planner.begin(start)
    available = [planner.available(start) for planner, start in zip(planners, starts, strict=True)]
    rows = [0] * len(available)
    total = sum(available)
    if total > 0 and (
        total >= options.min_rows
        or any(planner.is_pressing() for planner in planners)
        or max(planner.waited_ms() for planner in planners) >= options.max_delay_ms
    ):
        rows = share(rows_max, available)
    all_rows = max(1, sum(rows))
    return [
        planner.plan(start, count, -(-options.max_bytes * count // all_rows))
        for planner, start, count in zip(planners, starts, rows, strict=True)
    ]
