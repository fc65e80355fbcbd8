"""The writers of the data source `amqp`: rows to publishes, a task at a time.

Spark makes a writer anew for every batch and runs `write` in the workers; `commit` and `abort` run
on the driver. With delivery=exactly-once a task stages its rows, and `commit` has the broker make
all of them visible at once (see publisher). Otherwise the broker has confirmed every row when
`write` returns, so nothing is left to commit, and nothing can be taken back: what a failed task has
published stays published, and comes again with the next attempt.
"""

import math
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Connection
from penstock.spark.connector.common.endpoint import labelled
from penstock.spark.connector.common.engines import DataSourceStreamArrowWriter
from penstock.spark.connector.common.opening import first_look
from penstock.spark.connector.common.options import EXACTLY_ONCE, SinkOptions, parse_sink
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.sink.committer import (
    StagedBatch,
    check_capability,
    commit_batch,
    forget_app,
    roll_back,
)
from penstock.spark.connector.sink.messages import (
    NO_ORIGIN,
    Origin,
    RowPlan,
    check_struct,
    plan_rows,
)
from penstock.spark.connector.sink.publisher import publish_rows, stage_rows

QUIET_S: Final = 10.0
SEEN_MOST: Final = 64
"""Queries of one process; of more, those are looked at in each batch."""
_seen_s: dict[tuple[SinkOptions, RowPlan], float] = {}
"""When their last batches were, in order."""


@dataclass
class Written(WriterCommitMessage):
    """A task is done. `rows`: how many; app, identity: of its transaction, "" without one; origin,
    kept: whose rows they were, and the rows themselves as compressed Arrow, b"" where nobody would
    stage them again. The task is over when the broker may lose them, and the driver has nothing
    but this."""

    rows: int
    app: str = ""
    identity: str = ""
    origin: Origin = NO_ORIGIN
    kept: bytes = b""


@plainly
class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("amqp").mode("append").save()`; exactly-once means all of it or nothing."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan
        # Nothing counts the batches of df.write but the user: else each is an app of its own while
        # it lasts.
        self._is_counted = options.batch >= 0
        self._batch = (
            StagedBatch(options.app_id, options.batch)
            if self._is_counted
            else StagedBatch(f"write-{uuid.uuid4().hex}", 0)
        )

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Publish or stage one partition. Raises: OperatorError, ClientError."""
        return _written(iterator, self._plan, self._options, self._batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make everything visible. Raises: OperatorError, ClientError."""
        if self._options.delivery == EXACTLY_ONCE:
            commit_all(self._options, self._plan, self._batch, messages)
            if not self._is_counted:
                forget_app(self._options, self._batch.app)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        if self._options.delivery == EXACTLY_ONCE:
            roll_back(self._options, self._batch, identities(messages))


@plainly
class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("amqp").start()`."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        if options.batch >= 0:
            raise OperatorError(
                "option batchId is for df.write, as in foreachBatch: Spark counts the batches of "
                "df.writeStream itself. Leave it out"
            )
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
            commit_all(self._options, self._plan, batch, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what was staged; publishes that were confirmed cannot be taken back."""
        batch = batch_of(messages, batchId)
        if batch is not None:
            roll_back(self._options, batch, identities(messages))


def _written(
    iterator: Iterator[Any], plan: RowPlan, options: SinkOptions, batch: StagedBatch
) -> WriterCommitMessage:
    found = origin()
    if options.delivery != EXACTLY_ONCE:
        return Written(publish_rows(iterator, plan, options, found))
    rows: list[Any] = []
    identity, count = stage_rows(iterator, plan, options, found, batch, rows)
    return Written(count, batch.app, identity, found, packed(rows))


def commit_all(
    options: SinkOptions,
    plan: RowPlan,
    batch: StagedBatch,
    messages: list[WriterCommitMessage | None],
) -> None:
    """Commit what the tasks have staged, and stage it anew where the broker has lost it. Raises:
    OperatorError, ClientError."""
    tasks = [one for one in messages if isinstance(one, Written) and one.identity]
    again: list[str] = []

    def stage_again() -> list[str]:
        again.clear()
        for one in tasks:
            if one.rows > 0:
                again.append(stage_rows(unpacked(one.kept), plan, options, one.origin, batch)[0])
        return list(again)

    # A broker may be started anew as often as it likes: rows that were not kept end the query.
    is_kept = options.endpoint.reconnect_timeout_ms > 0
    try:
        commit_batch(options, batch, identities(messages), stage_again if is_kept else None)
    except BaseException:
        # Spark aborts what its tasks have staged, and knows nothing of this.
        if again:
            roll_back(options, batch, again)
        raise


def packed(batches: list[Any]) -> bytes:
    """Arrow batches of one schema as bytes, b"" for none."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for one in batches:
            writer.write_batch(one)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> list[Any]:
    """What `packed` has packed."""
    if not data:
        return []
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return list(reader)


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
    given: dict[str, str], schema: StructType, overwrite: bool, application: str = ""
) -> tuple[SinkOptions, RowPlan]:
    """Options and columns, checked. application: Spark's name of it. Raises: OperatorError."""
    options = parse_sink(given)
    options = replace(options, endpoint=labelled(options.endpoint, application))
    if overwrite:
        raise OperatorError(
            "a queue or exchange cannot be overwritten; use mode append (outputMode append)"
        )
    names = schema.fieldNames()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OperatorError(
            f"the rows have {' and '.join(twice)} more than once, and nothing says which column is "
            "meant; drop the others, or rename them"
        )
    plan = plan_rows(_types(schema), options)
    struct = schema.fields[plan.struct].dataType if plan.struct >= 0 else None
    if isinstance(struct, StructType):
        check_struct(_types(struct))
    return options, plan


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def check_sink(options: SinkOptions, plan: RowPlan) -> None:
    """Say what would fail every task of a write, before there are any. Raises: OperatorError,
    ClientError."""
    is_one_queue = options.exchange == "" and max(plan.exchange, plan.routing_key) < 0

    def look(connection: Connection) -> None:
        if options.delivery == EXACTLY_ONCE:
            check_capability(connection)
        if is_one_queue and options.is_mandatory:
            connection.channel().declare_queue(options.routing_key, passive=True)
        if options.exchange and plan.exchange < 0:
            connection.channel().declare_exchange(options.exchange, passive=True)

    first_look(options.endpoint, "sink, driver", look)


def check_query(options: SinkOptions, plan: RowPlan) -> None:
    """As `check_sink`, for a query that begins: one whose last batch is QUIET_S ago, or was no
    batch of this process. Otherwise four attempts of each task would say it, a stack of Java's
    calls behind each. Raises: OperatorError, ClientError."""
    key, now_s = (options, plan), time.monotonic()
    last_s = _seen_s.pop(key, -math.inf)
    if now_s - last_s > QUIET_S:
        check_sink(options, plan)
    while len(_seen_s) >= SEEN_MOST:
        # The one that was seen first.
        del _seen_s[next(iter(_seen_s))]
    _seen_s[key] = time.monotonic()


def origin() -> Origin:
    """Which query, batch and partition this task belongs to."""
    context = TaskContext.get()
    if context is None:
        return NO_ORIGIN
    return Origin(
        context.getLocalProperty("sql.streaming.queryId") or "",
        context.getLocalProperty("streaming.sql.batchId") or "",
        context.partitionId(),
        context.attemptNumber(),
    )
