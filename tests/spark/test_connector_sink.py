"""A task of the sink ends well only when the broker has every row; against real brokers, no JVM."""

import os
from contextlib import nullcontext

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import BinaryType, StringType, StructType

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.protocol.values import Table
from penstock.spark.connector.common.options import parse_sink
from penstock.spark.connector.sink.messages import Origin, plan_rows
from penstock.spark.connector.sink.publisher import publish_rows
from penstock.spark.connector.sink.sink import check_sink, make_sink
from tests.conformance.live import Broker
from tests.patience import PATIENCE_S, undisturbed
from tests.spark.hanging import REASON, blocking_broker, hanging_broker
from tests.spark.through_amqp import patiently, queue_at

pytestmark = pytest.mark.slow


def write(url: str, queue: str, rows: int, **more: str) -> int:
    pa = pytest.importorskip("pyarrow")
    sink = parse_sink({"url": url, "routingKey": queue, **more})
    batches = [
        pa.record_batch({"body": pa.array([b"%d" % n for n in range(at, min(at + 100, rows))])})
        for at in range(0, rows, 100)
    ]
    return publish_rows(batches, plan_rows({"body": "binary"}, sink), sink, Origin("", "", 0))


def test_a_task_returns_when_everything_is_confirmed(broker_url: str) -> None:
    with queue_at(broker_url) as (channel, queue):
        assert write(broker_url, queue, 2500, maxInFlight="64") == 2500
        assert channel.declare_queue(queue, passive=True).message_count == 2500
        first = channel.get(queue, no_ack=True)
        assert first is not None and (first.body, first.properties.delivery_mode) == (b"0", 2)


def test_a_row_that_reaches_no_queue_fails_the_task(broker_url: str) -> None:
    with pytest.raises(OperatorError, match="312 NO_ROUTE"):
        write(broker_url, "no.such.queue", 3)
    assert write(broker_url, "no.such.queue", 3, mandatory="false") == 3


def test_a_refused_row_fails_the_task(broker_url: str) -> None:
    with patiently(broker_url) as connection:
        channel = connection.channel()
        name = f"connector.full.{os.getpid()}"
        arguments: Table = {"x-overflow": "reject-publish", "x-max-length": 5}
        channel.declare_queue(name, durable=True, arguments=arguments)
        with pytest.raises(OperatorError, match=r"basic\.nack"):
            write(broker_url, name, 50)
        channel.delete_queue(name)


def test_an_exchange_that_is_not_there_is_the_brokers_own_words(broker_url: str) -> None:
    with pytest.raises(Exception, match="404 NOT_FOUND"):
        write(broker_url, "key", 3, exchange="no.such.exchange")


def test_an_exchange_that_is_not_there_is_found_before_there_are_tasks(broker_url: str) -> None:
    """Unless rows may name others: those without one would fail then."""
    rows = StructType().add("body", BinaryType())
    addressed = StructType().add("body", BinaryType()).add("exchange", StringType())
    for exchange, schema, is_refused in (
        ("no.such.exchange", rows, True),
        ("no.such.exchange", addressed, False),
        ("amq.topic", rows, False),
    ):
        given = {"url": broker_url, "exchange": exchange, "routingKey": "key"}
        options, plan = make_sink(given, schema, overwrite=False)
        with (
            pytest.raises(ChannelClosedError, match=r"no exchange 'no\.such")
            if is_refused
            else nullcontext()
        ):
            check_sink(options, plan)


def test_a_broker_that_stops_answering_is_given_up(penstock_url: str) -> None:
    with hanging_broker(penstock_url) as url:
        words = "confirmTimeout.* with 1 rows unconfirmed"
        with pytest.raises(OperatorError, match=words):
            write(url, "q", 1, confirmTimeout="300ms")


def test_a_blocked_connection_is_waited_for_and_said_so(
    penstock: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than confirmTimeout, which does not run meanwhile."""

    def story() -> None:
        with queue_at(penstock.url) as (channel, queue), blocking_broker(penstock.url, 2.0) as url:
            assert write(url, queue, 5, confirmTimeout="1s") == 5
            assert channel.declare_queue(queue, passive=True).message_count == 5

    # It runs until the broker blocks, and again when it blocks no more.
    undisturbed(story, 0.2, penstock.pid)
    assert f"is waited for: {REASON}" in caplog.text
    assert "reads publishes again" in caplog.text


def test_a_blocked_connection_fails_the_task_if_asked_to(penstock_url: str) -> None:
    with (
        blocking_broker(penstock_url, PATIENCE_S) as url,
        pytest.raises(OperatorError, match=f"onBlocked=fail.*{REASON}"),
    ):
        write(url, "q", 5, onBlocked="fail")
