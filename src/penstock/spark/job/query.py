"""One streaming query from an input into bronze: started, watched, and ended.

A batch becomes files of bronze in tasks, and one commit a table that says which batch of which
query it was (`bronze.take_in`). What follows from bronze is made before the batch counts as done,
so a batch that was cut short is run again, finds what is there, and goes on from it. The checkpoint
lies beside the tables, one a query: `checkpoint/files`, `checkpoint/stream-ID`.
"""

import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.base.errors import OperatorError
from penstock.spark.input import bronze
from penstock.spark.input.pipeline_input import PipelineInput
from penstock.spark.input.sources import open_source
from penstock.spark.input.stream_input import InputAway, StreamInput
from penstock.spark.job.backlog import READING, Backlog, See, Seen
from penstock.spark.session.watching import tasks_done
from penstock.spark.tables.store import ParquetStore, TableStore

After = Callable[[int], None]
CHECKPOINT: Final = "checkpoint"
LOOK_S: Final = 0.2
_PYTHON_FAULT: Final = re.compile(r"(?:^|: )(?:[\w.]*\.)?(\w+Error|InputAway): (.+)$", re.MULTILINE)
"""The name of a fault and what it says, at the beginning of a line or behind Spark's own words."""


class Query:
    """The query of `place` into `store`. `after`, as methods take it, makes what follows from
    bronze: it is called for every batch with the number of its rows."""

    def __init__(self, spark: SparkSession, place: PipelineInput, store: TableStore) -> None:
        self._spark = spark
        self._place = place
        self._store = store
        self._fault: BaseException | None = None
        self._batch = threading.Lock()
        self._is_over = False
        self.step = READING
        """Of the batch that is under way; whoever makes what follows from bronze says which."""
        if isinstance(store, ParquetStore):
            # Its tables begin anew.
            shutil.rmtree(store.directory / CHECKPOINT, ignore_errors=True)

    def drain(self, after: After, see: See | None = None) -> None:
        """Take in what is there now; what comes meanwhile is left for the next call. see: told how
        far it is, every LOOK_S. Raises: OperatorError."""
        self._run({"availableNow": True}, after, see)

    def follow(self, period_s: float, after: After) -> None:
        """Take in what comes, a batch every `period_s`, until KeyboardInterrupt, which is passed
        on. Raises: OperatorError."""
        self._run({"processingTime": f"{round(period_s * 1000)} milliseconds"}, after)

    def _run(self, trigger: dict[str, Any], after: After, see: See | None = None) -> None:
        name = self._place.query()
        checkpoint = self._store.directory / CHECKPOINT / name
        self._require(checkpoint, name)
        rows, parse_rows = open_source(self._spark, self._place)
        backlog = Backlog(self._place.span(), checkpoint) if see else None
        events = 0

        def take(batch: DataFrame, number: int) -> None:
            nonlocal events
            with self._batch:
                if self._is_over:
                    raise OperatorError("the query was stopped before this batch")
                try:
                    self.step = READING
                    count = bronze.take_in(batch, self._store, parse_rows, name, number)
                    events += count
                    after(count)
                except BaseException as fault:
                    self._fault = fault
                    raise

        self._fault, self._is_over = None, False
        writer = rows.writeStream.queryName(f"penstock-{name}").foreachBatch(take)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger)
        with interrupts() as is_asked:
            query = writer.start()
            try:
                while query.isActive and not is_asked.wait(LOOK_S):
                    if see and backlog:
                        tasks = tasks_done(self._spark.sparkContext)
                        see(Seen(backlog.share(self.step, tasks), events, self.step))
                self._is_over = True
                # Between two batches Spark ends a query without a word.
                with self._batch:
                    pass
            finally:
                query.stop()
        if is_asked.is_set():
            raise KeyboardInterrupt
        fault = query.exception()
        if fault is not None:
            raise self._said(fault) from fault
        if see:
            see(Seen(1.0, events, self.step))

    def _require(self, checkpoint: Path, name: str) -> None:
        known = max(self._store.mark(table, name) for table in bronze.BRONZE)
        if known >= 0 and not checkpoint.is_dir():
            raise OperatorError(
                f"{checkpoint} is gone, which says how far {self._place} was read; put it back, or "
                "make the tables anew in another --tables directory"
            )

    def _said(self, fault: StreamingQueryException) -> BaseException:
        """What was wrong in one sentence, without what Java and Python were doing meanwhile."""
        if isinstance(self._fault, OperatorError | OSError):
            return self._fault
        found = _PYTHON_FAULT.findall(str(self._fault or fault))
        text = found[-1][1].strip() if found else str(fault).partition("\n")[0]
        is_away = isinstance(self._place, StreamInput) and found and found[-1][0] in AWAY
        return (InputAway if is_away else OperatorError)(f"{self._place} cannot be read: {text}")


AWAY: Final = frozenset({"ConnectError", "ConnectionClosedError", "NoReplyError"})
"""Faults of a connection, which may be there again later."""


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """In the main thread the first Ctrl-C or SIGTERM only sets the event: in the middle of a batch
    Java would tell of it on some thousand lines. The second one does what the first did before."""
    is_asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_asked
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(number: int, frame: FrameType | None) -> None:
        is_asked.set()
        for one in numbers:
            signal.signal(one, before[one])

    for number in numbers:
        signal.signal(number, ask)
    try:
        yield is_asked
    finally:
        for number in numbers:
            signal.signal(number, before[number])
