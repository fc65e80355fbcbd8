"""A job for tests that kill it: a stream into a queue, a Delta table and Parquet files.

    python -m tests.spark.killed_job URL FOLDER queue|superStream
The stream, or the super stream, is called `numbers`.
One query after the other reads what is there, and is started again when it fails, as a supervisor
would. The job says RUNNING when it begins with them, DONE at the end.
"""

import sys
import time
from pathlib import Path
from typing import Any

from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import open_session

MASTER = "local[2,4]"
"""Tasks are repeated when their worker dies."""
PAUSE_S = 0.5


def main(url: str, folder: Path, source: str) -> None:
    with open_session(find_java(), MASTER) as spark:
        register(spark)
        print("RUNNING", flush=True)
        spark.sparkContext.setLogLevel("OFF")
        for name in ("queue", "delta", "parquet"):
            while not has_ended_well(spark, url, folder, source, name):
                time.sleep(PAUSE_S)
        print("DONE", flush=True)


def has_ended_well(spark: Any, url: str, folder: Path, source: str, name: str) -> bool:
    """Run a query to its end, or to its first fault."""
    try:
        started(spark, url, folder, source, name).awaitTermination()
    except Exception as fault:
        print(name, str(fault)[:300], flush=True)
        return False
    print("ended:", name, flush=True)
    return True


def started(spark: Any, url: str, folder: Path, source: str, name: str) -> Any:
    options = {"url": url, source: "numbers", "mode": "stream", "startingOffsets": "earliest"}
    rows = (
        spark.readStream.format("amqp")
        .options(**options, maxOffsetsPerTrigger="150", minPartitions="2", reconnectTimeout="20s")
        .load()
        .selectExpr("body")
    )
    writer = rows.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / f"state-{name}"))
    if name == "queue":
        sink = {"url": url, "routingKey": "out", "delivery": "exactly-once"}
        return writer.format("amqp").options(**sink, reconnectTimeout="20s").start()
    kind = "deltatable" if name == "delta" else "parquet"
    return writer.format(kind).option("path", str(folder / name)).start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
