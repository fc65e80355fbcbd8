"""The sink outlives its broker: ten restarts under one task, under batches, and under one query.

PENSTOCK_AWAY_S says how long the broker stays away at most, in seconds.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from penstock.client.errors import ClientError, ConnectError
from penstock.client.io_blocking import connect
from penstock.spark.connector.common.options import SinkOptions, parse_sink
from penstock.spark.connector.sink.committer import StagedBatch
from penstock.spark.connector.sink.messages import Origin, plan_rows
from penstock.spark.connector.sink.publisher import publish_rows, stage_rows
from penstock.spark.connector.sink.sink import Written, commit_all, packed
from tests.patience import PATIENCE_S
from tests.spark.marks import IN_SPARK
from tests.spark.mortal import MortalBroker, restarting

pytestmark = pytest.mark.slow
RESTARTS = int(os.environ.get("PENSTOCK_RESTARTS", "10"))
AWAY_S = float(os.environ.get("PENSTOCK_AWAY_S", "0.5"))
WINDOW = 100
PLAN = {"body": "binary"}


def sink(url: str, **more: str) -> SinkOptions:
    return parse_sink({"url": url, "routingKey": "out", "reconnectTimeout": "60s", **more})


def in_queue(url: str) -> Counter[int]:
    """Every row of the queue, as often as it is there."""
    found: Counter[int] = Counter()
    with connect(url) as connection:
        channel = connection.channel()
        while (one := channel.get("out", no_ack=True)) is not None:
            found[int(one.body)] += 1
    return found


def declared(broker: MortalBroker) -> None:
    with connect(broker.url) as connection:
        connection.channel().declare_queue("out", durable=True)


def test_a_task_goes_on_after_each_restart(tmp_path: Path) -> None:
    """At least once: nothing is lost, and no more than the window comes twice for each."""
    sent = 0
    with MortalBroker(tmp_path) as broker:
        declared(broker)
        with restarting(broker, RESTARTS, Random(5), AWAY_S) as over:

            def rows() -> Iterator[Any]:
                nonlocal sent
                while not over.is_set() or sent == 0:
                    yield pa.record_batch({"body": [b"%d" % n for n in range(sent, sent + 20)]})
                    sent += 20
                    # As a task whose rows come from somewhere.
                    time.sleep(0.005)

            options = sink(broker.url, maxInFlight=str(WINDOW))
            plan = plan_rows(PLAN, options)
            assert publish_rows(rows(), plan, options, Origin("", "", 0)) == sent
        found = in_queue(broker.url)
    assert set(found) == set(range(sent))
    assert found.total() - sent <= RESTARTS * WINDOW
    assert broker.lives == RESTARTS + 1


def test_batches_come_once_through_all_restarts(tmp_path: Path) -> None:
    """Exactly once: no batch is given up, whether the broker dies while its rows are staged, before
    its commit, or before the answer."""
    batch = 0
    dice = Random(7)
    with MortalBroker(tmp_path) as broker:
        declared(broker)
        with restarting(broker, RESTARTS, Random(6), AWAY_S) as over:
            options = sink(broker.url, delivery="exactly-once", appId="job")
            plan = plan_rows(PLAN, options)
            while not over.is_set() or batch == 0:
                staged = StagedBatch("job", batch)
                tasks = []
                for partition in range(2):
                    first = 200 * batch + 100 * partition
                    rows = pa.record_batch({"body": [b"%d" % (first + n) for n in range(100)]})
                    origin = Origin("query", str(batch), partition)
                    kept: list[Any] = []
                    identity, count = stage_rows([rows], plan, options, origin, staged, kept)
                    tasks.append(Written(count, "job", identity, origin, packed(kept)))
                # Spark takes its time between the last task and the commit.
                time.sleep(dice.uniform(0.0, 0.05))
                commit_all(options, plan, staged, list(tasks))
                batch += 1
        found = in_queue(broker.url)
    assert found == Counter(range(200 * batch))
    assert broker.lives == RESTARTS + 1


def test_a_broker_that_stays_away_ends_the_task_in_time(tmp_path: Path) -> None:
    options = sink("amqp://127.0.0.1:1", reconnectTimeout="600ms")
    plan = plan_rows(PLAN, options)
    began_s = time.monotonic()
    for delivery in ("at-least-once", "exactly-once"):
        rows = iter([pa.record_batch({"body": [b"1"]})])
        with pytest.raises(ConnectError, match="connection refused"):
            if delivery == "at-least-once":
                publish_rows(rows, plan, options, Origin("", "", 0))
            else:
                stage_rows(rows, plan, options, Origin("", "", 0), StagedBatch("a", 0))
    assert 1.2 <= time.monotonic() - began_s < PATIENCE_S


def test_a_refused_login_is_not_waited_for(penstock_url: str) -> None:
    options = sink(penstock_url, password="wrong", reconnectTimeout="10m")
    with pytest.raises(ClientError, match="403 ACCESS_REFUSED"):
        publish_rows([], plan_rows(PLAN, options), options, Origin("", "", 0))


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
@pytest.mark.spark
@pytest.mark.filterwarnings(*IN_SPARK[2].args)
def test_a_query_goes_on_after_each_restart(spark: Any, tmp_path: Path, delivery: str) -> None:
    from penstock.spark import register

    register(spark)
    with MortalBroker(tmp_path / "broker") as broker:
        declared(broker)
        source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=100)
        rows = source.options(numPartitions=2).load().selectExpr("string(value) AS body")
        writer = rows.writeStream.format("amqp").options(url=broker.url, routingKey="out")
        writer = writer.options(delivery=delivery, reconnectTimeout="60s")
        query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
        with restarting(broker, RESTARTS, Random(8), AWAY_S, 1.5) as over:
            while not over.is_set():
                assert query.awaitTermination(0.2) is False, query.exception()
        batch = query.lastProgress.batchId
        while query.lastProgress.batchId < batch + 2:
            assert query.awaitTermination(0.2) is False, query.exception()
        query.stop()
        done = 100 * (query.lastProgress.batchId + 1)
        found = in_queue(broker.url)
    print(f"{done} rows, {found.total() - len(found)} twice, {broker.lives} lives")
    # The batch that stop() interrupted may be there too.
    assert set(range(done)) <= set(found) <= set(range(done + 100))
    if delivery == "exactly-once":
        assert set(found.values()) == {1}
    assert broker.lives == RESTARTS + 1
