"""Gold: facts to answers. Column names and meanings are those of `rows.py`."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.spark.blame import NOBODY, Edge, sweep
from penstock.spark.formats import DROPPED, STATE_FIELDS
from penstock.spark.rows import (
    CDF_RANKS,
    HELD_BY,
    MEASURES,
    PERCENTILES,
    SKETCH_SIZE,
    THROUGHPUT_BUCKET_NS,
)
from penstock.spark.schemas import BLAME_SCHEMA

_BLAME_ARROW = pa.schema(
    [
        pa.field("bucket_ns", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("victim", "root", "cause", "path")),
        pa.field("blamed_ns", pa.int64()),
    ]
)


def edges(intervals: DataFrame, steps: DataFrame, bucket_ns: int) -> DataFrame:
    """Block intervals and times without consumers, cut at the borders of buckets."""
    whole = intervals.select("actor", "peer", "reason", "start_ns", "end_ns").unionByName(
        _unattended(steps)
    )
    start, end = F.col("start_ns"), F.col("end_ns")
    width = F.lit(bucket_ns)
    first = start - start % width
    last = (end - 1) - (end - 1) % width
    return (
        whole.where("end_ns > start_ns")
        .withColumn("bucket_ns", F.explode(F.sequence(first, last, width)))
        .withColumn("start_ns", F.greatest("start_ns", "bucket_ns"))
        .withColumn("end_ns", F.least(end, F.col("bucket_ns") + width))
        .select("bucket_ns", "actor", "peer", "reason", "start_ns", "end_ns")
    )


def _unattended(steps: DataFrame) -> DataFrame:
    return steps.where("kind = 'queue_sample' and consumers = 0").select(
        F.concat(F.lit("consumers:"), F.expr("substring(actor, 7)")).alias("actor"),
        F.lit(NOBODY).alias("peer"),
        F.lit("no consumer").alias("reason"),
        "start_ns",
        "end_ns",
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


def time_in_state(steps: DataFrame, bucket_ns: int) -> DataFrame:
    """What was added between an actor's samples, in the bucket where the middle lies."""
    middle = F.floor((F.col("start_ns") + F.col("end_ns")) / 2)
    return (
        steps.where("kind = 'time_sample'")
        .withColumn("bucket_ns", middle - middle % bucket_ns)
        .withColumn("wall_ns", F.col("end_ns") - F.col("start_ns"))
        .groupBy("bucket_ns", "actor")
        .agg(*(F.sum(name).alias(name) for name in ("wall_ns", *STATE_FIELDS)))
    )


def latency_sketch(spans: DataFrame, bucket_ns: int) -> DataFrame:
    """Latencies of the messages of one bucket, in a form that can be added up: see `quantiles`."""
    measured = (
        spans.where(F.col("published_ns").isNotNull())
        .select(
            (F.col("first_ns") - F.col("first_ns") % bucket_ns).alias("bucket_ns"),
            "phase",
            "queue",
            F.explode(
                F.create_map(
                    F.lit(MEASURES[0]),
                    F.col("confirmed_ns") - F.col("published_ns"),
                    F.lit(MEASURES[1]),
                    F.col("delivered_ns") - F.col("published_ns"),
                )
            ).alias("measure", "length_ns"),
        )
        .where(F.col("length_ns").isNotNull())
    )
    return _sketched(measured, "bucket_ns", "phase", "queue", "measure")


def hold_sketch(intervals: DataFrame, bucket_ns: int) -> DataFrame:
    """Lengths of the holds that began in one bucket and have ended, by the kinds of both ends."""
    kinds = [F.substring_index(name, ":", 1) for name in ("actor", "peer")]
    ended = intervals.where("closed_by <> 'end_of_data' and end_ns > start_ns").select(
        (F.col("start_ns") - F.col("start_ns") % bucket_ns).alias("bucket_ns"),
        F.concat(kinds[0], F.lit(HELD_BY), kinds[1]).alias("stage"),
        (F.col("end_ns") - F.col("start_ns")).alias("length_ns"),
    )
    return _sketched(ended, "bucket_ns", "stage")


