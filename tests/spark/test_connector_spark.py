"""The connector inside a real Spark: few tests, because a session and its queries take seconds."""

import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.broker.admin.answers import ReaderListing, ReaderRow
from tests.spark.marks import IN_SPARK
from tests.spark.through_amqp import PATIENCE_MS, patiently

pytestmark = IN_SPARK

REPOSITORY = Path(__file__).resolve().parents[2]
SECRET = "guest"


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """The shared session with the source in it."""
    from penstock.spark import register

    register(spark)
    return spark


def fill(url: str, queue: str, count: int, arguments: dict[str, str] | None = None) -> None:
    with patiently(url) as connection:
        channel = connection.channel()
        channel.declare_queue(queue, durable=True, arguments=dict(arguments or {}))
        if not arguments:
            channel.purge_queue(queue)
        channel.confirm_select()
        for number in range(count):
            channel.publish("", queue, b"%d" % number)
        channel.wait_for_confirms(60_000)


def left(url: str, queue: str) -> int:
    with patiently(url) as connection:
        return connection.channel().declare_queue(queue, passive=True).message_count


def test_the_schema_is_what_spark_expects(session: Any) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from penstock.spark.connector.common.shape import Shape

    for shape in (
        Shape("q"),
        Shape("q", "va`lue", has_properties=True, has_headers=True),
        Shape("q", "va`lue", has_flow=True, chosen=("enqueue_ts", "body", "offset")),
    ):
        struct = StructType.fromDDL(shape.ddl())
        assert isinstance(struct, StructType)
        assert to_arrow_schema(struct, timezone="UTC").equals(shape.arrow())


