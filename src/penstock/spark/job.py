"""The Spark job: bronze to silver to gold, every table a Parquet directory.

Small tables take less time to compute than Spark takes to plan them, so two tables are made at a
time, one planned while the other runs. Gold tables are small by construction (buckets, not
messages) and are read back without Spark.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import bronze, gold, silver
from penstock.spark.rows import (
    BlameRow,
    DepthRow,
    EdgeRow,
    HeldRow,
    IntegrityRow,
    KindRow,
    LatencyRow,
    StateRow,
    Tables,
    ThroughputRow,
)
from penstock.spark.schemas import CORRUPT

TABLES_AT_A_TIME: Final = 2

Row = TypeVar("Row", bound=tuple[object, ...])


class Counts(NamedTuple):
    """The size of the input and what is known to be missing in it."""

    event_count: int
    events_missing: int
    unreadable_lines: int
    trace_count: int


class SparkJob:
    """One analysis of one input directory into one directory of tables."""

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
        self._tables_dir = tables_dir
        self._bucket_ns = bucket_ns
        self._origin_ns = origin_ns

    def run(self) -> tuple[Tables, Counts]:
        """Make all tables; returns the gold ones, in the order that the plain twin gives."""
        self._make(
            ("bronze/events", lambda: bronze.events(self._spark, self._input_dir)),
            ("bronze/messages", lambda: bronze.messages(self._spark, self._input_dir)),
        )
        events = self._read("bronze/events").where(F.col("kind").isNotNull())
        messages = self._read("bronze/messages").where(F.col("stage").isNotNull())
        self._make(
            ("silver/block_interval", lambda: silver.block_interval(events)),
            ("silver/message_span", lambda: silver.message_span(messages)),
            ("silver/alarm_interval", lambda: silver.alarm_interval(events)),
        )
        intervals = self._read("silver/block_interval")
        spans = self._read("silver/message_span")
        members = members_of_groups(events)
        cut = gold.edges(intervals, events, self._bucket_ns).cache()
        self._make(
            ("gold/root_cause", lambda: gold.root_cause(cut, members)),
            ("gold/latency", lambda: gold.latency(spans)),
            ("gold/who_blocked_whom", lambda: gold.who_blocked_whom(cut)),
            ("gold/held_time", lambda: gold.held_time(cut)),
            ("gold/throughput", lambda: gold.throughput(messages, self._origin_ns)),
            ("gold/integrity", lambda: gold.integrity(spans)),
            ("gold/time_in_state", lambda: gold.time_in_state(events)),
            ("gold/queue_depth", lambda: gold.queue_depth(events)),
            ("gold/event_kinds", lambda: gold.event_kinds(events)),
        )
        return self._gold_tables(), self._counts(events, messages)

    def _make(self, *tables: tuple[str, Callable[[], DataFrame]]) -> None:
        with ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
            for future in [pool.submit(self._write, name, make) for name, make in tables]:
                future.result()

    def _write(self, name: str, make: Callable[[], DataFrame]) -> None:
        make().write.mode("overwrite").parquet(str(self._tables_dir / name))

    def _read(self, name: str) -> DataFrame:
        return self._spark.read.parquet(str(self._tables_dir / name))

    def _gold_tables(self) -> Tables:
        return Tables(
            self._rows("who_blocked_whom", EdgeRow),
            self._rows("root_cause", BlameRow),
            self._rows("held_time", HeldRow),
            self._rows("time_in_state", StateRow),
            self._rows("latency", LatencyRow),
            self._rows("throughput", ThroughputRow),
            self._rows("integrity", IntegrityRow),
            self._rows("queue_depth", DepthRow),
            self._rows("event_kinds", KindRow),
        )

    def _rows(self, name: str, row_type: type[Row]) -> tuple[Row, ...]:
        table = pq.read_table(str(self._tables_dir / "gold" / name))
        return tuple(sorted(row_type(**fields) for fields in table.to_pylist()))

    def _counts(self, events: DataFrame, messages: DataFrame) -> Counts:
        per_boot = (
            events.groupBy("boot_id")
            .agg(
                F.count("*").alias("count"),
                (F.max("seq") - F.min("seq") + 1 - F.count("*")).alias("missing"),
            )
            .collect()
        )
        unreadable = sum(
            self._read(name).where(F.col(CORRUPT).isNotNull()).count()
            for name in ("bronze/events", "bronze/messages")
        )
        return Counts(
            sum(row["count"] for row in per_boot),
            sum(row["missing"] for row in per_boot),
            unreadable,
            messages.count(),
        )


def members_of_groups(events: DataFrame) -> dict[str, tuple[str, ...]]:
    """The consumers of each queue, from every event that names a consumer and a queue."""
    pairs = (
        events.select(F.col("actor").alias("consumer"), F.col("peer").alias("other"))
        .unionByName(events.select(F.col("peer").alias("consumer"), F.col("actor").alias("other")))
        .where(F.col("consumer").startswith("consumer:"))
        .where(F.col("other").rlike("^(queue|consumers):"))
        .select("consumer", F.regexp_replace("other", "^queue:", "consumers:").alias("group"))
        .groupBy("group")
        .agg(F.sort_array(F.collect_set("consumer")).alias("consumers"))
    )
    return {row["group"]: tuple(row["consumers"]) for row in pairs.collect()}
