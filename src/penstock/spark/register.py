"""Makes `format("amqp")` and `format("deltatable")` known to a Spark session."""

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register the data source `amqp`, and `deltatable` where `deltalake` is installed;
    once a session.

    Raises: ImportError without the packages of `pip install penstock[spark]`.
    """
    # Imported here: the rest of the pipeline has to work without PySpark.
    from penstock.spark.connector.source import source_for

    spark.dataSource.register(source_for(_cores_of(spark)))
    if importlib.util.find_spec("deltalake") is not None:
        from penstock.spark.tables.delta_table import DeltaTables

        spark.dataSource.register(DeltaTables)


def _cores_of(spark: "SparkSession") -> int:
    """For tasks, as far as executors have come already; 0 where a session does not say it, as that
    of Spark Connect."""
    context = getattr(spark, "sparkContext", None)
    return 0 if context is None else int(context.defaultParallelism)