def test_the_job_of_the_documentation_runs_on_both_brokers(
    session: Any,
    broker_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Word for word; only the address comes from outside, as it does for a user."""
    page = (REPOSITORY / "docs" / "spark-connector.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(import sys\n.*?)```", page, re.DOTALL)
    assert found is not None, "the first job is gone from the page"
    fill(broker_url, "orders", 300)
    monkeypatch.setattr("sys.argv", ["job.py", broker_url, str(tmp_path)])
    exec(compile(found[1], "job.py", "exec"), {})
    assert "300 orders so far" in capsys.readouterr().out
    assert left(broker_url, "orders") == 0


def test_from_queue_to_queue_with_lag_and_without_secrets(
    session: Any, broker_url: str, tmp_path: Path
) -> None:
    incoming, outgoing = f"in.{os.getpid()}", f"out.{os.getpid()}"
    fill(broker_url, incoming, 1000)
    fill(broker_url, outgoing, 0)

    frame = (
        session.readStream.format("amqp")
        .option("url", broker_url)
        .option("queue", incoming)
        .option("maxOffsetsPerTrigger", 400)
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        frame.selectExpr("body", "string(offset) AS message_id", "headers")
        .writeStream.format("amqp")
        .option("url", broker_url)
        .option("routingKey", outgoing)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = [json.loads(entry.json) for entry in query.recentProgress]
    # A batch has what has come, and 400 at most.
    sizes = [entry["numInputRows"] for entry in progress]
    assert max(sizes) <= 400 and sum(sizes) == 1000 and len(sizes) >= 3
    source = progress[0]["sources"][0]
    named = ("lease", "number") if "lease" in source["endOffset"] else ("queue", "position")
    assert [source["endOffset"][name] for name in named] == [incoming, sizes[0]]
    # What Spark shows as lag; that it becomes exact is a matter of the reader.
    latest = source["latestOffset"]
    assert latest["mode"] == named[0] and latest[named[0]] == incoming
    assert sizes[0] <= latest[named[1]]
    plan = frame._jdf.queryExecution().toString()
    for text in (plan, json.dumps(progress)):
        assert f":{SECRET}@" not in text
    assert left(broker_url, incoming) == 0
    assert left(broker_url, outgoing) == 1000


def test_a_stream_is_read_in_batch_and_streaming(
    session: Any, broker_url: str, tmp_path: Path
) -> None:
    stream = f"stream.{os.getpid()}"
    fill(broker_url, stream, 500, {"x-queue-type": "stream"})
    options = {"url": broker_url, "queue": stream, "mode": "stream", "minPartitions": "2"}
    rows = session.read.format("amqp").options(**options).load()
    assert rows.selectExpr("count(DISTINCT body)", "min(offset)", "max(offset)").first() == (
        500, 0, 499,
    )  # fmt: skip
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        some = session.read.format("amqp").options(**options, filterPushdown="true").load()
        few = some.where("offset >= 10 AND offset < 14 AND queue IS NOT NULL AND body <> '12'")
        assert sorted(row[0] for row in few.select("offset").collect()) == [10, 11, 13]
        # The narrowed range is all that Spark was given: nothing is left of it to be looked at.
        plan = few._jdf.queryExecution().executedPlan().toString()
        assert "body" in plan and "offset" not in plan.partition("Filter (")[2].partition("\n")[0]
    finally:
        session.conf.unset("spark.sql.python.filterPushdown.enabled")
    query = (
        session.readStream.format("amqp")
        .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="200")
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    out = session.read.parquet(str(tmp_path / "out"))
    assert (out.count(), out.select("offset").distinct().count()) == (500, 500)


def test_what_is_wrong_is_said_in_words(session: Any) -> None:
    reader = session.readStream.format("amqp").option("queue", "q")
    with pytest.raises(Exception, match="did you mean maxOffsetsPerTrigger") as raised:
        reader.option("maxOffsetPerTrigger", 5).load()
    text = str(raised.value)
    assert "Traceback" not in text and text.index("unknown option") < 200, "the sentence first"
    with pytest.raises(Exception, match=r"trigger\(availableNow=True\)"):
        session.read.format("amqp").options(queue="q", mode="queue").load().count()
    rows = session.range(3).selectExpr("string(id) AS value")
    with pytest.raises(Exception, match="nothing says where rows go"):
        rows.write.format("amqp").mode("append").save()
    with pytest.raises(Exception, match="cannot be overwritten"):
        rows.write.format("amqp").option("routingKey", "q").mode("overwrite").save()


def test_what_the_broker_refuses_is_said_before_anything_starts(
    session: Any, broker_url: str
) -> None:
    """By load() and save(), as one sentence."""
    queue = f"refused.{os.getpid()}"
    fill(broker_url, queue, 0)
    for given, words in (
        ({"queue": "no.such.queue"}, "404 NOT_FOUND"),
        ({"queue": "no.such.queue", "mode": "queue"}, "404 NOT_FOUND"),
        ({"queue": queue, "mode": "stream"}, "is no stream, and this is mode=stream"),
        ({"queue": queue, "password": "wrong"}, "403 ACCESS_REFUSED"),
        ({"queue": queue, "password": "wrong", "mode": "queue"}, "403 ACCESS_REFUSED"),
    ):
        with pytest.raises(Exception, match=words) as raised:
            session.readStream.format("amqp").options(url=broker_url, **given).load()
        assert str(raised.value).count("\n") < 2
    for given, words in (
        ({"routingKey": "no.such.queue"}, "404 NOT_FOUND"),
        ({"routingKey": queue, "password": "wrong"}, "403 ACCESS_REFUSED"),
    ):
        rows = session.range(3).selectExpr("string(id) AS body").write.format("amqp")
        with pytest.raises(Exception, match=words) as raised:
            rows.mode("append").options(url=broker_url, **given).save()
        assert str(raised.value).count("\n") < 2


def test_what_the_broker_refuses_a_sink_is_said_before_its_first_task(
    session: Any, penstock_url: str, tmp_path: Path
) -> None:
    """By the query, once; rows that reach no queue would be found by each attempt of each task."""
    queue = f"refused.{os.getpid()}"
    fill(penstock_url, queue, 0)
    for number, (given, words) in enumerate(
        (
            ({"routingKey": "no.such.queue"}, "404 NOT_FOUND"),
            ({"exchange": "no.such.exchange"}, "404 NOT_FOUND"),
            ({"routingKey": queue, "password": "wrong"}, "403 ACCESS_REFUSED"),
        )
    ):
        source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        writer = source.selectExpr("string(value) AS body").writeStream.format("amqp")
        state = str(tmp_path / str(number))
        writer = writer.options(url=penstock_url, checkpointLocation=state, **given)
        with pytest.raises(Exception, match=words) as raised:
            writer.trigger(availableNow=True).start().awaitTermination()
        text = str(raised.value)
        assert "Traceback" not in text and text.index(words) < 400, "the sentence first"


def test_what_is_found_when_a_query_starts_is_not_lost(
    session: Any, penstock_url: str, tmp_path: Path
) -> None:
    """Spark loses what streamReader raises."""
    queue = f"gone.{os.getpid()}"
    fill(penstock_url, queue, 0)
    rows = session.readStream.format("amqp").options(url=penstock_url, queue=queue).load()
    with patiently(penstock_url) as connection:
        connection.channel().delete_queue(queue)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="404 NOT_FOUND"):
        query.awaitTermination()


def test_a_broker_that_is_away_is_no_reason_to_refuse_a_query(session: Any) -> None:
    rows = session.readStream.format("amqp").options(url="amqp://127.0.0.1:9", queue="later")
    assert "body" in rows.load().columns


def test_a_thread_that_registers_can_write(session: Any, penstock_url: str) -> None:
    """Spark looks for sources in the active session, and a thread of Python's has none."""
    from penstock.spark import register

    queue = f"thread.{os.getpid()}"
    fill(penstock_url, queue, 0)
    failures: list[Exception] = []

    def write() -> None:
        try:
            register(session)
            rows = session.range(3).selectExpr("string(id) AS body")
            rows.write.format("amqp").mode("append").options(
                url=penstock_url, routingKey=queue
            ).save()
        except Exception as failure:
            failures.append(failure)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert failures == [] and left(penstock_url, queue) == 3


def readers_of(broker: Any, queue: str) -> list[ReaderRow]:
    """What `penstock queues readers` has of one queue."""
    found = msgspec.convert(broker.asked("queues", do="readers"), ReaderListing)
    return [row for row in found.readers if row.queue == f"/{queue}"]


def test_a_stream_is_listed_with_the_query_that_holds_its_publishers(
    session: Any, penstock: Any, tmp_path: Path
) -> None:
    """Only its tasks know the query's name; the broker shows it for the group."""
    stream = f"held.{os.getpid()}"
    with patiently(penstock.url) as connection:
        channel = connection.channel()
        channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
        for number in range(200):
            channel.publish("", stream, b"%05d" % number)
        given = {"group": "etl", "maxLagMessages": "100", "startingOffsets": "earliest"}
        reader = session.readStream.format("amqp").options(url=penstock.url, queue=stream, **given)
        rows = reader.option("maxOffsetsPerTrigger", 10).load()
        writer = rows.writeStream.queryName("hours").foreachBatch(slowly)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        while not query.lastProgress or query.lastProgress.batchId < 3:
            time.sleep(0.1)
        listed = readers_of(penstock, stream)
        query.stop()
    name = session.conf.get("spark.app.name")
    assert [row.query for row in listed] == [f"spark query hours ({name})"]
    assert listed[0].is_holding and listed[0].held_seconds > 0.2
    assert listed[0].lag_messages > 100 and listed[0].lag_seconds > 0


def slowly(batch: Any, number: int) -> None:
    batch.count()
    time.sleep(0.3)


def test_what_is_shown_of_a_query_that_holds_publishers(
    session: Any, penstock: Any, tmp_path: Path
) -> None:
    """In lastProgress, and by its name in the broker's listings: how far behind it is, how fast
    both are, and how long publishers waited for it."""
    queue = f"slow.{os.getpid()}"
    arguments: dict[str, str | int] = {"x-max-length": 50, "x-overflow": "backpressure"}
    with patiently(penstock.url) as connection:
        channel = connection.channel()
        channel.declare_queue(queue, durable=True, arguments={**arguments})
        channel.confirm_select()
        for number in range(200):
            channel.publish("", queue, b"%05d" % number)
        reader = session.readStream.format("amqp").options(url=penstock.url, queue=queue)
        rows = reader.option("maxOffsetsPerTrigger", 30).load()
        writer = rows.writeStream.queryName("minutes").foreachBatch(slowly)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        while not query.lastProgress or query.lastProgress.batchId < 3:
            time.sleep(0.1)
        listed = readers_of(penstock, queue)
        channel.wait_for_confirms(PATIENCE_MS)
        asked = {"queue": queue, "group": query.lastProgress.sources[0].endOffset and json.loads(
            query.lastProgress.sources[0].endOffset)["group"]}  # fmt: skip
        state = channel.request("lease.state", asked)
        shown = [json.loads(one.sources[0].latestOffset) for one in query.recentProgress]
        query.stop()
    # Tests share one session, and one of them may have named it.
    name = session.conf.get("spark.app.name")
    assert state["query"] == f"spark query minutes ({name})"
    assert [row.query for row in listed] == [f"spark query minutes ({name})"]
    assert listed[0].lag_messages > 0 and listed[0].lag_bytes > 0 and listed[0].lag_seconds > 0
    assert listed[0].in_rate > 0 and listed[0].held_seconds > 0.2
    assert all(one["mode"] == "lease" and one["delivery"] == "exactly once" for one in shown)
    assert 0 < max(one["lag_rows"] for one in shown) <= 50
    assert max(one["publishers_held_seconds"] for one in shown) > 0.2
    assert max(one["rows_out_per_second"] for one in shown) > 0
