"""Makes `format("amqp")` and `format("deltatable")` known to a Spark session."""

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register the data source `amqp`, and `deltatable` where `deltalake` is installed and Spark is
    4.2 or newer; once a session, and in each thread of one's own that starts queries or writes.

    Spark looks for a source in the session that is active in the thread, and a thread that Python
    has started has none, so that `amqp` is not found there. It has this one from now on.
    Raises: ImportError without the packages of `pip install penstock-mq[spark]`.
    """
    # Imported here: the rest of the pipeline has to work without PySpark.
    from penstock.spark.connector.common.engines import HAS_START
    from penstock.spark.connector.source import source_for

    _activate(spark)
    application = spark.conf.get("spark.app.name", "") or ""
    spark.dataSource.register(source_for(_cores_of(spark), application))
    if HAS_START and importlib.util.find_spec("deltalake") is not None:
        from penstock.spark.tables.delta_table import DeltaTables

        spark.dataSource.register(DeltaTables)


def _activate(spark: "SparkSession") -> None:
    """Make `spark` the active session of this thread. Nothing with Spark Connect, which has no
    threads in common with its Java."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        spark._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


def _cores_of(spark: "SparkSession") -> int:
    """For tasks, as far as executors have come already; 0 where a session does not say it, as that
    of Spark Connect."""
    context = getattr(spark, "sparkContext", None)
    return 0 if context is None else int(context.defaultParallelism)
