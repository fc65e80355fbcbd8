"""Silver of traces: the lines of clients to one row a message. That of events is `facts.py`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


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
