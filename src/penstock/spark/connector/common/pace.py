"""Finds the size of batches that take as long as `targetBatchDuration` wants; a pure controller.

A batch takes about `fixed + rows / speed`, and both drift: the sink has company, the cluster is
busy. After each batch its size is multiplied by target/took, softened and at most halved or
doubled. Longer batches never take more than proportionally longer, so the loop gain stays below
one: sizes approach what fits from one side, and do not swing.

Where the fixed part alone takes nearly all of the target, smaller batches would cost throughput and
gain nothing. Then the size goes to the one at which rows take a tenth of the time; the fixed part
and the speed are fitted to the batches that were too long since one was not, older ones counting
less and less. A trigger interval longer than the target is such a fixed part.
Not handled: clocks. The owner says how long a batch took.
"""

from typing import Final

FIRST_ROWS: Final = 1000
"""Where a query begins: with a slow sink a batch of the largest size could take hours."""
SOFTNESS: Final = 0.7
"""Exponent of target/took: one late batch among many must not halve the size."""
STEP_MAX: Final = 2.0
MEMORY: Final = 0.8
"""What a batch's weight in the fit is multiplied by with each later one."""
ROWS_SHARE_LEAST: Final = 0.1


class BatchPace:
    """Rows of the next batch, lowest..highest. target_ms: 1.., what a batch is to take.

    Only batches that were as large as allowed say that there may be more; a batch that took too
    long says so whatever its size.
    """

    __slots__ = (
        "_highest", "_lowest", "_rows", "_sum", "_sum_ms", "_sum_rows", "_sum_rows_ms",
        "_sum_squares", "_target_ms",
    )  # fmt: skip

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

    __slots__ = ("_begun_ns", "_is_warm", "_pace", "_rows")

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
