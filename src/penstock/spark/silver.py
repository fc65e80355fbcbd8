"""Silver: events and trace lines to facts, with window functions only.

The rules are those of `intervals.py` and `plain.py`, which the tests compare this file with. The
window over one (actor, peer, reason) sees closes and ends in order of their sequence; a row that
repeats the state of the row before it is dropped, so the rest alternates and `lead` finds the end
of each interval in one pass.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

TRIPLE = ("boot_id", "actor", "peer", "reason")


def block_interval(events: DataFrame) -> DataFrame:
    """Who was held by whom, when: see `rows.BlockInterval`."""
    last = events.groupBy("boot_id").agg(F.max("t_ns").alias("last_ns"))
    changes = _with_downs(events).withColumn("is_close", F.col("kind") == "gate_closed")
    order = Window.partitionBy(*TRIPLE).orderBy("seq")
    before = F.lag("is_close").over(order)
    alternating = (
        changes.withColumn("is_close_before", before)
        .withColumn(
            "ended_ns",
            F.max(F.when(~F.col("is_close"), F.col("t_ns"))).over(
                order.rowsBetween(Window.unboundedPreceding, -1)
            ),
        )
        .where(
            F.col("is_close_before").isNull()
            | (F.col("is_close") != F.col("is_close_before"))
            # An open whose close was lost still tells its interval by its amount.
            | (F.col("kind") == "gate_opened")
        )
    )
    paired = (
        alternating.withColumn("next_ns", F.lead("t_ns").over(order))
        .withColumn("next_kind", F.lead("kind").over(order))
        .join(F.broadcast(last), "boot_id")
    )
    normal = paired.where("is_close").select(
        *TRIPLE,
        F.col("t_ns").alias("start_ns"),
        F.coalesce("next_ns", "last_ns").alias("end_ns"),
        F.coalesce("next_kind", F.lit("end_of_data")).alias("closed_by"),
    )
    recovered = paired.where(
        (F.col("kind") == "gate_opened") & ~F.coalesce("is_close_before", F.lit(False))
    ).select(
        *TRIPLE,
        F.greatest(
            F.col("t_ns") - F.greatest("amount", F.lit(0)), F.coalesce("ended_ns", F.lit(0))
        ).alias("start_ns"),
        F.col("t_ns").alias("end_ns"),
        F.col("kind").alias("closed_by"),
    )
    return normal.unionByName(recovered).where("end_ns > start_ns")


def _with_downs(events: DataFrame) -> DataFrame:
    """Gate events, and for each triple the ends of the actors it names."""
    gates = events.where(F.col("kind").isin("gate_closed", "gate_opened")).select(
        *TRIPLE, "seq", "t_ns", "kind", "amount"
    )
    downs = events.where(F.col("kind") == "actor_down").select(
        "boot_id", F.col("actor").alias("gone"), "seq", "t_ns", "kind", F.lit(0).alias("amount")
    )
    triples = gates.select(*TRIPLE).distinct()
    named = [
        triples.withColumn("gone", F.col(side)).join(F.broadcast(downs), ["boot_id", "gone"])
        for side in ("actor", "peer")
    ]
    ends = named[0].unionByName(named[1]).drop("gone").distinct()
    return gates.unionByName(ends)


def alarm_interval(events: DataFrame) -> DataFrame:
    """When each alarm was set: alarm, start_ns, end_ns, is_open at the end of the data."""
    order = Window.partitionBy("boot_id", "actor").orderBy("seq")
    last = events.groupBy("boot_id").agg(F.max("t_ns").alias("last_ns"))
    return (
        events.where(F.col("kind").isin("alarm_set", "alarm_cleared"))
        .withColumn("next_ns", F.lead("t_ns").over(order))
        .where(F.col("kind") == "alarm_set")
        .join(F.broadcast(last), "boot_id")
        .select(
            "boot_id",
            F.col("actor").alias("alarm"),
            F.col("t_ns").alias("start_ns"),
            F.coalesce("next_ns", "last_ns").alias("end_ns"),
            F.col("next_ns").isNull().alias("is_open"),
        )
    )


def message_span(messages: DataFrame) -> DataFrame:
    """One row a message: when it first reached each stage, and how often it was delivered."""

    def stage(name: str) -> Column:
        return F.when(F.col("stage") == name, F.col("t_ns"))

    def at_publish(name: str) -> Column:
        return F.coalesce(
            F.max(F.when(F.col("stage") == "published", F.col(name))), F.lit("")
        ).alias(name)

    return messages.groupBy("message_id").agg(
        at_publish("queue"),
        at_publish("phase"),
        F.min(stage("published")).alias("published_ns"),
        F.min(stage("confirmed")).alias("confirmed_ns"),
        F.min(stage("delivered")).alias("delivered_ns"),
        F.min(stage("acked")).alias("acked_ns"),
        F.count(stage("delivered")).alias("deliveries"),
        F.max(F.col("stage").isin("nacked", "returned")).alias("refused"),
    )
