"""How fast Spark reads and writes through the connector, and what each process spends on it.

    python bench/spark_speed.py                     about fifteen minutes; RabbitMQ if it is there
    python bench/spark_speed.py --python PATH       the broker as installed for that interpreter
    python bench/spark_speed.py --cases chunks,chunks-two --repeats 5
    python bench/spark_speed.py --cases "" --java=-XX:TieredStopAtLevel=1        latency only
    python bench/spark_speed.py --smoke             does everything arrive? a minute or so

    chunks      a stream, whole chunks, all columns
    chunks-two  the same with columns=body,offset
    chunks-one  the same with all columns and one task, where the source would choose two
    amqp        a stream, message by message; RabbitMQ beside it
    queue       an ordinary queue: leases of Penstock, mode=queue of RabbitMQ
    many        --queues ordinary queues with 500 messages each, one query
    sink        rows into a durable queue, persistent and confirmed; RabbitMQ beside it
    sink-once   the same with delivery=exactly-once

Rates are rows by the time of each micro-batch, without the first of a query, medians of --repeats;
the options are the defaults, but for batches of a million rows of chunks. Every case warms up for
--warm-up seconds, because Java goes on compiling for as long and queries run for hours; cases and
brokers take turns, so that a busy minute hits all of them. Processor seconds are for a million
rows: broker, Java, its Python workers, and the driver, from the start of a query to its end.
Latency: a publisher of --rate messages a second, from its clock to the clock of the JVM in the task
that has the row, and the time of a whole micro-batch.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

# Run as a program neither the directory above nor the sources are on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import psutil
import pyspark
from pyspark.sql import SparkSession

from bench.brokers import RABBITMQ_MISSING, Broker, forget_cache, penstock_target, rabbitmq_target
from bench.machine import describe
from bench.spark_latency import BenchFailed, filled, latency, open_spark, url_of
from penstock.client.io_blocking import connect
from penstock.client.publish_template import PublishTemplate
from penstock.protocol.properties import Properties

PENSTOCK: Final = "penstock"
RABBITMQ: Final = "rabbitmq"
BOTH: Final = (PENSTOCK, RABBITMQ)
CHUNK_ROWS: Final = 1_000_000
SINK_ROWS: Final = 200_000
"""Of a batch."""
MANY_ROWS: Final = 500
"""Of each queue."""
SMALL: Final = 100
WINDOW_BYTES: Final = 2_000_000
SMOKE_ROWS: Final = 20_000


# --- queues that are full -------------------------------------------------------------------------


def fill(url: str, queue: str, rows: int, size: int, is_stream: bool) -> None:
    """A durable queue, or a stream, with `rows` persistent messages of `size` bytes, all confirmed,
    and no others."""
    with connect(url) as connection:
        channel = connection.channel()
        channel.delete_queue(queue)
        arguments = {"x-queue-type": "stream"} if is_stream else {}
        channel.declare_queue(queue, durable=True, arguments=dict(arguments))
        channel.confirm_select()
        session = connection.session
        template = PublishTemplate(channel.number, "", queue, Properties(delivery_mode=2))
        frames = template.frames(bytes(size), session.frame_bytes_max)
        window = max(1, WINDOW_BYTES // max(1, size))
        for first in range(0, rows, window):
            count = min(window, rows - first)
            session.publish_frames(channel.number, frames * count, 0, count)
            channel.wait_for_confirms()


# --- Spark ----------------------------------------------------------------------------------------


def rates_of(seen: Sequence[dict[str, Any]]) -> list[float]:
    """Rows a second of each batch but the first, and of that where there is no other."""
    return [
        one["numInputRows"] / (one["durationMs"]["triggerExecution"] / 1000)
        for one in seen[1:] or seen
    ]


class Case:
    """One run of one case. url: of the broker; rows, size: how many, and the bytes of a body."""

    def __init__(self, spark: SparkSession, broker: Broker, rows: int, size: int) -> None:
        self.spark = spark
        self.broker = broker
        self.url = url_of(broker)
        self.rows = rows
        self.size = size

    def read(self, names: str, rows: int, **options: str) -> list[float]:
        """Read all there is of some queues. Raises: BenchFailed."""
        reader = self.spark.readStream.format("amqp").option("url", self.url)
        reader = reader.options(queues=names, **options)
        with tempfile.TemporaryDirectory() as folder:
            stream = reader.load().writeStream.format("noop").option("checkpointLocation", folder)
            query = stream.trigger(availableNow=True).start()
            query.awaitTermination()
            seen = filled(query.recentProgress)
        found = sum(one["numInputRows"] for one in seen)
        if found != rows:
            raise BenchFailed(f"{names[:20]}: {rows} rows were there, and {found} came")
        return rates_of(seen)

    def stream(self, **options: str) -> list[float]:
        """A stream from its beginning, in three batches or more."""
        batch = str(min(CHUNK_ROWS, -(-self.rows // 3)))
        return self.read(
            f"full.{self.size}.{self.rows}", self.rows, mode="stream", startingOffsets="earliest",
            maxOffsetsPerTrigger=batch, **options,
        )  # fmt: skip

    def sink(self, **options: str) -> list[float]:
        """Rows that Java makes into a queue, which is emptied then. Raises: BenchFailed."""
        batches = max(2, -(-self.rows // SINK_ROWS))
        count = min(SINK_ROWS, -(-self.rows // batches))
        source = self.spark.readStream.format("rate-micro-batch").option("numPartitions", "2")
        table = source.option("rowsPerBatch", str(count)).load()
        table = table.selectExpr(f"cast(repeat('x', {self.size}) as binary) as body")
        fill(self.url, "sunk", 0, 0, False)
        with tempfile.TemporaryDirectory() as folder:
            writer = table.writeStream.format("amqp").option("url", self.url)
            writer = writer.options(routingKey="sunk", **options)
            query = writer.option("checkpointLocation", folder).start()
            while query.isActive and len(filled(query.recentProgress)) < batches:
                time.sleep(0.02)
            query.stop()
            if query.exception() is not None:
                raise BenchFailed(str(query.exception()))
            seen = filled(query.recentProgress)
        with connect(self.url) as connection:
            there = connection.channel().declare_queue("sunk", passive=True).message_count
            sent = sum(one["numInputRows"] for one in seen)
            if there < sent:
                raise BenchFailed(f"sink: {sent} rows went out, and {there} are there")
            connection.channel().delete_queue("sunk")
        return rates_of(seen)


# --- cases ----------------------------------------------------------------------------------------


class Kind:
    """What a case does. brokers: that can; share: of --rows that it has; has_stream: it reads the
    full stream; queues: it has to be filled before each run, of how many, 0 for none."""

    def __init__(
        self,
        run: Callable[[Case], list[float]],
        brokers: Sequence[str] = (PENSTOCK,),
        share: float = 1.0,
        has_stream: bool = False,
        is_queue: bool = False,
    ) -> None:
        self.run = run
        self.brokers = brokers
        self.share = share
        self.has_stream = has_stream
        self.is_queue = is_queue


def read_many(case: Case) -> list[float]:
    """All of the small queues, in one query."""
    return case.read(",".join(many_names(case)), len(many_names(case)) * MANY_ROWS)


def many_names(case: Case) -> list[str]:
    """The small queues."""
    return [f"many.{number}" for number in range(max(1, case.rows // MANY_ROWS))]


KINDS: Final = {
    "chunks": Kind(lambda case: case.stream(readMode="chunk"), has_stream=True),
    "chunks-two": Kind(
        lambda case: case.stream(readMode="chunk", columns="body,offset"), has_stream=True
    ),
    "chunks-one": Kind(
        lambda case: case.stream(readMode="chunk", minPartitions="1"), has_stream=True
    ),
    "amqp": Kind(lambda case: case.stream(readMode="amqp"), BOTH, 0.1, has_stream=True),
    "queue": Kind(lambda case: case.read("full", case.rows), BOTH, 0.1, is_queue=True),
    "many": Kind(read_many, (PENSTOCK,), 0.0, is_queue=True),
    "sink": Kind(lambda case: case.sink(), BOTH, 0.3),
    "sink-once": Kind(
        lambda case: case.sink(delivery="exactly-once", maxStagedBytes="64m"), share=0.3
    ),
}


def prepare(kind: Kind, name: str, case: Case, is_first: bool) -> None:
    """Have there be what the case reads."""
    if kind.has_stream and is_first:
        fill(case.url, f"full.{case.size}.{case.rows}", case.rows, case.size, True)
    if kind.is_queue:
        names = many_names(case) if name == "many" else ["full"]
        for one in names:
            fill(case.url, one, MANY_ROWS if name == "many" else case.rows, case.size, False)


# --- the run --------------------------------------------------------------------------------------


def spent_s(broker: Broker) -> dict[str, float]:
    """Processor seconds so far, of whom: steadier than the clock on a busy machine."""
    me = psutil.Process()
    found = {"broker": 0.0, "java": 0.0, "workers": 0.0, "driver": 0.0}
    everybody = [("driver", me), *(("broker", psutil.Process(pid)) for pid in broker.pids)]
    for one in me.children():
        if one.name() == "java":
            everybody += [("java", one), *(("workers", it) for it in one.children(recursive=True))]
    for who, process in everybody:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found[who] += times.user + times.system
        if who in ("java", "workers"):
            found["workers"] += times.children_user + times.children_system
    return found


class Figures:
    """Of one case with one broker. rates: of the median batch of each run, rows a second; spent:
    processor seconds for a million rows, by whom, of each run; loads: of the machine before it."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.spent: list[dict[str, float]] = []
        self.loads: list[float] = []

    def line(self, size: int) -> str:
        """Median, range and processor time."""
        middle = statistics.median(self.rates)
        by_whom = ", ".join(
            f"{who} {statistics.median(one[who] for one in self.spent):.2f}"
            for who in self.spent[0]
        )
        every = statistics.median(sum(one.values()) for one in self.spent)
        return (
            f"{middle / 1000:>7.0f} k rows/s ({min(self.rates) / 1000:.0f} to "
            f"{max(self.rates) / 1000:.0f})  {middle * size / 1e6:>6.1f} MB/s  cpu s a million "
            f"{every:.2f} ({by_whom})  load {min(self.loads):.1f} to {max(self.loads):.1f}"
        )


