"""The writers of the data source `amqp`: rows to publishes, a task at a time.

Spark makes a writer anew for every batch and runs `write` in the workers; only `write` talks to the
broker. When it returns, the broker has confirmed every row, so there is nothing left to commit, and
nothing can be taken back by an abort: what a failed task has published stays published, and comes
again with the next attempt (at least once).
"""

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError
from penstock.spark.connector.messages import Origin, RowPlan, plan_rows
from penstock.spark.connector.options import SinkOptions, parse_sink
from penstock.spark.connector.publisher import publish_rows


class Written(WriterCommitMessage):
    """A task's rows are confirmed. `rows`: how many."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("amqp").mode("append").save()`."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Publish one partition. Raises: OperatorError, ClientError."""
        return Written(publish_rows(iterator, self._plan, self._options, origin()))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("amqp").start()`."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Publish one partition of one batch. Raises: OperatorError, ClientError."""
        return Written(publish_rows(iterator, self._plan, self._options, origin()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: every row is confirmed already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: a publish cannot be taken back."""


def make_sink(
    given: dict[str, str], schema: StructType, overwrite: bool
) -> tuple[SinkOptions, RowPlan]:
    """Options and columns, checked. Raises: OperatorError."""
    options = parse_sink(given)
    if overwrite:
        raise OperatorError(
            "a queue or exchange cannot be overwritten; use mode append (outputMode append)"
        )
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    return options, plan_rows(columns, options)


def origin() -> Origin:
    """Which query, batch and partition this task belongs to."""
    context = TaskContext.get()
    if context is None:
        return Origin("", "", 0)
    return Origin(
        context.getLocalProperty("sql.streaming.queryId") or "",
        context.getLocalProperty("streaming.sql.batchId") or "",
        context.partitionId(),
    )