def _sketched(lengths: DataFrame, *keys: str) -> DataFrame:
    return lengths.groupBy(*keys).agg(
        F.count("*").alias("messages"),
        F.max("length_ns").alias("max_ns"),
        F.kll_sketch_agg_bigint("length_ns", SKETCH_SIZE).alias("sketch"),
    )


def _merged(sketches: DataFrame, *keys: str) -> DataFrame:
    return sketches.groupBy(*keys).agg(
        F.sum("messages").alias("messages"),
        F.max("max_ns").alias("max_ns"),
        F.kll_merge_agg_bigint("sketch", SKETCH_SIZE).alias("sketch"),
    )


def _quantile(rank: float) -> Column:
    if rank >= 1.0:
        return F.col("max_ns").cast("double")
    return F.kll_sketch_get_quantile_bigint("sketch", F.lit(rank)).cast("double")


def latency(sketches: DataFrame) -> DataFrame:
    """Percentiles per phase, queue and measure, from the sketches of all buckets."""
    names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    keys = ("phase", "queue", "measure")
    parts = [_quantile(rank).alias(name) for name, rank in zip(names, PERCENTILES, strict=True)]
    return _merged(sketches, *keys).select(*keys, "messages", *parts)


def stage_cdf(latencies: DataFrame | None, holds: DataFrame | None) -> DataFrame:
    """The distribution of each stage's times, at the ranks of CDF_RANKS. One of both is needed."""
    columns = ("stage", "messages", "max_ns", "sketch")
    found = [] if holds is None else [holds.select(*columns)]
    if latencies is not None:
        found.append(latencies.withColumnRenamed("measure", "stage").select(*columns))
    both = found[0] if len(found) == 1 else found[0].unionByName(found[1])
    points = [
        F.struct(F.lit(rank).alias("rank"), _quantile(rank).alias("value_ns")) for rank in CDF_RANKS
    ]
    return (
        _merged(both, "stage")
        .select("stage", F.col("messages").alias("samples"), F.explode(F.array(*points)).alias("p"))
        .select("stage", "samples", "p.rank", "p.value_ns")
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


def integrity(spans: DataFrame, bucket_ns: int) -> DataFrame:
    """What became of the messages of each queue, by the bucket in which each was first seen."""
    bucket = (F.col("first_ns") - F.col("first_ns") % bucket_ns).alias("bucket_ns")
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
        .groupBy(bucket, "queue")
        .agg(
            *(F.count(F.when(fact, 1)).alias(name) for name, fact in facts.items()),
            F.sum(F.greatest(F.col("deliveries") - 1, F.lit(0))).alias("duplicated"),
        )
    )


def queue_depth(events: DataFrame) -> DataFrame:
    """The samples of all queues."""
    return events.where(F.col("kind") == "queue_sample").select(
        "t_ns",
        F.expr("substring(actor, 7)").alias("queue"),
        *("ready", "unacked", "consumers", "paged"),
    )


def event_kinds(events: DataFrame, bucket_ns: int) -> DataFrame:
    """How often each kind of event happened."""
    bucket = (F.col("t_ns") - F.col("t_ns") % bucket_ns).alias("bucket_ns")
    return events.groupBy(bucket, "kind").agg(
        F.count("*").alias("events"), F.sum("amount").alias("amount")
    )


def coverage(events: DataFrame, bucket_ns: int) -> DataFrame:
    """Which sequences are there: over all buckets of a boot, what lies between the lowest and the
    highest and is not counted is missing. A `dropped` event stands for all that was lost."""
    is_lost = F.col("kind") == DROPPED
    lowest = F.col("seq") - F.when(is_lost, F.col("amount") - 1).otherwise(0)
    bucket = (F.col("t_ns") - F.col("t_ns") % bucket_ns).alias("bucket_ns")
    return events.groupBy(bucket, "boot_id").agg(
        F.min(lowest).alias("low"),
        F.max("seq").alias("high"),
        F.count(F.when(~is_lost, 1)).alias("there"),
    )
