"""The Spark session of the benchmarks, and how long a row takes from its publisher to a task."""

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.brokers import Broker
from penstock.client.io_blocking import connect
from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import LATENCY_SETTINGS, leave_out_checksums

FIRST_ROW_S: Final = 120


class BenchFailed(Exception):
    """Rows were missing."""


def url_of(broker: Broker) -> str:
    """Where it is, and as whom."""
    return f"amqp://{broker.user}:{broker.password}@{broker.host}:{broker.port}"


def open_spark(java_options: str = "") -> SparkSession:
    """A local session as a user would have it, with the settings that shorten a micro-batch."""
    os.environ["JAVA_HOME"] = find_java().home
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    )
    builder = SparkSession.Builder().master("local[2]").appName("bench")
    for name, value in LATENCY_SETTINGS.items():
        builder = builder.config(name, value)
    spark = (
        builder.config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("FATAL")
    leave_out_checksums(spark)
    register(spark)
    return spark


def filled(progress: Sequence[Any]) -> list[dict[str, Any]]:
    """What Spark says of each micro-batch that had rows."""
    seen = [json.loads(one.json) for one in progress]
    return [one for one in seen if one["numInputRows"] > 0]


def publish_steadily(url: str, stream: str, rate: int, stop: threading.Event) -> None:
    """`rate` messages a second; the body is the publisher's clock in ms."""
    with connect(url) as connection:
        channel = connection.channel()
        began, sent = time.monotonic(), 0
        while not stop.is_set():
            while sent < (time.monotonic() - began) * rate:
                channel.publish("", stream, b"%d" % (time.time_ns() // 1_000_000))
                sent += 1
            connection.process(1)


def latency(
    spark: SparkSession, url: str, stream: str, rate: int, warm_up_s: float, seconds: float
) -> dict[str, float]:
    """ms from publishing a row to having it in a task, and of a whole micro-batch; after the first
    row and warm_up_s more."""
    with connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
    stop = threading.Event()
    publisher = threading.Thread(target=publish_steadily, args=(url, stream, rate, stop))
    publisher.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            query = (
                spark.readStream.format("amqp")
                .option("url", url)
                .option("queue", stream)
                .option("mode", "stream")
                .load()
                .selectExpr(
                    "cast(java_method('java.lang.System', 'currentTimeMillis') as bigint)"
                    " - cast(string(body) as bigint) as ms"
                )
                .writeStream.format("memory")
                .queryName("latencies")
                .option("checkpointLocation", folder)
                .start()
            )
            end = time.monotonic() + FIRST_ROW_S
            while not filled(query.recentProgress) and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(warm_up_s)
            cold = len(filled(query.recentProgress))
            time.sleep(seconds)
            query.stop()
    finally:
        stop.set()
        publisher.join()
    seen = filled(query.recentProgress)
    batches = [float(one["durationMs"]["triggerExecution"]) for one in seen[cold:]]
    # A memory sink keeps its rows in the order of batches.
    before = sum(one["numInputRows"] for one in seen[:cold])
    rows = [float(row.ms) for row in spark.table("latencies").collect()][before:]
    if len(rows) < 2 or not batches:
        raise BenchFailed("no row came")
    return {
        "batch_p50_ms": statistics.median(batches),
        "row_p50_ms": statistics.median(rows),
        "row_p99_ms": statistics.quantiles(rows, n=100)[98],
        "batches": len(batches),
    }
