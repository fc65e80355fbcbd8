"""What Spark 4.0 to 4.3 do not all have, and what takes its place where it is missing.

    latestOffset(start, limit), availableNow    from 4.2; before: `ReaderWithoutStart`
    Arrow batches into a streaming sink         from 4.1; before: a writer that is of both kinds
    filters for batch reads                     from 4.1; before: refused (`HAS_FILTERS`)

An engine without admission control asks `latestOffset()` and does not say where the query is. It
asks again when the batch before is in its commit log, so within a process the last answer is that
place; and after a restart it first asks for the partitions of an empty range, at the end of what it
has run. It has no availableNow for such a source either, but runs one batch and ends. After that
batch there is no question, with which messages of a queue could be acknowledged: they would come
again. So of a queue the first answer of each process is that nothing has come, and a query that
asks only once reads nothing.
"""

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.base.errors import PenstockError
from penstock.spark.connector.common.plainly import plainly

if TYPE_CHECKING:
    from penstock.spark.connector.common.reader import AmqpStreamReader

_log = logging.getLogger("penstock.spark")
HAS_START: Final = importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
HAS_FILTERS: Final = hasattr(datasource, "EqualTo")

if TYPE_CHECKING or HAS_START:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """How much Spark wants."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """All there is."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """max_rows: at most."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """This Spark does not ask."""


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(
        datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter
    ):
        """Spark 4.0 hands Arrow batches to every writer that is of the second kind."""


@plainly
class ReaderWithoutStart(DataSourceStreamReader):
    """`reader` for an engine that asks `latestOffset()`.

    _initial: where a new query begins, None until asked; _position: where the query is, None until
    known; _can_plan: whether another question is sure to follow, or not needed.
    """

    def __init__(self, reader: "AmqpStreamReader[Any]") -> None:
        self._reader = reader
        self._initial: dict[str, Any] | None = None
        self._position: dict[str, Any] | None = None
        self._can_plan = reader.MODE == "stream"

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; the same each time in one process."""
        if self._initial is None:
            self._initial = self._reader.initialOffset()
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Settle what is done, plan the next batch."""
        reader = self._reader
        if self._position is None:
            self._position = self.initialOffset()
        if self._can_plan:
            self._position = reader.latestOffset(self._position, reader.getDefaultReadLimit())
            return self._position
        self._can_plan = True
        _log.warning(
            "Spark %s reads nothing with the first trigger, and nothing at all with %s, of a queue "
            "that is no stream: use trigger(processingTime=...), or Spark 4.2 or newer",
            pyspark.__version__, "trigger(availableNow=True)",
        )  # fmt: skip
        return self._position

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a batch; of an empty one none, and nobody is asked. Raises: OperatorError,
        ClientError."""
        self._position = end
        return [] if start == end else self._reader.partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        """As the reader."""
        self._reader.commit(end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """As the reader; in a worker."""
        return self._reader.read(partition)

    def stop(self) -> None:
        """Close the connections."""
        self._reader.stop()


@plainly
class NoReader(DataSourceStreamReader):
    """Says why there is none with the first thing that Spark asks. What `streamReader` raises is
    lost: Spark's runner then stops the reader that it has not got, and tells of that."""

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    def _fail(self, *asked: object) -> Any:
        """Raises: the error."""
        raise self._error

    initialOffset = latestOffset = partitions = read = _fail  # type: ignore[assignment]


def fitted(reader: "AmqpStreamReader[Any]") -> DataSourceStreamReader:
    """`reader` as this Spark asks it."""
    return reader if HAS_START else ReaderWithoutStart(reader)
