"""Spark's schemas of tables that are made by Python; the others follow from their expressions."""

from typing import Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

BLAME_SCHEMA: Final = StructType(
    [
        StructField("bucket_ns", LongType()),
        *(StructField(name, StringType()) for name in ("victim", "root", "cause", "path")),
        StructField("blamed_ns", LongType()),
    ]
)
