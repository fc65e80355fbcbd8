"""Sinks that ignore a batch they have committed, inside Spark: a batch is run again as after a
driver that died between the sink's commit and Spark's own note of it."""

from pathlib import Path
from typing import Any

import pytest

from tests.spark.marks import IN_SPARK
from tests.spark.through_amqp import publish, queue_at

pytestmark = IN_SPARK
ROWS = 150


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    from penstock.spark import register

    register(spark)
    return spark


def run(session: Any, url: str, source: str, folder: Path, sink: dict[str, str]) -> None:
    """Everything that is in the stream `source`, into a sink, to its end."""
    rows = (
        session.readStream.format("amqp")
        .options(url=url, queue=source, mode="stream", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger="100", minPartitions="2")
        .load()
        .selectExpr("body")
    )
    options = {name: value for name, value in sink.items() if name != "format"}
    writer = rows.writeStream.format(sink["format"]).options(**options).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder)).start()
    query.awaitTermination()


def forget_last_commit(folder: Path) -> None:
    """As if the driver had died before Spark noted that the last batch is done."""
    commits = [one for one in (folder / "commits").iterdir() if one.name.isdigit()]
    assert len(commits) == -(-ROWS // 100)
    last = max(commits, key=lambda one: int(one.name))
    last.unlink()
    (folder / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_run_again_changes_nothing(
    session: Any, penstock_url: str, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    expected = sorted(b"%d" % number for number in range(ROWS))
    with queue_at(penstock_url, {"x-queue-type": "stream"}) as (channel, source):
        publish(channel, source, 0, ROWS)
        with queue_at(penstock_url) as (other, out):
            sink = {
                "format": "amqp",
                "url": penstock_url,
                "routingKey": out,
                "delivery": "exactly-once",
            }
            run(session, penstock_url, source, tmp_path / "q", sink)
            forget_last_commit(tmp_path / "q")
            run(session, penstock_url, source, tmp_path / "q", sink)
            found = []
            while (one := other.get(out, no_ack=True)) is not None:
                found.append(one.body)
            assert sorted(found) == expected
        table = str(tmp_path / "table")
        sink = {"format": "deltatable", "path": table}
        run(session, penstock_url, source, tmp_path / "d", sink)
        forget_last_commit(tmp_path / "d")
        run(session, penstock_url, source, tmp_path / "d", sink)
        bodies = pa.table(deltalake.DeltaTable(table).to_pyarrow_table())["body"].to_pylist()
        assert sorted(bodies) == expected


def test_a_write_is_seen_whole_or_not_at_all(session: Any, penstock_url: str) -> None:
    with queue_at(penstock_url) as (channel, out):
        rows = session.range(500).selectExpr("string(id) AS body").repartition(2)
        writer = rows.write.format("amqp").mode("append").option("url", penstock_url)
        writer = writer.option("routingKey", out).option("delivery", "exactly-once")
        writer.save()
        assert channel.declare_queue(out, passive=True).message_count == 500
        with pytest.raises(Exception, match="max_bytes"):
            writer.option("maxStagedBytes", "2k").save()
        assert channel.declare_queue(out, passive=True).message_count == 500


def test_a_numbered_write_is_done_once(session: Any, penstock_url: str, tmp_path: Path) -> None:
    """What foreachBatch writes names its batch; one that is run again changes nothing."""
    with (
        queue_at(penstock_url, {"x-queue-type": "stream"}) as (channel, source),
        queue_at(penstock_url) as (_, out),
    ):
        publish(channel, source, 0, ROWS)
        given = {"url": penstock_url, "routingKey": out, "delivery": "exactly-once"}

        def send(rows: Any, number: int) -> None:
            writer = rows.select("body").write.format("amqp").mode("append").options(**given)
            writer.option("txnAppId", out).option("txnVersion", number).save()

        rows = session.readStream.format("amqp").options(
            url=penstock_url, queue=source, startingOffsets="earliest", maxOffsetsPerTrigger="100"
        )
        for _ in range(2):
            writer = rows.load().writeStream.foreachBatch(send).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(tmp_path)).start()
            query.awaitTermination()
            assert channel.declare_queue(out, passive=True).message_count == ROWS
            forget_last_commit(tmp_path)
        numbers = session.range(3).selectExpr("string(id) AS body").write.format("amqp")
        with pytest.raises(Exception, match="give option appId too"):
            numbers.mode("append").options(**given, batchId="3").save()
