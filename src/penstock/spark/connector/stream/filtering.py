"""Batch reads that leave out what a filter leaves out: option filterPushdown, from Spark 4.1 on.

Offsets and queues decide what is read, so their filters are done with. A time is known from rows
only, so rows are left out before they go to Spark, which applies the filter again.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.stream_source import StreamBatchReader

OFFSET_END: Final = 2**63
_COMPARE: Final[dict[type[Filter], Any]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}


@plainly
class FilteringBatchReader(StreamBatchReader):
    """`spark.read` of streams with option filterPushdown. A class of its own, because Spark refuses
    readers with `pushFilters` unless spark.sql.python.filterPushdown.enabled is true."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        self._first = 0
        self._stop = OFFSET_END
        self._queues: set[str] | None = None
        self._times: list[tuple[type[Filter], datetime]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep what can be used; those that Spark still has to look at."""
        return [filter for filter in filters if not self._take(filter)]

    def range_of(self, number: int) -> tuple[int, int]:
        """Nothing of a queue that was not asked for, without a connection to it."""
        if self._first >= self._stop:
            return 0, 0
        if self._queues is not None and self._options.queues[number] not in self._queues:
            return 0, 0
        first, stop = super().range_of(number)
        return max(first, self._first), min(stop, self._stop)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches without rows of other times; in a worker."""
        for batch in super().read(partition):
            yield kept(batch, self._times)

    def _take(self, filter: Filter) -> bool:
        """Whether Spark need not look at it any more."""
        if isinstance(filter, IsNotNull):
            return filter.attribute in (("offset",), ("queue",))
        if not isinstance(filter, EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan
                          | LessThanOrEqual):  # fmt: skip
            return False
        column = filter.attribute
        if column == ("offset",) and not isinstance(filter, In):
            return isinstance(filter.value, int) and self._narrow(filter, filter.value)
        if column == ("queue",) and isinstance(filter, EqualTo | In):
            names = filter.value if isinstance(filter, In) else (filter.value,)
            asked = {str(name) for name in names}
            self._queues = asked if self._queues is None else self._queues & asked
            return True
        is_time = column == ("timestamp",) and not isinstance(filter, In)
        if is_time and isinstance(filter.value, datetime):
            self._times.append((type(filter), filter.value))
        return False

    def _narrow(self, filter: Filter, value: int) -> bool:
        if isinstance(filter, EqualTo | GreaterThanOrEqual):
            self._first = max(self._first, value)
        if isinstance(filter, GreaterThan):
            self._first = max(self._first, value + 1)
        if isinstance(filter, EqualTo | LessThanOrEqual):
            self._stop = min(self._stop, value + 1)
        if isinstance(filter, LessThan):
            self._stop = min(self._stop, value)
        return True


def kept(batch: Any, times: Sequence[tuple[type[Filter], datetime]]) -> Any:
    """The rows of an Arrow batch whose timestamp passes all of `times`; null passes none."""
    for kind, moment in times:
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        batch = batch.filter(_COMPARE[kind](batch.column("timestamp"), moment))
    return batch
