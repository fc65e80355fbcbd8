"""Two queries of Spark on one broker: payments by leases from a queue, and from a stream.

Reads "delay MS" from its input: what the sink of the leased payments takes longer for each batch.
Tells how many rows of each have arrived, how many batches there were, and when the last began.
"""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.demo.scenario import (
    LEASED,
    QUEUE_PAYMENTS,
    SPARK_BATCH_ROWS,
    STREAM_PAYMENTS,
    STREAMED,
)
from penstock.demo.workers.part import Trace, Worker, play
from penstock.spark.java import find_java
from penstock.spark.register import register
from penstock.spark.session.session import open_session

COLUMNS: Final = ("properties.message_id AS id", "offset")
FIRST_SECONDS_MAX: Final = 90.0


class Sink:
    """Writes each batch to a directory of its number, so that a repeated one replaces it.

    The first leased batch waits until the other query has had its first one: queries of one session
    that begin at the same moment can spoil each other's tasks (java.io.OptionalDataException, the
    map of variables that Spark gives to Python is shared and not locked).
    """

    def __init__(self, folder: Path, part: Worker, trace: Trace) -> None:
        self._folder = folder
        self._part = part
        self._trace = trace
        self.delay_ms = 0
        self.has_leased = threading.Event()
        self.has_streamed = threading.Event()

    def leased(self, rows: Any, batch: int) -> None:
        began_ns = time.monotonic_ns()
        for message_id in ids_in(self._write(rows, LEASED, batch)):
            self._trace.note(message_id, "delivered", QUEUE_PAYMENTS)
        self.has_leased.set()
        self.has_streamed.wait(FIRST_SECONDS_MAX)
        time.sleep(self.delay_ms / 1000)
        self._part.count("batches")
        self._part.counts["began_ns"] = began_ns
        self._part.report()

    def streamed(self, rows: Any, batch: int) -> None:
        self._write(rows, STREAMED, batch)
        self.has_streamed.set()

    def _write(self, rows: Any, name: str, batch: int) -> Path:
        path = self._folder / name / f"batch={batch}"
        rows.selectExpr(*COLUMNS).write.mode("overwrite").parquet(str(path))
        return path


def ids_in(folder: Path) -> list[str]:
    """Those of the payments of one batch, or of all."""
    # pyarrow comes with the extra for Spark.
    import pyarrow.parquet as pq

    ids: list[str] = pq.read_table(str(folder), columns=["id"])["id"].to_pylist()
    return ids


def start(spark: Any, part: Worker, folder: Path, sink: Sink) -> list[Any]:
    """Both queries, running; it takes until both have read something."""
    reader = _reader(spark, part, QUEUE_PAYMENTS)
    reader.options(mode="lease", group=LEASED, maxOffsetsPerTrigger=SPARK_BATCH_ROWS)
    queries = [_query(reader.load(), LEASED, sink.leased, folder)]
    part.report()
    if sink.has_leased.wait(FIRST_SECONDS_MAX):
        reader = _reader(spark, part, STREAM_PAYMENTS)
        reader.options(mode="stream", startingOffsets="earliest")
        queries.append(_query(reader.load(), STREAMED, sink.streamed, folder))
    return queries


def _reader(spark: Any, part: Worker, queue: str) -> Any:
    asked = {"url": part.plan.url, "queue": queue, "includeProperties": "true"}
    return spark.readStream.format("amqp").options(**asked)


def _query(rows: Any, name: str, write: Callable[[Any, int], None], folder: Path) -> Any:
    return (
        rows.writeStream.queryName(name)
        .foreachBatch(write)
        .option("checkpointLocation", str(folder / f"{name}-state"))
        .start()
    )


def obey(sink: Sink) -> None:
    """Take lines until the input ends."""
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "delay":
            sink.delay_ms = int(number)


def run(part: Worker, trace: Trace) -> None:
    """Both queries until the input ends."""
    folder = Path(part.plan.directory) / "spark"
    with open_session(find_java()) as spark:
        register(spark)
        sink = Sink(folder, part, trace)
        queries = start(spark, part, folder, sink)
        obey(sink)
        for query in queries:
            query.processAllAvailable()
            query.stop()


if __name__ == "__main__":
    play(run)
