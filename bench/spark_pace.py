"""Do publishers run at the pace of Spark? A slow sink, a stream that waits for it, nothing lost.

    python bench/spark_pace.py                  about a minute
    python bench/spark_pace.py --batch 5000 --sink-seconds 2 --batches 10
    python bench/spark_pace.py --smoke          small, no verdict on the pace

A publisher without confirms writes as fast as it is let into a stream. A Spark query with a group
reads B rows a batch, and its sink takes T in all. With the lag bound at two batches the stream can
only be written at B/T. Measured from batch to batch: what came into the stream by what Spark took.
Wanted: within 5 %, and in the end every row once.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

# Run as a program neither the directory above nor the sources are on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bench.brokers import forget_cache, penstock_target
from bench.spark_latency import open_spark, url_of
from penstock.client.errors import ClientError
from penstock.client.io_blocking import Channel, connect
from penstock.client.publish_template import PublishTemplate
from penstock.protocol.properties import Properties

STREAM: Final = "paced"
WARM_BATCHES: Final = 3
"""Until the lag is at its bound."""
PUBLISHED_AT_ONCE: Final = 50
ERROR_MAX: Final = 0.05


class Publisher:
    """Publishes as fast as its socket takes it, without confirms. count: how many so far. Ends when
    it is told to, and then when the broker may close: what is on its way is taken first."""

    def __init__(self, url: str) -> None:
        self.count = 0
        self._url = url
        self._is_stopping = threading.Event()
        self._may_end = threading.Event()
        # Held for ever if the query fails, and then nobody waits for it.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Publish no more."""
        self._is_stopping.set()

    def join(self) -> None:
        """Everything has been taken: close."""
        self._may_end.set()
        self._thread.join()

    def _run(self) -> None:
        with connect(self._url) as connection:
            channel = connection.channel()
            session = connection.session
            template = PublishTemplate(channel.number, "", STREAM, Properties())
            frames = template.frames(bytes(100), session.frame_bytes_max)
            while not self._is_stopping.is_set():
                for _ in range(PUBLISHED_AT_ONCE):
                    session.publish_frames(channel.number, frames, 0)
                self.count += PUBLISHED_AT_ONCE
                connection.process()
            while not self._may_end.is_set():
                connection.process(100)


class Sink:
    """Takes its time for each batch, and notes when each began and what was in the stream then."""

    def __init__(self, channel: Channel, seconds: float) -> None:
        self.channel = channel
        self.seconds = seconds
        self.began: list[tuple[float, int]] = []
        self.rows = 0
        self.spans: list[tuple[int, int]] = []

    def take(self, table: Any, number: int) -> None:
        """One batch."""
        answer = self.channel.request("stream.offsets", {"queue": STREAM})
        began_s = time.monotonic()
        found = table.selectExpr("count(*) n", "min(offset) a", "max(offset) b").collect()[0]
        if found.n == 0:
            # Spark begins with a batch of nothing.
            return
        self.began.append((began_s, int(str(answer["next"]))))
        self.rows += found.n
        self.spans.append((found.a, found.b + 1))
        time.sleep(self.seconds)


def groups(channel: Channel) -> object:
    """The groups that read the stream."""
    return channel.request("stream.groups", {"queue": STREAM})["groups"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--batch", type=int, default=5000, help="rows of a batch, B")
    parser.add_argument("--sink-seconds", type=float, default=2.0)
    parser.add_argument("--batches", type=int, default=12, help="measured, after the first few")
    parser.add_argument("--python", default="", help="interpreter with Penstock installed")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(arguments)
    if given.smoke:
        given.batch, given.sink_seconds, given.batches = 2000, 0.5, 3
    spark = open_spark()
    data = tempfile.TemporaryDirectory(prefix="penstock-bench-data-")
    broker = penstock_target(given.python, ("--data", data.name)).start()
    try:
        # Connections here are silent for as long as a batch takes.
        url = url_of(broker) + "?heartbeat=0"
        with (
            connect(url) as connection,
            connect(url) as of_sink,
            tempfile.TemporaryDirectory() as folder,
        ):
            channel = connection.channel()
            table = {"x-queue-type": "stream", "x-max-lag-messages": 2 * given.batch}
            channel.declare_queue(STREAM, durable=True, arguments=table)
            sink = Sink(of_sink.channel(), given.sink_seconds)
            query = (
                spark.readStream.format("amqp")
                .option("url", url)
                .option("queue", STREAM)
                .option("mode", "stream")
                .option("group", "slow sink")
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", str(given.batch))
                .load()
                .writeStream.foreachBatch(sink.take)
                .option("checkpointLocation", folder)
                .start()
            )
            # Before there is a group nobody is held.
            while query.isActive and not groups(channel):
                time.sleep(0.1)
            publisher = Publisher(url)
            while len(sink.began) <= WARM_BATCHES + given.batches and query.isActive:
                time.sleep(0.2)
            publisher.stop()
            sink.seconds = 0.0
            while query.isActive and sink.rows < publisher.count:
                time.sleep(0.2)
            if query.exception() is not None:
                print(f"FAILED: {query.exception()}")
                return 1
            publisher.join()
            query.stop()
            return report(sink, publisher.count, given.batch, given.smoke)
    except ClientError as failure:
        print(f"FAILED: {failure}")
        return 1
    finally:
        broker.stop()
        spark.stop()
        data.cleanup()
        forget_cache()


def report(sink: Sink, published: int, batch: int, is_smoke: bool) -> int:
    """Print the pace and the verdict; the exit code."""
    measured = sink.began[WARM_BATCHES:-1] if len(sink.began) > WARM_BATCHES + 2 else sink.began
    (first_s, first), (last_s, last) = measured[0], measured[-1]
    seconds = last_s - first_s
    came, taken = last - first, batch * (len(measured) - 1)
    error = abs(came / taken - 1)
    print(
        f"B/T {taken / seconds:.0f} messages/s ({batch} rows, {seconds / (len(measured) - 1):.2f} s"
        f" a batch); publishers {came / seconds:.0f}/s, {error:.1%} off; load {os.getloadavg()}"
    )
    spans = sorted(sink.spans)
    is_whole = spans[0][0] == 0 and all(one[1] == other[0] for one, other in pairwise(spans))
    print(f"published {published}, rows {sink.rows}, {'every one once' if is_whole else spans}")
    if not is_whole or sink.rows != published:
        return 1
    return 0 if is_smoke or error <= ERROR_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
