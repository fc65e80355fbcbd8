"""mode=auto: what a queue is decides how it is read, and an older checkpoint is not forgotten."""

import json
import logging
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.base.errors import OperatorError
from penstock.client.errors import ClientError
from penstock.client.io_blocking import connect
from penstock.spark.connector.common.shape import PROPERTY_FIELDS
from penstock.spark.connector.source import AmqpDataSource
from tests.spark.engine import SCHEMA, Engine, live, numbers, sunk
from tests.spark.marks import READERS
from tests.spark.mortal import MortalBroker
from tests.spark.through_amqp import publish, queue_at

pytestmark = READERS
STREAM = {"x-queue-type": "stream"}
SECONDS_MAX = 3.0


def test_a_queue_is_read_as_its_broker_can(
    broker_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That rows may come twice is said once, and only where it is so."""
    with queue_at(broker_url) as (channel, queue):
        publish(channel, queue, 0, 25)
        given = {"url": broker_url, "queue": queue, "maxOffsetsPerTrigger": "10"}
        # Of use with RabbitMQ only, and in a job for both.
        engine = live(tmp_path, {**given, "prefetch": "20"}, 25)
        assert sunk(tmp_path) == numbers(25)
        warnings = [one.message for one in caplog.records if one.levelno == logging.WARNING]
        if "lease" in engine.end:
            assert warnings == []
        else:
            assert engine.end == {"queue": queue, "position": 25}
            assert warnings == [
                f"rows of {queue!r} come at least once: this broker has no leases, as Penstock has"
            ]


def test_a_query_begins_without_its_broker_and_waits_for_it(tmp_path: Path) -> None:
    """Also where the mode is given, so that there is nothing to ask the broker first."""
    with MortalBroker(tmp_path / "broker") as broker:
        broker.publish(0, 3)
        with connect(broker.url) as connection:
            channel = connection.channel()
            channel.declare_queue("lines", durable=True, arguments={**STREAM})
            channel.confirm_select()
            publish(channel, "lines", 0, 3)
        ways: list[dict[str, str]] = [
            {"queue": "orders"},
            {"queue": "orders", "mode": "queue"},
            {"queue": "orders", "mode": "lease", "group": "g"},
            {"queue": "lines", "mode": "stream"},
        ]
        engines: list[Engine] = []

        def begin(given: dict[str, str]) -> None:
            engine = Engine(tmp_path / str(len(engines)), {"url": broker.url, **given})
            engine.reader.prepareForTriggerAvailableNow()
            engines.append(engine)

        for given in ways:
            broker.kill()
            again = threading.Timer(1.0, broker.start)
            again.start()
            try:
                begin(given)
            finally:
                again.join()
            engines[-1].stop()


def test_a_schema_of_other_types_is_refused(penstock_url: str) -> None:
    """`.schema("body STRING, …")` would have Spark fail in every task, or, before 4.3, take bytes
    for what they are not."""
    with queue_at(penstock_url, STREAM) as (_, queue):
        given = {"url": penstock_url, "queue": queue}
        as_text = StructType([StructField("body", StringType()), *SCHEMA.fields[1:]])
        with pytest.raises(OperatorError, match=r"body string, .*rows from AMQP have body binary"):
            AmqpDataSource(given).reader(as_text)
        never_null = StructType([StructField("body", BinaryType(), False), *SCHEMA.fields[1:]])
        with pytest.raises(OperatorError, match=r"body binary not null, .*have body binary, "):
            AmqpDataSource(given).reader(never_null)
        detailed = {**given, "includeProperties": "true", "includeHeaders": "true"}
        headers = MapType(StringType(), StringType())
        properties = StructType([
            StructField(name, {"STRING": StringType(), "INT": IntegerType()}.get(kind)
                        or TimestampType())
            for name, kind in PROPERTY_FIELDS
        ])  # fmt: skip
        whole = StructType([*SCHEMA.fields]).add("properties", properties).add("headers", headers)
        AmqpDataSource(detailed).reader(whole)


def test_which_of_them_it_is(penstock_url: str, rabbitmq_url: str) -> None:
    from penstock.spark.connector.common.opening import parse_and_find

    found = []
    for url in (penstock_url, rabbitmq_url):
        for arguments in ({}, STREAM, {"x-queue-type": "quorum"}):
            with queue_at(url, arguments) as (channel, queue):
                publish(channel, queue, 0, 3)
                found.append(parse_and_find({"url": url, "queue": queue}, "", False).mode)
                # Nobody has taken anything.
                assert not arguments or channel.declare_queue(queue, passive=True)
                one = None if arguments == STREAM else channel.get(queue, no_ack=True)
                assert one is None or (one.body == b"0" and not one.redelivered)
    assert found == ["lease", "stream", "lease", "queue", "stream", "queue"]


def test_a_stream_is_read_by_its_offsets(broker_url: str, tmp_path: Path) -> None:
    with queue_at(broker_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 15)
        given = {"url": broker_url, "queue": stream, "startingOffsets": "earliest"}
        engine = live(tmp_path, given, 15, 1.0)
        assert engine.end["stream"] == stream and engine.end["offset"] == 15
        assert sunk(tmp_path) == numbers(15)


def test_a_queue_that_cannot_be_leased_is_read_at_least_once(
    penstock_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with queue_at(penstock_url, {"x-single-active-consumer": True}) as (channel, queue):
        publish(channel, queue, 0, 5)
        live(tmp_path, {"url": penstock_url, "queue": queue}, 5)
        assert sunk(tmp_path) == numbers(5)
        assert "has x-single-active-consumer" in caplog.text


def begin(given: dict[str, str]) -> None:
    """A query's first trigger."""
    reader = AmqpDataSource(given).streamReader(SCHEMA)
    try:
        start = reader.initialOffset()
        reader.latestOffset(start, reader.getDefaultReadLimit())
    finally:
        reader.stop()


def test_what_does_not_fit_is_said_in_one_sentence_and_at_once(
    broker_url: str, request: pytest.FixtureRequest
) -> None:
    """Wrong mode, wrong queue, refused login, options of the other kind."""
    with queue_at(broker_url) as (_, queue), queue_at(broker_url, STREAM) as (_, stream):
        cases = [
            ({"queue": queue, "mode": "stream"}, "is no stream"),
            ({"queue": stream, "mode": "queue"}, "is a stream, and this is mode=queue"),
            ({"queues": f"{queue},{stream}"}, "are read in different modes"),
            ({"queue": queue, "startingOffsets": "earliest"}, "startingOffsets is for streams"),
            ({"queue": stream, "prefetch": "20000"}, "prefetch is for ordinary queues"),
            ({"queue": "no.such.queue"}, "404 NOT_FOUND"),
            ({"queue": "no.such.queue", "mode": "stream"}, "404 NOT_FOUND"),
            ({"queue": queue, "password": "wrong"}, "403 ACCESS_REFUSED"),
            ({"queue": queue, "password": "wrong", "mode": "queue"}, "403 ACCESS_REFUSED"),
        ]
        if "penstock" in request.node.name:
            cases.append(({"queue": stream, "mode": "lease"}, "is a stream: nothing of it has"))
        else:
            cases.append(({"queue": queue, "mode": "lease"}, "mode=lease needs Penstock"))
        for given, words in cases:
            began_s = time.monotonic()
            with pytest.raises((OperatorError, ClientError), match=words):
                begin({"url": broker_url, **given})
            assert time.monotonic() - began_s < SECONDS_MAX


@pytest.mark.parametrize("mode", ["lease", "stream"])
def test_a_checkpoint_of_another_mode_says_what_it_is(
    penstock_url: str, tmp_path: Path, mode: str
) -> None:
    """As of a job that was written when mode=queue was what came without the option."""
    arguments: dict[str, str | int] = {**STREAM} if mode == "stream" else {}
    with queue_at(penstock_url, arguments) as (channel, queue):
        publish(channel, queue, 0, 5)
        (tmp_path / "offsets").mkdir()
        kept = json.dumps({"start": {}, "end": {"queue": queue, "position": 5}})
        (tmp_path / "offsets" / "0").write_text(kept, encoding="utf-8")
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / "0").write_text("{}", encoding="utf-8")
        engine = Engine(tmp_path, {"url": penstock_url, "queue": queue})
        words = f"with mode=queue, which has read '{queue}' to position 5.*with mode={mode}. Go on"
        with pytest.raises(OperatorError, match=words):
            engine.step()
        engine.stop()


def test_what_is_for_leases_is_refused_where_there_are_none(
    rabbitmq_url: str, tmp_path: Path
) -> None:
    with queue_at(rabbitmq_url) as (_, queue):
        for name, value in {"group": "g", "leaseTimeout": "20m"}.items():
            with pytest.raises(OperatorError, match=f"{name} is for leases, .* has no leases"):
                begin({"url": rabbitmq_url, "queue": queue, name: value})


def test_a_pattern_finds_streams_or_queues(penstock_url: str, tmp_path: Path) -> None:
    with queue_at(penstock_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 5)
        given = {"url": penstock_url, "queuePattern": f"{stream}", "startingOffsets": "earliest"}
        assert live(tmp_path, given, 5, 1.0).end["streams"] == {stream: 5}
    with pytest.raises(OperatorError, match="no queue or stream of that name"):
        Engine(tmp_path, {"url": penstock_url, "queuePattern": "no such"}).step()
