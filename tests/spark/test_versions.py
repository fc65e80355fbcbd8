"""The connector in the Spark that is installed, whichever of the supported ones that is.

`make test-spark-versions` runs it in all of them. Where a version lacks something, what takes its
place is said in docs/spark-platforms.md.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.spark.marks import IN_SPARK
from tests.spark.mortal import MortalBroker
from tests.spark.through_amqp import publish, queue_at, read_stream

pytestmark = IN_SPARK
KILLS = int(os.environ.get("PENSTOCK_SPARK_KILLS", "1"))
STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    from penstock.spark import register

    register(spark)
    return spark


def read(session: Any, url: str, queue: str, **more: str) -> Any:
    reader = session.readStream.format("amqp").options(url=url, queue=queue, **more)
    return reader.load().selectExpr("body", "offset")


def to_files(rows: Any, folder: Path) -> Any:
    writer = rows.writeStream.format("parquet").option("path", str(folder / "rows"))
    return writer.option("checkpointLocation", str(folder / "state"))


def bodies(session: Any, folder: Path) -> list[int]:
    found = session.read.parquet(str(folder / "rows")).selectExpr("int(string(body)) AS n")
    return sorted(row.n for row in found.collect())


POLLS = 10


def run_until(query: Any, is_done: Callable[[], bool]) -> None:
    """Stop it once `is_done` has been so for POLLS in a row: between a batch and the trigger after
    it, which comes within milliseconds, it looks as if nothing were left to do."""
    end_s, held = time.monotonic() + PATIENCE_S, 0
    while held < POLLS:
        held = held + 1 if is_done() else 0
        assert query.exception() is None, query.exception()
        assert time.monotonic() < end_s, query.lastProgress
        time.sleep(0.1)
    query.stop()


def has_settled(query: Any, rows: int) -> bool:
    progress = query.recentProgress
    return sum(one.numInputRows for one in progress) >= rows and not query.status["isDataAvailable"]


def test_a_stream_is_read_to_its_end_again_and_again(
    session: Any, penstock_url: str, tmp_path: Path
) -> None:
    with queue_at(penstock_url, STREAM) as (channel, stream):
        for first in (0, 500, 1000):
            publish(channel, stream, first, 500)
            rows = read(
                session, penstock_url, stream, startingOffsets="earliest", minPartitions="2"
            )
            to_files(rows, tmp_path).trigger(availableNow=True).start().awaitTermination()
            assert bodies(session, tmp_path) == list(range(first + 500))
        # Spark died before it noted that the last batch is done.
        last = max((tmp_path / "state/commits").glob("[0-9]*"), key=lambda one: int(one.name))
        last.unlink()
        rows = read(session, penstock_url, stream, startingOffsets="earliest")
        to_files(rows, tmp_path).trigger(availableNow=True).start().awaitTermination()
        assert bodies(session, tmp_path) == list(range(1500))
        batch = session.read.format("amqp").options(url=penstock_url, queue=stream).load()
        assert batch.count() == 1500


@pytest.mark.parametrize("mode", ["lease", "queue"])
def test_a_queue_is_read_over_restarts_and_emptied(
    session: Any, penstock_url: str, tmp_path: Path, mode: str
) -> None:
    with queue_at(penstock_url) as (channel, queue):
        for first in (0, 300):
            publish(channel, queue, first, 300)
            rows = read(session, penstock_url, queue, mode=mode, maxOffsetsPerTrigger="100")
            query = to_files(rows, tmp_path).start()
            # The trigger after the last batch settles it.
            run_until(query, partial(has_settled, query, 300))
            assert max(entry.numInputRows for entry in query.recentProgress) <= 100
        assert bodies(session, tmp_path) == list(range(600))
        assert channel.declare_queue(queue, passive=True).message_count == 0


def test_from_stream_to_stream_exactly_once(
    session: Any, penstock_url: str, tmp_path: Path
) -> None:
    with (
        queue_at(penstock_url, STREAM) as (channel, source),
        queue_at(penstock_url, STREAM) as (_, target),
    ):
        for first in (0, 300):
            publish(channel, source, first, 300)
            rows = read(session, penstock_url, source, startingOffsets="earliest").select("body")
            writer = rows.writeStream.format("amqp").options(
                url=penstock_url, routingKey=target, delivery="exactly-once"
            )
            writer = writer.option("checkpointLocation", str(tmp_path / "state"))
            # Before 4.2 one of them runs what was begun, and the next what has come since.
            for _ in range(2):
                writer.trigger(availableNow=True).start().awaitTermination()
            commits = (tmp_path / "state/commits").glob("[0-9]*")
            max(commits, key=lambda one: int(one.name)).unlink()
        writer.trigger(availableNow=True).start().awaitTermination()
        found = [int(body) for body in read_stream(penstock_url, target)]
        assert sorted(found) == list(range(600))


def test_writes_and_errors(session: Any, penstock_url: str) -> None:
    with queue_at(penstock_url) as (channel, out):
        rows = session.range(200).selectExpr("string(id) AS body").repartition(2)
        writer = rows.write.format("amqp").mode("append")
        writer = writer.options(url=penstock_url, routingKey=out)
        writer.save()
        writer.option("delivery", "exactly-once").save()
        assert channel.declare_queue(out, passive=True).message_count == 400
    with pytest.raises(Exception, match="404 NOT_FOUND") as raised:
        session.read.format("amqp").options(url=penstock_url, queue="no.such.queue").load().count()
    assert "Traceback" not in str(raised.value)


def test_driver_and_broker_are_killed(session: Any, tmp_path: Path) -> None:
    from tests.spark.lease_job import start

    sent = 0
    with MortalBroker(tmp_path / "broker") as broker:
        for _ in range(KILLS):
            broker.publish(sent, 400)
            sent += 400
            with (tmp_path / "driver.txt").open("ab") as errors:
                driver = subprocess.Popen(
                    [sys.executable, "-m", "tests.spark.lease_job", broker.url, str(tmp_path)],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            try:
                assert driver.stdout is not None
                # Two batches are through, and a third is on its way.
                assert driver.stdout.readline() + driver.stdout.readline() == b"batch\nbatch\n"
                broker.again()
            finally:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.communicate()
        query = start(session, broker.url, str(tmp_path), False)
        run_until(query, lambda: len(bodies(session, tmp_path)) >= sent)
        assert json.loads(query.lastProgress.json)["sources"][0]["endOffset"]["number"] == sent
    assert bodies(session, tmp_path) == list(range(sent))
    rows = session.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(row.offset for row in rows) == list(range(sent))
