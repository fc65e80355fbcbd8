"""The explicit Spark schemas of both input formats; nothing is inferred from data."""

from typing import Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.spark.formats import SAMPLE_FIELDS, STATE_FIELDS

CORRUPT: Final = "unreadable"


def _text(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


def _long(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


EVENT_SCHEMA: Final = StructType(
    [
        *_text("format", "node", "boot_id"),
        *_long("seq", "t"),
        *_text("kind", "actor", "peer", "reason"),
        *_long("amount", *STATE_FIELDS, *SAMPLE_FIELDS),
        *_text(CORRUPT),
    ]
)

TRACE_SCHEMA: Final = StructType(
    [
        *_text("id", "stage"),
        *_long("t"),
        *_text("client", "queue", "phase", CORRUPT),
    ]
)

EDGE_SCHEMA: Final = StructType(
    [
        *_long("bucket_ns"),
        *_text("actor", "peer", "reason"),
        *_long("start_ns", "end_ns"),
    ]
)

BLAME_SCHEMA: Final = StructType(
    [
        *_long("bucket_ns"),
        *_text("victim", "root", "cause", "path"),
        *_long("blamed_ns"),
    ]
)
