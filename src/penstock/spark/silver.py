"""Silver: events and trace lines to facts, with window functions only.

The rules are those of `intervals.py` and `plain.py`, which the tests compare this file with. The
window over one (actor, peer, reason) sees closes and ends in order of their sequence; a row that
repeats the state of the row before it is dropped, so the rest alternates and `lead` finds the end
of each interval in one pass.

What comes in is a slice: the events from one moment on. What begins in it comes out.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.spark.formats import STATE_FIELDS

TRIPLE = ("boot_id", "actor", "peer", "reason")
SAMPLES = ("time_sample", "queue_sample")


def block_interval(events: DataFrame, carried: DataFrame | None = None) -> DataFrame:
    """Who was held by whom, when: see `rows.BlockInterval`.

    carried: intervals that began before the slice and end in it (TRIPLE, start_ns), if any.
    """
    last = events.groupBy("boot_id").agg(F.max("t_ns").alias("last_ns"))
    gates = events.where(F.col("kind").isin("gate_closed", "gate_opened")).select(
        *TRIPLE, "seq", "t_ns", "kind", "amount"
    )
    if carried is not None:
        before = carried.select(
            *TRIPLE,
            F.lit(-1).cast("bigint").alias("seq"),
            F.col("start_ns").alias("t_ns"),
            F.lit("gate_closed").alias("kind"),
            F.lit(0).cast("bigint").alias("amount"),
        )
        gates = gates.unionByName(before)
    changes = _with_downs(gates, events).withColumn("is_close", F.col("kind") == "gate_closed")
    order = Window.partitionBy(*TRIPLE).orderBy("seq")
    alternating = (
        changes.withColumn("is_close_before", F.lag("is_close").over(order))
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
    is_lone_open = (F.col("kind") == "gate_opened") & ~F.coalesce("is_close_before", F.lit(False))
    lone_start = F.greatest(
        F.col("t_ns") - F.greatest("amount", F.lit(0)), F.coalesce("ended_ns", F.lit(0))
    )
    is_close = F.col("is_close")
    found = paired.where(is_close | is_lone_open).select(
        *TRIPLE,
        F.when(is_close, F.col("t_ns")).otherwise(lone_start).alias("start_ns"),
        F.when(is_close, F.coalesce("next_ns", "last_ns")).otherwise(F.col("t_ns")).alias("end_ns"),
        F.when(is_close, F.coalesce("next_kind", F.lit("end_of_data")))
        .otherwise(F.col("kind"))
        .alias("closed_by"),
    )
    # One that is still open is kept even if nothing has happened since: it has to be found again.
    return found.where("end_ns > start_ns or closed_by = 'end_of_data'")


def _with_downs(gates: DataFrame, events: DataFrame) -> DataFrame:
    """Gate events, and for each triple the ends of the actors it names."""
    downs = events.where(F.col("kind") == "actor_down").select(
        "boot_id",
        F.col("actor").alias("gone"),
        "seq",
        "t_ns",
        "kind",
        F.lit(0).cast("bigint").alias("amount"),
    )
    named = (
        gates.select(*TRIPLE)
        .distinct()
        .withColumn("gone", F.explode(F.array_distinct(F.array("actor", "peer"))))
        .join(F.broadcast(downs), ["boot_id", "gone"])
    )
    # Both ends may go in one event of each; the first of them ends the interval.
    return gates.unionByName(named.drop("gone"))


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


def sample_step(events: DataFrame) -> DataFrame:
    """From each sample of an actor to its next, with what was added; the last has no end yet."""
    order = Window.partitionBy("boot_id", "actor", "kind").orderBy("seq")
    return events.where(F.col("kind").isin(*SAMPLES)).select(
        "boot_id",
        "actor",
        "kind",
        F.col("t_ns").alias("start_ns"),
        F.lead("t_ns").over(order).alias("end_ns"),
        "consumers",
        *((F.lead(name).over(order) - F.col(name)).alias(name) for name in STATE_FIELDS),
    )


def consumer(events: DataFrame) -> DataFrame:
    """The consumers of each queue, from every event that names a consumer and a queue."""
    sides = [("actor", "peer"), ("peer", "actor")]
    named = [
        events.select("t_ns", F.col(one).alias("consumer"), F.col(other).alias("other"))
        for one, other in sides
    ]
    return (
        named[0]
        .unionByName(named[1])
        .where(F.col("consumer").startswith("consumer:"))
        .where(F.col("other").rlike("^(queue|consumers):"))
        .groupBy("consumer", F.regexp_replace("other", "^queue:", "consumers:").alias("group"))
        .agg(F.min("t_ns").alias("since_ns"))
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
        F.min("t_ns").alias("first_ns"),
        F.max("t_ns").alias("last_ns"),
        F.min(stage("published")).alias("published_ns"),
        F.min(stage("confirmed")).alias("confirmed_ns"),
        F.min(stage("delivered")).alias("delivered_ns"),
        F.min(stage("acked")).alias("acked_ns"),
        F.count(stage("delivered")).alias("deliveries"),
        F.max(F.col("stage").isin("nacked", "returned")).alias("refused"),
    )
