"""Makes `format("amqp")` known to a Spark session."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register the data source `amqp`; once a session.

    Raises: ImportError without the packages of `pip install penstock[spark]`.
    """
    # Imported here: the rest of the pipeline has to work without PySpark.
    from penstock.spark.connector.source import AmqpDataSource

    spark.dataSource.register(AmqpDataSource)
