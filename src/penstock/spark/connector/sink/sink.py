"""The writers of the data source `amqp`: rows to publishes, a task at a time.

Spark makes a writer anew for every batch and runs `write` in the workers; `commit` and `abort` run
on the driver. With delivery=exactly-once a task stages its rows, and `commit` has the broker make
all of them visible at once (see publisher). Otherwise the broker has confirmed every row when
`write` returns, so nothing is left to commit, and nothing can be taken back: what a failed task has
published stays published, and comes again with the next attempt.
"""

import uuid
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
from penstock.spark.connector.common.options import EXACTLY_ONCE, SinkOptions, parse_sink
from penstock.spark.connector.sink.messages import Origin, RowPlan, plan_rows
from penstock.spark.connector.sink.publisher import (
    StagedBatch,
    commit_batch,
    forget_app,
    publish_rows,
    roll_back,
    stage_rows,
)


class Written(WriterCommitMessage):
    """A task is done. `rows`: how many; app, identity: of its transaction, "" without one."""

    def __init__(self, rows: int, app: str = "", identity: str = "") -> None:
        self.rows = rows
        self.app = app
        self.identity = identity


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("amqp").mode("append").save()`; exactly-once means all of it or nothing."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan
        # Nothing counts the batches of df.write, so each is an app of its own while it lasts.
        self._batch = StagedBatch(f"write-{uuid.uuid4().hex}", 0)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Publish or stage one partition. Raises: OperatorError, ClientError."""
        return _written(iterator, self._plan, self._options, self._batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make everything visible. Raises: OperatorError, ClientError."""
        if self._options.delivery == EXACTLY_ONCE:
            commit_batch(self._options, self._batch, identities(messages))
            forget_app(self._options, self._batch.app)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        if self._options.delivery == EXACTLY_ONCE:
            roll_back(self._options, self._batch, identities(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("amqp").start()`."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Publish or stage one partition of one batch. Raises: OperatorError, ClientError."""
        if self._options.delivery != EXACTLY_ONCE:
            return _written(iterator, self._plan, self._options, StagedBatch("", 0))
        found = origin()
        app = self._options.app_id or found.query_id
        if not app or not found.batch_id:
            raise OperatorError(
                "delivery=exactly-once: Spark does not say which query and batch this is"
            )
        return _written(iterator, self._plan, self._options, StagedBatch(app, int(found.batch_id)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the batch visible, unless that was done before. Raises: OperatorError, ClientError;
        then the query fails, and its next start runs the batch again."""
        batch = batch_of(messages, batchId)
        if batch is not None:
            commit_batch(self._options, batch, identities(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what was staged; publishes that were confirmed cannot be taken back."""
        batch = batch_of(messages, batchId)
        if batch is not None:
            roll_back(self._options, batch, identities(messages))


def _written(
    iterator: Iterator[Any], plan: RowPlan, options: SinkOptions, batch: StagedBatch
) -> WriterCommitMessage:
    if options.delivery != EXACTLY_ONCE:
        return Written(publish_rows(iterator, plan, options, origin()))
    identity, rows = stage_rows(iterator, plan, options, origin(), batch)
    return Written(rows, batch.app, identity)


def identities(messages: list[WriterCommitMessage | None]) -> list[str]:
    """The transactions of the tasks that Spark counts."""
    return [one.identity for one in messages if isinstance(one, Written) and one.identity]


def batch_of(messages: list[WriterCommitMessage | None], batch_id: int) -> StagedBatch | None:
    """What the tasks have staged for; None when none of them has."""
    for one in messages:
        if isinstance(one, Written) and one.app:
            return StagedBatch(one.app, batch_id)
    return None


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
        context.attemptNumber(),
    )
