"""A job for a cluster: a stream and a queue into a stream, exactly once, and a sweep of two points.

    python -m tests.spark.cluster_job MASTER URL SOURCE QUEUE TARGET FOLDER
Prints one line of JSON: the rows of a batch read, how many executors have read them, and what the
sweep's points did.
"""

import json
import sys
from typing import Any

from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import open_session
from penstock.spark.sweep import run_in_spark
from penstock.sweep.grid import Grid, points_of


def main(master: str, url: str, source: str, queue: str, target: str, folder: str) -> None:
    with open_session(find_java(), master) as spark:
        register(spark)
        options = {"url": url, "minPartitions": "2", "maxOffsetsPerTrigger": "200"}
        stream = {**options, "queue": source, "startingOffsets": "earliest"}
        sink = {"url": url, "routingKey": target, "delivery": "exactly-once"}
        for given in (stream, {**options, "queue": queue}):
            rows = spark.readStream.format("amqp").options(**given).load().select("body")
            writer = rows.writeStream.format("amqp").options(**sink)
            state = f"{folder}/{given['queue']}"
            writer = writer.option("checkpointLocation", state).trigger(availableNow=True)
            writer.start().awaitTermination()
        rows = spark.read.format("amqp").options(**stream).load()
        count = rows.count()
        # Each executor has a core, and waits here until the other one has come as well.
        processes = rows.rdd.mapPartitions(reader).distinct().count()
        said = {"count": count, "points": swept(spark), "executors": processes}
        print(json.dumps(said), flush=True)


def reader(rows: Any) -> Any:
    """The executor that reads, by its Java machine."""
    import os
    import time

    for _ in rows:
        pass
    time.sleep(3)
    daemon = os.getppid()
    yield daemon


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
