"""A job for a cluster: one stream into another, exactly once, and a sweep of two points.

    python -m tests.spark.cluster_job MASTER URL SOURCE TARGET FOLDER
Prints one line of JSON: the rows of a batch read, and what the sweep's points did.
"""

import json
import sys
from typing import Any

from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import open_session
from penstock.spark.sweep import run_in_spark
from penstock.sweep.grid import Grid, points_of


def main(master: str, url: str, source: str, target: str, folder: str) -> None:
    with open_session(find_java(), master) as spark:
        register(spark)
        options = {"url": url, "queue": source, "mode": "stream", "startingOffsets": "earliest"}
        options["minPartitions"] = "2"
        rows = spark.readStream.format("amqp").options(**options, maxOffsetsPerTrigger="200").load()
        sink = {"url": url, "routingKey": target, "delivery": "exactly-once"}
        writer = rows.select("body").writeStream.format("amqp").options(**sink)
        writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        writer.start().awaitTermination()
        count = spark.read.format("amqp").options(**options).load().count()
        print(json.dumps({"count": count, "points": swept(spark)}), flush=True)


def swept(spark: Any) -> list[Any]:
    """The throughput of two points, each by a task of its own."""
    grid = Grid(
        ("chain-consumer",),
        ("penstock",),
        ("events",),
        (4,),
        (1.0,),
        ("",),
        (0,),
        (0,),
        (1, 2),
        0.2,
    )
    rows = [row for some in run_in_spark(spark, points_of(grid)) for row in some]
    return [row["error"] for row in rows]


if __name__ == "__main__":
    main(*sys.argv[1:])
