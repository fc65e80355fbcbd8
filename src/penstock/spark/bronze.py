"""Bronze: the input lines as they came, with their boot, ready to be read many times."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.spark.formats import (
    EVENT_FILES,
    EVENT_FORMAT,
    SAMPLE_FIELDS,
    STATE_FIELDS,
    TRACE_FILES,
    input_files,
)
from penstock.spark.schemas import CORRUPT, EVENT_SCHEMA, TRACE_SCHEMA


def events(spark: SparkSession, directory: Path) -> DataFrame:
    """Every line of the event files with `boot_id` from the header of its file.

    A repeated (boot_id, seq) is kept once; lines that cannot be read stay, with `unreadable` set.
    """
    lines = _lines(spark, directory, EVENT_FILES, EVENT_SCHEMA)
    headers = (
        lines.where(F.col("format") == EVENT_FORMAT)
        .groupBy("file")
        .agg(F.max("boot_id").alias("boot_id"), F.max("node").alias("node"))
    )
    rest = lines.where(F.col("format").isNull()).drop("format", "boot_id", "node")
    joined = rest.join(F.broadcast(headers), "file", "left").withColumn(
        "boot_id", F.coalesce("boot_id", F.lit(""))
    )
    texts = [F.coalesce(name, F.lit("")).alias(name) for name in ("actor", "peer", "reason")]
    numbers = [
        F.coalesce(name, F.lit(0)).alias(name) for name in ("amount", *STATE_FIELDS, *SAMPLE_FIELDS)
    ]
    readable = (
        joined.where(F.col("kind").isNotNull())
        .select(
            "boot_id", "node", "seq", F.col("t").alias("t_ns"), "kind", *texts, *numbers, CORRUPT
        )
        .dropDuplicates(["boot_id", "seq"])
    )
    broken = joined.where(F.col(CORRUPT).isNotNull()).select("boot_id", CORRUPT)
    return readable.unionByName(broken, allowMissingColumns=True)


def messages(spark: SparkSession, directory: Path) -> DataFrame:
    """Every line of the trace files; lines that cannot be read stay, with `unreadable` set."""
    return _lines(spark, directory, TRACE_FILES, TRACE_SCHEMA).select(
        F.coalesce("id", F.lit("")).alias("message_id"),
        "stage",
        F.col("t").alias("t_ns"),
        "client",
        F.coalesce("queue", F.lit("")).alias("queue"),
        F.coalesce("phase", F.lit("")).alias("phase"),
        CORRUPT,
    )


def _lines(
    spark: SparkSession,
    directory: Path,
    pattern: str,
    schema: StructType,
) -> DataFrame:
    paths = [str(path) for path in input_files(directory, pattern)]
    if not paths:
        return spark.createDataFrame([], schema).withColumn("file", F.lit(""))
    return (
        spark.read.schema(schema)
        .option("columnNameOfCorruptRecord", CORRUPT)
        .json(paths)
        .withColumn("file", F.col("_metadata.file_name"))
    )
