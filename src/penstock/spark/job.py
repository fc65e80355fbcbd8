"""The Spark job: new input to bronze, what follows from it to silver and gold.

It is incremental. Every derived table knows up to which batch of bronze it has been made. What is
made anew is everything from one moment on, the *horizon*: no fact that new lines can change began
before it. So a table is the same as if it had been made in one pass, and where nothing is new
nothing is written.

    horizon = earliest of: a new line, the beginning of a new event's interval, whatever was still
              open (holds, alarms, last samples) of a boot that has new events

Small tables take less time to compute than Spark takes to plan them, so two are made at a time.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import bronze, gold, silver
from penstock.spark.bronze import EVENTS, MESSAGES
from penstock.spark.intake import fresh
from penstock.spark.loading import load_tables
from penstock.spark.parse import UNREADABLE
from penstock.spark.rows import THROUGHPUT_BUCKET_NS, BlameRow, Counts, StateRow, Tables
from penstock.spark.small_windows import name_small_windows
from penstock.spark.store import TableStore, open_store

TABLES_AT_A_TIME: Final = 2

EVENT_TABLES: Final = (
    "silver/block_interval",
    "silver/alarm_interval",
    "silver/sample_step",
    "silver/consumer",
    "gold/who_blocked_whom",
    "gold/root_cause",
    "gold/held_time",
    "gold/time_in_state",
    "gold/queue_depth",
    "gold/event_kinds",
    "gold/coverage",
    "gold/hold_sketch",
)
MESSAGE_TABLES: Final = (
    "silver/message_span",
    "gold/latency_sketch",
    "gold/throughput",
    "gold/integrity",
)
Make = Callable[[], DataFrame]


class Made(NamedTuple):
    """A table to be written: its rows from `from_ns` of `column` on."""

    name: str
    column: str
    make: Make


class SparkJob:
    """One directory of input into one directory of tables, as often as `run` is called.

    bucket_ns: width of the buckets of blame; origin_ns: where buckets of throughput begin. Both
    must be the same whenever the same tables are gone on with.
    """

    def __init__(
        self,
        spark: SparkSession,
        input_dir: Path,
        tables_dir: Path,
        bucket_ns: int,
        origin_ns: int = 0,
    ) -> None:
        self._spark = spark
        self._input_dir = input_dir
        self.store = open_store(tables_dir)
        self._bucket_ns = bucket_ns
        self._origin_ns = origin_ns

    def run(self) -> tuple[Tables, Counts]:
        """Take in what is new; returns the gold tables, in the order that the plain twin gives.

        Raises: OperatorError when a file is not the one that was read before.
        """
        self.update()
        return load_tables(self.store), self.counts()

    def update(self) -> bool:
        """Take in what is new and make the tables that follow; whether anything was written."""
        is_changed = self._derive()
        while self._take_in():
            self._derive()
            is_changed = True
        return is_changed

    def _take_in(self) -> bool:
        has_any = False
        for source in bronze.SOURCES:
            taken = partial(self.store.mark, source.table)
            intake = fresh(self._input_dir, source.pattern, taken)
            if intake.ranges:
                bronze.take_in(self._spark, self.store, source, intake)
                has_any = True
        return has_any

    def _derive(self) -> bool:
        """Bring every table up to bronze, also what a run that was cut short has left behind."""
        is_changed = False
        for table, derived, make in (
            (EVENTS, EVENT_TABLES, self._from_events),
            (MESSAGES, MESSAGE_TABLES, self._from_messages),
        ):
            batch = self.store.batch(table)
            known = min(self.store.batch(name) for name in derived)
            if batch > known:
                make(known, batch)
                is_changed = True
        batch = max(self.store.batch(table) for table in (EVENTS, MESSAGES))
        if is_changed and batch >= 0:
            self._merge(batch)
        return is_changed

    # -- events ----------------------------------------------------------------------------------

    def _from_events(self, known: int, batch: int) -> None:
        everything = self._read(EVENTS).where(F.col("kind").isNotNull())
        from_ns = self._floor(self._event_horizon(everything, known))
        events = _once(everything.where(F.col("t_ns") >= from_ns)).cache()
        carried = None
        if known >= 0:
            carried = self._read("silver/block_interval").where(
                (F.col("start_ns") < from_ns) & (F.col("end_ns") >= from_ns)
            )
        self._replace(
            batch,
            from_ns,
            Made(
                "silver/block_interval", "start_ns", lambda: silver.block_interval(events, carried)
            ),
            Made("silver/alarm_interval", "start_ns", lambda: silver.alarm_interval(events)),
            Made("silver/sample_step", "start_ns", lambda: silver.sample_step(events)),
            Made("silver/consumer", "since_ns", lambda: silver.consumer(events)),
        )
        self._event_gold(events, batch, from_ns)
        events.unpersist()

    def _event_gold(self, events: DataFrame, batch: int, from_ns: int) -> None:
        width = self._bucket_ns
        intervals = self._read("silver/block_interval").where(F.col("end_ns") > from_ns)
        steps = self._read("silver/sample_step").where(F.col("end_ns") > from_ns)
        cut = gold.edges(intervals, steps, width).where(F.col("bucket_ns") >= from_ns).cache()
        begun = intervals.where(F.col("start_ns") >= from_ns)
        self._replace(
            batch,
            from_ns,
            Made("gold/time_in_state", "bucket_ns", lambda: gold.time_in_state(steps, width)),
            Made("gold/who_blocked_whom", "bucket_ns", lambda: gold.who_blocked_whom(cut)),
            Made("gold/held_time", "bucket_ns", lambda: gold.held_time(cut)),
            Made("gold/queue_depth", "t_ns", lambda: gold.queue_depth(events)),
            Made("gold/event_kinds", "bucket_ns", lambda: gold.event_kinds(events, width)),
            Made("gold/coverage", "bucket_ns", lambda: gold.coverage(events, width)),
            Made("gold/hold_sketch", "bucket_ns", lambda: gold.hold_sketch(begun, width)),
        )
        blame = gold.root_cause(cut, self._members()).toArrow()
        states = self.store.read("gold/time_in_state")
        self.store.replace(
            "gold/root_cause", _with_small_windows(blame, states), batch, "bucket_ns", from_ns
        )
        cut.unpersist()

    def _event_horizon(self, everything: DataFrame, known: int) -> int:
        """The earliest moment about which the events after batch `known` say something new."""
        if known < 0:
            return 0
        new = everything.where(F.col("batch") > known).cache()
        began = F.when(
            F.col("kind") == "gate_opened", F.col("t_ns") - F.greatest("amount", F.lit(0))
        ).otherwise(F.col("t_ns"))
        boots = F.broadcast(new.select("boot_id").distinct())
        sampled = new.where(F.col("kind").isin(*silver.SAMPLES))
        actors = F.broadcast(sampled.select("boot_id", "actor", "kind").distinct())
        holds = self._read("silver/block_interval").where("closed_by = 'end_of_data'")
        alarms = self._read("silver/alarm_interval").where("is_open")
        steps = self._read("silver/sample_step").where("end_ns is null")
        moments = [
            new.select(began.alias("t_ns")),
            holds.join(boots, "boot_id").select(F.col("start_ns").alias("t_ns")),
            alarms.join(boots, "boot_id").select(F.col("start_ns").alias("t_ns")),
            steps.join(actors, ["boot_id", "actor", "kind"]).select(
                F.col("start_ns").alias("t_ns")
            ),
        ]
        lowest = self._lowest(moments)
        new.unpersist()
        return lowest

    def _members(self) -> dict[str, tuple[str, ...]]:
        """The consumers of each queue."""
        found: dict[str, set[str]] = {}
        table = self.store.read("silver/consumer")
        for row in [] if table is None else table.to_pylist():
            found.setdefault(row["group"], set()).add(row["consumer"])
        return {group: tuple(sorted(consumers)) for group, consumers in sorted(found.items())}

    # -- messages --------------------------------------------------------------------------------

    def _from_messages(self, known: int, batch: int) -> None:
        everything = self._read(MESSAGES).where(F.col("stage").isNotNull())
        from_ns = self._floor(self._message_horizon(everything, known))
        step = THROUGHPUT_BUCKET_NS
        counted_ns = max(0, from_ns - (from_ns - self._origin_ns) % step)
        messages = everything.where(F.col("t_ns") >= from_ns).cache()
        fresh_ones = messages
        if known >= 0:
            # Those that began before the horizon are there already, and nothing of them is new.
            old = self._read("silver/message_span").where(
                (F.col("first_ns") < from_ns) & (F.col("last_ns") >= from_ns)
            )
            fresh_ones = messages.join(old.select("message_id"), "message_id", "left_anti")
        self._replace(
            batch,
            from_ns,
            Made("silver/message_span", "first_ns", lambda: silver.message_span(fresh_ones)),
        )
        spans = self._read("silver/message_span").where(F.col("first_ns") >= from_ns)
        width = self._bucket_ns
        self._replace(
            batch,
            from_ns,
            Made("gold/latency_sketch", "bucket_ns", lambda: gold.latency_sketch(spans, width)),
            Made("gold/integrity", "bucket_ns", lambda: gold.integrity(spans, width)),
        )
        counted = everything.where(F.col("t_ns") >= counted_ns)
        self._replace(
            batch,
            counted_ns,
            Made("gold/throughput", "bucket_ns", lambda: gold.throughput(counted, self._origin_ns)),
        )
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

    def _merge(self, batch: int) -> None:
        """What is said of the whole time is made of all buckets."""
        latencies = self._maybe("gold/latency_sketch")
        holds = self._maybe("gold/hold_sketch")
        if latencies is not None:
            table = gold.latency(latencies).toArrow()
            self.store.replace("gold/latency", table, batch)
        self.store.replace("gold/stage_cdf", gold.stage_cdf(latencies, holds).toArrow(), batch)

    def _replace(self, batch: int, from_ns: int, *tables: Made) -> None:
        def write(one: Made) -> None:
            rows = one.make().where(F.col(one.column) >= from_ns)
            self.store.replace(one.name, rows.toArrow(), batch, one.column, from_ns)

        with ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
            for future in [pool.submit(write, one) for one in tables]:
                future.result()

    def _read(self, name: str) -> DataFrame:
        files = self.store.files(name)
        if not files:
            # A table whose rows have all been replaced by none has columns and no file.
            return self._spark.createDataFrame(self.store.columns(name).empty_table())
        return self._spark.read.parquet(*files)

    def _maybe(self, name: str) -> DataFrame | None:
        return self._read(name) if self.store.batch(name) >= 0 else None

    def _floor(self, t_ns: int) -> int:
        return t_ns - t_ns % self._bucket_ns

    def _lowest(self, moments: Iterable[DataFrame]) -> int:
        found = [frame.agg(F.min("t_ns")).collect()[0][0] for frame in moments]
        return min((one for one in found if one is not None), default=0)

    def counts(self) -> Counts:
        """The size of the input, and what is known to be missing in it."""
        unreadable = there = 0
        for name, column in ((EVENTS, "kind"), (MESSAGES, "stage")):
            table = self._maybe(name)
            if table is not None:
                row = table.agg(F.count(UNREADABLE), F.count(column)).collect()[0]
                unreadable += row[0]
                there = row[1] if name == MESSAGES else 0
        events, missing = _covered(self.store)
        return Counts(events, missing, unreadable, there)


def _once(events: DataFrame) -> DataFrame:
    """Each event once. Repeats are rare and looking for them is cheap; taking them out is not."""
    repeated = events.groupBy("boot_id", "seq").count().where("count > 1")
    return events.dropDuplicates(["boot_id", "seq"]) if repeated.take(1) else events


def _covered(store: TableStore) -> tuple[int, int]:
    """How many events there are, and how many of their sequences are missing."""
    spans: dict[str, tuple[int, int, int]] = {}
    table = store.read("gold/coverage")
    for row in [] if table is None else table.to_pylist():
        low, high, there = spans.get(row["boot_id"], (row["low"], row["high"], 0))
        spans[row["boot_id"]] = (
            min(low, row["low"]),
            max(high, row["high"]),
            there + row["there"],
        )
    events = sum(there for _, _, there in spans.values())
    return events, sum(high - low + 1 - there for low, high, there in spans.values())


def _with_small_windows(blame: pa.Table, states: pa.Table | None) -> pa.Table:
    rows = [BlameRow(**row) for row in blame.to_pylist()]
    known = [] if states is None else [StateRow(**row) for row in states.to_pylist()]
    named = [row._asdict() for row in name_small_windows(rows, known)]
    return pa.Table.from_pylist(named, schema=blame.schema)
