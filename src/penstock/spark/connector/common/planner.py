"""Plans one batch over one or several queues or streams, whatever kind they are of.

Each has a planner of its own, which knows what is there and where its rows end; what belongs to the
batch as a whole is decided here: whether it is worth one (`minOffsetsPerTrigger`,
`maxTriggerDelay`), and how `maxOffsetsPerTrigger` and `maxBytesPerTrigger` are divided, in
proportion to what waits in each.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.share import share


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
