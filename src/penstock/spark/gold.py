"""Gold: facts to answers. Column names and meanings are those of `rows.py`."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.spark.blame import NOBODY, Edge, sweep
from penstock.spark.formats import STATE_FIELDS
from penstock.spark.rows import MEASURES, PERCENTILES, THROUGHPUT_BUCKET_NS
from penstock.spark.schemas import BLAME_SCHEMA

_BLAME_ARROW = pa.schema(
    [
        pa.field("bucket_ns", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("victim", "root", "cause", "path")),
        pa.field("blamed_ns", pa.int64()),
    ]
)


def edges(intervals: DataFrame, events: DataFrame, bucket_ns: int) -> DataFrame:
    """Block intervals and times without consumers, cut at the borders of buckets."""
    whole = intervals.select("actor", "peer", "reason", "start_ns", "end_ns").unionByName(
        _unattended(events)
    )
    start, end = F.col("start_ns"), F.col("end_ns")
    width = F.lit(bucket_ns)
    first = start - start % width
    last = (end - 1) - (end - 1) % width
    return (
        whole.withColumn("bucket_ns", F.explode(F.sequence(first, last, width)))
        .withColumn("start_ns", F.greatest("start_ns", "bucket_ns"))
        .withColumn("end_ns", F.least(end, F.col("bucket_ns") + width))
        .select("bucket_ns", "actor", "peer", "reason", "start_ns", "end_ns")
    )


def _unattended(events: DataFrame) -> DataFrame:
    order = Window.partitionBy("boot_id", "actor").orderBy("seq")
    return (
        events.where(F.col("kind") == "queue_sample")
        .withColumn("end_ns", F.lead("t_ns").over(order))
        .where((F.col("consumers") == 0) & (F.col("end_ns") > F.col("t_ns")))
        .select(
            F.concat(F.lit("consumers:"), F.expr("substring(actor, 7)")).alias("actor"),
            F.lit(NOBODY).alias("peer"),
            F.lit("no consumer").alias("reason"),
            F.col("t_ns").alias("start_ns"),
            "end_ns",
        )
    )


def who_blocked_whom(cut: DataFrame) -> DataFrame:
    """Time per edge and bucket."""
    return (
        _victims(cut)
        .groupBy("bucket_ns", "actor", "peer", "reason")
        .agg(F.sum(F.col("end_ns") - F.col("start_ns")).alias("blocked_ns"))
    )


def held_time(cut: DataFrame) -> DataFrame:
    """Length of the union of each actor's intervals, per bucket."""
    reached = F.max("end_ns").over(
        Window.partitionBy("bucket_ns", "actor")
        .orderBy("start_ns", "end_ns")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    fresh = F.col("end_ns") - F.greatest("start_ns", F.coalesce(reached, F.lit(0)))
    return (
        _victims(cut)
        .withColumn("fresh_ns", F.greatest(fresh, F.lit(0)))
        .groupBy("bucket_ns", "actor")
        .agg(F.sum("fresh_ns").alias("held_ns"))
    )


def _victims(cut: DataFrame) -> DataFrame:
    return cut.where(~F.col("actor").startswith("consumers:"))


def root_cause(cut: DataFrame, members: Mapping[str, Sequence[str]]) -> DataFrame:
    """Blame per bucket: one sweep over the wait-for graph of each, in parallel."""
    known = dict(members)

    def sweep_bucket(table: pa.Table) -> pa.Table:
        columns = [
            table.column(name).to_pylist()
            for name in ("actor", "peer", "reason", "start_ns", "end_ns")
        ]
        found = sweep((Edge(*row) for row in zip(*columns, strict=True)), known)
        bucket = table.column("bucket_ns")[0].as_py()
        rows = [(bucket, *key, blamed_ns) for key, blamed_ns in sorted(found.items())]
        return pa.Table.from_pylist(
            [dict(zip(_BLAME_ARROW.names, row, strict=True)) for row in rows],
            schema=_BLAME_ARROW,
        )

    return cut.groupBy("bucket_ns").applyInArrow(sweep_bucket, BLAME_SCHEMA)


def time_in_state(events: DataFrame) -> DataFrame:
    """Sum of the differences between an actor's samples."""
    order = Window.partitionBy("boot_id", "actor").orderBy("seq")
    steps = events.where(F.col("kind") == "time_sample").select(
        "actor",
        (F.col("t_ns") - F.lag("t_ns").over(order)).alias("wall_ns"),
        *((F.col(name) - F.lag(name).over(order)).alias(name) for name in STATE_FIELDS),
    )
    return (
        steps.where(F.col("wall_ns").isNotNull())
        .groupBy("actor")
        .agg(*(F.sum(name).alias(name) for name in ("wall_ns", *STATE_FIELDS)))
    )


def latency(spans: DataFrame) -> DataFrame:
    """Exact percentiles per phase, queue and measure."""
    measured = (
        spans.where(F.col("published_ns").isNotNull())
        .select(
            "phase",
            "queue",
            F.explode(
                F.create_map(
                    F.lit(MEASURES[0]),
                    F.col("confirmed_ns") - F.col("published_ns"),
                    F.lit(MEASURES[1]),
                    F.col("delivered_ns") - F.col("published_ns"),
                )
            ).alias("measure", "latency_ns"),
        )
        .where(F.col("latency_ns").isNotNull())
    )
    names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    return (
        measured.groupBy("phase", "queue", "measure")
        .agg(
            F.count("*").alias("messages"),
            F.percentile("latency_ns", list(PERCENTILES)).alias("parts"),
        )
        .select(
            "phase",
            "queue",
            "measure",
            "messages",
            *(F.col("parts")[index].alias(name) for index, name in enumerate(names)),
        )
    )


def throughput(messages: DataFrame, origin_ns: int) -> DataFrame:
    """Messages that reached each stage, per queue and 250 ms; a bucket starts at `origin_ns`."""
    bucket = F.col("t_ns") - F.pmod(F.col("t_ns") - F.lit(origin_ns), F.lit(THROUGHPUT_BUCKET_NS))
    return messages.groupBy(bucket.alias("bucket_ns"), "queue").agg(
        *(
            F.count(F.when(F.col("stage") == stage, 1)).alias(stage)
            for stage in ("published", "confirmed", "delivered", "acked")
        )
    )


def integrity(spans: DataFrame) -> DataFrame:
    """What became of the messages of each queue."""
    confirmed = F.col("confirmed_ns").isNotNull()
    facts = {
        "published": F.lit(True),
        "confirmed": confirmed,
        "refused": F.col("refused"),
        "unanswered": ~confirmed & ~F.col("refused"),
        "delivered": F.col("deliveries") > 0,
        "lost": confirmed & (F.col("deliveries") == 0),
    }
    return (
        spans.where(F.col("published_ns").isNotNull())
        .groupBy("queue")
        .agg(
            *(F.count(F.when(fact, 1)).alias(name) for name, fact in facts.items()),
            F.sum(F.greatest(F.col("deliveries") - 1, F.lit(0))).alias("duplicated"),
        )
    )


def queue_depth(events: DataFrame) -> DataFrame:
    """The samples of all queues."""
    return events.where(F.col("kind") == "queue_sample").select(
        "t_ns", F.expr("substring(actor, 7)").alias("queue"), "ready", "unacked", "consumers"
    )


def event_kinds(events: DataFrame) -> DataFrame:
    """How often each kind of event happened."""
    return events.groupBy("kind").agg(F.count("*").alias("events"), F.sum("amount").alias("amount"))
