"""The same tables as a declarative pipeline: Spark finds their order, adds what is new, and ends.

spark-pipelines run --spec spark-pipeline.yml        see README.md for the rest of the command
"""

import os
from collections.abc import Iterator
from typing import Any

import orders
from pyspark import pipelines as dp
from pyspark.errors import PySparkValueError
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import register

URL = os.environ.get("ORDERS_URL", "amqp://guest:guest@127.0.0.1:5672")
SINK = {"url": URL, "delivery": "exactly-once"}


def end_in_peace(client: Any) -> None:
    """PySpark 4.3.0 counts in Python workers, sends the counts behind the last event of a run that
    was COMPLETED, and then does not know what they are (UNKNOWN_RESPONSE, exit status 1). A run
    that fails ends with its own error before that."""
    ask = client.execute_command_as_iterator

    def answers(*arguments: Any, **named: Any) -> Iterator[dict[str, Any]]:
        try:
            yield from ask(*arguments, **named)
        except PySparkValueError as fault:
            if "__python_accumulator__" not in str(fault):
                raise

    client.execute_command_as_iterator = answers


spark: Any = SparkSession.active()
end_in_peace(spark.client)
register(spark)


@dp.table
def bronze() -> DataFrame:
    """Every message of the queue, once."""
    given = {"url": URL, "queue": "orders", "mode": "lease", "group": "orders-pipeline"}
    return orders.bronze(spark.readStream.format("amqp").options(**given).load())


@dp.table
def silver() -> DataFrame:
    """The good orders."""
    return orders.silver(spark.readStream.table("bronze"))


@dp.table
def quarantine() -> DataFrame:
    """The bad ones, and why."""
    return orders.quarantine(spark.readStream.table("bronze"))


@dp.materialized_view
def gold() -> DataFrame:
    """Revenue by minute."""
    return orders.revenue(spark.read.table("silver"))


dp.create_sink("invoices", "amqp", {**SINK, "exchange": "invoices"})
dp.create_sink("dead", "amqp", {**SINK, "exchange": "shop.dead"})


@dp.append_flow(target="invoices")
def bill() -> DataFrame:
    """One invoice for each good order."""
    return orders.invoices(spark.readStream.table("silver"))


@dp.append_flow(target="dead")
def refuse() -> DataFrame:
    """One dead letter for each bad one."""
    return orders.dead_letters(spark.readStream.table("quarantine"))
