"""How fast Spark reads a stream: whole chunks, message by message, other brokers, a naive source.

    python bench/spark_source.py                    about nine minutes; RabbitMQ if it is there
    python bench/spark_source.py --rows 4000000 --repeats 5
    python bench/spark_source.py --python PATH      the broker as installed for that interpreter
    python bench/spark_source.py --modes chunk,chunk-one --sizes 100
    python bench/spark_source.py --modes "" --java=-XX:TieredStopAtLevel=1       latency only
    python bench/spark_source.py --smoke            does everything arrive? under a minute

Throughput: a streaming query over a stream that is full already, into the noop sink; rows by the
time of each micro-batch, without the first of a query. Before that every mode reads for --warm-up
seconds, because Java goes on compiling for as long; queries run for hours. Modes take turns, so
that a busy minute hits all of them. `chunk-few` is `chunk` with three columns, and `chunk-one` with
one task, where the source would choose two. Latency: a publisher
of --rate messages a second, from its clock to the clock of the JVM in the task that has the row,
and the time of a whole micro-batch.
The naive source is what people write first: pika, and a Python tuple for every row.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

# Run as a program neither the directory above nor the sources are on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import pika
import psutil
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.brokers import RABBITMQ_MISSING, Broker, forget_cache, penstock_target, rabbitmq_target
from bench.machine import describe
from penstock.client.io_blocking import connect
from penstock.client.publish_template import PublishTemplate
from penstock.protocol.properties import Properties
from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import LATENCY_SETTINGS, leave_out_checksums

MODES: Final = ("chunk", "chunk-one", "chunk-few", "amqp", "rabbitmq", "naive")
ROWS_PER_BATCH: Final = {
    "chunk": 1_000_000,
    "chunk-one": 1_000_000,
    "chunk-few": 1_000_000,
    "amqp": 100_000,
    "rabbitmq": 100_000,
}
FEW_COLUMNS: Final = "body,offset,timestamp"
NAIVE_ROWS_MAX: Final = 100_000
SMOKE_ROWS: Final = 20_000
SMALL: Final = 100
CONFIRM_WINDOW: Final = 20_000
FIRST_ROW_S: Final = 120


class BenchFailed(Exception):
    """Rows were missing."""


# --- streams that are full ------------------------------------------------------------------------


def fill(url: str, stream: str, rows: int, size: int) -> None:
    """A stream with `rows` messages of `size` bytes, all confirmed."""
    with connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_select()
        session = connection.session
        template = PublishTemplate(channel.number, "", stream, Properties())
        frames = template.frames(bytes(size), session.frame_bytes_max)
        for first in range(0, rows, CONFIRM_WINDOW):
            for _ in range(min(CONFIRM_WINDOW, rows - first)):
                session.publish_frames(channel.number, frames, 0)
            channel.wait_for_confirms()


# --- Spark ----------------------------------------------------------------------------------------


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
    spark.dataSource.register(NaiveSource)
    return spark


def read_stream(spark: SparkSession, url: str, stream: str, mode: str, rows: int) -> list[float]:
    """Rows a second of each micro-batch but the first. Raises: BenchFailed."""
    # No fourth batch with what a division leaves.
    batch = min(ROWS_PER_BATCH[mode], max(1, -(-rows // 3)))
    reader = (
        spark.readStream.format("amqp")
        .option("url", url)
        .option("queue", stream)
        .option("mode", "stream")
        .option("readMode", "chunk" if mode.startswith("chunk") else "amqp")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(batch))
    )
    if mode == "chunk-few":
        reader = reader.option("columns", FEW_COLUMNS)
    if mode == "chunk-one":
        reader = reader.option("minPartitions", "1")
    with tempfile.TemporaryDirectory() as folder:
        query = (
            reader.load()
            .writeStream.format("noop")
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seen = filled(query.recentProgress)
    if sum(one["numInputRows"] for one in seen) != rows:
        raise BenchFailed(f"{mode}: {rows} rows were there, and these came: {seen}")
    return [
        one["numInputRows"] / (one["durationMs"]["triggerExecution"] / 1000) for one in seen[1:]
    ]


def filled(progress: Sequence[Any]) -> list[dict[str, Any]]:
    """What Spark says of each micro-batch that had rows."""
    seen = [json.loads(one.json) for one in progress]
    return [one for one in seen if one["numInputRows"] > 0]


class NaiveSource(DataSource):
    """A batch source with pika and tuples."""

    @classmethod
    def name(cls) -> str:
        return "naive"

    def schema(self) -> str:
        return "body BINARY, routing_key STRING, offset BIGINT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NaiveReader(dict(self.options))


class NaiveReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes, str, int]]:
        rows = int(self.options["rows"])
        connection = pika.BlockingConnection(pika.URLParameters(self.options["url"]))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1000)
        for method, properties, body in channel.consume(
            self.options["queue"], arguments={"x-stream-offset": "first"}
        ):
            assert method is not None and properties is not None, "no timeout was asked for"
            offset: int = (properties.headers or {})["x-stream-offset"]
            yield bytes(body), method.routing_key, offset
            if method.delivery_tag % 500 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            rows -= 1
            if rows == 0:
                break
        # Closing in order would reject what was fetched, which streams do not take.
        connection._impl._transport.abort()


def read_naive(spark: SparkSession, url: str, stream: str, rows: int) -> list[float]:
    """Rows a second of one read. Raises: BenchFailed."""
    table = spark.read.format("naive").option("url", url).option("queue", stream)
    began = time.perf_counter()
    count = table.option("rows", str(rows)).load().count()
    if count != rows:
        raise BenchFailed(f"naive: {rows} rows were asked for, and {count} came")
    return [rows / (time.perf_counter() - began)]


def read_once(spark: SparkSession, url: str, stream: str, mode: str, rows: int) -> list[float]:
    """Rows a second of each part of one read. Raises: BenchFailed."""
    if mode == "naive":
        return read_naive(spark, url, stream, rows)
    return read_stream(spark, url, stream, mode, rows)


# --- latency --------------------------------------------------------------------------------------


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


# --- the run --------------------------------------------------------------------------------------


def url_of(broker: Broker) -> str:
    return f"amqp://{broker.user}:{broker.password}@{broker.host}:{broker.port}"


def cpu_s() -> float:
    """Processor seconds of Spark, its Python workers and the brokers so far: steadier than the
    clock on a busy machine."""
    me = psutil.Process()
    total = 0.0
    for one in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = one.cpu_times()
            total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


def measure(
    spark: SparkSession,
    brokers: dict[str, Broker],
    size: int,
    rows: int,
    repeats: int,
    warm_up_s: float,
    modes: Sequence[str],
) -> dict[str, list[tuple[float, float]]]:
    """By mode, for every repeat: rows a second of the median micro-batch, and processor seconds for
    a million rows with everything that took part. Modes take turns; each warms up first."""
    stream = f"full.{size}"
    amqp_rows = min(rows, 4 * ROWS_PER_BATCH["amqp"])
    found: dict[str, list[tuple[float, float]]] = {}
    for name, broker in brokers.items():
        fill(url_of(broker), stream, rows if name == "penstock" else amqp_rows, size)
    if rows > amqp_rows:
        fill(url_of(brokers["penstock"]), stream + ".amqp", amqp_rows, size)
    for repeat in range(repeats):
        for mode in modes:
            name = "rabbitmq" if mode == "rabbitmq" else "penstock"
            if name not in brokers:
                continue
            url = url_of(brokers[name])
            there = rows if mode.startswith("chunk") else amqp_rows
            if mode == "naive":
                there = min(rows, NAIVE_ROWS_MAX)
            source = stream + ".amqp" if mode == "amqp" and rows > amqp_rows else stream
            if repeat == 0:
                end = time.monotonic() + warm_up_s
                while time.monotonic() < end:
                    read_once(spark, url, source, mode, there)
            before_s = cpu_s()
            rates = read_once(spark, url, source, mode, there)
            spent = (cpu_s() - before_s) / there * 1e6
            found.setdefault(mode, []).append((statistics.median(rates), spent))
    return found


def show(size: int, found: dict[str, list[tuple[float, float]]]) -> None:
    """A line a mode: median, range, MB/s, how many times the AMQP path it is, processor time."""
    base = statistics.median(rate for rate, _ in found["amqp"]) if "amqp" in found else 0.0
    for mode, runs in found.items():
        rates = [rate for rate, _ in runs]
        middle = statistics.median(rates)
        spent = statistics.median(spent for _, spent in runs)
        times = f"{middle / base:>5.1f} x amqp" if base else ""
        print(
            f"  {size:>5} B  {mode:<9} {middle / 1000:>8.0f} k rows/s  "
            f"({min(rates) / 1000:.0f}-{max(rates) / 1000:.0f})  "
            f"{middle * size / 1e6:>7.1f} MB/s  {times}  "
            f"{spent:>6.1f} cpu s a million rows"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--sizes", default="100,1000", help="bytes of a body")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--modes", default=",".join(MODES), help='which of them, in that order; "" for latency only'
    )
    parser.add_argument("--java", default="", help="options for the JVM, as in --java=-Xmx2g")
    parser.add_argument(
        "--warm-up", type=float, default=15.0, help="seconds of each mode, not timed"
    )
    parser.add_argument("--rate", type=int, default=500, help="messages a second, for latency")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the latency run")
    parser.add_argument("--python", default="", help="interpreter with Penstock installed")
    parser.add_argument("--no-rabbitmq", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", help="all figures as JSON")
    given = parser.parse_args(arguments)
    modes = given.modes.split(",") if given.modes else []
    if not set(modes) <= set(MODES):
        parser.error(f"--modes {given.modes}: there are {', '.join(MODES)}")
    if given.smoke:
        given.rows, given.repeats, given.seconds, given.warm_up = SMOKE_ROWS, 1, 6.0, 0.0
        given.sizes, given.no_rabbitmq = str(SMALL), True
    result: dict[str, Any] = {"machine": describe(), "pyspark": pyspark.__version__}
    brokers: dict[str, Broker] = {}
    spark = open_spark(given.java)
    data = tempfile.TemporaryDirectory(prefix="penstock-bench-data-")
    try:
        target = penstock_target(given.python, ("--data", data.name))
        brokers["penstock"] = target.start()
        result["penstock"] = target.version
        rabbitmq = None if given.no_rabbitmq else rabbitmq_target()
        if rabbitmq is not None:
            brokers["rabbitmq"] = rabbitmq.start()
            result["rabbitmq"] = rabbitmq.version
        elif not given.no_rabbitmq:
            print(RABBITMQ_MISSING)
        print(f"Penstock {target.version}, PySpark {pyspark.__version__}, load {os.getloadavg()}")
        for size in [int(size) for size in given.sizes.split(",") if modes]:
            rows = max(1, given.rows * SMALL // size)
            found = measure(spark, brokers, size, rows, given.repeats, given.warm_up, modes)
            show(size, found)
            result[f"rows_per_s_{size}"] = found
        result["latency"] = latency(
            spark,
            url_of(brokers["penstock"]),
            "steady",
            given.rate,
            given.warm_up,
            given.seconds,
        )
        print(f"  at {given.rate} messages/s: {json.dumps(result['latency'])}")
        print(f"load {os.getloadavg()}")
    except BenchFailed as failure:
        print(f"FAILED: {failure}")
        return 1
    finally:
        for broker in brokers.values():
            broker.stop()
        spark.stop()
        data.cleanup()
        forget_cache()
    if given.out:
        Path(given.out).write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
