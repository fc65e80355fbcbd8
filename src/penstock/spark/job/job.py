"""The Spark job: what follows from bronze goes to silver and gold, batch by batch of the query.

It is incremental. Every derived table knows up to which batch of bronze it has been made. What is
made anew is everything from one moment on: nothing that new lines can change ended before it. So a
table is the same as if it had been made in one pass, and where nothing is new nothing is written.
Events are worked on by tasks (`event_tables.py`). What Spark plans costs more than that, so only
traces and percentiles are left to it.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.spark.input.bronze import MESSAGES
from penstock.spark.input.parse import UNREADABLE
from penstock.spark.input.pipeline_input import PipelineInput, as_inputs
from penstock.spark.job import message_tables
from penstock.spark.job.backlog import See
from penstock.spark.job.event_tables import EVENT_TABLES, TABLES_AT_A_TIME, EventTables
from penstock.spark.job.query import Queries
from penstock.spark.job.tasks import Target, by_task, write_frame
from penstock.spark.report.summary import TableSource
from penstock.spark.schema.rows import THROUGHPUT_BUCKET_NS
from penstock.spark.tables.files import without
from penstock.spark.tables.loading import present
from penstock.spark.tables.store import EVENTS, TableStore, open_store
from penstock.spark.tables.upkeep import Upkeep, merged_if_there

MESSAGE_TABLES: Final = (
    "silver/message_span",
    "gold/latency_sketch",
    "gold/throughput",
    "gold/integrity",
)
MERGED: Final = "gold/stage_cdf"
"""The last of the tables that are made of all buckets."""

MERGE_REST: Final = 9.0
"""A run that follows leaves such tables for so many times as long as they took: a tenth of its time
goes into them at most, however short its batches are."""
_MEANT: Final = re.compile(r"([\[\]{}*?\\])")


class Frame(NamedTuple):
    """A table to be written: its rows from `from_ns` of `column` on."""

    name: str
    column: str
    rows: DataFrame


class SparkJob:
    """Inputs into one directory of tables, as often as `update` is called.

    places: directories and streams; bucket_ns: width of the buckets of blame; origin_ns: where
    buckets of throughput begin. Both must be the same whenever the same tables are gone on with.
    """

    def __init__(
        self,
        spark: SparkSession,
        places: Path | PipelineInput | Sequence[PipelineInput],
        tables_dir: Path,
        bucket_ns: int,
        origin_ns: int = 0,
    ) -> None:
        self._spark = spark
        self.store = open_store(tables_dir)
        self.store.cut = by_task(spark, without)
        self.bucket_ns = bucket_ns
        self.origin_ns = origin_ns
        self._is_changed = False
        self.upkeep = Upkeep(self.store, by_task(spark, merged_if_there))
        self._queries = Queries(spark, as_inputs(places), self.store)

        def begun(step: str) -> None:
            self._queries.step = step

        self._events = EventTables(spark, self.store, bucket_ns, begun)

    def update(self, see: See | None = None) -> bool:
        """Take in what is there now and make the tables that follow; whether anything was written.
        see: told now and then how far it is. Raises: OperatorError, also when a file is not the one
        that was read before.

        What comes meanwhile is left for the next call: a live broker says something every second.
        """
        self._is_changed = self._derive()
        self._queries.drain(self._taken, see)
        self._is_changed = self._merge() or self._is_changed
        self.upkeep.expire()
        return self._is_changed

    def follow(
        self,
        period_s: float,
        told: Callable[[int], None],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Go on with what comes, a batch every `period_s`, until KeyboardInterrupt, which is passed
        on. told: of every batch how many rows it had, once all tables have them, but those that
        are merged: a batch that comes too soon after a merge leaves it to a later one, or to the
        next run; say: told when a broker goes away, which is waited for. Raises: OperatorError."""
        self._derive()
        self._merge()
        due_s = 0.0

        def taken(count: int) -> None:
            nonlocal due_s
            self._derive()
            began_s = time.monotonic()
            if began_s >= due_s:
                self._merge()
                ended_s = time.monotonic()
                due_s = ended_s + MERGE_REST * (ended_s - began_s)
            told(count)

        self._queries.follow(period_s, taken, say)

    def _taken(self, count: int) -> None:
        """`count` rows more are in bronze."""
        self._is_changed = self._derive() or self._is_changed

    def _derive(self) -> bool:
        """Bring every table up to bronze, also what a run that was cut short has left behind."""
        is_changed = False
        for table, derived, make in (
            (EVENTS, EVENT_TABLES, self._events.update),
            (MESSAGES, MESSAGE_TABLES, self._from_messages),
        ):
            batch = self.store.batch(table)
            known = min(self.store.batch(name) for name in derived)
            if batch > known:
                make(known, batch)
                is_changed = True
        if is_changed:
            self.upkeep.look()
        return is_changed

    # -- messages --------------------------------------------------------------------------------

    def _from_messages(self, known: int, batch: int) -> None:
        everything = self._read(MESSAGES).where(F.col("stage").isNotNull())
        from_ns = self.store.kept(
            MESSAGES, self._message_horizon(everything, known), self.bucket_ns
        )
        step = THROUGHPUT_BUCKET_NS
        counted_ns = max(0, from_ns - (from_ns - self.origin_ns) % step)
        messages = everything.where(F.col("t_ns") >= from_ns).cache()
        fresh_ones = messages
        if known >= 0:
            # Those that began before the horizon are there already, and nothing of them is new.
            old = self._read("silver/message_span").where(
                (F.col("first_ns") < from_ns) & (F.col("last_ns") >= from_ns)
            )
            fresh_ones = message_tables.lines_without(messages, old)
        spans = message_tables.message_span(fresh_ones)
        self._replace(batch, from_ns, Frame("silver/message_span", "first_ns", spans))
        spans = self._read("silver/message_span").where(F.col("first_ns") >= from_ns)
        latencies = message_tables.latency_sketch(spans, self.bucket_ns)
        integrity = message_tables.integrity(spans, self.bucket_ns)
        self._replace(
            batch,
            from_ns,
            Frame("gold/latency_sketch", "bucket_ns", latencies),
            Frame("gold/integrity", "bucket_ns", integrity),
        )
        counted = everything.where(F.col("t_ns") >= counted_ns)
        throughput = message_tables.throughput(counted, self.origin_ns)
        self._replace(batch, counted_ns, Frame("gold/throughput", "bucket_ns", throughput))
        messages.unpersist()

    def _message_horizon(self, everything: DataFrame, known: int) -> int:
        """When the first of the messages began of which lines after batch `known` tell."""
        if known < 0:
            return 0
        new = everything.where(F.col("batch") > known)
        ids = new.select("message_id").distinct()
        old = self._read("silver/message_span").join(ids, "message_id")
        return self._lowest([new.select("t_ns"), old.select(F.col("first_ns").alias("t_ns"))])

    # -- tables ----------------------------------------------------------------------------------

    def _merge(self) -> bool:
        """What is said of the whole time is made of all buckets, unless that is known already;
        whether anything was written."""
        batch = max(self.store.batch(table) for table in (EVENTS, MESSAGES))
        if batch <= self.store.batch(MERGED):
            return False
        latencies = self._maybe("gold/latency_sketch")
        holds = self._maybe("gold/hold_sketch")
        if latencies is not None:
            table = message_tables.latency(latencies).toArrow()
            self.store.replace("gold/latency", table, batch)
        self.store.replace(MERGED, message_tables.stage_cdf(latencies, holds).toArrow(), batch)
        return True

    def _replace(self, batch: int, from_ns: int, *tables: Frame) -> None:
        def write(one: Frame) -> None:
            rows = one.rows.where(F.col(one.column) >= from_ns)
            schema = to_arrow_schema(rows.schema, timezone="UTC")
            target = Target(str(self.store.place(one.name)), schema, one.column, from_ns)
            made = write_frame(rows, one.name, target, batch)
            self.store.exchange(one.name, made.files, schema, batch, one.column, from_ns)

        with ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
            list(pool.map(write, tables))

    def _read(self, name: str) -> DataFrame:
        files, columns = self.store.files(name), self.store.columns(name)
        if not files:
            # A table whose rows have all been replaced by none has columns and no file.
            return self._spark.createDataFrame(columns.empty_table())
        # With its columns given Spark has no job to look for them.
        known = self._spark.read.schema(from_arrow_schema(columns))
        return known.parquet(*map(literally, files))

    def _maybe(self, name: str) -> DataFrame | None:
        return self._read(name) if self.store.batch(name) >= 0 else None

    def _lowest(self, moments: Iterable[DataFrame]) -> int:
        found = [frame.agg(F.min("t_ns")).collect()[0][0] for frame in moments]
        return min((one for one in found if one is not None), default=0)

    def counts(self, note: str = "") -> TableSource:
        """The size of the input, and what is known to be missing in it. note: see Updater."""
        unreadable = sum(present(self.store, name, UNREADABLE) for name in (EVENTS, MESSAGES))
        events, missing = _covered(self.store)
        traces = present(self.store, MESSAGES, "stage")
        return TableSource(note, events, missing, unreadable, traces)


def literally(path: str) -> str:
    """A path as Spark reads it, for which some characters stand for any."""
    return _MEANT.sub(r"\\\1", path)


def _covered(store: TableStore) -> tuple[int, int]:
    """How many events there are, and how many of their sequences are missing."""
    table = store.read("gold/coverage")
    if table is None:
        return 0, 0
    boots = table.group_by("boot_id").aggregate([("low", "min"), ("high", "max"), ("there", "sum")])
    events = sum(boots["there_sum"].to_pylist())
    spans = zip(boots["low_min"].to_pylist(), boots["high_max"].to_pylist(), strict=True)
    return events, sum(high - low + 1 for low, high in spans) - events
