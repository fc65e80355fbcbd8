"""Streaming queries from inputs into bronze, one an input: started, watched, and ended.

A batch becomes files of bronze in tasks, and one commit a table that says which batch of which
query it was (`bronze.take_in`). What follows from bronze is made before the batch counts as done,
so a batch that was cut short is run again, finds what is there, and goes on from it. Queries may
run at the same time, but one batch at a time is taken in: the tables have one writer. Each query
has a checkpoint beside the tables: `checkpoint/files-NAME-ID`, `checkpoint/stream-ID`.
"""

import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.base.errors import OperatorError
from penstock.spark.input import bronze
from penstock.spark.input.pipeline_input import PipelineInput
from penstock.spark.input.sources import open_source
from penstock.spark.input.stream_input import InputAway, StreamInput
from penstock.spark.job.backlog import READING, Backlog, See, Seen
from penstock.spark.session.watching import tasks_done
from penstock.spark.tables.store import TableStore

After = Callable[[int], None]
CHECKPOINT: Final = "checkpoint"
LOOK_S: Final = 0.2
_PYTHON_FAULT: Final = re.compile(r"(?:^|: )(?:[\w.]*\.)?(\w+Error|InputAway): (.+)$", re.MULTILINE)
"""The name of a fault and what it says, at the beginning of a line or behind Spark's own words."""


class Queries:
    """The queries of `places` into `store`. `after`, as methods take it, makes what follows from
    bronze: it is called for every batch with the number of its rows."""

    def __init__(
        self, spark: SparkSession, places: Sequence[PipelineInput], store: TableStore
    ) -> None:
        self._spark = spark
        self._places = tuple(places)
        self._store = store
        self._batch = threading.Lock()
        self.step = READING
        """Of the batch that is under way; whoever makes what follows from bronze says which."""

    def drain(self, after: After, see: See | None = None) -> None:
        """Take in what is there now, one input after the other; what comes meanwhile is left for
        the next call. see: told how far it is, every LOOK_S. Raises: OperatorError."""
        done: list[_Query] = []
        for number, place in enumerate(self._places):
            query = self._query(place, after)
            backlog = Backlog(place.span(), query.checkpoint) if see else None

            def look(share: float, query: "_Query" = query, number: int = number) -> None:
                if see:
                    whole = (number + share) / len(self._places)
                    see(Seen(whole, sum(one.events for one in (*done, query)), self.step))

            with interrupts() as is_asked:
                query.start({"availableNow": True})
                try:
                    while query.is_active and not is_asked.wait(LOOK_S):
                        if backlog:
                            look(backlog.share(self.step, tasks_done(self._spark.sparkContext)))
                finally:
                    query.stop()
            if is_asked.is_set():
                raise KeyboardInterrupt
            query.check()
            look(1.0)
            done.append(query)

    def follow(
        self, period_s: float, after: After, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """Take in what comes, a batch of each input every `period_s`, until KeyboardInterrupt,
        which is passed on. A broker that goes away is told to `say` and tried again every
        `period_s`, while the others go on. Raises: OperatorError, also for an input that is not
        there at the beginning."""
        trigger = {"processingTime": f"{round(period_s * 1000)} milliseconds"}
        queries: dict[PipelineInput, _Query] = {}
        again_s: dict[PipelineInput, float] = {}
        with interrupts() as is_asked:
            try:
                for place in self._places:
                    queries[place] = self._query(place, after)
                    queries[place].start(trigger)
                while not is_asked.wait(LOOK_S):
                    for place in self._places:
                        try:
                            if place not in again_s:
                                if queries[place].is_active:
                                    continue
                                queries[place].check()
                            elif time.monotonic() < again_s[place]:
                                continue
                            queries[place] = self._query(place, after)
                            queries[place].start(trigger)
                            again_s.pop(place, None)
                        except InputAway as fault:
                            if place not in again_s:
                                say(f"{fault}; it is tried again every {period_s:g} s")
                            again_s[place] = time.monotonic() + period_s
            finally:
                for query in queries.values():
                    query.stop()
        raise KeyboardInterrupt

    def _query(self, place: PipelineInput, after: After) -> "_Query":
        """Raises: OperatorError."""
        name = place.query()
        checkpoint = self._store.directory / CHECKPOINT / name
        known = max(self._store.mark(table, name) for table in bronze.BRONZE)
        if known < 0:
            # Of what it has read nothing is in these tables: they were plain ones, or were removed.
            shutil.rmtree(checkpoint, ignore_errors=True)
        elif not checkpoint.is_dir():
            raise OperatorError(
                f"{checkpoint} is gone, which says how far {place} was read; put it back, or "
                "make the tables anew in another --tables directory"
            )
        return _Query(self, place, name, checkpoint, after)

    def take(self, query: "_Query", batch: DataFrame, number: int, parse_rows: bronze.Parse) -> int:
        """Bring one batch into all tables; how many rows it had. Raises: OperatorError, OSError."""
        with self._batch:
            if query.is_over:
                raise OperatorError("the query was stopped before this batch")
            self.step = READING
            count = bronze.take_in(batch, self._store, parse_rows, query.name, number)
            query.after(count)
            return count

    def pause(self) -> None:
        """Return when no batch is under way."""
        with self._batch:
            pass

    def source(self, place: PipelineInput) -> tuple[DataFrame, bronze.Parse]:
        """See `open_source`."""
        return open_source(self._spark, place)


class _Query:
    """One run of the query of one input. events: rows that it has taken in."""

    def __init__(
        self, owner: Queries, place: PipelineInput, name: str, checkpoint: Path, after: After
    ) -> None:
        self._owner = owner
        self._place = place
        self.name = name
        self.checkpoint = checkpoint
        self.after = after
        self.events = 0
        self.is_over = False
        self._fault: BaseException | None = None
        self._query: StreamingQuery | None = None

    def start(self, trigger: dict[str, Any]) -> None:
        """Raises: OperatorError."""
        rows, parse_rows = self._owner.source(self._place)

        def take(batch: DataFrame, number: int) -> None:
            try:
                self.events += self._owner.take(self, batch, number, parse_rows)
            except BaseException as fault:
                self._fault = fault
                raise

        writer = rows.writeStream.queryName(f"penstock-{self.name}").foreachBatch(take)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger)
        self._query = writer.start()

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    def stop(self) -> None:
        """End it between two batches, where Spark ends a query without a word."""
        self.is_over = True
        self._owner.pause()
        if self._query is not None:
            self._query.stop()

    def check(self) -> None:
        """Raises: OperatorError, OSError: what the query ended with, if it was a fault."""
        fault = None if self._query is None else self._query.exception()
        if fault is not None:
            raise self._said(fault) from fault

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