def measure(
    spark: SparkSession,
    brokers: dict[str, Broker],
    names: Sequence[str],
    size: int,
    given: argparse.Namespace,
) -> dict[str, Figures]:
    """Every case with every broker that can, by turns."""
    found: dict[str, Figures] = {}
    for repeat in range(given.repeats):
        for name in names:
            kind = KINDS[name]
            for where in kind.brokers:
                if where not in brokers:
                    continue
                rows = max(1, int(given.rows * kind.share * SMALL / size))
                if where == RABBITMQ:
                    # As long as the others take, not ten times that.
                    rows = max(1, rows // 10)
                if name == "many":
                    rows = given.queues * MANY_ROWS
                case = Case(spark, brokers[where], rows, size)
                prepare(kind, name, case, repeat == 0)
                end = time.monotonic() + given.warm_up
                while repeat == 0 and time.monotonic() < end:
                    kind.run(case)
                    prepare(kind, name, case, False)
                load, before = os.getloadavg()[0], spent_s(case.broker)
                rates = kind.run(case)
                after = spent_s(case.broker)
                figures = found.setdefault(f"{name} {where}", Figures())
                figures.rates.append(statistics.median(rates))
                figures.spent.append(
                    {who: (after[who] - before[who]) / rows * 1e6 for who in after}
                )
                figures.loads.append(load)
                print(
                    f"  {size:>5} B  {name} {where}: {statistics.median(rates) / 1000:.0f} k",
                    end="\n",
                    flush=True,
                )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="of chunks; others have fewer")
    parser.add_argument("--sizes", default="100,1024,10240", help="bytes of a body")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cases", default=",".join(KINDS), help='which of them, in that order; "" for latency only'
    )
    parser.add_argument("--queues", type=int, default=64, help="of the case many, 64 at most")
    parser.add_argument("--java", default="", help="options for the JVM, as in --java=-Xmx2g")
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds of each, not timed")
    parser.add_argument("--rate", type=int, default=500, help="messages a second, for latency")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the latency; 0: without")
    parser.add_argument("--python", default="", help="interpreter with Penstock installed")
    parser.add_argument("--no-rabbitmq", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", help="all figures as JSON")
    given = parser.parse_args(arguments)
    cases = given.cases.split(",") if given.cases else []
    if not set(cases) <= set(KINDS):
        parser.error(f"--cases {given.cases}: there are {', '.join(KINDS)}")
    if given.smoke:
        given.rows, given.repeats, given.seconds, given.warm_up = SMOKE_ROWS, 1, 6.0, 0.0
        given.sizes, given.no_rabbitmq, given.queues = str(SMALL), True, 5
    result: dict[str, Any] = {"machine": describe(), "pyspark": pyspark.__version__}
    brokers: dict[str, Broker] = {}
    spark = open_spark(given.java)
    data = tempfile.TemporaryDirectory(prefix="penstock-bench-data-")
    try:
        target = penstock_target(given.python, ("--data", data.name))
        brokers[PENSTOCK] = target.start()
        result[PENSTOCK] = target.version
        rabbitmq = None if given.no_rabbitmq else rabbitmq_target()
        if rabbitmq is not None:
            brokers[RABBITMQ] = rabbitmq.start()
            result[RABBITMQ] = rabbitmq.version
        elif not given.no_rabbitmq:
            print(RABBITMQ_MISSING)
        print(
            f"Penstock {target.version}, RabbitMQ {result.get(RABBITMQ, 'none')}, PySpark "
            f"{pyspark.__version__}, {result['machine']['processor']}, {os.cpu_count()} cores, "
            f"load {os.getloadavg()}"
        )
        for size in [int(size) for size in given.sizes.split(",") if cases]:
            found = measure(spark, brokers, cases, size, given)
            for name, figures in found.items():
                print(f"  {size:>5} B  {name:<20} {figures.line(size)}")
            result[f"of_{size}"] = {name: vars(figures) for name, figures in found.items()}
        if given.seconds > 0:
            url = Case(spark, brokers[PENSTOCK], 0, 0).url
            result["latency"] = latency(
                spark, url, "steady", given.rate, given.warm_up, given.seconds
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
