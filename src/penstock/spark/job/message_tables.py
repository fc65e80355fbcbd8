"""Silver and gold of what clients have traced, and percentiles, by expressions of Spark.

Trace lines become one row a message of a node; times of stages become sketches (KLL), which are
added up over buckets. Column names are those of `rows.py`.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.spark.schema.rows import (
    CDF_RANKS,
    MEASURES,
    PERCENTILES,
    SKETCH_SIZE,
    THROUGHPUT_BUCKET_NS,
)


def message_span(messages: DataFrame) -> DataFrame:
    """One row a message: when it first reached each stage, and how often it was delivered."""

    def stage(name: str) -> Column:
        return F.when(F.col("stage") == name, F.col("t_ns"))

    def at_publish(name: str) -> Column:
        return F.coalesce(
            F.max(F.when(F.col("stage") == "published", F.col(name))), F.lit("")
        ).alias(name)

    return messages.groupBy("node", "message_id").agg(
        at_publish("queue"),
        at_publish("phase"),
        F.min("t_ns").alias("first_ns"),
        F.max("t_ns").alias("last_ns"),
        F.min(stage("published")).alias("published_ns"),
        F.min(stage("confirmed")).alias("confirmed_ns"),
        F.min(stage("delivered")).alias("delivered_ns"),
        F.min(stage("acked")).alias("acked_ns"),
        F.count(stage("delivered")).alias("deliveries"),
        F.max(F.col("stage").isin("nacked", "returned")).alias("refused"),
    )


def lines_without(messages: DataFrame, spans: DataFrame) -> DataFrame:
    """The lines of other messages than those of `spans`. Clients of several brokers may count
    alike: a message is one of a node."""
    keys = ["node", "message_id"]
    return messages.join(spans.select(keys), keys, "left_anti")


def latency_sketch(spans: DataFrame, bucket_ns: int) -> DataFrame:
    """Latencies of the messages of one bucket, in a form that can be added up: see `quantiles`."""
    measured = (
        spans.where(F.col("published_ns").isNotNull())
        .select(
            (F.col("first_ns") - F.col("first_ns") % bucket_ns).alias("bucket_ns"),
            "node",
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
    return _sketched(measured, "bucket_ns", "node", "phase", "queue", "measure")


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
    """Percentiles per node, phase, queue and measure, from the sketches of all buckets."""
    names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    keys = ("node", "phase", "queue", "measure")
    parts = [_quantile(rank).alias(name) for name, rank in zip(names, PERCENTILES, strict=True)]
    return _merged(sketches, *keys).select(*keys, "messages", *parts)


def stage_cdf(latencies: DataFrame | None, holds: DataFrame | None) -> DataFrame:
    """The distribution of each stage's times, at the ranks of CDF_RANKS. One of both is needed."""
    columns = ("node", "stage", "messages", "max_ns", "sketch")
    found = [] if holds is None else [holds.select(*columns)]
    if latencies is not None:
        found.append(latencies.withColumnRenamed("measure", "stage").select(*columns))
    both = found[0] if len(found) == 1 else found[0].unionByName(found[1])
    points = [
        F.struct(F.lit(rank).alias("rank"), _quantile(rank).alias("value_ns")) for rank in CDF_RANKS
    ]
    return (
        _merged(both, "node", "stage")
        .select("node", "stage", F.col("messages").alias("samples"),
                F.explode(F.array(*points)).alias("p"))
        .select("node", "stage", "samples", "p.rank", "p.value_ns")
    )  # fmt: skip


def throughput(messages: DataFrame, origin_ns: int) -> DataFrame:
    """Messages that reached each stage, per queue and 250 ms; a bucket starts at `origin_ns`."""
    bucket = F.col("t_ns") - F.pmod(F.col("t_ns") - F.lit(origin_ns), F.lit(THROUGHPUT_BUCKET_NS))
    return messages.groupBy(bucket.alias("bucket_ns"), "node", "queue").agg(
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
        .groupBy(bucket, "node", "queue")
        .agg(
            *(F.count(F.when(fact, 1)).alias(name) for name, fact in facts.items()),
            F.sum(F.greatest(F.col("deliveries") - 1, F.lit(0))).alias("duplicated"),
        )
    )
